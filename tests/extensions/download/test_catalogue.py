"""Libraries that are downloaded by name, from a local web server."""

import json
from pathlib import Path
from time import perf_counter

import pytest

from scholarbase.errors import DownloadError, InvalidRequest, LibraryCorrupt, LibraryNotFound, SourceError
from scholarbase.progress import SilentReporter
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase_download.catalogue import get, read_catalogue
from scholarbase_download.packing import pack
from tests.conftest import run_cli, succeeded
from tests.extensions.download.archives import files
from tests.extensions.download.test_fetching import NAME, serving


@pytest.fixture(scope="module")
def published(light_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packed sample, and a catalogue of it."""
    folder = tmp_path_factory.mktemp("published")
    packed = pack(light_library, folder / NAME)
    entry = {
        **{"name": "sample", "description": "The\x1b[2J\nsample.", "licence": "CC0 1.0", "papers": 2440},
        **{"bytes": packed.bytes, "packed_bytes": packed.packed_bytes, "snapshot": packed.snapshot},
        **{"url": NAME, "sha256": packed.sha256},
    }
    damaged = {**entry, "name": "damaged", "sha256": "0" * 64}
    (folder / "catalogue.json").write_text(json.dumps({"libraries": [entry, damaged]}))
    return folder


def test_a_library_is_downloaded_by_name_and_continues(
    published: Path, light_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, whole = tmp_path / ".sample.tar.zst.part", (published / NAME).read_bytes()
    with serving(published) as server:
        environment = {
            "SCHOLARBASE_CATALOGUE": f"{server.url}/catalogue.json",
            "SCHOLARBASE_CACHE_DIR": str(tmp_path),
        }
        listed = run_cli("libraries", "--json", **environment)
        assert [row["name"] for row in json.loads(listed.stdout)] == ["sample", "damaged"]
        assert "2,440 papers" in run_cli("libraries", **environment).stdout
        part.write_bytes(whole[:1000])  # of another file, since no validator says otherwise
        done = succeeded("get", "sample", **environment)
        assert "scholarbase serve --library sample" in done.stdout
        sent = server.paths().count(f"/{NAME}")
        assert files(tmp_path / "sample") == files(light_library)
        assert not list(tmp_path.glob(".sample.tar*"))
        assert run_cli("get", "sample", **environment).returncode == 0
        assert server.paths().count(f"/{NAME}") == sent, "a library that is there is not downloaded again"
        listed = run_cli("libraries", **environment)
        assert listed.stdout.startswith("* sample  The [2J sample. 2,440")
    (elsewhere := tmp_path / "elsewhere").mkdir()  # since the checkout has a folder of this name
    done = run_cli("info", "--json", "--library", "sample", cwd=elsewhere, **environment)
    assert done.stdout.encode() == (light_library / "manifest.json").read_bytes()
    for command in ("diff sample sample", "pack sample again.tar.zst"):
        done = run_cli(*command.split(), cwd=elsewhere, **environment)
        assert done.returncode == 0, done.stderr
    done = run_cli("update", "sample", "absent", "--library", "new", cwd=elsewhere, **environment)
    assert "absent" in done.stderr
    monkeypatch.chdir(elsewhere)
    with pytest.raises(LibraryNotFound, match=f"downloaded library, not its folder: open {tmp_path}/sample"):
        Library.open("sample", settings=load_settings(cache_dir=tmp_path))


@pytest.mark.slow
def test_a_file_that_was_downloaded_before_a_kill_is_not_downloaded_again(
    published: Path, light_library: Path, tmp_path: Path
) -> None:
    (tmp_path / ".sample.tar.zst").write_bytes((published / NAME).read_bytes())
    with serving(published) as server:
        settings = load_settings(catalogue=f"{server.url}/catalogue.json", cache_dir=tmp_path)
        get("sample", settings, reporter=SilentReporter())
        assert f"/{NAME}" not in server.paths()
        damaged = tmp_path / ".damaged.tar.zst"
        damaged.write_bytes((published / NAME).read_bytes())
        with pytest.raises(LibraryCorrupt, match=f"instead of {'0' * 64}"):
            get("damaged", settings, reporter=SilentReporter())
    assert files(tmp_path / "sample") == files(light_library)
    assert not damaged.exists()


def test_a_file_with_another_hash_is_refused(published: Path, tmp_path: Path) -> None:
    with serving(published) as server:
        settings = load_settings(catalogue=f"{server.url}/catalogue.json", cache_dir=tmp_path)
        with pytest.raises(
            DownloadError, match=f"not {'0' * 64}.*The file or the list that names it is wrong"
        ):
            get("damaged", settings, reporter=SilentReporter())
    assert not list(tmp_path.glob("[a-z]*"))


def test_a_catalogue_in_a_folder_names_files_beside_it(published: Path, tmp_path: Path) -> None:
    settings = load_settings(catalogue=str(published / "catalogue.json"), cache_dir=tmp_path)
    manifest = get("sample", settings, reporter=SilentReporter())
    assert manifest.counts["papers"] == 2440
    with pytest.raises(
        InvalidRequest, match=r"no library 'other'. It has: damaged, sample\. .*\"scholarbase demo\""
    ):
        get("other", settings, reporter=SilentReporter())


def test_a_file_with_another_library_than_the_catalogue_says_is_refused(
    published: Path, tmp_path: Path
) -> None:
    listed = json.loads((published / "catalogue.json").read_bytes())["libraries"]
    listed[0] |= {"url": str(published / NAME), "snapshot": "0" * 32}
    other = tmp_path / "catalogue.json"
    other.write_text(json.dumps({"libraries": listed}))
    settings = load_settings(catalogue=str(other), cache_dir=tmp_path)
    with pytest.raises(LibraryCorrupt, match=f"not {'0' * 32}: the list that names it is wrong"):
        get("sample", settings, reporter=SilentReporter())
    assert not (tmp_path / "sample" / "manifest.json").exists()
    other.write_text(json.dumps({"libraries": [listed[0], listed[0]]}))
    with pytest.raises(SourceError, match="has two libraries of one name"):
        read_catalogue(settings)


def test_what_is_not_a_catalogue_is_an_error(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    entry = {
        **{"name": "x", "description": "", "licence": "", "papers": 10**400, "bytes": 1, "packed_bytes": 1},
        **{"snapshot": "0" * 32, "url": "x", "sha256": "0" * 64},
    }
    listed = json.dumps({"libraries": [entry]})  # ended in a traceback
    nested = f'{{"libraries": [], "x": {"[" * 5000}{"]" * 5000}}}'
    for text in ("{", '{"libraries": [{"name": "../x"}]}', "[]", listed, nested):
        wrong.write_text(text)
        with pytest.raises(SourceError, match="is not a catalogue"):
            read_catalogue(load_settings(catalogue=str(wrong)))
    begin = perf_counter()
    with pytest.raises(DownloadError, match="does not respond"):
        read_catalogue(load_settings(catalogue="http://127.0.0.1:9/catalogue.json"))
    assert perf_counter() - begin < 5
    with pytest.raises(SourceError, match="cannot be read"):
        read_catalogue(load_settings(catalogue=str(tmp_path / "absent.json")))


def test_a_catalogue_of_the_web_names_no_file_of_this_machine(published: Path) -> None:
    listed = (published / "catalogue.json").read_text()
    with serving(published) as server:
        for address in ("file:///etc/passwd", "s3://bucket/x.tar.zst"):
            (published / "other.json").write_text(listed.replace(f'"{NAME}"', f'"{address}"'))
            with pytest.raises(SourceError, match="may name http and https addresses only"):
                read_catalogue(load_settings(catalogue=f"{server.url}/other.json"))
