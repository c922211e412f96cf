"""Drafts: each sentence with the references that it cites, checked the same way from everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client as McpClient

from scholarbase import Client, Library
from scholarbase.errors import InvalidRequest
from scholarbase.ingest.job import ingest
from scholarbase.tools import Tools
from scholarbase_research.claims import check_draft
from scholarbase_research.claims.drafts import read_draft
from tests.conftest import run_cli, serving_in_thread, snapshot_of
from tests.ingest.sources.test_retraction_watch import row, write
from tests.libraries import sample_papers

FOLDER = Path(__file__).parent
BIBLIOGRAPHY = (FOLDER / "draft.bib").read_text()
DRAFTS = {name: (FOLDER / name).read_text() for name in ("draft.tex", "draft.md")}
WRONG = {
    "braaten": ("retracted", "supported"),
    "jaffe": ("held", "not_found"),
    "falk": ("held", "contradicts"),
    "schlumpf": ("held", "not_found"),
    "larsen": ("not_in_snapshot", "not_found"),
    "farrar": ("other_version", "supported"),
}
"""Retracted, another paper, another number, nothing of the kind, invented, and another version."""


@pytest.fixture(scope="module")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Papers of the sample, one of them retracted in 1999."""
    folder = tmp_path_factory.mktemp("drafts")
    rows = [paper for paper in sample_papers() if paper["corpusid"] <= 1007100]
    notice = row(
        1, "Retraction", "3/15/1999 0:00", OriginalPaperDOI="10.1103/PhysRevD.48.R5049", Author="Eric Braaten",
        Title="Perturbative QCD Fragmentation Functions for B_c and B_c* Production",
    )  # fmt: skip
    sources = [snapshot_of(folder / "s2ag", rows), write(folder / "retraction_watch.csv", [notice])]
    ingest(sources, folder / "library")
    return folder / "library"


@pytest.fixture(scope="module")
def library(library_folder: Path) -> Iterator[Library]:
    with Library.open(library_folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def url(library: Library) -> Iterator[str]:
    with serving_in_thread(library) as served:
        yield served


@pytest.fixture(scope="module")
def checked(library: Library) -> dict[str, dict[str, Any]]:
    """The JSON of both drafts."""
    return {name: check_draft(library, text, BIBLIOGRAPHY).to_dict() for name, text in DRAFTS.items()}


@pytest.mark.parametrize("name", DRAFTS)
def test_six_wrong_citations_of_twenty_are_reported(checked: dict[str, Any], name: str) -> None:
    """What is wrong is said, and of the 14 others none is: most are not found word for word, and none contradicts."""
    content = checked[name]
    pairs = {one["key"]: one for one in content["citations"]}
    assert len(pairs) == len(content["citations"]) == 20
    assert {key: (pairs[key]["reference"], pairs[key]["label"]) for key in WRONG} == WRONG
    assert pairs["braaten"]["retraction_date"] == "1999-03-15"
    assert "retracted on 1999-03-15" in pairs["braaten"]["reference_reason"]
    assert pairs["braaten"]["reference_reason"].endswith("That was before the draft (2006-04-17).")
    assert pairs["jaffe"]["said_by"]["id"] == "arXiv:hep-ph/9305208"
    assert pairs["falk"]["missing_numbers"] == ["15"]
    assert "may hold all the same" in pairs["schlumpf"]["reason"]
    assert pairs["larsen"]["nearness"] is None
    assert pairs["jaffe"]["nearness"] < pairs["braaten"]["nearness"]
    assert [one["field"] for one in pairs["farrar"]["differences"]] == ["year"]
    others = [one for key, one in pairs.items() if key not in WRONG]
    assert {one["reference"] for one in others} == {"held"}
    assert {one["label"] for one in others} == {"supported", "not_found"}
    assert [key for key, one in pairs.items() if "said_by" in one] == ["jaffe"]
    assert content["references"] == {
        "held": 17, "retracted": 1, "other_version": 1, "not_in_snapshot": 1
    }  # fmt: skip


def test_latex_and_markdown_are_read_alike(checked: dict[str, Any]) -> None:
    latex, markdown = (
        {
            one["key"]: (one["label"], one["reference"], one.get("sentences"))
            for one in checked[name]["citations"]
        }
        for name in DRAFTS
    )
    assert latex == markdown


@pytest.mark.parametrize("name", DRAFTS)
def test_http_mcp_tools_client_and_command_give_the_same(
    library: Library, library_folder: Path, url: str, checked: dict[str, Any], name: str
) -> None:
    request = {"draft": DRAFTS[name], "bibliography": BIBLIOGRAPHY}
    expected = checked[name]
    assert httpx.post(f"{url}/v1/claims/draft", json=request, timeout=60).json() == expected
    with Client(url) as client:
        assert client.check_draft(**request) == expected
    tools = Tools(library, tool_set="claims")
    assert tools.call("check_draft", {**request, "max_tokens": 20_000})["citations"] == expected["citations"]
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(McpClient(f"{url}/mcp/claims")) as mcp,
    ):
        called = portal.call(mcp.call_tool, "check_draft", {**request, "max_tokens": 20_000})
    assert called.structured_content["citations"] == expected["citations"]
    text = called.content[0].text
    assert "references: held 17; not in snapshot 1; other version 1; retracted 1" in text
    assert "reference_reason It was retracted on 1999-03-15" in text.replace(
        "reference reason", "reference_reason"
    )
    assert "Dark Matters in Axino Gravitino Cosmology" in text
    command = ("check-draft", FOLDER / name)  # which names draft.bib
    done = run_cli(*command, "--library", library_folder, "--json", "--fail-on", "near,no_entry")
    assert (done.returncode, json.loads(done.stdout)) == (0, expected)
    failed = run_cli(*command, "--url", url, "--fail-on", "retracted")
    assert failed.returncode == 1
    assert ", falk: contradicts, held\n" in failed.stdout
    assert "References: 17 held, 1 not in snapshot, 1 other version, 1 retracted." in failed.stdout
    assert "\n   year: 1994 (library: 1993)\n" in failed.stdout
    suspects = failed.stdout.partition("\n\nCheck these first:\n")[2].splitlines()
    assert sorted(line.partition(", ")[2] for line in suspects) == [
        "braaten: retracted",
        "falk: contradicts",
        "jaffe: its words are in arXiv:hep-ph/9305208",
        "larsen: not in snapshot",
    ]


def test_a_short_response_says_what_is_left_out(library: Library) -> None:
    arguments = {"draft": DRAFTS["draft.md"], "bibliography": BIBLIOGRAPHY, "max_tokens": 1500}
    tools = Tools(library, tool_set="claims")
    content = tools.call("check_draft", arguments)
    left = content["left_out"]
    assert left["citations"] + len(content["citations"]) == 20
    assert "Ask again with more tokens" in left["how"]
    assert left["how"] in tools.call_as_text("check_draft", arguments)


def test_citations_of_latex() -> None:
    for command, keys in (
        (r"\cite{a}", "a"),
        (r"\citep[see][p.~3]{a,b}", "a b"),
        (r"\Citet*[ch.~2]{a}", "a"),
        (r"\textcite{a}", "a"),
        (r"\parencites(see)()[3]{a}[4]{b}", "a b"),
        (r"\autocite[\ref{x}]{a}", "a"),
        (r"\footcite{a}", "a"),
        (r"\citeauthor{a} (\citeyear{a})", "a"),
        (r"\volcite{3}{a}", "a"),
        (r"\citealp{ a , b }", "a b"),
        (r"\cite{a} {\em b}", "a"),
        (r"\nocite{a} \citestyle{b}", ""),
        (r"% \cite{a}", ""),
        (r"\begin{verbatim}\cite{a}\end{verbatim}", ""),
    ):
        draft = read_draft(f"\\section{{One}}\nBody text of a sentence\n {command}\n", "latex")
        assert [(one.line, " ".join(one.keys)) for one in draft.cited] == ([(3, keys)] if keys else [])


def test_citations_of_markdown() -> None:
    for text, claims in (
        ("Blah blah [see @doe99, pp. 33-35; also @smith04].", ["Blah blah.|doe99 smith04"]),
        ("@smith04 [p. 33] says blah.", ["says blah.|smith04"]),
        ("Smith says blah [-@smith04].", ["Smith says blah.|smith04"]),
        ("Curly [@{a.b,c}] keys.", ["Curly keys.|a.b,c"]),
        ("Write to a@b.org, or `[@code]`; [link](http://x.y/@z).", []),
        ("# A heading [@a]\n\nText [@b].\n\n```\n[@c]\n```\n", ["Text.|b"]),
        ("- one *item* [@a]\n- two [@b]\n", ["one item|a", "two|b"]),
        (
            "The first half says one thing [@a], while the second half says another [@b].",
            ["The first half says one thing|a", "while the second half says another.|b"],
        ),
        ("It is in @fig:one and @a.", ["It is in and.|fig:one a"]),
        ("So it is.[@a] Then more.", ["So it is.|a"]),
    ):
        cited = read_draft(text, "markdown").cited
        assert [f"{one.claim}|{' '.join(one.keys)}" for one in cited] == claims


@pytest.mark.parametrize(
    "piece",
    [
        r"\begin{verbatim}",
        r"\[ ",
        r"\ref[",
        r"\item[",
        ".",
        "[@a",
        " @a",
        "<!--",
        "[^",
        "\n[^a",
        "? ",
        r"\'{",
    ],
)
def test_a_draft_of_any_content_is_read(piece: str) -> None:
    """Beginnings without an end took time that grows with their square: a minute for this draft, hours for 1 MB."""
    draft = read_draft(
        rf"[@a \cite{{a}} {piece * (100_000 // len(piece))}", "markdown" if "\\" not in piece else "latex"
    )
    assert all(len(sentence.claim) <= 5_000 for sentence in draft.cited)


def test_a_line_break_with_a_length_begins_no_formula() -> None:
    text = r"One row is here \cite{a} \\[2pt] and a second one \cite{b}. \end{center}[Note \cite{c}]. \[ x \]"
    assert [key for sentence in read_draft(text).cited for key in sentence.keys] == ["a", "b", "c"]
    assert "2pt" not in "".join(sentence.claim for sentence in read_draft(text).cited)


def test_entries_come_from_the_draft_or_are_ids(sample: Library) -> None:
    listed = r"""\begin{document} QCD is a string theory \cite{gross,other,wrong}.
    \begin{thebibliography}{9}
    \bibitem{gross} D. J. Gross, W. Taylor, Two dimensional QCD is a string theory, 1993.
    \bibitem{wrong} J. Smith, A. Jones, Two dimensional QCD is a string theory, 1993.
    \end{thebibliography}\end{document}"""
    results = check_draft(sample, listed).citations
    assert [one.reference for one in results] == ["held", "no_entry", "near"]
    assert results[1].reference_reason == "The bibliography has no entry with the key other."
    assert results[2].reason == "The cited paper is not certain, so that the claim was not compared."
    [one] = check_draft(sample, "QCD is a string theory [@arXiv:hep-th/9301068; @fig:one].").citations
    assert (one.reference, one.paper and one.paper.id) == ("held", "arXiv:hep-th/9301068")


def test_requests_that_cannot_be_answered(sample: Library) -> None:
    many = " ".join(f"[@k{number}]" for number in range(1001))
    for draft, options, words in (
        (" ", {}, "draft is empty"),
        ("No citation.", {}, "cites nothing"),
        (f"Many {many}.", {}, "1,001 citations: the maximum is 1,000"),
        ("It [@a].", {"date": "2006-02-31"}, "date"),
        ("It [@a].", {"bibliography": "nothing {", "draft_format": "word"}, "draft_format"),
        ("It [@a].", {"judge": "model"}, "set SCHOLARBASE_MODEL"),
        ("It [@a].", {"judge": "minilm"}, "judge 'minilm' is neither"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            check_draft(sample, draft, **options)
