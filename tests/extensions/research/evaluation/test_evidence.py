"""Passages as answers: evidence is found in full texts, and passages are measured by what they hold."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from scholarbase.client import Client
from scholarbase.errors import InvalidRequest, QueryFileError
from scholarbase.ingest.job import ingest
from scholarbase.models.source import Source
from scholarbase.search.library import Library
from scholarbase_research.evaluation.answers import resolve_answers
from scholarbase_research.evaluation.evidence import first_places, span_of, value
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.measures import default_measures, evaluate
from scholarbase_research.evaluation.run_data import Run
from scholarbase_research.evaluation.runs import read_run
from scholarbase_research.evaluation.searching import PassageSettings, run_searches
from scholarbase_research.evaluation.targets import judge_passages
from tests.conftest import json_lines, run_cli, serving_in_thread, succeeded
from tests.fulltexts import ABSTRACT_ONLY, GRAPHS, GRAPHS_TEXT, MERGING, SENTENCE, SORTING, SORTING_TEXT

DEPTH = "The depth of the network is seven."
DEPTH_AT = SORTING_TEXT.index(DEPTH)
LAST = SENTENCE.format(n=60)
LAST_AT = GRAPHS_TEXT.index(LAST)


def write(path: Path, *queries: dict[str, object]) -> Path:
    return json_lines(path, queries)


def search(
    source: Source, file: Path, settings: PassageSettings, folder: Path, *, by_version: bool = False
) -> Run:
    queries = read_queries(file)
    judged = judge_passages(source, queries, by_version=by_version)
    options = {"name": "passages", "command": "a command"}
    return run_searches(
        source, queries, judged.queries, judged.counts, settings, folder / "passages", **options
    )


TASKS = ("parsing", "tagging", "translation", "summaries", "coreference", "entailment", "retrieval", "speech")
TASKS += ("captions", "dialogue")


def accuracy(version: int, task: str) -> str:
    """What a version of the paper says of a task: each another number."""
    return f"On the task of {task} the accuracy is {10 * version + TASKS.index(task)} percent."


@pytest.fixture(scope="module")
def two_versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """A paper with the texts of two versions, whose paragraphs are in opposite orders."""
    folder = tmp_path_factory.mktemp("two-versions")
    for version, tasks in ((1, TASKS), (2, TASKS[::-1])):
        paragraphs = "\n\n".join(accuracy(version, task) for task in tasks)
        start = "---\ntitle: Accuracies of ten tasks\n---\n# Accuracies of ten tasks\n\n## Results\n\n"
        (folder / f"2401.00001v{version}.md").write_text(start + paragraphs)
    ingest([], folder / "library", documents=[folder], encoder=None)
    with Library.open(folder / "library", encoder="none") as library:
        yield library


class TestMeasures:
    RANKING = ("arXiv:1#0-100", "arXiv:2#0-100", "arXiv:1#100-200", "arXiv:1#150-250")
    EVIDENCE = ("arXiv:1#90-130", "arXiv:1#180-200", "arXiv:3#0-10", "arXiv:2")

    def test_a_passage_holds_a_part_with_its_middle(self) -> None:
        # The middles are 110, in the third passage; 190, in the third and the fourth; and any passage of arXiv:2.
        places = first_places(self.RANKING, self.EVIDENCE)
        assert places == {"arXiv:1#90-130": 2, "arXiv:1#180-200": 2, "arXiv:2": 1}

    def test_values_by_hand(self) -> None:
        places = first_places(self.RANKING, self.EVIDENCE)
        values = {
            ("R", 1): 0.0, ("R", 2): 1 / 4, ("R", 3): 3 / 4, ("SetR", None): 3 / 4, ("RR", None): 1 / 2,
            ("RR", 1): 0.0, ("Success", 2): 1.0, ("Success", 1): 0.0,
        }  # fmt: skip
        for (family, cutoff), expected in values.items():
            assert value(family, cutoff, places, len(self.EVIDENCE)) == expected

    def test_a_passage_ends_before_its_end(self) -> None:
        assert first_places(["arXiv:1#0-10"], ["arXiv:1#10-11"]) == {}
        assert first_places(["arXiv:1#10-11"], ["arXiv:1#10-11"]) == {"arXiv:1#10-11": 0}


class TestJudging:
    def test_text_offsets_passages_and_papers_become_parts_of_texts(
        self, full_texts: Library, tmp_path: Path
    ) -> None:
        file = write(
            tmp_path / "q.jsonl",
            {"id": "text", "query": "How deep?", "paper": SORTING, "evidence": DEPTH},
            {
                "id": "letters",
                "query": "How deep?",
                "title": "Sorting networks of small depth",
                "evidence": ["the depth of the net-\nwork is Seven"],
            },
            {"id": "offsets", "query": "q", "paper": SORTING, "evidence": {"start": 10, "end": 26}},
            {"id": "passage", "query": "q", "evidence": [{"passage": f"{MERGING}#0-30"}]},
            {"id": "paper", "query": "q", "evidence": [{"paper": GRAPHS}]},
            {"id": "twice", "query": "q", "paper": GRAPHS, "evidence": [LAST, LAST.upper()]},
            {"id": "absent", "query": "q", "paper": GRAPHS, "evidence": ["No such sentence.", LAST]},
            {"id": "outside", "query": "q", "paper": SORTING, "evidence": {"start": 0, "end": 10**6}},
            {"id": "no-text", "query": "q", "evidence": {"paper": ABSTRACT_ONLY, "text": "We say little."}},
            {"id": "no-paper", "query": "q", "evidence": {"paper": "arXiv:1706.03762", "text": "Attention."}},
        )
        judged = judge_passages(full_texts, read_queries(file))
        found = {query.id: [(a.paper_id, a.found) for a in query.answers] for query in judged.queries}
        depth = f"{SORTING}#{DEPTH_AT}-{DEPTH_AT + len(DEPTH)}"
        last = f"{GRAPHS}#{LAST_AT}-{LAST_AT + len(LAST)}"
        assert found["text"] == [(depth, "id")]
        # Without the full stop, which is not a letter.
        assert found["letters"] == [(f"{SORTING}#{DEPTH_AT}-{DEPTH_AT + len(DEPTH) - 1}", "title")]
        assert found["offsets"] == [(f"{SORTING}#10-26", "id")]
        assert found["passage"] == [(f"{MERGING}#0-30", "id")]
        assert found["paper"] == [(GRAPHS, "id")]
        assert [name for name, _ in found["twice"]] == [
            last,
            f"{last.rpartition('-')[0]}-{LAST_AT + len(LAST) - 1}",
        ]
        assert [by for _, by in found["absent"]] == ["absent", "id"]
        assert found["outside"] == [(f"{SORTING}#0-1000000", "absent")]
        assert [by for _, by in found["no-text"] + found["no-paper"]] == ["absent", "absent"]
        counts = judged.counts
        assert (counts["answers"], counts["absent"], counts["text_absent"]) == (12, 4, 3)

    def test_rankings_of_papers_are_judged_by_the_papers_of_the_evidence(
        self, full_texts: Library, tmp_path: Path
    ) -> None:
        evidence = [DEPTH, "Every zebra sorts first.", {"paper": MERGING, "text": "We merge sorted lists."}]
        file = write(tmp_path / "q.jsonl", {"id": 1, "query": "q", "paper": SORTING, "evidence": evidence})
        [query] = resolve_answers(full_texts, read_queries(file)).queries
        assert [answer.paper_id for answer in query.answers] == [SORTING, MERGING]

    def test_a_library_without_any_of_the_evidence_is_an_error(
        self, full_texts: Library, tmp_path: Path
    ) -> None:
        file = write(
            tmp_path / "q.jsonl", {"id": 1, "query": "q", "paper": SORTING, "evidence": "Not in this paper."}
        )
        with pytest.raises(QueryFileError, match="none of it is in their full texts"):
            judge_passages(full_texts, read_queries(file))


class TestRuns:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return write(
            tmp_path / "zebras.jsonl",
            {"query_id": "depth", "query": "depth of the network", "paper": SORTING, "evidence": DEPTH},
            {
                "query_id": "lost",
                "query": "smaller head of both lists",
                "paper": MERGING,
                "evidence": ["Take the smaller head", "This is not there at all."],
            },
        )

    def test_over_all_papers(self, full_texts: Library, file: Path, tmp_path: Path) -> None:
        run = search(full_texts, file, PassageSettings(mode="sparse", limit=10), tmp_path)
        assert (run.manifest.kind, run.manifest.search["in_paper"]) == ("passages", False)  # type: ignore[index]
        evaluated = evaluate(run, default_measures(run))
        assert evaluated.measures == ("R@1", "R@5", "R@10", "RR@10")
        # Each text is one passage of 512 tokens. One of the two pieces of the second query is not in its text.
        assert evaluated.values("R@1") == {"depth": 1.0, "lost": 0.5}
        assert evaluated.values("R@1", "held") == {"depth": 1.0, "lost": 1.0}
        assert read_run(tmp_path / "passages") == run

    def test_in_its_paper_each_sentence_is_a_passage(
        self, full_texts: Library, file: Path, tmp_path: Path
    ) -> None:
        settings = PassageSettings(mode="sparse", limit=10, in_paper=True, chunker="paragraphs")
        run = search(full_texts, file, settings, tmp_path)
        first = run.rankings["depth"][0].id
        # "2 Results", an empty line, and the paragraph to the end of the text.
        assert first == f"{SORTING}#{SORTING_TEXT.index('2 Results')}-{len(SORTING_TEXT)}"
        assert {span_of(ranked.id).paper for ranked in run.rankings["lost"]} == {MERGING}  # type: ignore[union-attr]

    def test_settings_that_do_not_apply_are_refused(self) -> None:
        for settings, message in (
            ({"chunker": "paragraphs"}, "needs in_paper"),
            ({"in_paper": True, "to": "2020"}, "apply to searches over all papers"),
            ({"limit": 1001}, "limit"),
        ):
            with pytest.raises(InvalidRequest, match=message):
                PassageSettings(**settings)  # type: ignore[arg-type]

    def test_a_search_in_a_paper_needs_one(self, full_texts: Library, tmp_path: Path) -> None:
        for evidence, message in (
            ([{"paper": SORTING}], "is a whole paper"),
            ([DEPTH, {"paper": MERGING, "text": "Take the smaller head"}], "is in 2 papers"),
        ):
            query = {"id": 1, "query": "depth", "paper": SORTING, "evidence": evidence}
            file = write(tmp_path / "q.jsonl", query)
            with pytest.raises(QueryFileError, match=message):
                search(full_texts, file, PassageSettings(mode="sparse", in_paper=True), tmp_path)

    @pytest.mark.whole
    def test_each_question_is_searched_in_its_version(self, two_versions: Library, tmp_path: Path) -> None:
        """SciDQA asks ten questions about the first and ten about the final version."""
        file = write(
            tmp_path / "versions.jsonl",
            *(
                {
                    "id": f"{task}-{name}",
                    "query": f"What is the accuracy on {task}?",
                    "paper": "arXiv:2401.00001",
                    "version": name,
                    "evidence": [accuracy(version, task)],
                }
                for task in TASKS
                for version, name in ((1, "initial"), (2, "final"))
            ),
        )
        settings = PassageSettings(mode="sparse", limit=10, in_paper=True, chunker="paragraphs")
        with serving_in_thread(two_versions) as url, Client(url) as client:
            runs = [
                search(source, file, settings, tmp_path / name, by_version=True)
                for name, source in (("here", two_versions), ("there", client))
            ]
            over_http = {
                query.id: client.passages(
                    "arXiv:2401.00001", query.text, version=query.version, chunker="paragraphs"
                )
                for query in runs[0].queries
            }
        assert [query.version for query in runs[0].queries] == [1, None] * 10
        assert runs[0].rankings == runs[1].rankings
        assert set(evaluate(runs[0], ["Success@1"]).values("Success@1").values()) == {1.0}
        for query in runs[0].queries:
            first = over_http[query.id].results[0].passage
            assert accuracy(query.version or 2, query.id.partition("-")[0]) in first.text
            assert runs[0].rankings[query.id][0].id.endswith(f"#{first.start}-{first.end}")

    def test_versions_are_read_as_numbers_and_names(self, tmp_path: Path) -> None:
        query = {"id": 1, "query": "q", "paper": SORTING, "evidence": DEPTH}
        for written, version in ((2, 2), ("v3", 3), ("Initial", 1), ("final", None), (None, None)):
            file = write(tmp_path / "q.jsonl", query | {"version": written})
            [target] = read_queries(file).queries[0].answers
            assert target.version == version  # type: ignore[attr-defined]
        with pytest.raises(QueryFileError, match="version is 'draft', and must be a number from 1 on"):
            read_queries(write(tmp_path / "q.jsonl", query | {"version": "draft"}))

    @pytest.mark.slow
    def test_the_command(self, full_text_library: Path, file: Path, tmp_path: Path) -> None:
        place = ["--library", full_text_library, "--mode", "sparse"]
        done = succeeded("eval", "run", file, *place, "--in-paper", "--json", cwd=tmp_path)
        [shown] = json.loads(done.stdout)["runs"]
        assert shown["name"] == "zebras-sparse-in-paper"
        assert shown["measures"]["all"]["R@1"]["mean"] == 0.75
        refused = run_cli("eval", "run", file, *place, "--pool", cwd=tmp_path)
        assert refused.returncode != 0
        assert "--pool applies to queries whose answers are papers" in refused.stderr
