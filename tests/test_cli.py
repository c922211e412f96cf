"""The command line: output, errors and exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scholarbase import __version__
from scholarbase.cli.options import print_json
from scholarbase.errors import ScholarBaseError, SessionNotFound, StorageError
from scholarbase.models.requests import SearchRequest
from scholarbase.responses.text import as_text
from scholarbase.search.library import Library
from scholarbase.sessions.session import Session
from scholarbase.sessions.store import SessionStore
from scholarbase.terminal import escape, printable
from tests import refresh_snapshots
from tests.conftest import run_cli, run_process
from tests.encoders.static_models import make_model
from tests.libraries import copied

HOLOMORPHIC = "arXiv:hep-th/9302103"


@pytest.mark.whole
def test_the_help_is_unchanged() -> None:
    kept = (refresh_snapshots.FOLDER / "cli-help.txt").read_text()
    assert refresh_snapshots.cli_help().decode() == kept, refresh_snapshots.HOW


def test_help_and_version() -> None:
    for arguments in (["--help"], ["-h"], ["search", "--help"]):
        done = run_cli(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert "Usage:" in done.stdout
    assert __version__ in run_process("--version").stdout


@pytest.mark.slow
def test_json_output_equals_the_librarys_response(sample_library: Path, sample: Library) -> None:
    expected_by_command = {
        ("search", "string theory", "--limit", "3", "--category", "hep-th", "--from", "1993"): sample.search(
            "string theory", limit=3, category=["hep-th"], from_="1993"
        ).to_dict(),
        ("search", "--author", "Edward Witten"): sample.search("*", author=["Edward Witten"]).to_dict(),
        ("title", "Holomorphic anomalies in topological field theories"): sample.match_title(
            "Holomorphic anomalies in topological field theories"
        ).to_dict(),
        ("paper", "hep-th/9302103"): sample.paper(HOLOMORPHIC).to_dict(),
        ("citations", HOLOMORPHIC, "--limit", "2", "--sort", "date"): sample.citations(
            HOLOMORPHIC, limit=2, sort="date"
        ).to_dict(),
    }
    for arguments, expected in expected_by_command.items():
        done = run_cli(*arguments, "--json", "--library", sample_library)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == expected


def test_a_search_for_an_author_that_found_nothing_did_not_name_the_option(sample_library: Path) -> None:
    done = run_cli("search", "Vafa", "--mode", "sparse", "--to", "1900", "--library", sample_library)
    assert (done.returncode, "use --author" in done.stderr) == (0, True)


@pytest.mark.slow
def test_terminal_output_names_the_papers(sample_library: Path) -> None:
    for arguments in (
        ("search", "holomorphic anomaly"),
        ("title", "Holomorphic anomalies in topological field theory"),
        ("paper", HOLOMORPHIC),
    ):
        done = run_cli(*arguments, SCHOLARBASE_LIBRARY=str(sample_library))
        assert done.returncode == 0, done.stderr
        assert "Holomorphic Anomalies in Topological Field Theories" in done.stdout
        assert "hep-th/9302103" in done.stdout


def test_errors_have_a_message_and_an_exit_status(
    sample_library: Path, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    library = f"--library {sample_library}"
    for command, status, sentence in (
        ("search x --library no-such-folder", 3, 'run "scholarbase ingest" first'),
        ("search x --library a --url http://b", 2, "not both"),
        (f"search x --url {server} --encoder BAAI/bge-m3", 2, "the server at"),
        ("info", 2, "No library: give --library"),
        ("search", 2, "No Q: give the words"),
        ("search x --mode fuzzy", 2, "fuzzy"),
        ("serch", 2, "serch"),
        ("ingest no-such-snapshot --library made-nothing", 5, "no-such-snapshot"),
        ("serve --library no-such-folder", 3, "No library at"),
        (f"search x {library} --limit 0", 2, "limit is 0"),
        (f"search x {library} --mode dense", 2, "built without them"),
        (f"search x {library} --within CorpusId:999", 4, "CorpusId:999"),
        (f"search x {library} --explain --format bibtex", 2, "--explain or --format bibtex"),
        (f"paper CorpusId:999 {library}", 4, "CorpusId:999"),
    ):
        done = run_cli(*command.split())
        assert done.returncode == status, done.stderr
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
        assert not done.stdout
    assert not (tmp_path / "made-nothing").exists()


@pytest.mark.slow
def test_a_server_that_cannot_be_reached_is_named() -> None:
    done = run_cli("search", "x", SCHOLARBASE_URL="http://127.0.0.1:9")
    assert (done.returncode, "127.0.0.1:9" in done.stderr) == (11, True)


def test_exit_statuses_are_distinct() -> None:
    def family(kind: type[ScholarBaseError]) -> list[type[ScholarBaseError]]:
        return [kind, *(each for below in kind.__subclasses__() for each in family(below))]

    top = [*ScholarBaseError.__subclasses__(), SessionNotFound]
    statuses = [kind.exit_code for kind in top]
    assert len(set(statuses)) == len(statuses)
    for kind in top:
        own = [each for each in family(kind) if each is kind or each is not SessionNotFound]
        assert {each.exit_code for each in own} == {kind.exit_code}
        assert kind.exit_code not in (0, 1, 130)
    slugs = [each.slug for each in family(ScholarBaseError)]
    assert len(set(slugs)) == len(slugs)


def test_info_and_verify(sample_library: Path, tmp_path: Path) -> None:
    shown = run_cli("info", "--library", sample_library)
    assert "2,440" in shown.stdout
    assert (
        run_cli("info", "--json", "--library", sample_library).stdout
        == (sample_library / "manifest.json").read_text()
    )
    copy = copied(sample_library, tmp_path / "copy")
    with (copy / "catalog.sqlite").open("r+b") as file:
        file.seek(100_000)
        file.write(b"\xff" * 50_000)
    broken = run_cli("verify", "--library", copy)
    assert broken.returncode == 10
    assert "Traceback" not in broken.stderr


@pytest.mark.slow
def test_an_intact_library_is_verified(sample_library: Path) -> None:
    printed = run_cli("verify", "--library", sample_library).stdout
    assert "matches its manifest" in printed
    assert " 0 authors" not in printed


def test_every_field_of_a_request_is_an_option() -> None:
    """Of the models in ``cli.requests``, apart from the argument and what only a server takes."""
    shown = run_cli("search", "--help").stdout
    for name in set(SearchRequest.model_fields) - {"q", "timeout"}:
        option = {"fields": "field", "exclude_ids": "exclude-id"}.get(name, name.strip("_").replace("_", "-"))
        assert f"--{option} " in shown


def test_a_repeated_option_is_a_list_and_one_with_commas_too(sample_library: Path, sample: Library) -> None:
    arguments = ["--category", "hep-th", "--category", "cs.CL,gr-qc", "--field", "title,year", "--json"]
    found = json.loads(run_cli("search", "strings", *arguments, "--library", sample_library).stdout)
    expected = sample.search("strings", category=["hep-th", "cs.CL", "gr-qc"], fields=["title", "year"])
    assert found == expected.to_dict()


@pytest.mark.slow
def test_a_closed_output_pipe_is_not_an_error(sample_library: Path) -> None:
    search = (
        f"{sys.executable} -m scholarbase.cli search theory --limit 200 --json --library {sample_library}"
    )
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {search} | head -c 10"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_output_without_space_ended_in_a_traceback(sample_library: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "scholarbase.cli", "info", "--json", "--library", sample_library],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        StorageError.exit_code,
        "scholarbase: The output or a file cannot be written (No space left on device): free some disk space, or "
        "write to another place.\n",
    )


def test_texts_of_others_wrote_to_the_terminal_with_control_characters(tmp_path: Path) -> None:
    evil = "[/x] \x1b]0;title\x07\x9b2J"
    with SessionStore(tmp_path / "sessions") as store:
        store.open(Session("s", query=evil)).result(60)
    for arguments in (
        ("session", "list", "--sessions", tmp_path / "sessions"),
        ("snapshots", tmp_path / evil.replace("/", "")),
        ("serve", "--library", tmp_path / "title\x1b"),  # also in lines of the log
    ):
        done = run_cli(*arguments)
        output = done.stdout + done.stderr
        assert "title" in output or "no folder" in output
        assert not set(output) & {"\x1b", "\x07", "\x9b"}, arguments
    assert escape(evil) == "\\[/x]  ]0;title  2J"


def test_invisible_characters_reached_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """U+202E in a name showed what follows it from right to left, and letters of U+E0041 hid a text."""
    title = "Gauge \u202eseiroeht\u202c of \u2066str\u200bings\U000e0041\u2069\u200f \x9b2J"
    paper = {"id": "CorpusId:1", "title": title}
    response = {"snapshot": "0", "results": [{"paper": paper}]}
    assert "1. Gauge seiroeht of strings 2J\n" in as_text(response)
    assert (
        printable("می\u200cخواهم 👩\u200d🔬") == "می\u200cخواهم 👩\u200d🔬"
    )  # which are read otherwise without
    print_json(response)
    written = capsys.readouterr().out
    assert written.isascii()
    assert json.loads(written) == response


def test_no_line_of_the_help_is_cut() -> None:
    for command in ((), ("eval",), ("session",), ("key",)):
        listed = run_cli(*command, "--help").stdout.partition("Commands:")[2].splitlines()
        assert [line for line in listed if line.endswith("...")] == []


# -- encoders -------------------------------------------------------------------------------------------


def test_encoder_info_prints_the_spec(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "tiny")
    spec = json.loads(run_cli("encoder", "info", folder, "--json").stdout)
    assert (spec["kind"], spec["name"], spec["dimensions"]) == ("static", "tiny", 8)
    shown = run_cli("encoder", "info", folder).stdout
    assert spec["fingerprint"] in shown
    assert "max tokens" in shown
