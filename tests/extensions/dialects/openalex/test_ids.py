"""Ids of works: every canonical id has one, which is read back."""

import pytest

from scholarbase_dialects.openalex.ids import paper_id, work_id


@pytest.mark.parametrize(
    ("paper", "work"),
    [
        ("arXiv:2309.06180", "W991230906180"),
        ("arXiv:0704.0001", "W99107040001"),
        ("arXiv:1412.9999", "W99114129999"),
        ("arXiv:hep-th/9301068", "W992199301068"),
        ("arXiv:acc-phys/9411001", "W992009411001"),
        ("CorpusId:1", "W993000000000000001"),
        ("CorpusId:123456789012345678", "W993123456789012345678"),
    ],
)
def test_numbers(paper: str, work: str) -> None:
    assert work_id(paper) == work
    assert paper_id(work) == paper


@pytest.mark.parametrize("document", ["1", "MED-10", "über/β?&#", "x" * 999])
def test_ids_of_a_collection(document: str) -> None:
    work = work_id(f"Doc:{document}")
    assert work[1:].isdigit()
    assert len(work) > 11
    assert paper_id(work) == f"Doc:{document}"


def test_dois() -> None:
    work = work_id("DOI:10.1109/cvpr.2016.90")
    assert paper_id(work) == "DOI:10.1109/cvpr.2016.90"


@pytest.mark.parametrize(
    "text", ["", "W", "W0", "A5023888391", "W99999999999", "W99113130001", "W9929900000000", "nonsense"]
)
def test_other_texts(text: str) -> None:
    assert paper_id(text) is None
