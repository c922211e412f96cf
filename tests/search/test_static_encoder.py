"""Libraries of a static encoder, which has no direction for texts without known tokens."""

from pathlib import Path

import numpy as np
import pytest

from scholarbase.encoders.base import Encodings
from scholarbase.encoders.static import StaticEncoder
from scholarbase.ingest.dense import DenseParts
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from tests.conftest import snapshot_of
from tests.encoders.static_models import make_model

TITLES = ["Dark matter", "Graphs of neural networks", "%%%", "The graph", "zebra"]


@pytest.fixture(scope="module")
def static_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    rows = [
        {"corpusid": number, "title": title, "externalids": {"ArXiv": f"2401.0000{number}"}}
        for number, title in enumerate(TITLES, 1)
    ]
    encoder = StaticEncoder(make_model(folder / "tiny"))
    ingest(
        [snapshot_of(folder / "snapshot", rows)],
        folder / "library",
        encoder=encoder,
        encoder_location=str(folder / "tiny"),
        rules=IngestRules(keep="title"),
    )
    return folder / "library"


def test_papers_without_known_tokens_have_no_vector(static_library: Path) -> None:
    with Library.open(static_library, encoder=str(static_library.parent / "tiny")) as library:
        assert library.manifest.counts["dense_vectors"] == 3
        found = library.search("dark matter", mode="dense", min_similarity=-1)
        assert next(hit.paper.title for hit in found.results) == "Dark matter"
        assert found.total == 3
    assert list(verify(static_library))


def test_a_query_without_known_tokens_finds_words_and_nothing_by_meaning(static_library: Path) -> None:
    with Library.open(static_library, encoder=str(static_library.parent / "tiny")) as library:
        nothing = library.search("qwxyz", mode="dense")
        assert (list(nothing.results), nothing.total, nothing.total_relation) == ([], 0, "eq")
        by_words = library.search("zebra", mode="hybrid")
        assert [hit.paper.title for hit in by_words.results] == ["zebra"]
        assert (by_words.total, by_words.total_relation) == (1, "eq")


def test_a_part_without_any_vector_is_not_encoded_again(tmp_path: Path) -> None:
    parts = DenseParts(tmp_path / "parts")
    parts.write(0, np.array([1, 2]), Encodings(np.eye(2, dtype=np.float32)))
    parts.write(1, np.array([3, 4]), Encodings(np.zeros((2, 2), dtype=np.float32)))
    assert (parts.count, parts.last_id) == (2, 4)
    lookup = parts.open()
    assert lookup.get(2)[0] is not None
    assert lookup.get(3) == (None, None)
