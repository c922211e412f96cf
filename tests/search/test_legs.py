import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from scholarbase.encoders import open_encoder
from scholarbase.encoders.service import create_service
from scholarbase.errors import EncoderError
from scholarbase.models.encoders import PACKAGED
from scholarbase.models.requests import SearchRequest
from scholarbase.search.library import Library
from tests.encoders.servers import running


@pytest.mark.slow
def test_a_failed_request_waits_for_its_search_by_words(dense_library: Path) -> None:
    """It left the search behind, which did not count among those admitted."""
    encoder = open_encoder(PACKAGED)
    service = create_service(encoder)
    failing, asked, answer = threading.Event(), threading.Event(), threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if not failing.is_set():
            await service(scope, receive, send)
            return
        asked.set()
        await asyncio.to_thread(answer.wait, 60)
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    with (
        closing(encoder),
        running(app) as url,
        Library.open(dense_library, encoder=url) as library,
        ThreadPoolExecutor(1) as threads,
    ):
        plan, _ = library._plan(SearchRequest(q="graph networks", mode="hybrid", engine="fts5"))
        library._ranker._legs._is_static = False  # else the legs run one after the other
        failing.set()
        pool = library._catalog._pool
        # All connections are lent, so the search by words waits for one.
        with ExitStack() as lent:
            for _ in pool.connections():
                lent.enter_context(pool.lend("The test", "end it"))
            request = threads.submit(library._ranker._legs.run, plan)
            assert asked.wait(60)
            while not pool._waiting:
                assert not wait([request], 0.01).done
            answer.set()
            assert not wait([request], 1).done
        with pytest.raises(EncoderError, match="400"):
            request.result(60)
