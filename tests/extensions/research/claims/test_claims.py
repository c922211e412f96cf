"""Claims with their references: the nearest sentences, what differs, and labels only where a sentence is evidence."""

from __future__ import annotations

from contextlib import closing

import httpx
import pytest

from scholarbase import Library
from scholarbase.encoders import open_encoder
from scholarbase.errors import InvalidRequest
from scholarbase.models.encoders import PACKAGED
from scholarbase.tools import Tools
from scholarbase_research.claims import check_claim
from scholarbase_research.claims.comparison import compare_claim
from scholarbase_research.claims.nearness import nearness, packaged_encoder
from tests.conftest import serving_in_thread
from tests.fulltexts import ABSTRACT_ONLY, SORTING, SORTING_TEXT

PAPER = "arXiv:hep-th/9301068"
TEXT = (
    "BACKGROUND The role of statins is unknown. We found that statin treatment decreased mortality by 12% in 340 "
    "patients. Treatment with aspirin was not associated with stroke. It is an LDL-independent mechanism, and "
    "dependent on ATP."
)


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        ("Statin treatment decreased mortality by 12%.", "supported"),
        ("Statin treatment decreased mortality by 21%.", "contradicts"),
        ("Statin treatment increased mortality by 12% in 340 patients.", "contradicts"),
        ("Statin treatment in patients decreased mortality of diabetes by 12%.", "not_found"),
        ("Treatment with aspirin was associated with stroke.", "contradicts"),
        ("Aspirin treatment was not associated with stroke.", "supported"),
        ("Vitamins prevent scurvy.", "not_found"),
        ("Statin treatment decreased mortality by 12·5 to 1.2·3%.", "contradicts"),
        ("Treatments with aspirin are not associated with strokes.", "supported"),
        ("It is an LDL-dependent mechanism.", "contradicts"),
    ],
)
def test_a_label_needs_a_sentence(claim: str, label: str) -> None:
    assert compare_claim(claim, [(0, TEXT)]).label == label


def test_what_differs_is_named() -> None:
    found = compare_claim("Statin treatment decreased diabetic mortality by 21%.", [(100, TEXT)])
    assert (found.missing_numbers, found.missing_words) == (("21",), ("diabetic",))
    assert all(TEXT[one.start - 100 : one.end - 100] == one.text for one in found.sentences)
    assert found.sentences[0].text.startswith("We found")


@pytest.mark.parametrize(
    ("claim", "paper", "label", "reason"),
    [
        (
            "GPT-3 is an autoregressive language model with 175 billion parameters.",
            "arXiv:2005.14165",
            "supported",
            "A sentence has the words, the numbers and the direction of the claim.",
        ),
        (
            "BERT pushes the GLUE benchmark to 80.4%.",
            "arXiv:1810.04805",
            "not_found",
            "The nearest sentence does not have these words: bert.",
        ),
    ],
)
def test_the_reason_is_true(sample: Library, claim: str, paper: str, label: str, reason: str) -> None:
    """The sentences also say *more*, and *pushing* of an *it*."""
    found = check_claim(sample, claim, paper)
    assert (found.label, found.reason, found.missing_words) == (label, reason, ())


def test_overlapping_parts_are_one_text() -> None:
    found = compare_claim("aspirin and stroke", [(0, TEXT), (43, TEXT[43:])])
    assert len({one.start for one in found.sentences}) == len(found.sentences) == 3


def test_names_and_the_year_of_the_cited_paper_are_no_words_of_the_claim(sample: Library) -> None:
    abstract = sample.paper(PAPER).abstract or ""
    said = abstract.partition(". ")[0]
    checked = check_claim(sample, f"Gross and Taylor et al. (1993) find: {said}", PAPER)
    assert (checked.missing_words, checked.missing_numbers) == ((), ())
    other = check_claim(sample, f"Witten et al. (1992) find: {said}", PAPER)
    assert (other.missing_words, other.missing_numbers) == (("witten",), ("1992",))


def test_nothing_found_is_not_false(sample: Library) -> None:
    found = check_claim(sample, "Dark matter consists of axions.", PAPER)
    assert (found.label, found.reference, found.source) == ("not_found", "held", "abstract")
    assert "may hold" in found.reason
    abstract = sample.paper(PAPER).abstract or ""
    assert all(abstract[one.start : one.end] == one.text for one in found.sentences)
    absent = check_claim(sample, "Anything.", "10.1000/of.no.paper")
    assert (absent.label, absent.reference, absent.sentences) == ("not_found", "not_in_snapshot", ())
    assert absent.nearness is None
    for claim, reference in (("", PAPER), ("a claim", " "), ("x" * 2001, PAPER), ("a", f"{PAPER}\n{PAPER}")):
        with pytest.raises(InvalidRequest):
            check_claim(sample, claim, reference)


def test_a_paraphrase_is_nearer_to_its_paper_than_to_another(sample: Library) -> None:
    """Neither has a sentence with the words of the claim."""
    claim = "Gauge theory on a plane behaves like strings."
    right, other = (check_claim(sample, claim, name) for name in (PAPER, "arXiv:hep-ph/9305208"))
    assert {right.label, other.label} == {"not_found"}
    assert right.nearness is not None
    assert other.nearness is not None
    assert 1 >= right.nearness > 2 * other.nearness >= 0
    assert check_claim(sample, "It is so.", PAPER).nearness == 0
    assert right.paper is not None
    packaged_encoder.cache_clear()
    with closing(open_encoder(PACKAGED)) as encoder:
        assert nearness(claim, right.paper, encoder) == right.nearness
    assert packaged_encoder.cache_info().currsize == 0, "the packaged encoder was opened a second time"


def test_a_full_text_is_compared_in_place_of_the_abstract(full_texts: Library) -> None:
    """Offsets are those of the full text, and a heading is no sentence; a paper without one has its abstract."""
    claim = "The depth of the network is seven."
    found = check_claim(full_texts, claim, SORTING)
    assert (found.label, found.source, found.missing_numbers) == ("supported", "full text", ())
    assert found.sentences[0].text == claim
    assert all(SORTING_TEXT[one.start : one.end] == one.text for one in found.sentences)
    changed = check_claim(full_texts, claim.replace("seven", "eight"), SORTING)
    assert (changed.label, changed.missing_numbers) == ("not_found", ("eight",))
    assert check_claim(full_texts, claim, ABSTRACT_ONLY).source == "abstract"


def test_http_and_the_tool_give_the_same(sample: Library) -> None:
    request = {"claim": "Two dimensional QCD is a string theory.", "reference": PAPER}
    expected = check_claim(sample, **request).to_dict()
    with serving_in_thread(sample) as url:
        response = httpx.post(f"{url}/v1/claims/check", json=request)
        assert response.json() == expected
        assert httpx.post(f"{url}/v1/claims/check", json={"claim": "x"}).status_code == 400
        text = httpx.post(f"{url}/v1/claims/check", json=request | {"format": "text"}).text
        assert f"label: {expected['label']}\n" in text
        unknown = request | {"reference": "10.1000/of.no.paper", "max_tokens": 200}
        for form in ("json", "text"):
            response = httpx.post(f"{url}/v1/claims/check", json=unknown | {"format": form})
            assert response.status_code == 200
            assert "not_in_snapshot" in response.text
    assert expected["sentences"]
    assert Tools(sample, tool_set="claims").call("check_claim", request) == expected
