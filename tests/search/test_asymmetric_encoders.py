"""Libraries whose queries are encoded by another model than their papers, or by term weights."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest

from scholarbase.errors import EncoderError, UnsupportedMode
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from tests.conftest import run_cli, serving, snapshot_of
from tests.encoders.static_models import VECTORS, make_model
from tests.encoders.tiny_pairs import make_bert, make_splade

pytestmark = pytest.mark.slow

TITLES = [
    "Dark matter in galaxies",
    "Graphs of neural networks",
    "The network of dark galaxies",
    "Neural graph matter",
    "zebra crossing",
]
QUERY = "dark matter in the network"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        {"corpusid": number, "title": title, "externalids": {"ArXiv": f"2401.0000{number}"}}
        for number, title in enumerate(TITLES, 1)
    ]
    return snapshot_of(tmp_path_factory.mktemp("asymmetric") / "snapshot", rows)


def _built(snapshot: Path, library: Path, *options: str | Path) -> None:
    done = run_cli("ingest", snapshot, "--library", library, "--keep", "title", *options)
    assert done.returncode == 0, done.stderr


def _ranked(scores: npt.NDArray[np.float32]) -> list[str]:
    return [TITLES[place] for place in np.argsort(-scores, kind="stable") if scores[place] > 0]


def _titles(response: Any) -> list[str]:
    return [hit.paper.title for hit in response.results]


# -- two models of dense vectors ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, snapshot: Path) -> tuple[Path, npt.NDArray[np.float32]]:
    """A library of two models, of which that of documents is deleted, and the cosines of its papers with QUERY."""
    from sentence_transformers import SentenceTransformer

    folder = tmp_path_factory.mktemp("pair")
    documents, queries = make_bert(folder / "documents", seed=5), make_model(folder / "queries")
    _built(snapshot, folder / "library", "--encoder", documents, "--query-encoder", queries)
    model = SentenceTransformer(str(documents), device="cpu")
    vectors = model.encode_document(TITLES, normalize_embeddings=True)
    shutil.rmtree(documents)
    # Of the words of QUERY, the static model has all but "in"; "network" is "net" and "##work".
    query = VECTORS[[2, 3, 10, 7, 8]].sum(axis=0)
    return folder / "library", vectors @ (query / np.linalg.norm(query))


def test_serving_opens_only_the_query_model(pair: tuple[Path, npt.NDArray[np.float32]]) -> None:
    path, cosines = pair
    with Library.open(path, encoder=str(path.parent / "queries")) as library:
        found = library.search(QUERY, mode="dense", exact=True, min_similarity=-1)
        assert library.best_mode == "hybrid"
        assert _titles(found) == [TITLES[place] for place in np.argsort(-cosines)]
        scores = [hit.score for hit in found.results]
        np.testing.assert_allclose(scores, np.sort(cosines)[::-1], atol=2e-3)  # stored as float16
    assert list(verify(path))


def test_the_library_names_both_models(pair: tuple[Path, npt.NDArray[np.float32]]) -> None:
    path, _ = pair
    encoder = json.loads((path / "manifest.json").read_text())["encoder"]
    assert (encoder["kind"], encoder["name"]) == ("sentence-transformers", "documents")
    assert (encoder["query"]["kind"], encoder["query"]["name"]) == ("static", "queries")
    stored = json.loads((path / "encoder.json").read_text())
    assert stored["location"] == str(path.parent / "documents")
    assert stored["query_location"] == str(path.parent / "queries")
    assert (len(stored["query_probe"]["dense"]), stored["query_probe"]["sparse"]) == (8, None)
    said = run_cli("info", "--library", path).stdout
    assert "documents (sentence-transformers, 8 dimensions); queries: queries (static)" in said
    said = run_cli("doctor", "--library", path, SCHOLARBASE_ENCODER=str(path.parent / "queries")).stdout
    assert "the query encoder queries (documents: documents) opens and encodes" in said


def test_models_of_other_dimensions_build_no_library(snapshot: Path, tmp_path: Path) -> None:
    documents = make_model(tmp_path / "documents", {"embeddings": VECTORS[:, :4].copy()})
    queries = make_model(tmp_path / "queries")
    done = run_cli(
        *("ingest", snapshot, "--library", tmp_path / "library", "--keep", "title"),
        *("--encoder", documents, "--query-encoder", queries),
    )
    assert done.returncode == EncoderError.exit_code
    assert "The encoder documents has 4 dimensions, and the query encoder queries has 8" in done.stderr
    assert not (tmp_path / "library").exists()


# -- learned term weights without dense vectors ---------------------------------------------------------


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory, snapshot: Path) -> tuple[Path, Sequence[str]]:
    """A library of a SPLADE model, and its ranking of QUERY."""
    from sentence_transformers import SparseEncoder

    folder = tmp_path_factory.mktemp("learned")
    model = make_splade(folder / "splade", seed=4)
    _built(snapshot, folder / "library", "--encoder", model)
    theirs = SparseEncoder(str(model), device="cpu")
    documents = theirs.encode_document(TITLES, convert_to_sparse_tensor=False).numpy()
    [query] = theirs.encode_query([QUERY], convert_to_sparse_tensor=False).numpy()
    return folder / "library", _ranked(documents @ query)


def test_term_weights_rank_without_dense_vectors(learned: tuple[Path, Sequence[str]]) -> None:
    path, ranking = learned
    with Library.open(path, encoder=str(path.parent / "splade")) as library:
        assert library.manifest.counts["dense_vectors"] == 0
        assert (library.modes, library.search(QUERY).mode) == (("sparse",), "sparse")
        assert _titles(library.search(QUERY, engine="learned")) == ranking
    assert list(verify(path))
    assert (
        "splade (sentence-transformers, learned term weights only)"
        in run_cli("info", "--library", path).stdout
    )


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_modes_with_dense_vectors_say_why_not(learned: tuple[Path, Sequence[str]], mode: Any) -> None:
    path, _ = learned
    message = (
        f"mode '{mode}' requires dense vectors, and splade, the encoder of this library, has learned term "
        "weights only: use mode 'sparse', with engine 'learned'"
    )
    model = str(path.parent / "splade")
    with Library.open(path, encoder=model) as library, pytest.raises(UnsupportedMode, match=message):
        library.search(QUERY, mode=mode)


def test_workers_share_a_model_of_term_weights(learned: tuple[Path, Sequence[str]]) -> None:
    path, ranking = learned
    with serving(path, "--workers", "2", "--encoder", str(path.parent / "splade")) as (url, _):
        found = httpx.get(f"{url}/v1/search", params={"q": QUERY, "engine": "learned"}, timeout=120).json()
        assert [hit["paper"]["title"] for hit in found["results"]] == ranking
        refused = httpx.get(f"{url}/v1/search", params={"q": QUERY, "mode": "hybrid"}, timeout=120)
        assert "learned term weights only" in refused.json()["detail"]
