"""arXiv's metadata, from a server that speaks OAI-PMH as arXiv's does."""

import gzip
import random
from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode
from xml.etree import ElementTree as ET

import pytest

from scholarbase.errors import DownloadError, InvalidRequest
from scholarbase_download.arxiv import download_arxiv
from tests.extensions.download.servers import QUICK, Reply, Request, Web, contents, run_killed

OAI = "{http://www.openarchives.org/OAI/2.0/}"
TODAY = date(2026, 11, 23)


def record(identifier: str, day: str, *, deleted: bool = False) -> str:
    status = " status='deleted'" if deleted else ""
    header = f"<header{status}><identifier>{identifier}</identifier><datestamp>{day}</datestamp></header>"
    noise = random.Random(identifier).randbytes(150).hex()
    versions = (
        "<version version='v1'><size>1kb</size></version><version version='v2'><size>2kb</size></version>"
    )
    raw = f"<arXivRaw xmlns='http://arxiv.org/OAI/arXivRaw/'>{versions}<title>π &amp; {noise}</title></arXivRaw>"
    return f"<record>\n{header}{'' if deleted else f'<metadata>{raw}</metadata>'}\n</record>"


class Repository:
    """Lists sorted by datestamp and identifier. A token has the query and the number of records to skip, as arXiv's:
    after a page that ends within a later day, ``from`` is that day, and only records of that day are counted.
    """

    def __init__(self) -> None:
        # 100 records in 8 days; the third has 40 of them, more than a page.
        days = [f"2026-11-{10 + n:02}" for n in range(8)]
        counts = [5, 12, 40, 3, 9, 11, 13, 7]
        self.records = [
            (day, f"oai:arXiv.org:26{number:02}.{n:05}", (number + n) % 17 == 0)
            for number, day in enumerate(days)
            for n in range(counts[number])
        ]
        self.page = 12
        self.generation = 0
        self.dead_at: set[int] = set()
        """Numbers of requests with a token at which all tokens die."""
        self.faults: list[Reply] = []
        self.is_sorted = True
        self.always_dead = False
        self.repeats = False
        self._with_token = 0
        self.web = Web(self._answer)

    def _answer(self, request: Request) -> Reply:
        query = request.query
        if self.faults:
            return self.faults.pop(0)
        if query["verb"] == "Identify":
            return self.document("<Identify><earliestDatestamp>2005-09-16</earliestDatestamp></Identify>")
        skip = 0
        if "resumptionToken" in query:
            if set(query) != {"verb", "resumptionToken"}:
                return self.document("<error code='badArgument'>exclusive</error>")
            self._with_token += 1
            if self._with_token in self.dead_at:
                self.generation += 1
            parsed = {name: values[0] for name, values in parse_qs(unquote(query["resumptionToken"])).items()}
            if int(parsed.pop("generation")) != self.generation or self.always_dead:
                return self.document("<error code='badResumptionToken'>expired</error>")
            skip, query = int(parsed.pop("skip")), parsed
        assert query["metadataPrefix"] in {"arXivRaw", "arXiv"}
        matching = [r for r in self.records if query["from"] <= r[0] <= query["until"]]
        matching = [r for r in matching if query.get("set") in {None, "cs"}]
        matching.sort(key=lambda r: (r[0], r[1]) if self.is_sorted else (r[1][-5:], r[1]))
        shown, rest = matching[skip : skip + self.page], matching[skip + self.page :]
        if not shown:
            return self.document("<error code='noRecordsMatch'/>")
        token = ""
        if rest:
            last = rest[0][0]
            following = {**query, "skip": str(skip + self.page), "generation": str(self.generation)}
            if self.is_sorted and last != shown[0][0]:
                following |= {"from": last, "skip": str(sum(r[0] == last for r in shown))}
            text = quote(urlencode(following))
            token = f"<resumptionToken expires='2026-11-24T00:00:00Z'>{text}</resumptionToken>"
        if self.repeats and "resumptionToken" in request.query:
            token = f"<resumptionToken>{request.query['resumptionToken']}</resumptionToken>"
        body = "\n".join(record(identifier, day, deleted=gone) for day, identifier, gone in shown)
        return self.document(f"<ListRecords>{body}{token}</ListRecords>")

    @staticmethod
    def document(inner: str) -> Reply:
        text = (
            "<?xml version='1.0' encoding='UTF-8'?>\n<OAI-PMH xmlns='http://www.openarchives.org/OAI/2.0/'>"
            f"<responseDate>2026-11-23T00:00:00Z</responseDate>{inner}</OAI-PMH>"
        )
        return Reply(text.encode(), headers={"Content-Type": "text/xml"})

    def download(self, out: Path, **options: Any) -> Path | None:
        options = {"pause": 0.0, "today": TODAY, "patience": QUICK, "first": "2026-11-01"} | options
        return download_arxiv(out, base_url=f"{self.web.url}/oai", **options)


@pytest.fixture
def repository() -> Iterator[Repository]:
    found = Repository()
    with found.web.running():
        yield found


def stored(folder: Path) -> list[tuple[str, str, bool]]:
    """The records of all pages, in their order, as another XML parser reads them."""
    found = []
    for path in sorted(folder.rglob("*.xml.gz")):
        for entry in ET.fromstring(gzip.decompress(path.read_bytes())).iter(f"{OAI}record"):
            header = entry.find(f"{OAI}header")
            assert header is not None
            assert len(entry.findall(".//{http://arxiv.org/OAI/arXivRaw/}version")) == 2 * (not header.attrib)
            day, identifier = header.findtext(f"{OAI}datestamp"), header.findtext(f"{OAI}identifier")
            found.append((str(day), str(identifier), header.get("status") == "deleted"))
    return found


def test_all_records_are_stored_with_versions_and_withdrawals(repository: Repository, tmp_path: Path) -> None:
    folder = repository.download(tmp_path)
    assert folder == tmp_path / "arXivRaw" / "2026-11-01..2026-11-22"
    assert sorted(contents(folder)) == [f"pages/{n:06}.xml.gz" for n in range(1, 10)]
    assert stored(tmp_path) == repository.records
    assert sum(gone for _, _, gone in stored(tmp_path)) > 3
    assert repository.web.connections == 1


def test_the_next_harvest_begins_a_day_later(repository: Repository, tmp_path: Path) -> None:
    repository.download(tmp_path)
    assert repository.download(tmp_path) is None
    repository.records.append(("2026-11-23", "oai:arXiv.org:2601.00001", False))
    repository.records.append(("2026-11-24", "oai:arXiv.org:2602.00001", False))
    folder = repository.download(tmp_path, today=date(2026, 11, 25), first=None)
    assert folder == tmp_path / "arXivRaw" / "2026-11-23..2026-11-24"
    assert stored(folder) == repository.records[-2:]


def test_until_is_that_of_the_first_run(repository: Repository, tmp_path: Path) -> None:
    repository.faults = [Reply(status=500)] * 5
    with pytest.raises(DownloadError, match="returned 500, after 5 attempts"):
        repository.download(tmp_path)
    assert (
        repository.download(tmp_path, today=date(2026, 12, 5))
        == tmp_path / "arXivRaw" / "2026-11-01..2026-11-22"
    )


@pytest.mark.slow
def test_a_set_is_requested(repository: Repository, tmp_path: Path) -> None:
    repository.download(tmp_path / "cs", set_="cs")
    assert stored(tmp_path / "cs") == repository.records
    repository.download(tmp_path / "math", set_="math:math:AG")
    assert stored(tmp_path / "math") == []
    with pytest.raises(InvalidRequest, match=r"is a harvest of .*, cs: use another folder"):
        repository.download(tmp_path / "cs")


def test_invalid_options_are_refused(repository: Repository, tmp_path: Path) -> None:
    for options in ({"form": "oai_dc"}, {"set_": "cs&verb=Identify"}, {"set_": ""}, {"first": "yesterday"}):
        with pytest.raises(InvalidRequest):
            repository.download(tmp_path, **options)
    assert repository.web.requests == []


@pytest.mark.parametrize("dead_at", [{2}, pytest.param({1, 2, 3, 4}, marks=pytest.mark.slow)])
def test_a_token_that_dies_loses_nothing_and_doubles_only_a_day(
    repository: Repository, tmp_path: Path, dead_at: set[int]
) -> None:
    repository.dead_at = dead_at
    repository.download(tmp_path)
    assert repository.generation == len(dead_at)
    days = Counter(stored(tmp_path))
    assert sorted(days) == repository.records
    doubled = {day for (day, *_), count in days.items() if count > 1}
    assert len(doubled) <= len(dead_at)


@pytest.mark.slow
def test_a_token_of_an_unsorted_list_that_dies_starts_over(repository: Repository, tmp_path: Path) -> None:
    repository.dead_at, repository.is_sorted = {4}, False
    repository.download(tmp_path)
    assert sorted(stored(tmp_path)) == repository.records


def test_errors_that_do_not_pass_are_named(tmp_path: Path) -> None:
    unknown = Repository.document("<error code='badArgument'>unknown set</error>")
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"always_dead": True}, "refuses its own resumption tokens"),
        ({"repeats": True}, "repeats its resumption token"),
        ({"faults": [Reply(status=503, headers={"Retry-After": "90000"})]}, "asks to wait 90,000 s"),
        ({"faults": [unknown]}, r"badArgument \(unknown set\)"),
    )
    for number, (change, message) in enumerate(cases):
        repository = Repository()
        vars(repository).update(change)
        with repository.web.running(), pytest.raises(DownloadError, match=message):
            repository.download(tmp_path / str(number))


@pytest.mark.slow
def test_requests_have_a_pause_between_them(repository: Repository, tmp_path: Path) -> None:
    repository.page = 40
    repository.faults = [Reply(status=500)]
    repository.download(tmp_path, pause=0.3)
    times = [request.time for request in repository.web.requests]
    assert len(times) == 4  # three pages, one of them requested twice
    assert all(later - earlier >= 0.29 for earlier, later in pairwise(times))


@pytest.mark.slow
def test_what_is_not_oai_pmh_is_an_error(repository: Repository, tmp_path: Path) -> None:
    for body, message in (
        (b"<html></html>", "first element is html"),
        (b"<OAI-PMH xmlns='http://www.openarchives.org/OAI/2.0/'><ListRecords><record>", "no element found"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><OAI-PMH>&b;</OAI-PMH>", "document type"),
        (b"<OAI-PMH xmlns='http://www.openarchives.org/OAI/2.0/'>" + b"<a>" * 200, "more than 100 elements"),
        (b"", "no element found"),
    ):
        repository.faults = [Reply(body)] * 3
        with pytest.raises(DownloadError, match=message):
            repository.download(tmp_path)
        assert contents(tmp_path) == {}
    repository.faults = [Reply(b"")] * 2
    repository.download(tmp_path)
    assert stored(tmp_path) == repository.records


def undisturbed(repository: Repository, out: Path) -> tuple[dict[str, bytes], int]:
    """The files of a harvest that nothing disturbs, and the bytes that were sent."""
    sent = repository.web.sent
    repository.download(out, today=date(2026, 11, 23))
    return contents(out), repository.web.sent - sent


@pytest.mark.slow
def test_a_harvest_killed_at_five_random_points(repository: Repository, tmp_path: Path) -> None:
    expected, total = undisturbed(repository, tmp_path / "undisturbed")
    script = f"""
from datetime import date
from pathlib import Path
from scholarbase_download.arxiv import download_arxiv
download_arxiv(Path({str(tmp_path / "killed")!r}), base_url={repository.web.url + "/oai"!r}, first="2026-11-01",
               pause=0, today=date(2026, 11, 23))
"""
    points = random.Random(7).choices(range(total // 9, total // 6), k=5)  # behind a whole page each
    assert run_killed(repository.web, script, "scholarbase_download.arxiv", points) == 5
    assert contents(tmp_path / "killed") == expected
