import calendar
import datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scholarbase.errors import InvalidRequest
from scholarbase.models.arguments import search_request, search_requests
from scholarbase.models.checks import check_ids, date_bounds
from scholarbase.models.limits import MAX_IDS
from scholarbase.models.papers import PAPER_FIELDS, Author, Paper, check_fields
from scholarbase.models.requests import Filters, SearchRequest
from scholarbase.models.responses import (
    CitationsResponse,
    ExpandResponse,
    SearchResponse,
    SimilarResponse,
    TitleMatchResponse,
)
from scholarbase.search.library import Library

PAPER = Paper(
    id="arXiv:1706.03762",
    corpus_id=13756489,
    external_ids={"arXiv": "1706.03762", "CorpusId": "13756489"},
    title="Attention Is All You Need",
    authors=(Author("Ashish Vaswani", "40348417"), Author("Noam Shazeer")),
    year=2017,
    categories=("cs.CL", "cs.LG"),
)


def test_a_paper_survives_json() -> None:
    assert Paper.from_dict(orjson.loads(orjson.dumps(PAPER.to_dict()))) == PAPER
    assert list(PAPER.to_dict()) == list(PAPER_FIELDS)
    assert PAPER.to_dict(["id", "year"]) == {"id": "arXiv:1706.03762", "year": 2017}
    # Unknown keys of a newer server are ignored.
    assert Paper.from_dict(PAPER.to_dict() | {"influence": 9}) == PAPER
    with pytest.raises(AttributeError, match="immutable"):
        PAPER.year = 2018  # type: ignore[misc]


@pytest.mark.parametrize("fields", [None, ["id"], ["authors", "title"]])
def test_responses_survive_json(sample: Library, fields: list[str] | None) -> None:
    name = "arXiv:hep-th/9302103"
    responses: list[tuple[Any, Any]] = [
        (SearchResponse, sample.search("string theory", fields=fields, explain=True)),
        (SearchResponse, sample.search("nothing has this wordthatisnone AND x", fields=fields)),
        (TitleMatchResponse, sample.match_title("Two Dimensional QCD is a String Theory", fields=fields)),
        (CitationsResponse, sample.citations(name, fields=fields)),
        (SimilarResponse, sample.similar(name, fields=fields, explain=True)),
        (ExpandResponse, sample.expand([name], fields=fields)),
    ]
    for kind, response in responses:
        data = orjson.loads(orjson.dumps(response.to_dict()))
        assert kind.from_dict(data, check_fields(fields)) == response
        assert kind.from_dict(data).to_dict() == data


@given(st.dates(min_value=datetime.date(1, 1, 1)))
def test_the_bounds_of_dates_follow_the_calendar(day: datetime.date) -> None:
    number = day.year * 10_000 + day.month * 100 + day.day
    last = calendar.monthrange(day.year, day.month)[1]
    assert date_bounds(day.isoformat()) == (number, number)
    assert date_bounds(day.isoformat()[:7]) == (number - day.day + 1, number - day.day + last)
    assert date_bounds(day.isoformat()[:4]) == (day.year * 10_000 + 101, day.year * 10_000 + 1231)


@pytest.mark.parametrize(
    "text",
    ["", "23", "202", "20230", "2023-1", "2023-00", "2023-13", "2023-02-29", "2023-04-31", "2023-01-00", "2023-01-1",
     "2023/01", "0000", "٢٠٢٣", "2023-01-01T00:00", " 2023", "2023\n", 2023, None, -2023],
)  # fmt: skip
def test_other_forms_are_not_dates(text: Any) -> None:
    with pytest.raises(InvalidRequest, match="not a valid date for from: use YYYY"):
        date_bounds(text, "from")


def test_a_leap_day_is_a_date() -> None:
    assert date_bounds("2024-02-29") == (20240229, 20240229)
    assert date_bounds("1900-02")[1] == 19000228
    assert date_bounds("2000-02")[1] == 20000229


def test_fields_are_in_the_order_of_a_paper_with_its_id() -> None:
    assert check_fields(None) == PAPER_FIELDS
    assert check_fields([]) == ("id",)
    assert check_fields(["year", "title", "year"]) == ("id", "title", "year")
    with pytest.raises(InvalidRequest, match="'abstracts'"):
        check_fields(["title", "abstracts"])
    assert check_fields("title") == ("id", "title")
    assert check_fields("year, title") == ("id", "title", "year")


def test_lists_of_ids() -> None:
    assert check_ids([], "within") == ()
    assert check_ids(["a"] * MAX_IDS, "within") == ("a",) * MAX_IDS
    assert check_ids("arXiv:1706.03762", "within") == ("arXiv:1706.03762",)
    for wrong in (17, [1706], ["a"] * (MAX_IDS + 1), ["\udc80"]):
        with pytest.raises(InvalidRequest, match="within"):
            check_ids(wrong, "within")  # type: ignore[arg-type]


def test_filters_accept_one_value_or_several_and_reject_empty_ones() -> None:
    assert Filters(category="cs.CL", venue=["ACL", "EMNLP"]) == Filters(
        category=("cs.CL",), venue=("ACL", "EMNLP")
    )  # type: ignore[arg-type]
    assert Filters(category="cs.CL, cs.LG") == Filters(category=["cs.CL", "cs.LG"])  # type: ignore[arg-type]
    for wrong in ({"category": ("",)}, {"venue": (" ",)}, {"min_citations": -1}, {"min_citations": 1.5}):
        with pytest.raises(InvalidRequest, match=next(iter(wrong))):
            Filters(**wrong)  # type: ignore[arg-type]


def test_a_request_is_created_from_the_arguments_of_a_search() -> None:
    made = search_request("x", limit=5, from_="2023", fields=["title"], exclude_ids=["arXiv:1706.03762"])
    filters = {"from_": "2023", "exclude_ids": ("arXiv:1706.03762",)}
    assert made == SearchRequest(q="x", limit=5, fields=("id", "title"), **filters)
    assert search_requests([made, {"q": "y"}]) == [made, SearchRequest(q="y")]
    with pytest.raises(InvalidRequest, match="Unknown argument 'sort'"):
        search_request("x", sort="date")
    with pytest.raises(InvalidRequest, match=r"^In the search 'y': limit is 0"):
        search_requests([{"q": "x"}, {"q": "y", "limit": 0}])
    with pytest.raises(InvalidRequest, match=r"^In the search '(x){79}\.\.\.: limit is 0"):
        search_requests([{"q": "x" * 500, "limit": 0}])
    with pytest.raises(InvalidRequest, match="In the search None: q is"):
        search_requests([{"limit": 3}])
    with pytest.raises(InvalidRequest, match="A batch contains 'string theory'"):
        search_requests(["string theory"])  # type: ignore[list-item]


def test_a_request_rejects_invalid_values() -> None:
    for wrong in (
        {"q": ""}, {"q": "x" * 10_001}, {"mode": "both"}, {"engine": "bm52"}, {"limit": 0}, {"limit": 1001},
        {"limit": 1.0}, {"offset": -1}, {"offset": True}, {"exact": 1}, {"explain": None}, {"partial": "yes"},
        {"fields": ("x",)},
    ):  # fmt: skip
        with pytest.raises(InvalidRequest, match=next(iter(wrong))):
            SearchRequest(**{"q": "x", **wrong})  # type: ignore[arg-type]
    assert SearchRequest(q="x" * 10_000, limit=1000, offset=0)
