"""arXiv's metadata over OAI-PMH (https://info.arxiv.org/help/oa/): pages of records, with versions and withdrawals.

One harvest covers the datestamps from ``from`` to ``until``, days in UTC. Both are fixed in its first run: ``until`` is
the day before, since records of a day that is not over may still be changed. The next harvest begins a day later. A
resumption token holds for a day at most. With a dead one the list is requested again from the datestamp of the last
stored record: the records of that day are stored twice, and an ingest reads one of each.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from scholarbase.errors import DownloadError, InvalidRequest
from scholarbase.files import atomic_write, free_space, gzip_writer, storage_errors
from scholarbase.ingest.sources.oai import EMPTY, Malformed, Page, Record
from scholarbase.progress import Reporter, SilentReporter, Tracker
from scholarbase_download.batches import check_space, gigabytes, locked, read_state, write_state
from scholarbase_download.requests import Fetcher, Patience

BASE_URL: Final = "https://oaipmh.arxiv.org/oai"
FORMATS: Final = ("arXivRaw", "arXiv")
"""``arXivRaw`` has all versions of a paper, ``arXiv`` authors in parts and the licence."""
PAUSE: Final = 3.0
"""Seconds between two requests, as arXiv's terms of use ask."""
PAGES: Final = "pages"
_STATE: Final = ".harvest.json"
_ALL_BYTES: Final = 3_000_000_000
"""Bytes of arXiv's compressed records: 3.3 million in November 2026, of 900 bytes each."""
_SET: Final = re.compile(r"[a-z][a-zA-Z-]*(:[a-zA-Z-]+){0,2}")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_HARVEST: Final = re.compile(rf"({_DAY.pattern})\.\.({_DAY.pattern})")
_RESTARTS: Final = 5
"""Dead tokens in a row, without a new datestamp."""
_ATTEMPTS: Final = 3
"""Requests for a page that is cut off or damaged."""
_DEAD: Final = "badResumptionToken"

log = logging.getLogger("scholarbase.download")


@dataclass
class _State:
    """A harvest, as its hidden file has it.

    Attributes:
        first, until: its days, both inclusive.
        since: the ``from`` of the list that ``token`` continues; may be later than ``first`` after a dead token.
        token: the next page's; empty before the first page of a list.
        pages: stored pages.
        last: the datestamp of the last stored record.
        is_ordered: whether the datestamps of all stored records ascend.
    """

    url: str
    format: str
    set: str | None
    first: str
    until: str
    since: str
    token: str = ""
    pages: int = 0
    records: int = 0
    last: str = ""
    is_ordered: bool = True
    complete: bool = False


def download_arxiv(
    out: Path,
    *,
    form: str = "arXivRaw",
    set_: str | None = None,
    first: str | None = None,
    base_url: str = BASE_URL,
    pause: float = PAUSE,
    today: date | None = None,
    patience: Patience | None = None,
    reporter: Reporter | None = None,
) -> Path | None:
    """Harvest records to ``out/FORMAT/FROM..UNTIL/pages/000001.xml.gz`` and so on, as the server sent them.

    An unfinished harvest in ``out`` is continued; otherwise a new one begins with the day after the last.

    Args:
        form: the metadata format, one of ``FORMATS``.
        set_: a set such as ``cs`` or ``physics:hep-th``; by default all.
        first: the first datestamp of a first harvest; by default arXiv's earliest.
        pause: seconds between two requests.
        today: the current day in UTC.

    Returns:
        The folder of the harvest; None if there is no complete day since the last one.

    Raises:
        InvalidRequest: the format, set or date is invalid, or ``out`` has harvests of another set or address.
        DownloadError: the server fails or returns an error.
        StorageError: the disk has too little space.
    """
    _check_arguments(form, set_, first)
    yesterday = ((today or datetime.now(UTC).date()) - timedelta(days=1)).isoformat()
    with Fetcher(patience, pause=pause) as fetcher, locked(out):
        server = _Server(fetcher, base_url)
        states = list(_states(out / form))
        for path, state in states:
            if (state.url, state.set) != (base_url, set_):
                raise InvalidRequest(
                    f"{path} is a harvest of {state.url}, {state.set or 'all sets'}: use another folder."
                )
        if states and first not in {None, states[0][1].first}:
            raise InvalidRequest(
                f"The harvests in {out} begin with {states[0][1].first}, not with --from {first}: leave it out, or use "
                "another folder."
            )
        if states and not states[-1][1].complete:
            folder, state = states[-1]
            log.info("%s is not complete: continuing after %s records", folder, f"{state.records:,}")
        else:
            begin = _day_after(states[-1][1].until) if states else first or server.earliest()
            if begin > yesterday:
                return None
            folder = out / form / f"{begin}..{yesterday}"
            state = _State(base_url, form, set_, begin, yesterday, since=begin)
            check_space(out, _ALL_BYTES if not states and first is None else 0)
            log.info(
                "Records from %s to %s; %s free in %s", begin, yesterday, gigabytes(free_space(out)), out
            )
        with (reporter or SilentReporter()).stage(form, "records", None) as tracker:
            _Harvest(folder, state, server).run(tracker)
    return folder


def _day_after(day: str) -> str:
    return (date.fromisoformat(day) + timedelta(days=1)).isoformat()


def _check_arguments(form: str, set_: str | None, first: str | None) -> None:
    if form not in FORMATS:
        raise InvalidRequest(f"{form!r} is not a format: use {' or '.join(FORMATS)}.")
    if set_ is not None and not _SET.fullmatch(set_):
        raise InvalidRequest(
            f"{set_!r} is not a set: use a group, archive or category such as cs, physics:hep-th or cs:cs:CL."
        )
    try:
        date.fromisoformat(first or "2005-01-01")
    except ValueError as error:
        raise InvalidRequest(f"--from {first!r} is not a date of the form YYYY-MM-DD.") from error


def _states(folder: Path) -> Iterator[tuple[Path, _State]]:
    """The harvests in a folder, in the order of their days."""
    for path in sorted(folder.glob("*..*")):
        if _HARVEST.fullmatch(path.name) and (path / _STATE).exists():
            yield path, _State(**read_state(path / _STATE))


@dataclass(frozen=True)
class _Response:
    """A page: its bytes, its records and what follows it."""

    body: bytes
    page: Page
    records: list[Record]


class _Server:
    """The OAI-PMH interface."""

    def __init__(self, fetcher: Fetcher, url: str) -> None:
        self._fetcher, self.url = fetcher, url

    def earliest(self) -> str:
        """The earliest datestamp of the server."""
        datestamp = self._request({"verb": "Identify"}).page.earliest[:10]
        if not _DAY.fullmatch(datestamp):
            raise DownloadError(f"{self.url} does not state its earliest datestamp: give one with --from.")
        return datestamp

    def next(self, state: _State) -> _Response:
        """The next page of a harvest."""
        if state.token:
            return self._request({"verb": "ListRecords", "resumptionToken": state.token})
        query = {
            "verb": "ListRecords",
            "metadataPrefix": state.format,
            "from": state.since,
            "until": state.until,
        }
        return self._request(query | ({"set": state.set} if state.set else {}))

    def _request(self, query: dict[str, str]) -> _Response:
        """
        Raises:
            DownloadError: the response is not OAI-PMH, or has an error that a harvest cannot handle.
        """
        for attempts_left in range(_ATTEMPTS - 1, -1, -1):
            answer = self._fetcher.read(self.url, query)
            page = Page()
            try:
                page.read(answer.body)
                page.end()
                break
            except Malformed as error:
                if answer.status != 200 or not attempts_left:
                    raise DownloadError(
                        f"{self.url} returned {answer.status} and not a page of OAI-PMH ({error}): check the "
                        "address, or try again later."
                    ) from error
                log.warning("%s returned a page that is cut off or damaged (%s)", self.url, error)
        for code, text in page.errors:
            if code not in {_DEAD, EMPTY}:
                raise DownloadError(f"{self.url} returned the error {code} ({text[:300]}) for {query}.")
        if answer.status != 200 and not page.errors:
            raise DownloadError(f"{self.url} returned {answer.status}: try again later.")
        return _Response(answer.body, page, page.taken())


class _Harvest:
    """The pages of one harvest. A page is written before the state that counts it: a killed run repeats at most one."""

    def __init__(self, folder: Path, state: _State, server: _Server) -> None:
        self._folder, self._state, self._server = folder, state, server

    def run(self, tracker: Tracker) -> None:
        """Store all pages that are missing."""
        state = self._state
        self._delete_uncounted()
        self._save()
        tracker.advance(state.records)
        dead = 0
        while not state.complete:
            records, last = state.records, state.last
            response = self._server.next(state)
            if any(code == _DEAD for code, _ in response.page.errors):
                dead += 1
                if dead > _RESTARTS or not state.token:
                    raise DownloadError(
                        f"{self._server.url} refuses its own resumption tokens: run the same command again later."
                    )
                self._begin_again()
                continue
            token = response.page.token
            if token and token == state.token:
                raise DownloadError(
                    f"{self._server.url} repeats its resumption token: run the same command again later."
                )
            self._store(response)
            state.token, state.complete = token, not token
            self._save()
            tracker.advance(state.records - records)
            dead = dead if state.last == last else 0

    def _delete_uncounted(self) -> None:
        """Delete the pages that the state does not count."""
        with storage_errors(self._folder):
            (self._folder / PAGES).mkdir(parents=True, exist_ok=True)
            for path in (self._folder / PAGES).iterdir():
                if not path.name.endswith(".xml.gz") or int(path.name[:6]) > self._state.pages:
                    path.unlink()

    def _begin_again(self) -> None:
        """Request the list again from the last stored datestamp; all of it, if the server does not sort by it."""
        state = self._state
        state.token = ""
        if state.is_ordered:
            state.since = state.last or state.first
        else:
            state.since, state.last, state.pages, state.records, state.is_ordered = (
                state.first,
                "",
                0,
                0,
                True,
            )
            self._delete_uncounted()
        log.info("The resumption token has expired; continuing from %s", state.since)
        self._save()

    def _store(self, response: _Response) -> None:
        """Write a page, and count it in the state."""
        state = self._state
        if not response.records:
            return
        path = self._folder / PAGES / f"{state.pages + 1:06}.xml.gz"
        advice = "free some disk space and run the same command again"
        with storage_errors(path, advice), atomic_write(path) as out, gzip_writer(out, level=6) as stream:
            stream.write(response.body)
        for record in response.records:
            day = record.datestamp[:10]
            state.is_ordered &= day >= state.last
            state.last = day
        state.pages += 1
        state.records += len(response.records)

    def _save(self) -> None:
        write_state(self._folder / _STATE, asdict(self._state))
