"""Responses cut to a number of tokens: from the sample library, and generated ones."""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.responses.pages import sentence_ends
from scholarbase.responses.sizing import check_max_tokens, estimate_tokens, fit_response
from scholarbase.responses.text import as_text, compact_authors, plain
from scholarbase.search.library import Library

QUERIES = ("machine translation", "string theory", "black hole entropy", "galaxy", "language models")
SEED = "arXiv:hep-th/9301068"
MARK = " ..."


def sent(response: dict[str, Any], text: bool, offset: Any = 0) -> str | bytes:
    return as_text(response, offset=offset) if text else orjson.dumps(response)


def papers_of(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The papers of a response of any kind, in order."""
    if "results" not in response:
        yield response
    for item in response.get("results", ()):
        if isinstance(item, list):
            yield from (match["paper"] for match in item)
        elif item is not None and "results" in item:
            yield from papers_of(item)
        elif item is not None:
            yield item.get("paper", item)


def contexts(response: dict[str, Any]) -> list[list[str]]:
    return [
        item["contexts"]
        for item in response.get("results", ())
        if isinstance(item, dict) and "contexts" in item
    ]


@pytest.fixture(scope="module")
def responses(sample: Library) -> dict[str, dict[str, Any]]:
    """One response of each kind."""
    ids = [SEED, "CorpusId:1", "arXiv:1409.0473", "arXiv:hep-th/9408140", "CorpusId:2"]
    titles = [
        "Two Dimensional QCD is a String Theory",
        "No such title as this one",
        "Attention is all you need",
    ]
    searches = [sample.search(q, limit=8).to_dict() for q in QUERIES[:3]]
    snapshot = sample.snapshot_id
    return {
        "search": sample.search("machine translation", limit=20).to_dict(),
        "explained": sample.search("string theory", limit=20, explain=True).to_dict(),
        "title": sample.match_title(titles[0], limit=20, min_score=0.3).to_dict(),
        "citations": sample.citations(SEED, limit=20).to_dict(),
        "references": sample.references("arXiv:1409.0473", limit=20).to_dict(),
        "similar": sample.similar(SEED, limit=20, explain=True).to_dict(),
        "expand": sample.expand([SEED], limit=20).to_dict(),
        "papers": {
            "snapshot": snapshot,
            "results": [paper and paper.to_dict() for paper in sample.papers(ids)],
        },
        "titles": {
            "snapshot": snapshot,
            "results": [m.to_dict()["results"] for m in sample.match_titles(titles, limit=4, min_score=0.3)],
        },
        "paper": {"snapshot": snapshot, **sample.paper(SEED).to_dict()},
        "searches": {"snapshot": snapshot, "results": searches},
    }


KINDS = (
    "search", "explained", "title", "citations", "references", "similar", "expand", "papers", "titles", "paper",
    "searches",
)  # fmt: skip


# -- the estimate ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("abc", 1),
        ("neural networks", 4),  # 15 / 4.5 = 3.3
        ("{}", 2),  # 2 / 1.5 = 1.3
        ("BERT", 3),  # 4 / 1.5 = 2.7
        ("1706.03762", 7),  # 10 / 1.5 = 6.7
        ("文", 2),  # 3 bytes / 1.5
        ("a cat, 3", 3),  # 6 letters and spaces, 2 others: 6 / 4.5 + 2 / 1.5 = 2.7
    ],
)
def test_the_estimate_by_hand(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens == estimate_tokens(text.encode())


@pytest.mark.parametrize("fields", [None, ["title", "authors", "year"]])
@pytest.mark.parametrize("text", [False, True])
def test_wordpiece_counts_are_within_a_factor_of_the_estimate(
    sample: Library, minilm_folder: Path, fields: list[str] | None, text: bool
) -> None:
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(str(minilm_folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for query in QUERIES:
        response = fit_response(sample.search(query, limit=20, fields=fields).to_dict(), 100_000, text=text)
        content = sent(response, text)
        content = content.decode() if isinstance(content, bytes) else content
        counted = len(tokenizer.encode(content, add_special_tokens=False).ids)
        assert 0.65 < counted / estimate_tokens(content) < 1.35


@pytest.mark.parametrize("value", [99, 0, -5, 1_000_001, True, 500.0, "500", None])
def test_invalid_max_tokens(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="from 100 to 1000000"):
        check_max_tokens(value)
    with pytest.raises(InvalidRequest, match="max_tokens is"):
        fit_response({"snapshot": "s", "results": []}, value)
    assert (check_max_tokens(100), check_max_tokens(1_000_000)) == (100, 1_000_000)


# -- authors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ([], ""),
        (["A. One"], "A. One"),
        (["A. One", "B. Two"], "A. One, B. Two"),
        (["A. One", "B. Two", "C. Three"], "A. One, B. Two, ... (3)"),
        ([f"Author {n}" for n in range(3000)], "Author 0, Author 1, ... (3000)"),
    ],
)
def test_authors_become_a_line(names: list[str], line: str) -> None:
    assert compact_authors([{"name": name, "author_id": None} for name in names]) == line
    assert compact_authors(line) == line


# -- sentences ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "We use it, e.g. BERT does | not.",
        "As Smith et al. Show in 2019 | this.",
        "See Fig. 3 and Eq. (4), i.e. The result of 3.14 is | small.",
        "By J. R. R. Tolkien, vs. Others of the U.S. Army | here.",
        "We ask why? so they said | nothing.",
        "一個很長的句子沒有句號",
        "One sentence only. ",
        "",
    ],
)
def test_no_sentence_ends_here(text: str) -> None:
    assert list(sentence_ends(text)) == []


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("It is 3.5. The rest.", "It is 3.5."),
        ("It works (mostly.) The rest.", "It works (mostly.)"),
        ("Does it? Yes.", "Does it?"),
        ('He said "yes." Then left.', 'He said "yes."'),
        ("It is so. $N=2$ theories.", "It is so."),
        ("It is so.\n  2D materials.", "It is so."),
        ("我們提出方法。結果很好。", "我們提出方法。"),
    ],
)
def test_a_sentence_ends_here(text: str, first: str) -> None:
    ends = list(sentence_ends(text))
    assert text[: ends[0]] == first
    assert len(ends) == 1


# -- every kind of response -------------------------------------------------------------------------------


def check(response: dict[str, Any], max_tokens: int, text: bool, offset: Any = 0) -> dict[str, Any] | None:
    """Fit the response and check it; None if fit_response raises InvalidRequest."""
    before = copy.deepcopy(response)
    try:
        fitted = fit_response(response, max_tokens, offset=offset, text=text)
    except InvalidRequest as error:
        least = re.search(r"at least (\d+)", str(error))
        assert least is not None
        assert int(least[1]) > max_tokens
        assert fit_response(response, int(least[1]), offset=offset, text=text)["tokens"] <= int(least[1])
        return None
    assert response == before
    assert fitted == fit_response(response, max_tokens, offset=offset, text=text)
    assert fitted["tokens"] == estimate_tokens(sent(fitted, text, offset)) <= max_tokens
    parts = (
        list(zip(response["results"], fitted["results"], strict=True))
        if is_searches(response)
        else [(response, fitted)]
    )
    for original, part in parts:
        check_left_out(original, part, text)
    return fitted


def is_searches(response: dict[str, Any]) -> bool:
    return any(isinstance(item, dict) and "results" in item for item in response.get("results", ()))


def check_left_out(original: dict[str, Any], fitted: dict[str, Any], text: bool) -> None:
    """The kept parts are prefixes of the original, and the counts of left_out are correct."""
    papers, kept = list(papers_of(original)), list(papers_of(fitted))
    left_out = fitted.get("left_out", {})
    cut = omitted = 0
    for paper, was in zip(kept, papers, strict=False):
        assert paper["id"] == was["id"]
        assert isinstance(paper.get("authors", ""), str)
        for key in was.keys() - {"abstract", "authors", "next_offset", "left_out"}:
            assert paper[key] == was[key]
        full, shown = was.get("abstract"), paper.get("abstract")
        if text and full and shown:
            full, shown = plain(full), plain(shown)
        if full and shown is None:
            omitted += 1
        elif shown != full:
            cut += 1
            assert shown.endswith(MARK)
            prefix = shown.removesuffix(MARK)
            assert full.startswith(prefix)
            assert re.search(r"""[.!?。！？｡]["'”’»)\]」』）]*$""", prefix)
            assert re.match(r"\s", full[len(prefix) :]) or prefix[-1] in "。！？｡」』”’»)）"
    missing = sum(map(len, contexts(original)[: len(contexts(fitted))])) - sum(map(len, contexts(fitted)))
    assert left_out.get("papers", 0) == len(papers) - len(kept)
    assert (left_out.get("abstracts_cut", 0), left_out.get("abstracts", 0)) == (cut, omitted)
    assert left_out.get("contexts", 0) == missing
    assert 0 not in left_out.values()
    shorter = "results" in original and len(fitted["results"]) < len(original["results"])
    assert ("how" in left_out) == bool(len(papers) - len(kept) or cut or omitted or missing or shorter)
    if "total" in original:
        assert fitted["total"] == original["total"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [False, True])
def test_each_kind_of_response_fits_into_any_number_of_tokens(
    responses: dict[str, dict[str, Any]], kind: str, text: bool
) -> None:
    response, made = responses[kind], 0
    for max_tokens in (100, 130, 200, 350, 600, 1000, 1500, 2500, 4000, 8000, 50_000):
        fitted = check(response, max_tokens, text)
        made += fitted is not None
    assert made >= 6
    assert fitted is not None
    assert "left_out" not in fitted
    assert [p["id"] for p in papers_of(fitted)] == [p["id"] for p in papers_of(response)]


# -- by hand --------------------------------------------------------------------------------------------


def page(count: int, abstract: str | None = None, **more: Any) -> dict[str, Any]:
    papers = [{"id": f"arXiv:{1000 + n}", "title": f"paper {n}", "abstract": abstract} for n in range(count)]
    results = [{"score": 1.0, "paper": paper} for paper in papers]
    return {
        "snapshot": "s",
        "mode": "sparse",
        "total": 500,
        "total_relation": "eq",
        "next_offset": None,
        "results": results,
        **more,
    }


def test_papers_that_do_not_fit_are_on_the_next_page() -> None:
    response = page(40)
    fitted = fit_response(response, 400, offset=60)
    kept = len(fitted["results"])
    assert 0 < kept < 40
    assert fitted["next_offset"] == 60 + kept
    same = fit_response(response, 400, offset=60, same_offset=True)
    assert (same["next_offset"], "since these are left out now" in same["left_out"]["how"]) == (60, True)
    assert fitted["left_out"] == {
        "papers": 40 - kept,
        "how": f"{kept} of 40 papers fit into 400 tokens: ask again with offset {60 + kept} for the rest.",
    }
    one_more = {
        **fitted,
        "results": [*fitted["results"], {"score": 1.0, "paper": response["results"][kept]["paper"]}],
    }
    assert estimate_tokens(orjson.dumps(one_more)) > 390  # at most 10 tokens are reserved for longer numbers


def test_more_papers_come_before_longer_abstracts() -> None:
    sentence = "we look at words and at what they mean to those who read them. "
    response = page(10, (sentence.capitalize() * 20).strip())
    fitted = fit_response(response, 1000)
    assert len(fitted["results"]) == 10
    lengths = [len(item["paper"]["abstract"]) for item in fitted["results"]]
    assert max(lengths) - min(lengths) <= len(sentence)
    assert fitted["left_out"]["abstracts_cut"] == 10


def test_what_short_abstracts_do_not_use_goes_to_long_ones() -> None:
    response = page(4, "Short.")
    response["results"][2]["paper"]["abstract"] = "A longer sentence than the others. " * 25
    fitted = fit_response(response, 400)
    assert [item["paper"]["abstract"] for item in fitted["results"]].count("Short.") == 3
    assert len(fitted["results"][2]["paper"]["abstract"]) > 200
    assert fitted["left_out"]["abstracts_cut"] == 1


@pytest.mark.parametrize("abstract", ["word " * 1000, "文" * 2000])
def test_an_abstract_of_one_sentence_is_complete_or_null(abstract: str) -> None:
    fitted = fit_response(page(1, abstract), 600)
    assert fitted["results"][0]["paper"]["abstract"] is None
    assert fitted["left_out"]["abstracts"] == 1
    assert fit_response(page(1, abstract), 10_000)["results"][0]["paper"]["abstract"] == abstract


def test_contexts_are_cut_to_the_first_then_to_none_before_papers_go() -> None:
    words = ["a sentence that cites the paper among several others"] * 5
    response = page(6)
    response["results"] = [
        {"paper": item["paper"], "is_influential": None, "contexts": words, "intents": []}
        for item in response["results"]
    ]
    seen = {}
    for max_tokens in range(380, 1000, 20):
        fitted = fit_response(response, max_tokens)
        if len(fitted["results"]) == 6:
            seen[sum(map(len, contexts(fitted)))] = fitted.get("left_out", {}).get("contexts", 0)
    assert {0: 30, 6: 24, 30: 0}.items() <= seen.items()


def test_a_batch_of_ids_keeps_its_places() -> None:
    papers: list[Any] = [item["paper"] for item in page(30)["results"]]
    papers[1] = None
    fitted = fit_response({"snapshot": "s", "results": papers}, 300)
    kept = len(fitted["results"])
    assert 2 < kept < 30
    assert fitted["results"][1] is None
    assert fitted["left_out"]["papers"] == 30 - kept
    assert f"ask again with the ids from place {kept + 1} on" in fitted["left_out"]["how"]


@pytest.mark.parametrize("text", [False, True])
def test_a_batch_of_titles_keeps_whole_titles_and_perhaps_the_best_of_one_more(text: bool) -> None:
    matches = page(3)["results"]
    response = {"snapshot": "s", "results": [matches, [], *[matches] * 40]}
    assert fit_response(response, 10_000, text=text)["results"] == response["results"]
    fitted = fit_response(response, 1000, text=text)
    *whole, last = fitted["results"]
    assert whole == response["results"][: len(whole)]
    assert last == matches[: len(last)] != []
    one_more = [last, matches[:1]] if last == matches else [matches[: len(last) + 1]]
    assert estimate_tokens(sent({**fitted, "results": [*whole, *one_more]}, text)) > 990
    assert f"ask again with the titles from place {len(whole) + 2} on" in fitted["left_out"]["how"]


def test_title_matches_have_no_next_offset() -> None:
    response = {"snapshot": "s", "results": page(20)["results"]}
    how = fit_response(response, 300)["left_out"]["how"]
    assert "offset" not in how
    assert "title" in how


def test_searches_share_evenly_and_what_one_leaves_goes_to_the_others() -> None:
    response = {"snapshot": "s", "results": [page(1), page(30), page(30)]}
    fitted = fit_response(response, 1200)
    sizes = [len(one["results"]) for one in fitted["results"]]
    assert sizes[0] == 1
    assert "left_out" not in fitted["results"][0]
    assert abs(sizes[1] - sizes[2]) <= 1
    assert sizes[1] > (1200 / 3 - 90) // 37  # more than an even third would hold
    assert fitted["results"][1]["next_offset"] == sizes[1]
    moved = fit_response(response, 1200, offset=[0, 100, 0])
    assert moved["results"][1]["next_offset"] == 100 + len(moved["results"][1]["results"])

    long = page(1, "word " * 1000 + "end.")  # a sentence that does not fit, so that its room is left
    sizes = [
        len(one["results"])
        for one in fit_response({**response, "results": [long, page(60)]}, 1200)["results"]
    ]
    assert sizes[0] == 1
    assert sizes[1] > 1200 / 2 // 30  # more than half would hold


@pytest.mark.parametrize("key", ["text", "observation"])
def test_a_text_is_not_cut_in_its_first_half_if_words_fit(key: str) -> None:
    text = "A line.\n\n" + "word " * 1000
    shown = fit_response({"document": "d", "start": 0, "end": len(text), key: text}, 300)[key]
    assert len(shown) > 500
    assert text.startswith(shown.partition("\n[")[0])


def test_a_response_without_papers_names_the_tokens_for_one() -> None:
    response = page(3, title := "word " * 100)
    for item in response["results"]:
        item["paper"]["title"] = title
    fitted = fit_response(response, 120, offset=5)
    assert fitted["results"] == []
    assert fitted["next_offset"] == 5
    enough = re.search(r"ask again with at least (\d+)", fitted["left_out"]["how"])
    assert enough is not None
    assert len(fit_response(response, int(enough[1]), offset=5)["results"]) == 1


def test_an_empty_response_is_unchanged() -> None:
    response = page(0)
    assert fit_response(response, 100) == {
        **response,
        "tokens": estimate_tokens(orjson.dumps(response) + b'"tokens":48,'),
    }


def test_a_response_that_is_too_large_without_papers_is_rejected() -> None:
    response = page(3, failed_legs=[{"leg": "dense", "detail": "no reason at all " * 100}])
    with pytest.raises(InvalidRequest, match=r"max_tokens is 100: this response needs at least \d+"):
        fit_response(response, 100)


def test_other_keys_are_unchanged() -> None:
    fitted = fit_response(page(30, budget={"searches": 3}), 300)
    assert fitted["budget"] == {"searches": 3}


def test_a_fitted_response_can_be_fitted_again() -> None:
    once = fit_response(page(30), 400)
    assert fit_response(once, 1500) == once
