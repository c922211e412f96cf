"""``as_of``: what a library answers as of a day is what one of only the papers of then would answer.

Expected values come from the raw records' own dates, and from libraries that are really built of the earlier records
alone.
"""

import calendar
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from scholarbase.api.app import create_app
from scholarbase.errors import InvalidRequest, NothingLeft, PaperNotFound
from scholarbase.models.checks import check_sort
from scholarbase.models.requests import Filters
from scholarbase.search.library import Library
from tests.conftest import sample_edges, sample_rows
from tests.libraries import opened_library

QUERIES = [
    "gauge theory",
    "string",
    "black hole entropy",
    "string NOT gauge",
    '"conformal field theory"',
    "the of",
]


def day_number(as_of: str) -> int:
    """The last day of a date, as a number ``yyyymmdd``."""
    year, month, *day = map(int, as_of.split("-"))
    return year * 10000 + month * 100 + (day[0] if day else calendar.monthrange(year, month)[1])


def last_day(row: dict[str, Any]) -> int | None:
    """The last day on which the paper of a record may have come out."""
    if row["publicationdate"]:
        return int(row["publicationdate"].replace("-", ""))
    return row["year"] * 10000 + 1231 if row["year"] else None


def world() -> list[dict[str, Any]]:
    """The sample's Semantic Scholar records. Of some only the year is known, and of some nothing."""
    abstracts = {row["corpusid"]: row["abstract"] for row in sample_rows("abstracts")}
    rows = []
    for number, row in enumerate(sample_rows("papers")):
        row["abstract"] = abstracts.get(row["corpusid"])
        if number % 7 == 0:
            row["publicationdate"] = None
        if number % 29 == 0:
            row["publicationdate"] = row["year"] = None
        if row["abstract"]:
            rows.append(row)
    return rows


ROWS = world()
EDGES = sorted(sample_edges())
DAY: dict[str, int | None] = {f"arXiv:{row['externalids']['ArXiv']}": last_day(row) for row in ROWS}
NAME = {row["corpusid"]: f"arXiv:{row['externalids']['ArXiv']}" for row in ROWS}
LINKS = [(NAME[a], NAME[b]) for a, b in EDGES if a in NAME and b in NAME]
DEGREES = Counter(name for link in LINKS for name in link)
HUBS = sorted(DAY, key=lambda name: (-DEGREES[name], name))[:12]


def existing(day: int) -> set[str]:
    return {name for name, last in DAY.items() if last is not None and last <= day}


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """A library of all the records."""
    folder = tmp_path_factory.mktemp("now")
    with opened_library(folder, ROWS, EDGES) as library:
        yield library


@pytest.fixture(scope="module")
def http(now: Library) -> Iterator[TestClient]:
    with TestClient(create_app(now)) as client:
        yield client


@pytest.fixture(scope="module", params=["1993-03", pytest.param("1994-07-15", marks=pytest.mark.slow)])
def then(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Library]]:
    """A day, and a library built of the records up to it alone."""
    day = day_number(request.param)
    rows = [row for row in ROWS if (last := last_day(row)) is not None and last <= day]
    held = {row["corpusid"] for row in rows}
    folder = tmp_path_factory.mktemp("then")
    edges = [(a, b) for a, b in EDGES if a in held and b in held]
    with opened_library(folder, rows, edges) as library:
        assert library.manifest.counts["papers"] == len(existing(day)) > 0
        yield request.param, library


# -- against a library of then ---------------------------------------------------------------------------------


def test_searches_find_what_was_there(now: Library, then: tuple[str, Library]) -> None:
    as_of, earlier = then
    options: dict[str, Any] = {"mode": "sparse", "exact": True, "limit": 1000, "fields": ["id"]}
    for q, engine in product(QUERIES[:2], ("bm25", "fts5")):
        hits = now.search(q, as_of=as_of, engine=engine, **options)  # type: ignore[arg-type]
        expected = earlier.search(q, engine=engine, **options)  # type: ignore[arg-type]
        assert (hits.total, hits.total_relation) == (expected.total, expected.total_relation)
        if expected.total <= 1000:
            assert {h.paper.id for h in hits.results} == {h.paper.id for h in expected.results}


def scores(library: Library, q: str, engine: Any, **filters: Any) -> list[tuple[str, float]]:
    found = library.search(q, mode="sparse", engine=engine, limit=1000, fields=["id"], **filters)
    return [(hit.paper.id, hit.score) for hit in found.results]


@pytest.mark.parametrize("then", ["1993-03"], indirect=True)
def test_scores_are_those_of_a_library_of_then(now: Library, then: tuple[str, Library]) -> None:
    """Words were weighed by how rare they are in the whole library, later papers included.

    Document frequencies are those of the ends of months.
    """
    as_of, earlier = then
    titles = [row["title"] for row in ROWS if (last_day(row) or 9999_12_31) <= day_number(as_of)]
    filters: dict[str, Any]
    for engine, filters in product(("bm25", "feedback"), ({}, {"from_": "1992-03"})):
        differ = 0
        for q in [*QUERIES[:3], *titles[-3:]]:
            expected = scores(earlier, q, engine, **filters)
            assert scores(now, q, engine, as_of=as_of, **filters) == expected
            differ += scores(now, q, engine, to=as_of, **filters) != expected
        assert differ  # other filters by date leave the weights as they are


def test_within_a_month_words_weigh_as_at_its_start(now: Library) -> None:
    for q in QUERIES[:3]:
        before = dict(scores(now, q, "bm25", as_of="1994-06"))
        within = dict(scores(now, q, "bm25", as_of="1994-07-15"))
        assert before.items() < within.items()


def test_titles_match_what_was_there(now: Library, then: tuple[str, Library]) -> None:
    as_of, earlier = then
    titles = [row["title"] for row in ROWS[::23]]
    titles += [title.replace("e", "x", 2) for title in titles[::3]] + [
        title.rpartition(" ")[0] or title for title in titles[::4]
    ]
    for title in titles:
        found = {
            (m.score, m.paper.id)
            for m in now.match_title(title, limit=100, as_of=as_of, min_score=0.5).results
        }
        expected = {
            (m.score, m.paper.id) for m in earlier.match_title(title, limit=100, min_score=0.5).results
        }
        assert expected <= found, title
        assert {name for _, name in found} <= existing(day_number(as_of))


def test_look_ups_find_what_was_there(now: Library, then: tuple[str, Library]) -> None:
    as_of, earlier = then
    names = sorted(DAY)
    found = [paper and paper.id for paper in now.papers(names, as_of=as_of, fields=["title"])]
    assert found == [paper and paper.id for paper in earlier.papers(names, fields=["title"])]
    for name in names[::40]:
        if name in existing(day_number(as_of)):
            assert now.paper(name, as_of=as_of).title == earlier.paper(name).title
        else:
            with pytest.raises(PaperNotFound, match=f"not exist as of {as_of}: published later"):
                now.paper(name, as_of=as_of)
            with pytest.raises(PaperNotFound, match="No paper"):
                earlier.paper(name)


def test_edges_lead_to_what_was_there(now: Library, then: tuple[str, Library]) -> None:
    as_of, earlier = then
    for name in HUBS:
        for way in ("citations", "references"):
            ask: Callable[..., Any] = getattr(now, way)
            if name not in existing(day_number(as_of)):
                with pytest.raises(PaperNotFound, match="as of"):
                    ask(name, as_of=as_of)
                continue
            found, expected = (
                ask(name, as_of=as_of, limit=1000),
                getattr(earlier, way)(name, sort="-date", limit=1000),
            )
            assert found.total == expected.total
            assert [c.paper.id for c in found.results] == [c.paper.id for c in expected.results]
            assert ask(name, as_of=as_of, limit=1).total == expected.total


def test_walks_go_over_what_was_there(now: Library, then: tuple[str, Library]) -> None:
    as_of, earlier = then
    there = existing(day_number(as_of))
    seeds = [name for name in HUBS if name in there] or sorted(there)
    for direction, hops in product(("both", "citations", "references"), (1, 2)):
        options: dict[str, Any] = {"direction": direction, "hops": hops, "limit": 1000}
        walked, expected = now.expand(seeds, as_of=as_of, **options), earlier.expand(seeds, **options)
        assert walked.total == expected.total < 1000
        assert {n.paper.id: (n.seeds, n.hops) for n in walked.results} == {
            n.paper.id: (n.seeds, n.hops) for n in expected.results
        }


def test_meaning_finds_what_was_there(dense: Library) -> None:
    for way in ({"mode": "dense"}, {"mode": "hybrid"}, {"mode": "hybrid", "engine": "fts5"}):
        asked: dict[str, Any] = {**way, "exact": True, "limit": 1000, "fields": ["publication_date", "year"]}
        every = [hit.paper for hit in dense.search("quantum gravity", **asked).results]
        then = {p.id for p in every if (p.publication_date or f"{p.year}-12-31") <= "1993-06-30"}
        hits = dense.search("quantum gravity", as_of="1993-06", **asked)
        assert {hit.paper.id for hit in hits.results} == then
        assert 10 < hits.total == len(then) < len(every)


# -- any day, over every route -------------------------------------------------------------------------------------

AS_OF = st.one_of(
    st.dates(date(1992, 1, 1), date(2003, 1, 1)).map(date.isoformat),
    st.dates(date(1992, 1, 1), date(1995, 1, 1)).map(lambda day: day.isoformat()[:7]),
)


def papers_in(content: Any) -> Iterator[dict[str, Any]]:
    """Every paper that an answer holds, wherever it stands."""
    if isinstance(content, dict):
        if "id" in content:
            yield content
        for value in content.values():
            yield from papers_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from papers_in(value)


def calls(as_of: str, q: str, title: str, name: str, known: list[str]) -> Iterator[tuple[str, str, Any]]:
    """Every route that takes ``as_of``, asked in each of its ways."""
    path = f"/v1/papers/{name}"
    for engine in ("bm25", "feedback", "fts5"):
        search = {"q": q, "engine": engine, "limit": 50, "as_of": as_of, "explain": True}
        yield "GET", "/v1/search", search
        yield "POST", "/v1/search", search | {"exact": True, "within": known, "to": "1999"}
        yield "POST", "/v1/search/batch", {"searches": [search, search | {"offset": 50, "from": "1992"}]}
    yield "GET", "/v1/title-match", {"title": title, "as_of": as_of, "min_score": 0.3, "limit": 50}
    yield "POST", "/v1/title-match/batch", {"titles": [title, q], "as_of": as_of, "min_score": 0.3}
    yield "GET", path, {"as_of": as_of}
    yield "POST", "/v1/papers/batch", {"ids": HUBS, "as_of": as_of}
    for sort in ({}, {"sort": "date"}, {"limit": 2, "offset": 1}):
        yield "GET", f"{path}/citations", {"as_of": as_of, **sort}
        yield "GET", f"{path}/references", {"as_of": as_of, **sort}
    yield "GET", f"{path}/similar", {"as_of": as_of, "limit": 50}
    for hops in (1, 2):
        yield "POST", "/v1/expand", {"seeds": known or [name], "as_of": as_of, "hops": hops, "limit": 1000}


def tool_calls(q: str, title: str, name: str, known: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every tool, asked in each of its ways."""
    for engine in ("bm25", "fts5"):
        yield "search_papers", {"q": q, "engine": engine, "limit": 50, "explain": True}
    yield "search_papers", {"q": q, "max_tokens": 2000, "limit": 50, "exclude": ["gauge"]}
    yield "match_titles", {"titles": [title, q], "min_score": 0.3}
    yield "get_papers", {"ids": HUBS}
    yield "get_citations", {"paper_id": name, "max_tokens": 1000}
    yield "get_references", {"paper_id": name}
    for hops in (1, 2):
        yield "expand_papers", {"seeds": known or [name], "hops": hops, "limit": 1000}


def answered(http: TestClient, method: str, path: str, content: Any, **headers: str) -> httpx.Response:
    sent = {"params": content} if method == "GET" else {"json": content}
    return http.request(method, path, headers=headers, **sent)


def check_answer(response: httpx.Response, path: str, name: str, known: list[str], as_of: str) -> None:
    """A route returns and counts only papers of the day, or names the paper that is later."""
    there = existing(day_number(as_of))
    if not there:
        assert response.status_code == 400
        assert response.json()["type"].endswith("#nothing-left")
        assert "give a later date" in response.json()["detail"]
        return
    if (path.startswith(f"/v1/papers/{name}") or (path == "/v1/expand" and not known)) and name not in there:
        assert response.status_code == 404
        assert f"{name!r} does not exist as of {as_of}" in response.json()["detail"]
        return
    assert response.status_code == 200, response.text
    body = response.json()
    for paper in papers_in(body):
        assert paper["id"] in there
        assert paper["citation_count"] is None
        assert paper["reference_count"] is None
    for part in [body, *body["results"]] if path.endswith("/search/batch") else [body]:
        assert part.get("total", 0) <= len(there)
    if path.endswith("/citations"):
        assert body["total"] == sum(cited == name and citing in there for citing, cited in LINKS)
    if path.endswith("/references"):
        assert body["total"] == sum(citing == name and cited in there for citing, cited in LINKS)


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    as_of=AS_OF,
    q=st.sampled_from(QUERIES),
    row=st.sampled_from(ROWS),
    name=st.one_of(st.sampled_from(HUBS), st.sampled_from(sorted(DAY))),
)
@pytest.mark.slow
def test_no_route_and_no_tool_gives_what_is_later_and_a_session_gives_the_same(
    http: TestClient, as_of: str, q: str, row: dict[str, Any], name: str
) -> None:
    there = existing(day_number(as_of))
    known = [hub for hub in HUBS if hub in there]
    opened = http.post("/v1/sessions", json={"as_of": as_of})
    assert opened.status_code == 201
    session = {"X-ScholarBase-Session": opened.json()["session"]}
    for method, path, content in calls(as_of, q, row["title"], name, known):
        told = answered(http, method, path, content)
        check_answer(told, path, name, known, as_of)
        without = {key: value for key, value in content.items() if key != "as_of"}
        if "searches" in content:
            kept = [{k: v for k, v in one.items() if k != "as_of"} for one in content["searches"]]
            without["searches"] = kept
        in_session = answered(http, method, path, without, **session)
        assert (in_session.status_code, in_session.json()) == (told.status_code, told.json()), path
    for tool, arguments in tool_calls(q, row["title"], name, known):
        told = http.post(f"/v1/tools/{tool}", json=arguments | {"as_of": as_of})
        in_session = http.post(f"/v1/tools/{tool}", json=arguments, headers=session)
        assert (in_session.status_code, in_session.json()) == (told.status_code, told.json()), tool
        if told.status_code != 200:
            assert told.status_code == (404 if there else 400), told.text
            continue
        for paper in papers_in(told.json()):
            assert paper["id"] in there, tool
            assert paper.get("citation_count") is None, tool
        text = http.post(f"/v1/tools/{tool}", json=arguments | {"as_of": as_of, "format": "text"}).text
        shown = [
            line.split()[0] for line in text.splitlines() if line.strip().startswith(("arXiv:", "CorpusId:"))
        ]
        assert there.issuperset(shown), tool
        assert "; cited by " not in text
    for line in http.get(f"/v1/sessions/{opened.json()['session']}").text.splitlines():
        kept = httpx.Response(200, content=line).json()
        assert set(kept["ids"]) <= there
        assert kept["arguments"].get("as_of") == as_of or "error" in kept or "searches" in kept["arguments"]


# -- what is asked wrongly -----------------------------------------------------------------------------------------


def test_nothing_was_there_before_the_first_paper(now: Library) -> None:
    first = min(day for day in DAY.values() if day is not None)
    text = f"{first // 10000}-{first // 100 % 100:02}-{first % 100:02}"
    assert now.paper(next(name for name, day in DAY.items() if day == first), as_of=text)
    for as_of in ("1900-01", text[:8] + f"{first % 100 - 1:02}"):
        asks: list[Callable[[], Any]] = [
            lambda as_of=as_of: now.search("gauge", as_of=as_of),
            lambda as_of=as_of: now.match_title("gauge", as_of=as_of),
            lambda as_of=as_of: now.papers([HUBS[0]], as_of=as_of),
            lambda as_of=as_of: list(now.iter_citations(HUBS[0], as_of=as_of)),
        ]
        for ask in asks:
            with pytest.raises(NothingLeft) as raised:
                ask()
            assert f"as_of '{as_of}' is before every paper of this library" in str(raised.value)
            assert text not in str(raised.value)


def test_without_a_date_nothing_was_ever_there(tmp_path: Path) -> None:
    row = {"corpusid": 1, "title": "x", "abstract": "y", "externalids": {"ArXiv": "0801.0001"}}
    with opened_library(tmp_path, [row]) as library:
        for _ in range(2):
            with pytest.raises(NothingLeft):
                library.search("x", as_of="9999-12")
        assert library.search("x").total == 1


def test_a_year_alone_counts_only_when_it_is_over_and_no_date_never(now: Library) -> None:
    of_the_year = next(
        name for name, day in DAY.items() if day == 19931231 and now.paper(name).publication_date is None
    )
    with pytest.raises(PaperNotFound):
        now.paper(of_the_year, as_of="1993-12-30")
    assert now.paper(of_the_year, as_of="1993-12").year == 1993
    undated = next(name for name, day in DAY.items() if day is None)
    assert now.paper(undated)
    with pytest.raises(PaperNotFound, match="or on an unknown day"):
        now.paper(undated, as_of="9999-12")


def test_dates_meet(now: Library) -> None:
    asked: dict[str, Any] = {"engine": "fts5", "fields": ["id"], "limit": 1000}
    assert (
        now.search("gauge", to="1993-06", as_of="1994-01", **asked).to_dict()
        == now.search("gauge", to="1993-06", **asked).to_dict()
    )
    assert (
        now.search("gauge", to="2003", as_of="1993-06", **asked).to_dict()
        == now.search("gauge", to="1993-06", **asked).to_dict()
    )
    with pytest.raises(
        InvalidRequest, match=r"from '1994' is later than as_of '1993-06': no paper can match both"
    ):
        now.search("gauge", from_="1994", as_of="1993-06")
    with pytest.raises(InvalidRequest, match=r"from '1994' is later than to '1993'"):
        Filters(from_="1994", to="1993", as_of="1992-06")


def test_counts_of_today_are_neither_told_nor_asked_for(now: Library) -> None:
    name = next(hub for hub in HUBS if hub in existing(19940131))
    assert now.paper(name).citation_count is not None
    assert now.paper(name, as_of="1994-01").citation_count is None
    with pytest.raises(InvalidRequest, match="min_citations 5 cannot be combined with as_of '1994-01'"):
        now.search("gauge", min_citations=5, as_of="1994-01")
    for sort in ("citation_count", "-citation_count"):
        with pytest.raises(
            InvalidRequest, match=r"cannot be combined with as_of '1994-01'.*'-date' or 'date'"
        ):
            now.citations(name, sort=sort, as_of="1994-01")  # type: ignore[arg-type]
    assert check_sort(None) == "-citation_count"
    assert check_sort(None, "1994-01") == "-date"
    asked: dict[str, Any] = {"limit": 1000, "as_of": "1994-01"}
    assert now.citations(name, **asked) == now.citations(name, sort="-date", **asked)


def test_every_id_of_a_call_must_be_there(now: Library) -> None:
    there = next(hub for hub in HUBS if hub in existing(19930630))
    later = next(name for name in DAY if name not in existing(19930630))
    asks: list[Callable[[], Any]] = [
        lambda: now.search("gauge", within=[there, later], as_of="1993-06"),
        lambda: now.expand([there, later], as_of="1993-06"),
        lambda: now.expand([there], within=[later], as_of="1993-06"),
        lambda: now.search_batch([{"q": "gauge", "within": [later], "as_of": "1993-06"}]),
        lambda: list(now.iter_references(later, as_of="1993-06")),
    ]
    for ask in asks:
        with pytest.raises(PaperNotFound, match=f"{later!r} does not exist as of 1993-06"):
            ask()
    with pytest.raises(PaperNotFound, match=r"No paper 'CorpusId:999' in this library"):
        now.search("gauge", within=[later, "CorpusId:999"], as_of="1993-06")


# -- from outside --------------------------------------------------------------------------------------------------


def test_what_authors_change_later_was_not_known(sample: Library) -> None:
    fields = ["comment", "versions", "update_date"]
    paper = sample.paper("arXiv:hep-th/9301068", fields=fields)
    assert all((paper.comment, paper.versions, paper.update_date))
    then = sample.paper("arXiv:hep-th/9301068", fields=fields, as_of="1993-06")
    assert (then.comment, then.versions, then.update_date) == (None, (), None)
