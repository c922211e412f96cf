"""What a library names is not used, and keys are not sent, unless the user says so (docs/trust.md)."""

import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from scholarbase.client import Client
from scholarbase.encoders.http import HttpEncoder
from scholarbase.errors import (
    EncoderError,
    InvalidRequest,
    LibraryCorrupt,
    RerankerError,
    VerificationFailed,
)
from scholarbase.manifest import read_manifest
from scholarbase.models.encoders import PACKAGED
from scholarbase.rerankers.http import HttpReranker
from scholarbase.search.library import Library
from scholarbase.search.opening import encoder_location
from scholarbase.search.verification import verify
from scholarbase.settings import Settings
from tests.conftest import run_cli
from tests.encoders.servers import running
from tests.libraries import copied, relist


@pytest.fixture
def hostile(dense_library: Path, tmp_path: Path) -> Path:
    return copied(dense_library, tmp_path / "library")


def write_encoder(library: Path, **fields: object) -> None:
    about = orjson.loads((library / "encoder.json").read_bytes())
    (library / "encoder.json").write_bytes(orjson.dumps(about | fields))
    relist(library)


def test_a_library_with_the_packaged_encoder_needs_no_option(dense_library: Path) -> None:
    with Library.open(dense_library) as library:
        assert library.search("string theory", mode="dense").results


def test_a_url_in_a_library_gets_no_request_and_no_key(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHOLARBASE_ENCODER_API_KEY", "a-secret")
    requests = []

    async def record(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        requests.append(scope["path"])
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with running(record) as url:
        for field in ("location", "query_location"):
            write_encoder(hostile, **{field: f"{url}/v1#m"})
            with pytest.raises(EncoderError, match=rf"names the encoder '{url}/v1#m'.*--encoder"):
                Library.open(hostile)
            found = run_cli("search", "string", "--library", hostile)
            assert found.returncode == EncoderError.exit_code
            assert f"{url}/v1#m" in found.stderr
        changed = run_cli("update", hostile, hostile, "--library", hostile.parent / "next")
        assert changed.returncode == EncoderError.exit_code
        assert "give it by --encoder" in changed.stderr
        assert requests == []
        with pytest.raises(EncoderError, match="returned 400"):
            Library.open(hostile, encoder=f"{url}/v1#m")
        assert requests
    with Library.open(hostile, encoder=PACKAGED) as library:
        assert library.search("string theory", mode="dense").results


@pytest.mark.parametrize(
    "location",
    ["unix:/tmp/a.sock", "/a/model", "model", "evil/model", "letters:a:z", "\x1b[2J", "./BAAI/bge-m3"],
)
def test_other_names_in_a_library_are_refused_too(hostile: Path, location: str) -> None:
    write_encoder(hostile, location=location)
    manifest, _ = read_manifest(hostile)
    with pytest.raises(EncoderError) as caught:
        encoder_location(hostile, manifest, Settings())
    assert repr(location) in str(caught.value)
    assert encoder_location(hostile, manifest, Settings(encoder=location)) == location
    assert encoder_location(hostile, manifest, Settings(encoder="none")) is None


def test_a_well_known_name_is_not_that_of_a_folder(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_encoder(hostile, location="BAAI/bge-m3")
    manifest, _ = read_manifest(hostile)
    assert encoder_location(hostile, manifest, Settings()) == "BAAI/bge-m3"
    (tmp_path / "BAAI" / "bge-m3").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EncoderError, match="BAAI/bge-m3"):
        encoder_location(hostile, manifest, Settings())


@pytest.mark.parametrize(
    "fields",
    [
        {"location": [1]},
        {"query_probe": [1]},
        {"query_probe": {"dense": "x"}},
        {"query_probe": {"dense": [{}]}},
        {"query_probe": {"dense": {"indices": [1]}}},
    ],
)
def test_a_malformed_encoder_file_is_a_corrupt_library(hostile: Path, fields: dict[str, object]) -> None:
    write_encoder(hostile, **fields)
    with pytest.raises(LibraryCorrupt, match=r"encoder\.json"):
        Library.open(hostile)


def test_keys_are_not_sent_over_plain_http() -> None:
    for url, key in (("http://192.0.2.1/v1#m", "key"), ("http://me:key@192.0.2.1/v1#m", None)):
        with pytest.raises(
            EncoderError, match=r"at http://192\.0\.2\.1/v1/embeddings .* without encryption: use an https"
        ):
            HttpEncoder(url, api_key=key)
        with pytest.raises(RerankerError, match="without encryption"):
            HttpReranker(url, api_key=key)
    for url, key in (("http://192.0.2.1", "key"), ("http://me:key@192.0.2.1", None)):
        with pytest.raises(InvalidRequest, match=r"http://192\.0\.2\.1 .* without encryption: use an https"):
            Client(url, api_key=key)


def test_sql_in_a_library_ran_when_it_was_read_verified_or_updated(hostile: Path) -> None:
    """The value of a view or of a generated column can be a statement that never ends."""
    for added, removed, what in (
        (
            "DROP TABLE venue_names; CREATE VIEW venue_names AS SELECT 'a' AS name_key, 'b' AS venue_key",
            "DROP VIEW venue_names; CREATE TABLE venue_names (name_key TEXT, venue_key TEXT)",
            "view venue_names",
        ),
        (
            "CREATE TRIGGER later AFTER DELETE ON papers BEGIN DELETE FROM papers; END",
            "DROP TRIGGER later",
            "trigger later",
        ),
        (
            "CREATE TABLE more (size INTEGER, data AS (zeroblob(size)))",
            "DROP TABLE more",
            "generated column data",
        ),
    ):
        with closing(sqlite3.connect(hostile / "catalog.sqlite")) as db:
            db.executescript(added)
            relist(hostile)
            with pytest.raises(LibraryCorrupt, match=f"has the '{what}', which no library has"):
                Library.open(hostile, encoder="none")
            with pytest.raises(VerificationFailed, match=what):
                list(verify(hostile))
            db.executescript(removed)
