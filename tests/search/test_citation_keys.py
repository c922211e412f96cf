"""Citation keys of people's own files: ids wherever a request has one."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from scholarbase import Client, write_papers
from scholarbase.errors import InvalidRequest, PaperNotFound
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.search.library import Library
from scholarbase.tools import Tools
from scholarbase.updates.job import update
from tests.conftest import json_lines, serving_in_thread

PAPERS = [
    {"corpusid": 1, "title": "Deep learning for graphs", "externalids": {"DOI": "10.1000/graphs"}},
    {"corpusid": 2, "title": "Kernels everywhere", "authors": [{"name": "Cy Jones"}], "year": 2019},
]
MINE = """
@article{smith2020, title={Deep learning for graphs}, author={Smith, Ann}, year=2020, doi={10.1000/graphs}}
@article{DBLP:conf/acl/Foo20, title={Parsing things quickly}, author={Foo, Bob}, year=2020}
@article{Jones:2019, title={Kernels everywhere}, author={Jones, Cy}, year=2019}
@article{kernels+2, title={Kernels everywhere}, author={Jones, Cy}, year=2019}
@misc{twice, title={The first with this key}}
@misc{twice, title={The second with this key}}
@misc{12, title={A number as its key}}
@misc{Müller_2021, title={Letters beyond ASCII}}
"""
THEIRS = [
    {"id": "smith2020", "title": "Another paper of Smith", "author": [{"family": "Smith", "given": "Ann"}]},
    {"id": "http://zotero.org/1", "citation-key": "lee2018", "title": "A key of its own", "type": "book"},
    {"id": "http://zotero.org/users/1/items/AB", "title": "A link as its key", "type": "book"},
    {"id": 34, "title": "A whole number as its key", "type": "book"},
]
RIS = "TY  - JOUR\nID  - Ris Key 1\nTI  - A key with spaces\nER  - \n"
TABLE = "Key,Citation Key,Title\nAB12CD34,csv2020,A row with both keys\nEF56,,A row with Zotero's key\n"
FILES = {"mine.bib": MINE, "theirs.json": json.dumps(THEIRS), "some.ris": RIS, "rows.csv": TABLE}
OF_TITLES = {
    "DBLP:conf/acl/Foo20": "Parsing things quickly",
    "Jones:2019": "Kernels everywhere",
    "kernels+2": "Kernels everywhere",
    "12": "A number as its key",
    "Müller_2021": "Letters beyond ASCII",
    "lee2018": "A key of its own",
    "http://zotero.org/users/1/items/AB": "A link as its key",
    "34": "A whole number as its key",
    "Ris Key 1": "A key with spaces",
    "csv2020": "A row with both keys",
    "EF56": "A row with Zotero's key",
}
BARE = ("DBLP:conf/acl/Foo20", "Jones:2019", "kernels+2", "Müller_2021", "lee2018", "csv2020", "EF56")
KERNELS = "CorpusId:2"


def sources(folder: Path) -> list[Path]:
    (folder / "s2").mkdir(parents=True)
    json_lines(folder / "s2" / "papers.jsonl", PAPERS)
    (folder / "s2" / "citations.jsonl").write_text('{"citationid":1,"citingcorpusid":1,"citedcorpusid":2}\n')
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return [folder / "s2", *(folder / name for name in FILES)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    ingest(sources(folder), folder / "library", rules=IngestRules(keep="title"))
    return folder / "library"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    with Client(url) as opened:
        yield opened


def test_a_key_is_an_id(library: Library, client: Client) -> None:
    for key, title in OF_TITLES.items():
        file = next(name for name, text in FILES.items() if key in text)
        assert library.paper(f"Key:{file}/{key}").title == title
        for source in (library, client):
            assert source.paper(f"Key:{key}").title == title
            if key in BARE:
                assert source.paper(key).title == title


def test_results_show_an_id_that_every_request_accepts(library: Library) -> None:
    papers = [
        hit.paper for hit in library.search("kernels key smith deep learning letters row", limit=50).results
    ]
    shown = [paper for paper in papers if "Key" in paper.external_ids]
    assert len(shown) == len(papers) > 8
    twice = "The first with this key", "The second with this key"
    for paper in shown:
        if paper.title not in twice:
            assert library.paper(f"Key:{paper.external_ids['Key']}") == paper
    assert {p.title: p.external_ids["Key"] for p in shown}[
        "Another paper of Smith"
    ] == "theirs.json/smith2020"
    assert library.paper(KERNELS).external_ids == {"CorpusId": "2", "Key": "Jones:2019"}


def test_every_request_that_takes_ids_takes_keys(library: Library, client: Client) -> None:
    for source in (library, client):
        assert [paper and paper.id for paper in source.papers(["lee2018x", "Jones:2019"])] == [None, KERNELS]
        assert [one.paper.id for one in source.citations("Jones:2019").results] == ["CorpusId:1"]
        assert [one.paper.id for one in source.references("Key:mine.bib/smith2020").results] == [KERNELS]
        assert [one.paper.id for one in source.expand(["Jones:2019"], direction="citations").results] == [
            "CorpusId:1"
        ]
        assert [hit.paper.id for hit in source.similar("Jones:2019").results] == ["CorpusId:1"]
        assert [hit.paper.id for hit in source.search("kernels", within=["kernels+2"]).results] == [KERNELS]
        without = source.search("kernels", exclude_ids=["Jones:2019", "nobody1999"])
        assert KERNELS not in [hit.paper.id for hit in without.results]
        assert "nobody1999" in str(without.warnings)
        assert source.search("lee2018").results[0].paper.title == "A key of its own"
        assert source.search("Key:Jones:2019").results[0].paper.id == KERNELS


def test_a_line_may_be_a_key(library: Library) -> None:
    lines = "lee2018\nKey:Jones:2019\n[3] Müller_2021\nsmith2020\nnobody1999\nKey:nobody1999\n"
    checked = library.check_references(lines, input_format="text").results
    assert [one.status for one in checked] == [*["held"] * 3, "near", *["not_in_snapshot"] * 2]
    assert [one.paper.title for one in checked[:3] if one.paper] == [
        *("A key of its own", "Kernels everywhere", "Letters beyond ASCII")
    ]
    assert len(checked[3].matches) == 2


def test_tools_take_keys(library: Library) -> None:
    tools = Tools(library)
    found = tools.call("get_papers", {"ids": ["Jones:2019", "smith2020", "nobody1999"]})["results"]
    assert found[0]["id"] == KERNELS
    assert "is that of 2 papers" in found[1]["error"]
    assert found[2] is None
    assert tools.call("get_references", {"paper_id": "Key:mine.bib/smith2020"})["total"] == 1


def test_a_key_of_two_papers_is_refused_with_both(library: Library, client: Client) -> None:
    for source in (library, client):
        for key, call in product(
            ("smith2020", "Key:smith2020"), (source.paper, source.citations, source.papers)
        ):
            with pytest.raises(InvalidRequest, match="key 'smith2020' is that of 2 papers") as raised:
                call(key)
            message = str(raised.value)
            assert "Key:mine.bib/smith2020 ('Deep learning for graphs')" in message
            assert "Key:theirs.json/smith2020 ('Another paper of Smith')" in message
    assert library.paper("Key:mine.bib/smith2020").id == "CorpusId:1"
    assert library.paper("theirs.json/smith2020").title == "Another paper of Smith"


def test_a_key_of_two_papers_of_one_file_is_refused_with_their_ids(library: Library) -> None:
    with pytest.raises(InvalidRequest, match=r"is that of 2 papers: use Doc:\S+ .* or Doc:\S+ ") as raised:
        library.paper("twice")
    assert "mine.bib" not in str(raised.value)
    with pytest.raises(InvalidRequest, match="is that of 2 papers"):
        library.paper("Key:mine.bib/twice")


def test_the_error_for_an_unknown_key_names_similar_ones(client: Client) -> None:
    for key, near in (
        ("LEE2018", "'lee2018'"),
        ("jones:2019", "'Jones:2019'"),
        ("Key:lee2019", "'lee2018'"),
        ("Key:theirs.json/lee2019", "'theirs.json/lee2018'"),
        ("mueller_2021", "'Müller_2021'"),
    ):
        with pytest.raises(PaperNotFound, match=f"No paper '{key}' .*similar citation keys are .*{near}"):
            client.paper(key)


DATED = """
@article{shared, title={An early paper with this key}, author={Early, Ann}, date={2001-02-03}}
@article{only2001, title={Another early paper}, author={Early, Ann}, date={2001-02-03}}
"""
LATER = """
@article{shared, title={A later paper with this key}, author={Late, Bob}, date={2015-06-07}}
@article{only2015, title={Another later paper}, author={Late, Bob}, date={2015-06-07}}
@article{pair, title={One of two later papers}, author={Late, Bob}, date={2015-06-07}}
"""
LATEST = "@article{pair, title={The other of two later papers}, author={Late, Bob}, date={2015-06-08}}"


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("dated")
    for name, text in (("early.bib", DATED), ("later.bib", LATER), ("latest.bib", LATEST)):
        (folder / name).write_text(text)
    ingest(sorted(folder.glob("*.bib")), folder / "library", rules=IngestRules(keep="title"))
    with Library.open(folder / "library") as opened:
        yield opened


def test_keys_of_later_papers_are_not_named_at_a_point_in_time(dated: Library) -> None:
    with pytest.raises(InvalidRequest, match="is that of 2 papers"):
        dated.paper("shared")
    early = dated.paper("shared", as_of="2010-01")
    assert early.title == "An early paper with this key"
    assert dated.papers(["shared", "pair"], as_of="2010-01") == [early, None]
    for _ in range(2):  # with and without the cache
        with pytest.raises(PaperNotFound, match=r"No paper 'pair' .*try a title match"):
            dated.paper("pair", as_of="2010-01")
        with pytest.raises(PaperNotFound, match=r"similar citation keys are 'only2001' \("):
            dated.paper("only2011", as_of="2010-01")
    with pytest.raises(PaperNotFound, match="similar citation keys are 'only2001', 'only2015'"):
        dated.paper("only2011")
    with pytest.raises(InvalidRequest, match="is that of 2 papers"):
        dated.paper("pair", as_of="2016-01")
    lines = "shared\npair\n"
    then, unknown = dated.check_references(lines, input_format="text", as_of="2010-01").results
    assert (then.status, then.paper) == ("held", early)
    assert (unknown.status, unknown.reason) == ("not_in_snapshot", "No title or id found in the reference.")
    assert [one.status for one in dated.check_references(lines, input_format="text").results] == ["near"] * 2


def test_other_invalid_ids_stay_invalid(library: Library, sample: Library) -> None:
    for text in ("two words", "arXiv:99", "12345"):
        with pytest.raises(InvalidRequest):
            library.paper(text)
    with pytest.raises(PaperNotFound, match=r"No paper 'zzzz' .*try a title match"):
        library.paper("zzzz")
    for call in (
        sample.paper,
        lambda one: sample.papers([one]),
        lambda one: sample.search("q", exclude_ids=[one]),
    ):
        with pytest.raises(InvalidRequest, match="'smith2020' is not a valid paper id"):
            call("smith2020")
    with pytest.raises(PaperNotFound, match="No paper 'Key:smith2020'"):
        sample.paper("Key:smith2020")


def test_an_answer_by_key_counts_as_its_paper(path: Path, tmp_path: Path) -> None:
    with (
        Library.open(path) as library,
        serving_in_thread(library, sessions=str(tmp_path)) as url,
        Client(url) as client,
    ):
        client.open_session("one")
        client.record_answer("one", ["Jones:2019", "nobody1999"])
        assert client.trajectory("one")[-1]["ids"] == [KERNELS, "Key:nobody1999"]
        report = client.session_report("one", ["kernels+2"])
        assert (report["answers"], report["answers_absent"]) == (1, [])


def test_exports_write_the_own_keys(library: Library, client: Client) -> None:
    ids = ["Jones:2019", "Key:mine.bib/smith2020", "Key:theirs.json/smith2020", "Key:Ris Key 1"]
    text = write_papers([paper for paper in client.papers(ids) if paper])
    heads = [line.partition("{")[2].rstrip(",") for line in text.splitlines() if line.startswith("@")]
    assert heads == ["Jones:2019", "smith2020", "smith2020a", "RisKey1"]
    again = write_papers([library.paper("Jones:2019")], "csv").splitlines()
    assert dict(zip(again[0].split(","), again[1].split(","), strict=True))["key"] == "Jones:2019"


@pytest.mark.slow
def test_keys_survive_updates(path: Path, tmp_path: Path) -> None:
    """The library that an update makes is that of a full build, and keys of entries that left are unknown."""
    folder = tmp_path / "again"
    every = sources(folder)
    newer = MINE.replace("smith2020", "smith2021").replace("@article{kernels+2", "@article{Kernels+2")
    (folder / "mine.bib").write_text(newer)
    update(path, [folder / "mine.bib"], tmp_path / "updated")
    ingest(every, tmp_path / "full", rules=IngestRules(keep="title"))
    with Library.open(tmp_path / "updated") as updated, Library.open(tmp_path / "full") as full:
        assert updated.manifest.content == full.manifest.content
        assert updated.paper("smith2021").id == "CorpusId:1"
        assert updated.paper("smith2020").external_ids["Key"] == "smith2020"
        assert updated.paper("Kernels+2").id == KERNELS
        with pytest.raises(PaperNotFound, match=r"'kernels\+2' .*'Kernels\+2'"):
            updated.paper("kernels+2")
