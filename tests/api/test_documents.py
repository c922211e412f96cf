"""The routes of full texts: outlines and parts, places, passages, citation contexts, and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import httpx
import pytest

from scholarbase.responses.sizing import estimate_tokens
from scholarbase.search.library import Library
from tests.conftest import serving_in_thread
from tests.fulltexts import (
    ABSTRACT_ONLY,
    FIRST_SORTING_TEXT,
    GRAPHS,
    GRAPHS_TEXT,
    MERGING,
    MERGING_TEXT,
    SORTING,
    SORTING_TEXT,
)

Get = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def url(full_texts: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    sessions = tmp_path_factory.mktemp("sessions-of-texts")
    with serving_in_thread(full_texts, sessions=str(sessions)) as address:
        yield address


@pytest.fixture(scope="module")
def get(url: str) -> Get:
    """A request for a part of a paper: its id, the part, and parameters."""

    def sent(paper: str, part: str, **parameters: Any) -> httpx.Response:
        return httpx.get(f"{url}/v1/papers/{paper}/{part}", params=parameters)

    return sent


@pytest.fixture(scope="module")
def search(url: str) -> Callable[..., dict[str, Any]]:
    def found(q: str, **more: Any) -> dict[str, Any]:
        response = httpx.post(f"{url}/v1/passages/search", json={"q": q, **more})
        assert response.status_code == 200, response.text
        content: dict[str, Any] = response.json()
        return content

    return found


def ids(content: dict[str, Any]) -> list[str]:
    return [hit["paper"]["id"] for hit in content["results"]]


def detail(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    said: str = response.json()["detail"]
    return said


def span(text: str, part: str, after: int = 0) -> tuple[int, int]:
    start = text.index(part, after)
    return start, start + len(part)


class TestText:
    def test_the_outline_has_sections_sizes_and_versions(self, get: Get) -> None:
        content = get(SORTING, "text").json()
        assert content["id"] == SORTING
        assert content["title"] == "Sorting networks of small depth"
        about = content["document"]
        assert (about["source"], about["characters"]) == ("unarxive", len(SORTING_TEXT))
        assert (about["version"], about["versions"]) == (2, [1, 2])
        introduction, notation = SORTING_TEXT.index("1 Introduction"), SORTING_TEXT.index("1.1 Notation")
        results = SORTING_TEXT.index("2 Results")
        rows = [
            (one["place"], one.get("number"), one["title"], one["level"], one["start"], one["end"])
            for one in content["sections"]
        ]
        assert rows == [
            (0, None, "Abstract", 1, 0, introduction - 2),
            (1, "1", "Introduction", 1, introduction, results - 2),
            (2, "1.1", "Notation", 2, notation, results - 2),
            (3, "2", "Results", 1, results, len(SORTING_TEXT)),
        ]
        tokens = [one["tokens"] for one in content["sections"]]
        assert tokens[0] + tokens[1] + tokens[3] == about["tokens"], "an introduction counts its subsection"
        assert tokens[1] > tokens[2] > 0
        assert "text" not in content

    def test_the_outline_has_figures_with_their_captions(self, get: Get) -> None:
        [figure] = get(MERGING, "text").json()["figures"]
        assert figure == {"kind": "figure", "label": "Figure 1", "caption": "Two lists become one."}

    @pytest.mark.parametrize(
        ("section", "part"),
        [
            ("1", SORTING_TEXT[SORTING_TEXT.index("1 Intro") : SORTING_TEXT.index("\n\n2 Results")]),
            ("1.", SORTING_TEXT[SORTING_TEXT.index("1 Intro") : SORTING_TEXT.index("\n\n2 Results")]),
            ("notation", SORTING_TEXT[SORTING_TEXT.index("1.1 ") : SORTING_TEXT.index("\n\n2 Results")]),
            ("1.1 Notation", SORTING_TEXT[SORTING_TEXT.index("1.1 ") : SORTING_TEXT.index("\n\n2 Results")]),
            ("#3", SORTING_TEXT[SORTING_TEXT.index("2 Results") :]),
            ("#0", "Abstract\n\nWe sort quickly."),
        ],
    )
    def test_a_section_by_number_title_or_place(self, get: Get, section: str, part: str) -> None:
        content = get(SORTING, "text", section=section).json()
        assert content["text"] == part
        assert (content["start"], content["end"]) == span(SORTING_TEXT, part)
        assert content["next_offset"] is None

    def test_all_texts_are_those_of_the_sources(self, get: Get) -> None:
        for paper, text in ((SORTING, SORTING_TEXT), (MERGING, MERGING_TEXT), (GRAPHS, GRAPHS_TEXT)):
            content = get(paper, "text", from_offset=0).json()
            assert (content["text"], content["start"], content["end"]) == (text, 0, len(text))

    def test_a_version_that_is_named(self, get: Get) -> None:
        content = get(SORTING, "text", from_offset=0, version=1).json()
        assert content["text"] == FIRST_SORTING_TEXT
        assert content["document"]["version"] == 1

    def test_an_arxiv_id_names_the_version_wherever_its_text_is_read(self, get: Get) -> None:
        first = f"{SORTING}v1"
        assert get(first, "text", from_offset=0).json()["text"] == FIRST_SORTING_TEXT
        assert get(f"{SORTING}v2", "text", from_offset=0).json()["text"] == SORTING_TEXT
        assert get(first, "text", version=1).json()["document"]["version"] == 1
        for what, q in (("find", "depth of the network"), ("passages", "depth of the network")):
            [passage, *_] = [one["passage"] for one in get(first, what, q=q).json()["results"]]
            assert (passage["version"], "is nine" in passage["text"]) == (1, True)
            said = detail(get(f"{SORTING}v7", what, q=q), 404)
            assert "no version 7 of the text" in said
            assert "only version 1, 2" in said
        assert "no version 7" in detail(get(f"{SORTING}v7", "text"), 404)
        assert "names version 1: leave one out" in detail(get(first, "text", version=2), 400)
        assert get(f"{SORTING}v7", "references").status_code == 200

    @pytest.mark.parametrize("tokens", [150, 400, 1000])
    def test_reading_on_with_next_offset_gives_the_text_exactly(self, get: Get, tokens: int) -> None:
        parts, offset, seen = [], 0, []
        while offset is not None:
            response = get(GRAPHS, "text", from_offset=offset, max_tokens=tokens)
            content = response.json()
            assert estimate_tokens(response.content) == content["tokens"] <= tokens
            assert content["start"] == offset
            assert content["end"] == offset + len(content["text"])
            parts.append(content["text"])
            seen.append(offset)
            offset = content["next_offset"]
        assert "".join(parts) == GRAPHS_TEXT
        assert len(seen) > 1

    def test_a_section_is_read_on_to_its_end_and_no_further(self, get: Get) -> None:
        first = get(SORTING, "text", section="1", max_tokens=130).json()
        assert first["next_offset"] is not None
        rest = get(SORTING, "text", section="1", from_offset=first["next_offset"]).json()
        start, end = SORTING_TEXT.index("1 Introduction"), SORTING_TEXT.index("\n\n2 Results")
        assert first["text"] + rest["text"] == SORTING_TEXT[start:end]
        assert rest["next_offset"] is None

    def test_an_outline_that_does_not_fit_says_what_is_missing(self, get: Get) -> None:
        whole = estimate_tokens(get(MERGING, "text").content)
        content = get(MERGING, "text", max_tokens=whole - 20).json()
        left = content["left_out"]
        assert left["sections"] == 4 - len(content["sections"]) > 0
        assert left["figures"] == 1
        assert f"{whole - 20} tokens" in left["how"]

    def test_as_text_lines_of_a_paper_are_indented(self, get: Get) -> None:
        response = get(SORTING, "text", section="2", format="text")
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        lines = response.text.splitlines()
        assert lines[0] == "Sorting networks of small depth"
        assert lines[-3:] == [
            "   2 Results",
            "",
            "   The depth of the network is seven. Every zebra sorts first.",
        ]
        assert all(line.startswith("   ") or not line for line in lines[1:])


class TestFind:
    def test_a_phrase_matches_in_any_case_and_over_white_space(self, get: Get) -> None:
        content = get(MERGING, "find", q="SORTING  networks", context=0).json()
        assert (content["total"], content["total_relation"], content["next_offset"]) == (1, "eq", None)
        [match] = content["results"]
        start, end = span(MERGING_TEXT, "sorting networks")
        assert (match["match"], match["match_start"], match["match_end"]) == ("sorting networks", start, end)
        passage = match["passage"]
        assert (passage["start"], passage["end"], passage["text"]) == (start, end, "sorting networks")
        assert passage["section"] == "1 Introduction"
        assert match["paper"] == {"id": MERGING, "title": "Merging sorted lists", "year": 2023}

    def test_any_of_the_words_matches_whole_words(self, get: Get) -> None:
        content = get(MERGING, "find", q="list zebra linear", syntax="words").json()
        assert [match["match"] for match in content["results"]] == ["linear", "zebra"], "not lists"

    def test_a_pattern(self, get: Get) -> None:
        content = get(GRAPHS, "find", q=r"Graph \d0 ", syntax="regex", limit=3).json()
        assert [match["match"] for match in content["results"]] == ["Graph 10 ", "Graph 20 ", "Graph 30 "]
        assert (content["total"], content["next_offset"]) == (6, 3)
        rest = get(GRAPHS, "find", q=r"Graph \d0 ", syntax="regex", offset=3).json()
        assert [match["match"] for match in rest["results"]] == ["Graph 40 ", "Graph 50 ", "Graph 60 "]

    def test_a_pattern_that_matches_the_whole_text_does_not_return_it(self, get: Get) -> None:
        [match] = get(GRAPHS, "find", q="(?s).*", syntax="regex").json()["results"]
        assert (match["match_start"], match["match_end"]) == (0, len(GRAPHS_TEXT))
        assert match["match"] == match["passage"]["text"] == GRAPHS_TEXT[:2000] != GRAPHS_TEXT
        assert (match["passage"]["start"], match["passage"]["end"]) == (0, 2000)

    def test_surroundings_end_between_words(self, get: Get) -> None:
        [match] = get(SORTING, "find", q="comparator exchanges", context=12).json()["results"]
        passage = match["passage"]
        assert passage["text"] == "of keys. A comparator exchanges two keys."
        assert SORTING_TEXT[passage["start"] : passage["end"]] == passage["text"]

    def test_nothing_is_an_empty_list(self, get: Get) -> None:
        content = get(SORTING, "find", q="quantum").json()
        assert (content["total"], content["next_offset"], content["results"]) == (0, None, [])
        assert get(SORTING, "find", q="quantum", format="text").text.startswith("Nothing matched.")

    def test_an_invalid_pattern_is_a_sentence(self, get: Get) -> None:
        said = detail(get(SORTING, "find", q="(", syntax="regex"), 400)
        assert said.startswith("q '(' is not a regular expression")
        assert "phrase" in said

    def test_a_hostile_pattern_takes_no_longer_than_others(self, get: Get) -> None:
        # Exponential in engines that backtrack: it would never end in the text of a paper.
        response = get(GRAPHS, "find", q=r"([a-z ]+)+\d#", syntax="regex")
        assert response.json()["results"] == []
        assert "RE2" in detail(get(GRAPHS, "find", q=r"(a)\1", syntax="regex"), 400)

    def test_max_tokens_leaves_out_matches_and_pages_on(self, get: Get) -> None:
        found, offset = [], 0
        while offset is not None:
            response = get(GRAPHS, "find", q="colouring", limit=20, offset=offset, max_tokens=600)
            content = response.json()
            assert estimate_tokens(response.content) <= 600
            found += [match["match_start"] for match in content["results"]]
            offset = content["next_offset"]
        # The heading has the word too.
        expected = [
            place for place in range(len(GRAPHS_TEXT)) if GRAPHS_TEXT[place:].startswith("colouring ")
        ]
        assert found == [GRAPHS_TEXT.index("Colourings"), *expected]


class TestPassagesOfAPaper:
    @pytest.mark.parametrize("engine", ["bm25", "dense", "hybrid"])
    def test_the_passage_that_answers_comes_first(self, get: Get, engine: str) -> None:
        content = get(
            MERGING, "passages", q="smaller head of both lists", chunker="paragraphs", engine=engine
        )
        first = content.json()["results"][0]
        assert first["passage"]["text"] == "2 Method\n\nTake the smaller head of both lists, again and again."
        assert first["passage"]["section"] == "2 Method"
        assert (first["passage"]["start"], first["passage"]["end"]) == span(
            MERGING_TEXT, first["passage"]["text"]
        )
        assert content.json()["mode"] == engine

    def test_hybrid_is_the_default_of_a_library_with_an_encoder(self, get: Get) -> None:
        assert get(SORTING, "passages", q="zebra").json()["mode"] == "hybrid"

    def test_words_rank_only_passages_that_have_one(self, get: Get) -> None:
        content = get(SORTING, "passages", q="comparator", chunker="paragraphs", engine="bm25").json()
        assert content["total"] == 1
        assert "A comparator exchanges two keys." in content["results"][0]["passage"]["text"]

    @pytest.mark.parametrize("chunker", ["tokens-512", "sentences-512", "sentences-10-1", "paragraphs"])
    def test_passages_of_each_chunking_are_parts_of_the_text(self, get: Get, chunker: str) -> None:
        content = get(GRAPHS, "passages", q="graph", chunker=chunker, limit=100, engine="bm25").json()
        assert content["results"]
        for hit in content["results"]:
            passage = hit["passage"]
            assert GRAPHS_TEXT[passage["start"] : passage["end"]] == passage["text"]

    def test_another_version_is_searched_on_request(self, get: Get) -> None:
        for version, depth in ((1, "nine"), (2, "seven")):
            options = {"q": "depth", "chunker": "paragraphs", "engine": "bm25"}
            content = get(SORTING, "passages", **options, version=version).json()
            assert f"network is {depth}" in content["results"][0]["passage"]["text"]
            assert content["results"][0]["passage"]["version"] == version

    def test_a_library_without_encoder_has_words_alone(self, full_text_library: Path) -> None:
        with (
            Library.open(full_text_library, encoder="none") as library,
            serving_in_thread(library, sessions="none") as url,
        ):
            at = f"{url}/v1/papers/{SORTING}/passages"
            assert httpx.get(at, params={"q": "zebra"}).json()["mode"] == "bm25"
            said = detail(httpx.get(at, params={"q": "zebra", "engine": "dense"}), 400)
            assert said.startswith("engine 'dense' requires the library's encoder")
            content = httpx.post(f"{url}/v1/passages/search", json={"q": "zebra"}).json()
            assert content["mode"] == "sparse"
            said = detail(httpx.post(f"{url}/v1/passages/search", json={"q": "zebra", "mode": "dense"}), 400)
            assert said.startswith("mode 'dense' requires dense vectors")


class TestSearch:
    @pytest.mark.parametrize("mode", ["sparse", "dense", "hybrid"])
    def test_every_mode_finds_the_paper(self, search: Any, mode: str) -> None:
        content = search("colouring of a graph", mode=mode, limit=3)
        assert content["mode"] == mode
        assert content["results"][0]["paper"] == {"id": GRAPHS, "title": "Old graphs", "year": 2021}
        passage = content["results"][0]["passage"]
        assert GRAPHS_TEXT[passage["start"] : passage["end"]] == passage["text"]

    def test_hybrid_is_the_default_and_query_syntax_is_by_words(self, search: Any) -> None:
        assert search("zebra")["mode"] == "hybrid"
        assert search('"every zebra"')["mode"] == "sparse"

    def test_a_phrase_and_operators(self, search: Any) -> None:
        assert ids(search('"zebra sorts first"')) == [SORTING]
        assert ids(search("zebra AND linear")) == [MERGING]
        assert ids(search("zebra NOT linear")) == [SORTING]
        assert set(ids(search("comparator*"))) == {SORTING, MERGING}
        assert search('"zebra sorts first"')["total"] == 1

    def test_syntax_that_nothing_matches_is_empty_with_a_warning(self, search: Any) -> None:
        content = search('"purple zebra"')
        assert (content["total"], content["results"]) == (0, [])
        assert "use syntax=plain" in content["warnings"][0]
        assert set(ids(search('"purple zebra"', syntax="plain", mode="sparse"))) == {SORTING, MERGING}

    def test_a_question_with_quotation_marks_is_ranked_by_its_words(self, search: Any) -> None:
        q = 'Which paper says that a so called "purple zebra" of the results comes first in its network?'
        content = search(q)
        assert SORTING in ids(content)
        assert content["warnings"][0].startswith("q is ranked as plain text, because no passage matches")

    def test_invalid_syntax_is_an_error_if_it_is_named(self, url: str, search: Any) -> None:
        response = httpx.post(f"{url}/v1/passages/search", json={"q": 'zebra AND ("', "syntax": "query"})
        assert "q" in detail(response, 400)
        response = httpx.post(
            f"{url}/v1/passages/search", json={"q": "zebra AND keys", "syntax": "query", "mode": "dense"}
        )
        assert "cannot be combined with mode 'dense'" in detail(response, 400)

    def test_filters_of_papers_apply(self, search: Any) -> None:
        filters: tuple[tuple[dict[str, Any], set[str]], ...] = (
            ({"from": "2023"}, {SORTING, MERGING}),
            ({"to": "2023-01"}, {SORTING}),
            ({"as_of": "2023-01-15"}, {SORTING}),
            ({"category": ["math.CO"]}, set()),
            ({"within": [MERGING, GRAPHS]}, {MERGING}),
            ({"within": []}, set()),
            ({"exclude_ids": [SORTING]}, {MERGING}),
            ({"exclude": ["sorted lists"]}, {SORTING}),
            ({"author": ["Ada Lovelace"]}, {SORTING, MERGING}),
            ({"author": ["Grace Hopper"]}, set()),
        )
        for q, (chosen, expected) in product(("zebra", "zebra OR purple"), filters):
            content = search(q, mode="sparse", **chosen)
            assert set(ids(content)) == expected, (q, chosen)
            assert content["total"] == len(content["results"])

    def test_filters_apply_before_the_cut(self, search: Any) -> None:
        # Graphs fill the first places of a question about graphs.
        assert search("graph vertices zebra", mode="sparse", limit=1)["results"][0]["paper"]["id"] == GRAPHS
        assert ids(search("graph vertices zebra", mode="sparse", limit=1, category=["cs.DS"]))[0] in {
            SORTING,
            MERGING,
        }
        assert GRAPHS not in ids(search("graph vertices zebra", mode="dense", category=["cs.DS"]))

    def test_passages_of_a_paper_come_together_with_per_paper(self, search: Any) -> None:
        plain = search("graph vertices zebra", mode="sparse", limit=100)
        assert ids(plain).count(GRAPHS) > 1
        grouped = search("graph vertices zebra", mode="sparse", limit=100, per_paper=1)
        assert ids(grouped) == list(dict.fromkeys(ids(plain)))
        assert grouped["total"] == len(grouped["results"])
        two = search("graph vertices zebra", mode="sparse", limit=100, per_paper=2)
        assert [a for a, b in pairwise(ids(two)) if a == b] == [GRAPHS]

    def test_pages_go_through_all_passages_once(self, search: Any) -> None:
        everything = search("graph vertices zebra", limit=100)
        found: list[Any] = []
        offset = 0
        while offset is not None:
            page = search("graph vertices zebra", limit=2, offset=offset)
            found += page["results"]
            offset = page["next_offset"]
        assert found == everything["results"]
        assert everything["total"] == len(found)

    def test_the_text_form(self, url: str) -> None:
        body = {"q": "smaller head of both lists", "mode": "sparse", "limit": 1, "format": "text"}
        text = httpx.post(f"{url}/v1/passages/search", json=body).text
        lines = text.splitlines()
        assert lines[0].startswith("1 of ")
        assert "passages (sparse)" in lines[0] or "passage (sparse)" in lines[0]
        assert lines[2] == "1. Merging sorted lists"
        assert lines[3].startswith(f"   {MERGING}; 2023; version 1; section ")
        assert "   Take the smaller head of both lists, again and again." in lines

    def test_max_tokens_leaves_out_passages(self, url: str) -> None:
        body = {"q": "graph vertices", "mode": "sparse", "limit": 10, "max_tokens": 1500}
        for form in ("json", "text"):
            response = httpx.post(f"{url}/v1/passages/search", json=body | {"format": form})
            assert estimate_tokens(response.content) <= 1500
            if form == "json":
                content = response.json()
                left = content["left_out"]["passages"]
                assert content["next_offset"] == len(content["results"])
                assert len(content["results"]) + left == min(content["total"], 10)
            else:
                assert response.text.count("ask again with offset") == 1

    def test_a_limit_that_holds_no_passage_says_what_one_needs(self, url: str) -> None:
        body = {"q": "graph vertices", "mode": "sparse", "limit": 1, "max_tokens": 200}
        content = httpx.post(f"{url}/v1/passages/search", json=body).json()
        how = content["left_out"]["how"]
        assert how.startswith("The only result does not fit into 200 tokens: ask again with at least ")
        more = int(how.rpartition("at least ")[2].rstrip("."))
        content = httpx.post(f"{url}/v1/passages/search", json=body | {"max_tokens": more}).json()
        assert len(content["results"]) == 1


class TestCitationContexts:
    def test_what_others_say_of_it(self, get: Get) -> None:
        content = get(SORTING, "citation-contexts").json()
        assert (content["total"], content["next_offset"]) == (2, None)
        first, second = content["results"]
        assert first["paper"] == {"id": MERGING, "title": "Merging sorted lists", "year": 2023}
        assert first["mark"] == second["mark"] == "[1]"
        sentence = "The sorting networks of earlier work [1] need more comparators."
        assert first["passage"]["text"] == sentence
        assert (first["passage"]["start"], first["passage"]["end"]) == span(MERGING_TEXT, sentence)
        assert first["passage"]["section"] == "1 Introduction"
        assert second["passage"]["text"] == "Unlike them [1], we keep a zebra."
        assert first["reference"] == "A. Lovelace. Sorting networks. arXiv:2301.00001, 2023."

    def test_what_it_says_of_others(self, get: Get) -> None:
        content = get(SORTING, "citation-contexts", direction="references").json()
        held, other = content["results"]
        assert held["paper"]["id"] == MERGING
        assert held["passage"]["text"] == "Sorting networks compare keys in a fixed order [1]."
        assert "paper" not in other
        assert other["mark"] == "[2]"
        assert other["reference"] == "D. E. Knuth. The Art of Computer Programming. 1998."
        text = get(SORTING, "citation-contexts", direction="references", format="text").text
        assert "2. a paper that the library does not hold" in text
        assert "   Reference [2]: D. E. Knuth. The Art of Computer Programming. 1998." in text

    def test_a_paper_that_was_not_there_yet_is_not_cited_nor_citing(self, get: Get) -> None:
        assert get(SORTING, "citation-contexts", as_of="2023-01-15").json()["total"] == 0
        content = get(SORTING, "citation-contexts", as_of="2023-01-15", direction="references").json()
        assert [hit.get("paper") for hit in content["results"]] == [None, None]

    def test_pages_and_sizes(self, get: Get) -> None:
        first = get(SORTING, "citation-contexts", limit=1).json()
        assert (first["total"], first["next_offset"]) == (2, 1)
        second = get(SORTING, "citation-contexts", limit=1, offset=1).json()
        assert second["next_offset"] is None
        assert [*first["results"], *second["results"]] == get(SORTING, "citation-contexts").json()["results"]
        sized = get(SORTING, "citation-contexts", max_tokens=250).json()
        assert sized["left_out"]["citation_marks"] == 1

    def test_a_paper_without_a_text_can_be_cited(self, get: Get) -> None:
        assert get(ABSTRACT_ONLY, "citation-contexts").json()["total"] == 0
        assert "no full text" in detail(get(ABSTRACT_ONLY, "citation-contexts", direction="references"), 404)


class TestErrors:
    def test_a_paper_or_a_text_that_is_not_held(self, get: Get) -> None:
        for part in ("text", "find", "passages", "pages/1"):
            q = {"q": "zebra"} if part in ("find", "passages") else {}
            response = get(ABSTRACT_ONLY, part, **q)
            assert f"has no full text of {ABSTRACT_ONLY!r}" in detail(response, 404)
            assert response.json()["type"].endswith("#document-not-found")
            response = get("arXiv:2401.99999", part, **q)
            assert "No paper 'arXiv:2401.99999'" in detail(response, 404)
            assert response.json()["type"].endswith("#paper-not-found")
        assert f"has no PDF of {SORTING!r} (only unarxive)" in detail(get(SORTING, "pages/1"), 404)
        said = detail(get(SORTING, "text", version=7), 404)
        assert said == f"This library has no version 7 of the text of {SORTING!r}, only version 1, 2."

    def test_a_section_that_is_not_there(self, get: Get) -> None:
        for section in ("Conclusion", "#9", "7.1"):
            said = detail(get(SORTING, "text", section=section), 400)
            assert f"has no section {section!r}: it has 'Abstract', '1 Introduction'" in said

    def test_offsets_behind_the_end(self, get: Get) -> None:
        said = detail(get(SORTING, "text", from_offset=len(SORTING_TEXT)), 400)
        assert f"its text has {len(SORTING_TEXT)} characters" in said
        said = detail(get(SORTING, "text", section="2", from_offset=0), 400)
        assert "the section from" in said

    def test_limits_and_unknown_parameters_are_sentences(self, url: str, get: Get) -> None:
        parameters: tuple[tuple[str, dict[str, Any], str], ...] = (
            ("text", {"section": " "}, "section is empty"),
            ("text", {"version": 0}, "version is 0"),
            ("text", {"q": "zebra"}, "Unknown parameter 'q'"),
            ("find", {"q": "a" * 1001}, "q has 1,001 characters"),
            ("find", {"q": "a", "context": 2001}, "context is 2001"),
            ("passages", {"q": "a", "engine": "fts5"}, "engine is 'fts5'"),
            ("passages", {"q": "a", "fields": "colour"}, "colour"),
            ("citation-contexts", {"version": 2}, "version 2 applies to what a paper says of others"),
            ("pages/0", {}, "page is 0"),
            ("pages/1", {"box": "1,2,3"}, "box is"),
        )
        for part, values, sentence in parameters:
            assert sentence in detail(get(SORTING, part, **values), 400)
        bodies: tuple[tuple[dict[str, Any], int, str], ...] = (
            ({"q": "a", "limit": 10, "offset": 991}, 400, "end after passage 1,000"),
            ({"q": "a", "chunker": "paragraphs"}, 400, "'chunker'"),
            ({"q": "a", "within": ["arXiv:2401.99999"]}, 404, "No paper 'arXiv:2401.99999'"),
        )
        for body, status, sentence in bodies:
            assert sentence in detail(httpx.post(f"{url}/v1/passages/search", json=body), status)

    def test_a_library_without_full_texts(self, sample: Library) -> None:
        paper = "arXiv:hep-th/9301068"
        with serving_in_thread(sample, sessions="none") as url:
            for part in ("text", "find?q=a", "passages?q=a", "citation-contexts", "pages/1"):
                response = httpx.get(f"{url}/v1/papers/{paper}/{part}")
                assert "has no full texts: ingest it with --documents" in detail(response, 404)
            response = httpx.post(f"{url}/v1/passages/search", json={"q": "a"})
            assert "has no full texts" in detail(response, 404)
