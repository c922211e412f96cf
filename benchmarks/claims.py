"""How often the evidence for a claim is found, and labels are right: SciFact's claims with their evidence sentences.

``python benchmarks/claims.py --data ../shared/data`` prints the figures of docs/measurements.md. The settings
were chosen on the half ``choose`` (every other claim, from the first), and ``report`` is the other half. With
``--library``, one of arXiv's papers, the sentences of unarXive's papers that cite papers of the library are compared
with them, with the six most similar other papers, and with another reference of the same text; ``nearness`` was chosen
on the second to sixth most similar.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from scholarbase import Library
from scholarbase.documents.sentences import sentence_spans
from scholarbase.encoders import Encoder, document_text, open_encoder
from scholarbase.models.encoders import PACKAGED
from scholarbase.models.papers import Paper
from scholarbase.models.responses import CheckedReference
from scholarbase.settings import load_settings
from scholarbase_research.claims.comparison import (
    NUMBER,
    Comparison,
    compare_claim,
    content_stems,
    content_words,
    without_citation,
)

Claim = dict[str, Any]
CHANGED: Final = 100
FIELDS: Final = ("id", "title", "abstract", "authors", "year")
_CITATION: Final = re.compile(r"\{\{cite:([0-9a-f]+)\}\}")
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
    cited = cited_papers(library, sorted({entry for _, _, entry in sentences}))
    references: dict[str, dict[str, Paper]] = {}
    pairs: dict[tuple[str, str], tuple[str, str, Paper]] = {}
    for citing, claim, entry in sentences:
        if (paper := cited.get(entry)) is not None:
            references.setdefault(citing, {})[paper.id] = paper
            pairs[claim, paper.id] = citing, claim, paper
    print(f"unarXive: {len(sentences)} citations, {len(pairs)} pairs of {len(references)} papers")
    with closing(open_encoder(PACKAGED)) as encoder:
        for name, half in (("choose", [*pairs.values()][::2]), ("report", [*pairs.values()][1::2])):
            counts: Counter[str] = Counter()
            for citing, claim, right in half:
                similar = [hit.paper for hit in library.similar(right.id, limit=6, fields=FIELDS).results]
                wrong = [("similar", similar[0]), *(("next similar", paper) for paper in similar[1:])]
                if others := [paper for key, paper in sorted(references[citing].items()) if key != right.id]:
                    wrong.append(("other reference", random.Random(claim + right.id).choice(others)))
                for kind, paper in wrong:
                    counts[kind] += 1
                    near = nearness(encoder, claim, [right, paper])
                    counts[f"{kind}: nearer"] += near[0] > near[1]
                    compared = [
                        compare_claim(without_citation(claim, candidate), [(0, candidate.abstract or "")])
                        for candidate in (right, paper)
                    ]
                    best = [
                        comparison.sentences[0].score if comparison.sentences else 0.0
                        for comparison in compared
                    ]
                    counts[f"{kind}: best sentence"] += best[0] > best[1]
                    counts[f"{kind}: best sentences equal"] += best[0] == best[1]
            print(name, dict(sorted(counts.items())))


def cited_papers(library: Library, entries: Sequence[str]) -> dict[str, Paper]:
    """The papers of references that the library has with an abstract."""
    papers = {}
    for start in range(0, len(entries), 100):
        batch = entries[start : start + 100]
        results = library.check_references("\n".join(batch), input_format="text", fields=FIELDS).results
        for entry, checked in zip(batch, results, strict=True):
            paper = checked.paper if isinstance(checked, CheckedReference) else None
            if paper is not None and paper.abstract:
                papers[entry] = paper
    return papers


def nearness(encoder: Encoder, claim: str, papers: Sequence[Paper]) -> list[float]:
    """How near a claim is to each paper: the mean of the similarity of its vector to that of title and abstract, of the
    share of its words that they, and the names of the authors, have, and of the similarity of each word of the title to
    the nearest one of the claim."""
    texts = [document_text(paper.title or "", paper.abstract) for paper in papers]
    similar = encoder.encode_documents(texts).dense @ encoder.encode_queries([claim]).dense[0]
    stated = encoder.encode_queries(content_words(claim)).dense
    wanted = content_stems(claim)
    scores = []
    for paper, text, similarity in zip(papers, texts, similar, strict=True):
        names = " ".join(author.name for author in paper.authors or ())
        share = len(wanted & content_stems(f"{text}\n{names}")) / max(1, len(wanted))
        titled = encoder.encode_queries([*dict.fromkeys(content_words(paper.title or ""))]).dense
        scores.append(float(similarity + share + (titled @ stated.T).max(axis=1).mean()) / 3)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--library", type=Path)
    options = parser.parse_args()
    if options.library is not None:
        with Library.open(options.library, settings=load_settings(timeout=60)) as library:
            contexts(library, options.data)
        return
    texts, claims = read(options.data)
    for name, half in (("choose", claims[::2]), ("report", claims[1::2])):
        print(name, end=": ")
        measure(texts, half)
        change_numbers(texts, half)


if __name__ == "__main__":
    main()
