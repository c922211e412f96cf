"""``scholarbase check``: what it prints, its reports, and its exit status."""

import json
from pathlib import Path

import pytest

from tests.conftest import run_cli

HELD = "D. J. Gross and W. Taylor. Two dimensional QCD is a string theory. 1993.\n"
ABSENT = "arXiv:2001.00001\n"


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    file = tmp_path / "references.txt"
    file.write_text(HELD + ABSENT + "W. Smith. <b>Two dimensional QCD is a string theory</b>. 1993.\n")
    return file


def test_each_reference_and_the_counts_are_printed(sample_library: Path, listed: Path) -> None:
    done = run_cli("check", listed, "--library", sample_library)
    assert done.returncode == 0, done.stderr
    assert "1. held: The authors and the title are those of this paper." in done.stdout
    assert "2. not in this snapshot: " in done.stdout
    assert "1 held, 1 near, 1 not in this snapshot" in done.stdout


def test_the_exit_status_follows_fail_on(sample_library: Path, listed: Path) -> None:
    for fail_on, status in (("unreadable,withdrawn", 0), ("near, not_in_snapshot", 1), ("held", 2)):
        done = run_cli("check", listed, "--library", sample_library, "--fail-on", fail_on)
        assert done.returncode == status
        assert (status == 2) == ("--fail-on has" in done.stderr)


def test_held_references_that_differ_are_counted_and_can_fail(
    sample_library: Path, listed: Path, tmp_path: Path
) -> None:
    """A wrong year passed every status of --fail-on, and the counts did not show it."""
    arguments = ("--library", sample_library, "--fail-on", "different")
    same = run_cli("check", listed, *arguments)
    assert (same.returncode, "different)" in same.stdout) == (0, False)
    listed.write_text(HELD + HELD.replace("1993", "1995"))
    done = run_cli("check", listed, *arguments, "--report", tmp_path / "out.md")
    assert done.returncode == 1
    assert "2 held (1 of them different); snapshot" in done.stdout
    assert "2 held (1 of them different). Snapshot" in (tmp_path / "out.md").read_text()


def test_json_is_the_response_of_a_server(sample_library: Path, listed: Path, server: str) -> None:
    local = run_cli("check", listed, "--library", sample_library, "--json")
    remote = run_cli("check", listed, "--url", server, "--json")
    assert json.loads(local.stdout) == json.loads(remote.stdout)
    assert json.loads(local.stdout)["counts"]["held"] == 1


def test_reports_leave_out_what_is_held_and_show_markup_as_text(
    sample_library: Path, listed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.md"
    assert run_cli("check", listed, "--library", sample_library, "--report", out).returncode == 0
    report = out.read_text()
    assert "1 held, 1 near, 1 not in this snapshot" in report
    assert "references.txt" in report
    assert "Taylor. Two dimensional" not in report
    assert "<b>" not in report
    assert "may exist all the same" in report
    refused = run_cli("check", listed, "--library", sample_library, "--report", tmp_path / "out.pdf")
    assert (refused.returncode, "is not a .md file" in refused.stderr) == (2, True)


def test_a_corrected_bibliography_keeps_everything_else(sample_library: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "refs.bib", tmp_path / "corrected.bib"
    file.write_bytes(
        b"% My references\r\n@string{nuc = {Nucl. Phys. B}}\n"
        b"@article{gross93, author = {D. J. Gross and W. Taylor},\n"
        b'  title = "Two {D}imensional, QCD is a Strng Theory", journal = nuc, year = 1992}\n'
        b"@misc{late, eprint = {hep-th/9301068}, year = {1999}} @misc{none, title = {Nothing like this, ever}}\n"
    )
    arguments = ("--library", sample_library, "--output", out)
    done = run_cli("check", file, *arguments)
    assert (done.returncode, done.stderr) == (0, f"Wrote {out}: 1 of its references changed.\n")
    reason = json.loads(run_cli("check", file, *arguments, "--json").stdout)["results"][2]["reason"]
    assert out.read_text() == (
        "% My references\n@string{nuc = {Nucl. Phys. B}}\n"
        "@article{gross93, author = {D. J. Gross and W. Taylor},\n"
        "  title = {Two {D}imensional {QCD} is a String Theory}, journal = nuc, year = {1993}}\n"
        f"@misc{{late, eprint = {{hep-th/9301068}}, year = {{1999}}}} \n% not in this snapshot: {reason}\n"
        "@misc{none, title = {Nothing like this, ever}}\n"
    )
    (tmp_path / "twice.bib").write_text("@misc{one, title={A}}\n@misc{one, title={B}}\n")
    twice = run_cli("check", tmp_path / "twice.bib", "--library", sample_library)
    assert twice.stderr == "Keys of several references: one.\n"
    (tmp_path / "list.txt").write_text(HELD + ABSENT)
    assert run_cli("check", tmp_path / "list.txt", *arguments).returncode == 0
    written = out.read_text()
    assert written.startswith("@misc{Gross1993TwoDQI,")
    assert written.endswith("arXiv:2001.00001.\n% arXiv:2001.00001\n")
    refused = run_cli("check", file, "--library", sample_library, "--output", tmp_path / "out.txt")
    assert (refused.returncode, "is not a .bib file" in refused.stderr) == (2, True)
    nowhere = run_cli("check", file, "--library", sample_library, "--output", tmp_path / "none" / "out.bib")
    assert f"create the folder {tmp_path / 'none'} first" in nowhere.stderr


def test_files_that_cannot_be_read(
    sample_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "latin1.txt").write_bytes("Müller. Ein Titel. 2001".encode("latin-1"))
    (tmp_path / "empty.bib").write_text("% nothing\n")
    (tmp_path / "wide.txt").write_bytes(HELD.encode("utf-16"))
    (tmp_path / "unmarked.txt").write_bytes(HELD.encode("utf-16-le"))
    (tmp_path / "refs.docx").write_bytes(b"PK\x03\x04\x14\0\x06\0\x08\0\xff\xfe")
    for name, words in (
        ("missing.txt", "cannot be read"),
        ("latin1.txt", "not UTF-8"),
        ("wide.txt", "wide.txt is in UTF-16: save it as UTF-8."),
        ("unmarked.txt", "unmarked.txt is in UTF-16: save it as UTF-8."),
        ("refs.docx", "refs.docx is a ZIP archive"),
        ("empty.bib", None),
    ):
        done = run_cli("check", tmp_path / name, "--library", sample_library, "--format", "bibtex")
        assert done.returncode == 2
        assert (words or "no reference in the format bibtex") in done.stderr
    monkeypatch.setenv("SCHOLARBASE_CACHE_DIR", str(tmp_path))
    done = run_cli("check", tmp_path / "empty.bib", "--library", "demo")
    assert 'run "scholarbase demo" first' in done.stderr


def test_a_folder_with_the_name_of_a_library_is_named(
    sample_library: Path, listed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder ./demo was used instead of the library demo without a word."""
    monkeypatch.setenv("SCHOLARBASE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache" / "demo").mkdir(parents=True)
    (tmp_path / "demo").symlink_to(sample_library)
    monkeypatch.chdir(tmp_path)
    done = run_cli("check", listed, "--library", "demo")
    assert done.returncode == 0
    assert f"demo is the folder {sample_library.resolve()} here, not the library" in done.stderr


@pytest.mark.slow
def test_a_list_of_more_than_a_request_takes(sample_library: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.bib"
    long.write_text(
        '@string{t = "Two dimensional QCD is a string theory"}\n'
        + "@misc{a, title=t, author={Gross and Taylor}}\n" * 1100
    )
    done = run_cli("check", long, "--library", sample_library, "--json")
    content = json.loads(done.stdout)
    assert content["counts"]["held"] == 1100
    assert [content["results"][-1][key] for key in ("position", "line")] == [1100, 1101]
