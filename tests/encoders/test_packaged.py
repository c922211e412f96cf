"""The encoder in the package."""

import json
from pathlib import Path

import numpy as np
import pytest

from scholarbase.encoders import Encoder, open_encoder
from scholarbase.encoders.registry import PACKAGED, PACKAGED_FOLDER
from scholarbase.encoders.static import FILES, StaticEncoder
from scholarbase.errors import EncoderError
from tests.conftest import SAMPLE


def test_it_is_opened_by_its_name(packaged: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(packaged, StaticEncoder)
    spec = packaged.spec
    assert (spec.kind, spec.name, spec.dimensions, spec.max_tokens) == (
        "static",
        "arxiv-static-v1",
        256,
        1024,
    )
    (tmp_path / PACKAGED).mkdir()
    monkeypatch.chdir(tmp_path)
    assert open_encoder(PACKAGED).spec == spec  # not the empty folder of this name
    with pytest.raises(EncoderError):
        open_encoder(f"./{PACKAGED}")


def test_its_files_take_at_most_16_mb() -> None:
    assert sorted(path.name for path in PACKAGED_FOLDER.iterdir()) == sorted(FILES)
    assert sum((PACKAGED_FOLDER / name).stat().st_size for name in FILES) <= 16_000_000


def test_a_question_is_nearest_to_the_papers_that_answer_it(packaged: Encoder) -> None:
    """Of the sample's 600 computer science papers; the questions and answers are AutoScholarQuery's."""
    import lzma

    with lzma.open(SAMPLE / "arxiv" / "arxiv-metadata-sample.jsonl.xz", "rt", encoding="utf-8") as file:
        papers = [json.loads(line) for line in file]
    vectors = packaged.encode_documents([f"{paper['title']}\n{paper['abstract']}" for paper in papers]).dense
    questions = [
        json.loads(line) for line in (SAMPLE / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    found, total = 0, 0
    for question in questions:
        [vector] = packaged.encode_queries([question["final_query"]]).dense
        best = {papers[row]["id"] for row in np.argsort(-(vectors @ vector))[:20]}
        found += len(best & set(question["answer_arxiv_ids"]))
        total += len(question["answer_arxiv_ids"])
    assert total == 229  # 194 different papers
    assert found > 0.4 * total  # by chance 2
