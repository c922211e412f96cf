"""How often the evidence for a claim is found, and labels are right: SciFact's claims with their evidence sentences.

``python benchmarks/claims.py --data ../shared/data`` prints the figures of docs/measurements.md. The settings
were chosen on the half ``choose`` (every other claim, from the first), and ``report`` is the other half. With
``--library``, one of arXiv's papers, the sentences of unarXive's papers that cite papers of the library are compared
with them, with the six most similar other papers, and with another reference of the same text; with ``--queries`` too,
AutoScholarQuery's questions with their answers and the papers most similar to these.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from scipy.stats import binomtest

from scholarbase import Library
from scholarbase.documents.sentences import sentence_spans
from scholarbase.errors import InvalidRequest
from scholarbase.models.papers import Paper
from scholarbase.models.responses import CheckedReference
from scholarbase.settings import load_settings
from scholarbase_research.claims.comparison import (
    NUMBER,
    Comparison,
    compare_claim,
    without_citation,
)
from scholarbase_research.claims.nearness import nearness

Claim = dict[str, Any]
CHANGED: Final = 100
PAIRS: Final = 200
"""Pairs of a citing sentence and a similar wrong paper: sentences have a second one, at random, to make so many."""
FIELDS: Final = ("id", "title", "abstract", "authors", "year")
_CITATION: Final = re.compile(r"\{\{cite:([0-9a-f]+)\}\}")
_ARXIV: Final = re.compile(r"0[7-9]\d\d\.\d{4}|1[0-4]\d\d\.\d{4}|(?:1[5-9]|2\d)\d\d\.\d{5}")
_OTHER: Final = re.compile(r"\{\{\w+:[^{}]*\}\}")


def read(data: Path) -> tuple[dict[str, str], list[Claim]]:
    """The abstracts by id, and the claims."""
    with gzip.open(data / "scifact" / "corpus.jsonl.gz") as file:
        texts = {str(record["_id"]): record["text"] for record in map(json.loads, file)}
    lines = (data / "scifact-claims" / "claims.jsonl").read_text().splitlines()
    return texts, [json.loads(line) for line in lines]


def has(comparison: Comparison, evidence: str) -> bool:
    return any(evidence in sentence.text or sentence.text in evidence for sentence in comparison.sentences)


def measure(texts: dict[str, str], claims: Sequence[Claim]) -> None:
    labels: Counter[tuple[str, str]] = Counter()
    hits = sentences = sentence_hits = above = 0
    begin = perf_counter()
    results = [(claim, compare_claim(claim["claim"], [(0, texts[claim["doc_id"]])])) for claim in claims]
    milliseconds = (perf_counter() - begin) / len(claims) * 1000
    for claim, comparison in results:
        evidence = [sentence for group in claim["evidence"] for sentence in group]
        shown = [has(comparison, sentence) for sentence in evidence]
        hits, sentences, sentence_hits = hits + any(shown), sentences + len(shown), sentence_hits + sum(shown)
        labels[claim["label"], comparison.label] += 1
    print(f"{len(claims)} claims, {milliseconds:.1f} ms each")
    print(f"  an evidence sentence is in the first three: {hits / len(claims):.3f}")
    print(f"  evidence sentences in the first three: {sentence_hits / sentences:.3f} of {sentences}")
    for (truth, label), count in sorted(labels.items()):
        print(f"  {truth}: {label} {count}")
    for claim, comparison in results[:200]:
        rivals = (compare_claim(claim["claim"], [(0, text)]) for key, text in _similar(claim, texts, claims))
        best = max((rival.sentences[0].score for rival in rivals if rival.sentences), default=0.0)
        above += comparison.sentences[0].score > best
    print(f"  right paper above the most similar wrong one: {above} of {len(results[:200])}")


def _similar(claim: Claim, texts: dict[str, str], claims: Sequence[Claim]) -> list[tuple[str, str]]:
    """The paper, of the other claims' papers, that has most of the right paper's words."""
    right = set(texts[claim["doc_id"]].lower().split())
    others = sorted({other["doc_id"] for other in claims} - {claim["doc_id"]})

    def shared(key: str) -> float:
        words = set(texts[key].lower().split())
        return len(words & right) / len(words | right)

    best = max(others, key=shared)
    return [(best, texts[best])]


def change_numbers(texts: dict[str, str], claims: Sequence[Claim]) -> None:
    """Change the first digit of a number in sentences that the papers have."""
    generator = random.Random(7)
    stated = [
        (sentence, texts[record["doc_id"]])
        for record in claims
        for group in record["evidence"]
        for sentence in group
        if NUMBER.search(sentence)
    ]
    generator.shuffle(stated)
    changed: Counter[str] = Counter()
    for sentence, text in stated[:CHANGED]:
        number = generator.choice(list(NUMBER.finditer(sentence)))
        position = next(n for n in range(number.start(), number.end()) if sentence[n].isdigit())
        digit = generator.choice([character for character in "123456789" if character != sentence[position]])
        for name, claim in (
            ("changed", f"{sentence[:position]}{digit}{sentence[position + 1 :]}"),
            ("unchanged", sentence),
        ):
            comparison = compare_claim(claim, [(0, text)])
            changed[f"{name} flagged"] += bool(comparison.missing_numbers)
            changed[f"{name} contradicts"] += comparison.label == "contradicts"
    print(f"  numbers of {len(stated[:CHANGED])} sentences: {dict(changed)}")


def citing_sentences(data: Path) -> Iterator[tuple[str, str, str]]:
    """The sentences of unarXive's papers, without marks, each with its paper and each entry that it cites."""
    with gzip.open(data / "unarxive-sample" / "arXiv_src_2212_086.jsonl.gz") as file:
        papers = [json.loads(line) for line in file]
    for paper in papers:
        for text in (paragraph["text"] for paragraph in paper["body_text"] if "{{cite:" in paragraph["text"]):
            marks = _CITATION.findall(text)
            marked = _OTHER.sub("X", _CITATION.sub("\ue000", text))
            for start, end in sentence_spans(marked):
                first = marked[:start].count("\ue000")
                sentence = marked[start:end]
                claim = " ".join(sentence.replace("\ue000", " ").split())
                if len(claim.split()) >= 8:
                    for mark in dict.fromkeys(marks[first : first + sentence.count("\ue000")]):
                        if entry := paper["bib_entries"].get(mark):
                            yield paper["paper_id"], claim, " ".join(entry["bib_entry_raw"].split())


def contexts(library: Library, data: Path) -> None:
    """Compare citing sentences with the cited paper, with the most similar other ones, and with another reference."""
    sentences = list(citing_sentences(data))
    cited = cited_papers(library, sorted({entry for _, _, entry in sentences}), entry_ids(data))
    references: dict[str, dict[str, Paper]] = {}
    pairs: dict[tuple[str, str], tuple[str, str, Paper]] = {}
    for citing, claim, entry in sentences:
        if (paper := cited.get(entry)) is not None:
            references.setdefault(citing, {})[paper.id] = paper
            pairs[claim, paper.id] = citing, claim, paper
    print(f"unarXive: {len(sentences)} citations, {len(pairs)} pairs of {len(references)} papers")
    counts: Counter[tuple[str, str]] = Counter()
    repeated = min(max(0, PAIRS - len(pairs)), len(pairs))
    second = set(random.Random(7).sample(range(len(pairs)), repeated))
    for number, (citing, claim, right) in enumerate(pairs.values()):
        similar = _most_similar(library, right, 6)
        count(counts, "most similar", claim, right, similar[:1])
        count(counts, f"{PAIRS} pairs", claim, right, similar[: 1 + (number in second)])
        count(counts, "next five", claim, right, similar[1:])
        if others := [paper for key, paper in sorted(references[citing].items()) if key != right.id]:
            other = random.Random(claim + right.id).choice(others)
            count(counts, "other reference", claim, right, [other])
    show(counts)


def questions(library: Library, path: Path) -> None:
    """Compare questions with two of their answers each, and with the most similar papers that are none."""
    counts: Counter[tuple[str, str]] = Counter()
    for question in map(json.loads, path.read_text().splitlines()):
        ids = [name for name in question["answer_arxiv_ids"] if _ARXIV.fullmatch(name)]
        answers = [paper for paper in library.papers(ids, fields=FIELDS) if paper is not None] if ids else []
        for right in answers[:2]:
            others = _most_similar(library, right, 8, {paper.id for paper in answers})
            count(counts, "most similar, of questions", question["final_query"], right, others[:1])
            count(counts, "three most similar, of questions", question["final_query"], right, others[:3])
    show(counts)


def _most_similar(library: Library, right: Paper, limit: int, without: Collection[str] = ()) -> list[Paper]:
    papers = (hit.paper for hit in library.similar(right.id, limit=limit, fields=FIELDS).results)
    return [paper for paper in papers if paper.id not in without]


def count(
    counts: Counter[tuple[str, str]], kind: str, claim: str, right: Paper, wrong: Sequence[Paper]
) -> None:
    """Count the wrong papers that the right one is above."""
    near, best = nearness(claim, right), _best_sentence(claim, right)
    for paper in wrong:
        counts[kind, "pairs"] += 1
        counts[kind, "nearer"] += near > nearness(claim, paper)
        other = _best_sentence(claim, paper)
        counts[kind, "best sentence"] += best > other
        counts[kind, "best sentences equal"] += best == other


def _best_sentence(claim: str, paper: Paper) -> float:
    compared = compare_claim(without_citation(claim, paper), [(0, paper.abstract or "")])
    return compared.sentences[0].score if compared.sentences else 0.0


def show(counts: Counter[tuple[str, str]]) -> None:
    for kind in dict.fromkeys(kind for kind, _ in counts):
        values = {name: number for (other, name), number in counts.items() if other == kind}
        low, high = binomtest(values["nearer"], values["pairs"]).proportion_ci(method="exact")
        print(f"{kind}: {values}, nearer {values['nearer'] / values['pairs']:.3f} ({low:.3f} to {high:.3f})")


def entry_ids(data: Path) -> dict[str, list[str]]:
    """The arXiv ids and DOIs of unarXive's entries, by their texts."""
    with gzip.open(data / "unarxive-sample" / "arXiv_src_2212_086.jsonl.gz") as file:
        entries = [entry for line in file for entry in json.loads(line)["bib_entries"].values()]
    return {
        " ".join(entry["bib_entry_raw"].split()): [
            f"{scheme}:{name}"
            for scheme, name in (
                ("arXiv", entry.get("ids", {}).get("arxiv_id")),
                *(("arXiv", contained["id"]) for contained in entry.get("contained_arXiv_ids") or ()),
                ("DOI", entry.get("ids", {}).get("doi")),
            )
            if name
        ]
        for entry in entries
    }


def cited_papers(
    library: Library, entries: Sequence[str], ids: Mapping[str, Sequence[str]] = {}
) -> dict[str, Paper]:
    """The papers of references that the library has with an abstract, by the reference or else by its ``ids``."""
    papers = {}
    for start in range(0, len(entries), 100):
        batch = entries[start : start + 100]
        results = library.check_references("\n".join(batch), input_format="text", fields=FIELDS).results
        for entry, checked in zip(batch, results, strict=True):
            paper = checked.paper if isinstance(checked, CheckedReference) else None
            if paper is None or not paper.abstract:
                paper = next((paper for name in ids.get(entry, ()) if (paper := _paper(library, name))), None)
            if paper is not None and paper.abstract:
                papers[entry] = paper
    return papers


def _paper(library: Library, name: str) -> Paper | None:
    try:
        return library.papers([name], fields=FIELDS)[0]
    except InvalidRequest:  # not a valid id
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--queries", type=Path)
    options = parser.parse_args()
    if options.library is not None:
        with Library.open(options.library, settings=load_settings(timeout=600)) as library:
            if options.queries is None:
                contexts(library, options.data)
            else:
                questions(library, options.queries)
        return
    texts, claims = read(options.data)
    for name, half in (("choose", claims[::2]), ("report", claims[1::2])):
        print(name, end=": ")
        measure(texts, half)
        change_numbers(texts, half)


if __name__ == "__main__":
    main()
