"""A server of the sample that records sessions.

On a busy machine a call takes longer to be recorded than a response usually waits for its number.
"""

from collections.abc import Iterator

import httpx
import pytest

from scholarbase.search.library import Library
from tests.conftest import serving_in_thread


@pytest.fixture(scope="package", autouse=True)
def _wait_for_recorded_calls() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scholarbase.sessions.recording.WRITE_SECONDS", 60.0)
        yield


@pytest.fixture(scope="module")
def http(sample: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    sessions = str(tmp_path_factory.mktemp("sessions"))
    with (
        serving_in_thread(sample, sessions=sessions) as url,
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        yield client
