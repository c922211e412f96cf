"""Releases of Semantic Scholar, and the differences between two, from its datasets API.

The API (https://api.semanticscholar.org/api-docs/datasets) lists releases, the datasets of a release, and for each
dataset signed links to gzip files of JSON lines. The links expire, so files are known by the last part of their path,
and are listed again when the storage host refuses a link. The key is sent to the API only.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson

from scholarbase.errors import DownloadError, InvalidRequest, SourceChanged
from scholarbase.http import VISIBLE_ASCII, is_loopback
from scholarbase.progress import Reporter, SilentReporter
from scholarbase.updates.changes import DELETES, DIFF, UPDATES
from scholarbase_download.batches import (
    Links,
    Planned,
    announce,
    check_gzip,
    download,
    locked,
    read_state,
    write_state,
)
from scholarbase_download.requests import Fetcher, LinkExpired, Patience, Secret

BASE_URL: Final = "https://api.semanticscholar.org/datasets/v1"
DATASETS: Final = ("papers", "abstracts", "citations")
"""What a library needs, and the default."""
log = logging.getLogger("scholarbase.download")

_KEY_HEADER: Final = "x-api-key"
_KEY_SETTING: Final = "SCHOLARBASE_S2_API_KEY"
_RELEASE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def download_s2(
    out: Path,
    *,
    release: str | None = None,
    datasets: Sequence[str] = DATASETS,
    since: str | None = None,
    api_key: str | None = None,
    base_url: str = BASE_URL,
    patience: Patience | None = None,
    reporter: Reporter | None = None,
) -> list[Path]:
    """Download datasets of a release to ``out/RELEASE/DATASET/*.gz``.

    With ``since``, an older release, the differences from it: one folder ``out/FROM..TO`` for each step, with
    ``DATASET/updates/*.gz``, ``DATASET/deletes/*.gz`` and, when the step is complete, ``diff.json``. The names of the
    steps sort in the order in which they apply.

    Args:
        release: by default the latest; if a download of an older one into ``out`` is not complete, that one.

    Returns:
        The folders: of the release, or of the steps in their order.

    Raises:
        InvalidRequest: a name of a release or dataset is invalid, or the key cannot be sent.
        DownloadError: the release lacks a dataset, the key is refused, or the server fails.
        SourceChanged: the release lists other files than at the beginning of the download.
        StorageError: the disk has too little space.
    """
    names = tuple(dict.fromkeys(datasets))
    _check_arguments(release, names, since)
    with _Api(base_url, api_key, patience) as api, Fetcher(patience) as storage, locked(out):
        known = api.releases()
        unfinished = None if release else _unfinished(out, since)
        chosen = release or unfinished or known[-1]
        if unfinished and unfinished != known[-1]:
            log.info("The download of %s is not complete: continuing it", unfinished)
        for asked in (chosen, since):
            if asked is not None and asked not in known:
                raise DownloadError(
                    f"There is no release {asked}: the latest ones are {', '.join(known[-5:])}."
                )
        if since is not None and since >= chosen:
            raise InvalidRequest(f"--since {since} is not before the release {chosen}: use an older one.")
        api.check_datasets(chosen, names)
        job = _Job(out, api, storage, chosen, since)
        for name in names:
            job.list_files(name)
        files = job.files(names)
        announce(out, files)
        for name in names:
            download(job.files([name]), storage, job.links, name=name, reporter=reporter or SilentReporter())
        return job.complete(names)


def _check_arguments(release: str | None, datasets: Sequence[str], since: str | None) -> None:
    for value in (release, since):
        if value is not None and not _RELEASE.fullmatch(value):
            raise InvalidRequest(f"{value!r} is not a release: use a date such as 2026-07-14.")
    if not datasets:
        raise InvalidRequest("No dataset is named: use some, such as --datasets papers,abstracts,citations.")
    for name in datasets:
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"{name!r} is not the name of a dataset: use names such as papers,abstracts,citations."
            )


class _Api:
    """The datasets API."""

    def __init__(self, base_url: str, api_key: str | None, patience: Patience | None) -> None:
        self._base = base_url.rstrip("/")
        if api_key is not None and not VISIBLE_ASCII.fullmatch(api_key):
            raise InvalidRequest(
                f"{_KEY_SETTING} has characters that no key has, such as spaces: set it to the key alone."
            )
        where = urlsplit(self._base)
        if api_key is not None and where.scheme != "https" and not is_loopback(where.hostname or ""):
            raise InvalidRequest(
                f"{self._base} is not an https address, so {_KEY_SETTING} is not sent to it."
            )
        self._has_key = api_key is not None
        secret = None if api_key is None else Secret(_KEY_HEADER, api_key, self._base)
        self._fetcher = Fetcher(patience, secret=secret)

    def __enter__(self) -> _Api:
        return self

    def __exit__(self, *_: object) -> None:
        self._fetcher.close()

    def releases(self) -> list[str]:
        """All releases, the oldest first."""
        listed = self._get("release/")
        if not isinstance(listed, list):
            raise self._unexpected("release/")
        releases = sorted(name for name in listed if isinstance(name, str) and _RELEASE.fullmatch(name))
        if not releases:
            raise DownloadError(f"{self._base}/release/ lists no releases: check the address.")
        return releases

    def check_datasets(self, release: str, names: Sequence[str]) -> None:
        """Raises DownloadError: the release lacks a dataset."""
        answer = self._get(f"release/{release}")
        try:
            listed = [str(dataset["name"]) for dataset in answer["datasets"]]
        except (TypeError, KeyError) as error:
            raise self._unexpected(f"release/{release}") from error
        if missing := [name for name in names if name not in listed]:
            raise DownloadError(
                f"The release {release} has no dataset {', '.join(missing)}; it has {', '.join(sorted(listed))}. Use "
                "another --release or --datasets. Nothing was downloaded."
            )

    def dataset(self, release: str, name: str) -> dict[str, str]:
        """The links to a dataset's files, by their paths ``RELEASE/DATASET/NAME``."""
        path = f"release/{release}/dataset/{name}"
        answer = self._get(path)
        try:
            links = dict(_named(f"{release}/{name}", answer["files"]))
        except (TypeError, KeyError) as error:
            raise self._unexpected(path) from error
        if not links:
            raise DownloadError(
                f"The release {release} lists no files of {name}: use another --release. Nothing was downloaded."
            )
        return links

    def diffs(self, since: str, release: str, name: str) -> tuple[list[str], dict[str, str]]:
        """The steps from one release to another, ``FROM..TO``, and links by their paths ``STEP/DATASET/KIND/NAME``."""
        path = f"diffs/{since}/to/{release}/{name}"
        answer = self._get(path)
        steps: list[str] = []
        links: dict[str, str] = {}
        at = since
        try:
            for diff in answer["diffs"]:
                begin, end = diff["from_release"], diff["to_release"]
                if begin != at or not _RELEASE.fullmatch(end) or end <= begin:
                    raise DownloadError(
                        f"The diffs of {name} from {since} to {release} have a gap at {at} (the next begins with "
                        f"{begin!r} and ends with {end!r}): download the full release {release}."
                    )
                at = end
                steps.append(f"{begin}..{end}")
                for kind, key in ((UPDATES, "update_files"), (DELETES, "delete_files")):
                    links |= dict(_named(f"{steps[-1]}/{name}/{kind}", diff[key]))
        except (TypeError, KeyError) as error:
            raise self._unexpected(path) from error
        if at != release:
            raise DownloadError(
                f"The diffs of {name} from {since} end at {at}, not at {release}: download the full release {release}."
            )
        return steps, links

    def _get(self, path: str) -> Any:
        url = f"{self._base}/{path}"
        answer = self._fetcher.read(url)
        if answer.status in {401, 403}:
            raise DownloadError(
                f"{url} returned {answer.status}: the API refuses the key in {_KEY_SETTING}."
                if self._has_key
                else f"{url} returned {answer.status}: set {_KEY_SETTING} to a key of the API "
                "(https://www.semanticscholar.org/product/api#api-key)."
            )
        if answer.status != 200:
            raise DownloadError(
                f"{url} returned {answer.status}: check the release, the datasets and the address."
            )
        try:
            return orjson.loads(answer.body)
        except orjson.JSONDecodeError as error:
            raise self._unexpected(path) from error

    def _unexpected(self, path: str) -> DownloadError:
        return DownloadError(
            f"Unexpected response from {self._base}/{path}: check that it is the datasets API."
        )


def _named(folder: str, links: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Paths below ``folder`` and links. The name is the last part of the link's path, and ends with ``.gz``."""
    seen: set[str] = set()
    for link in links:
        if not isinstance(link, str):
            raise TypeError(f"{link!r} is not a link")
        name = PurePosixPath(unquote(urlsplit(link).path)).name
        if not _NAME.fullmatch(name) or name in seen:
            raise DownloadError(f"Unexpected file {name!r} in the list of {folder}: try another release.")
        seen.add(name)
        yield f"{folder}/{name}" + ("" if name.endswith(".gz") else ".gz"), link


class _Job:
    """The files of one release or of the differences from another.

    Its state is a hidden file in ``out``: for each dataset the paths and sizes of its files, so that the same files are
    requested after an interruption.
    """

    def __init__(self, out: Path, api: _Api, storage: Fetcher, release: str, since: str | None) -> None:
        self._out, self._api, self._storage = out, api, storage
        self._release, self._since = release, since
        self._path = _state_file(out, release, since)
        state = read_state(self._path)
        self._sizes: dict[str, dict[str, int]] = state.get("datasets", {})
        self._steps: dict[str, list[str]] = state.get("steps", {})
        self._urls: dict[str, str] = {}
        self.links = Links(self._link, self._renew)

    def list_files(self, name: str) -> None:
        """Request the links of a dataset, and the sizes of its files if they are not known."""
        self._request_links(name)
        if name in self._sizes:
            return
        sizes = {}
        for path in self._paths_listed(name):
            sizes[path] = self._probe(name, path)
        self._sizes[name] = sizes
        self._save(is_complete=False)

    def _probe(self, name: str, path: str) -> int:
        try:
            return self._storage.probe(self._urls[path]).size
        except LinkExpired:
            self._request_links(name)
        try:
            return self._storage.probe(self._urls[path]).size
        except LinkExpired as error:
            raise DownloadError(f"{error}, for a new link too. Try again later.") from error

    def files(self, names: Sequence[str]) -> list[Planned]:
        return [
            Planned(self._out / path, size, check_gzip)
            for name in names
            for path, size in self._sizes[name].items()
        ]

    def complete(self, names: Sequence[str]) -> list[Path]:
        """Write the description of each step, and mark the job complete. Returns the folders."""
        self._save(is_complete=True)
        if self._since is None:
            return [self._out / self._release]
        steps = self._steps[names[0]]
        described = [
            name for name in sorted(self._sizes) if all(file.is_whole for file in self.files([name]))
        ]
        for step in steps:
            begin, _, end = step.partition("..")
            write_state(
                self._out / step / DIFF, {"datasets": described, "from_release": begin, "to_release": end}
            )
        return [self._out / step for step in steps]

    def _request_links(self, name: str) -> None:
        """
        Raises:
            SourceChanged: the files are not those that were listed first.
            DownloadError: the datasets have different steps.
        """
        if self._since is None:
            links = self._api.dataset(self._release, name)
        else:
            steps, links = self._api.diffs(self._since, self._release, name)
            for other, others in self._steps.items():
                if others != steps:
                    raise DownloadError(
                        f"The diffs of {name} and {other} have different steps ({', '.join(steps)}; "
                        f"{', '.join(others)}): download the full release {self._release}."
                    )
            self._steps[name] = steps
        if name in self._sizes and set(links) != set(self._sizes[name]):
            raise SourceChanged(
                f"{self._release} lists other files of {name} than when this download began: delete {self._path} "
                f"and the folders of {self._release} in {self._out}, and run the same command again."
            )
        self._urls |= links

    def _paths_listed(self, name: str) -> list[str]:
        return [path for path in self._urls if path.split("/")[1] == name]

    def _link(self, file: Planned) -> str:
        return self._urls[file.path.relative_to(self._out).as_posix()]

    def _renew(self, file: Planned) -> None:
        self._request_links(file.path.relative_to(self._out).parts[1])

    def _save(self, *, is_complete: bool) -> None:
        state = {"complete": is_complete, "datasets": self._sizes, "steps": self._steps}
        write_state(self._path, state)


def _state_file(out: Path, release: str, since: str | None) -> Path:
    return out / (f".s2-{release}.json" if since is None else f".s2-{since}..{release}.json")


def _unfinished(out: Path, since: str | None) -> str | None:
    """The newest release whose download into ``out`` is not complete."""
    pattern = re.compile(
        rf"\.s2-{'' if since is None else re.escape(since) + '[.][.]'}({_RELEASE.pattern})\.json"
    )
    unfinished = [
        match[1]
        for path in out.glob(".s2-*.json")
        if (match := pattern.fullmatch(path.name)) and not read_state(path).get("complete")
    ]
    return max(unfinished, default=None)
