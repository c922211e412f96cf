"""Questions that exclude a thing: how many of their first results have it, and how many right papers they find.

Makes questions of a topic without a thing from the titles of an arXiv snapshot: both are phrases of two or three words
of many titles, with a common category, and at least 100 papers have both. Each question has one of thirteen
phrasings. Six of them and half of the topics are held out: the rules of scholarbase/search/exclusions.py were written
without them. A paper has a phrase if the words of its record are in sequence, without the s of plurals; that is
computed here, from the source's own texts. The abbreviation of three letters that abstracts define counts too. A right
paper has the topic in its title and the thing nowhere.

Also searches for phrases of titles with a negation that is a term (*non-convex optimization*), which must not change;
for the papers of 200 titles with a negation that no other title has (*papers on noisy sorting without resampling*);
and lists the questions of AutoScholarQuery, and of SciFact with ``--scifact``, whose results change.

    scholarbase ingest ../shared/data/arxiv --library arxiv-library
    python benchmarks/negation.py --data ../shared/data --library arxiv-library
"""

from __future__ import annotations

import argparse
import json
import lzma
import pickle
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks.ranking import judged, measure
from scholarbase.databases import open_immutable
from scholarbase.indexes.catalog import FILE_NAME
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.models.requests import SearchRequest
from scholarbase.search.library import Library
from scholarbase.settings import load_settings

PHRASINGS: Final = {
    "known": (
        ("excluded", "{topic}, excluding {thing}", "{topic}"),
        ("excluded", "{topic} but not {thing}", "{topic}"),
        ("excluded", "{topic} other than {thing}", "{topic}"),
        ("avoided", "{topic} not based on {thing}", "{topic}"),
        ("avoided", "{topic} without {thing}", "{topic}"),
        (
            "excluded",
            "I am looking for {topic}. I am not interested in {thing}.",
            "I am looking for {topic}.",
        ),
        ("excluded", "Which papers about {topic} do not deal with {thing}?", "Which papers about {topic}?"),
    ),
    "held out": (
        ("excluded", "{topic} with the exception of {thing}", "{topic}"),
        ("excluded", "Papers on {topic} which are not about {thing}", "Papers on {topic}"),
        ("excluded", "I need references on {topic}, leaving aside {thing}.", "I need references on {topic}."),
        ("avoided", "{topic} that does not rely on {thing}", "{topic}"),
        ("avoided", "{topic} with no {thing}", "{topic}"),
        (
            "excluded",
            "What has been published on {topic} apart from {thing}?",
            "What has been published on {topic}?",
        ),
    ),
}
QUESTIONS: Final = 500
TERMS: Final = 200
TITLES: Final = 50
"""Titles that must have a topic or a thing."""
WHOLE: Final = 0.5
"""Their share in which it is whole: before a common word, punctuation or the end."""
MOST_OF_TOPIC: Final = 6
"""Questions of one topic."""
BOTH: Final = 100
"""Papers that must have both, and papers that must have the topic alone."""
MOST_RIGHT: Final = 100
"""Right papers that can be found, of which recall is the share."""
MODES: Final = ("sparse", "hybrid")
COMMON: Final = STOP_WORDS | {
    "based",
    "towards",
    "novel",
    "new",
    "two",
    "three",
    "application",
    "analysi",
    "method",
    "free",
}
"""Words that no phrase begins or ends with."""
_WORD: Final = re.compile(r"[a-z0-9]+")
_CAPITALS: Final = re.compile(r"\b[A-Z]{3}(?=s?\b)")
DEFINED: Final = 5
"""Abstracts that must define the abbreviation of a phrase of three words, *NLP*, for it to be the phrase."""
_PUNCTUATION: Final = re.compile(r"[^\w\s-]+|\s-+\s")
_TERM: Final = re.compile(
    r"\b(?:[\w-]+ )?(without(?: [\w-]+){1,3}|non-[a-z]+ [\w-]+|no-[a-z]+ [\w-]+|not [\w-]+ [\w-]+)"
    r"(?=$|[^\w\s-]| (?:for|in|of|via)\b)"
)


class Question(NamedTuple):
    text: str
    plain: str
    """The question without what it excludes."""
    topic: str
    thing: str
    kind: str
    """Excluded or avoided."""
    part: str
    """Known or held out."""
    right: frozenset[int]
    bad: frozenset[int]


class Texts(NamedTuple):
    """What the questions are made of, by the catalogue's numbers of papers."""

    having: dict[str, set[int]]
    """The papers that have a phrase."""
    titled: dict[str, set[int]]
    written: dict[str, str]
    """The most frequent form of a phrase."""
    categories: dict[str, Counter[str]]


def records(data: Path, numbers: dict[str, int]) -> Iterator[tuple[int, str, str, list[str]]]:
    with lzma.open(data / "arxiv" / "arxiv-metadata-oai-snapshot.json.xz", "rt") as lines:
        for line in lines:
            record = json.loads(line)
            number = numbers.get(record["id"])
            if number is not None and record["title"]:
                title = " ".join(record["title"].split())
                yield number, title, record["abstract"] or "", (record["categories"] or "").split()


def tokens(text: str) -> list[str]:
    """The words of a text in lower case, without the s of plurals."""
    return [
        word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] not in "sui" else word
        for word in _WORD.findall(text.lower())
    ]


def phrases(words: Sequence[str]) -> Iterator[str]:
    for size in (2, 3):
        for start in range(len(words) - size + 1):
            phrase = words[start : start + size]
            if COMMON.isdisjoint((phrase[0], phrase[-1])) and not any(map(str.isdigit, phrase)):
                yield " ".join(phrase)


def whole_phrases(title: str) -> Iterator[str]:
    """The phrases of a title, without hyphens, before a common word, punctuation or the end."""
    for part in _PUNCTUATION.split(title.lower()):
        words = part.split()
        for size in (2, 3):
            for start in range(len(words) - size + 1):
                after = words[start + size] if start + size < len(words) else "the"
                phrase = " ".join(words[start : start + size])
                if after in COMMON and "-" not in phrase:
                    yield from (whole for whole in phrases(tokens(phrase)) if whole.count(" ") == size - 1)


def initials(phrase: str) -> str:
    return "".join(word[0] for word in phrase.split()).upper()


def read_texts(data: Path, library: Path) -> Texts:
    with open_immutable(library / FILE_NAME) as db:
        numbers = dict(db.execute("SELECT arxiv_id, id FROM papers WHERE arxiv_id IS NOT NULL"))
    count: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    kept = []
    for number, title, abstract, categories in records(data, numbers):
        words = tokens(title)
        count.update(set(phrases(words)))
        whole.update(set(whole_phrases(title)))
        kept.append((number, title, words, abstract, categories))
    chosen = {
        phrase for phrase, titles in count.items() if titles >= TITLES and whole[phrase] >= WHOLE * titles
    }
    having, titled = defaultdict(set), defaultdict(set)
    abbreviated, defined = defaultdict(set), Counter[str]()
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    of_category: dict[str, Counter[str]] = defaultdict(Counter)
    for number, title, words, abstract, categories in kept:
        for phrase in chosen.intersection(phrases(words)):
            titled[phrase].add(number)
            of_category[phrase].update(categories)
            pattern = r"\W+".join(f"{word}s?" for word in phrase.split())
            if match := re.search(rf"\b{pattern}\b", title, re.IGNORECASE):
                forms[phrase][" ".join(match[0].lower().split())] += 1
        capitals = set(_CAPITALS.findall(f"{title} {abstract}"))
        for name in capitals:
            abbreviated[name].add(number)
        for phrase in chosen.intersection((*phrases(words), *phrases(tokens(abstract)))):
            having[phrase].add(number)
            if (name := initials(phrase)) in capitals and f"({name}" in abstract:
                defined[phrase] += 1
    for phrase, papers in defined.items():
        if papers >= DEFINED:
            having[phrase] |= abbreviated[initials(phrase)]
    written = {phrase: form.most_common(1)[0][0] for phrase, form in forms.items()}
    return Texts(dict(having), dict(titled), written, dict(of_category))


def read_terms(library: Path) -> tuple[list[str], dict[int, str]]:
    """Negations of at least three titles, each with the word before it, of the form non-X of two titles; and titles
    with a negation that no other title has, by the number of the paper."""
    negated: Counter[str] = Counter()
    examples: dict[str, str] = {}
    titles_of: dict[str, tuple[int, str]] = {}
    with open_immutable(library / FILE_NAME) as db:
        for number, title in db.execute("SELECT id, title FROM papers ORDER BY id"):
            for match in _TERM.finditer(title.lower()):
                negated[match[1]] += 1
                examples.setdefault(match[1], match[0])
                titles_of[match[1]] = number, title.lower()
    names = [
        term for term, titles in negated.most_common() if titles >= (2 if term.startswith("non-") else 3)
    ]
    # Few are not of the form non-X.
    others = [examples[term] for term in names if not term.startswith("non-")][: TERMS // 2]
    names = others + [examples[term] for term in names if term.startswith("non-")][: TERMS - len(others)]
    rare = sorted({titles_of[term] for term, count in negated.items() if count == 1})
    random.seed(0)
    return names, dict(random.sample(rare, min(TERMS, len(rare))))


def make_questions(texts: Texts) -> list[Question]:
    papers: dict[int, list[str]] = defaultdict(list)
    for phrase in sorted(texts.having):
        for number in texts.having[phrase]:
            papers[number].append(phrase)
    both: Counter[tuple[str, str]] = Counter()
    for of_paper in papers.values():
        both.update(combinations(of_paper, 2))
    random.seed(0)
    pairs = sorted(pair for pair, count in both.items() if count >= BOTH)
    pairs += [(thing, topic) for topic, thing in pairs]
    random.shuffle(pairs)
    topics = sorted({topic for topic, _ in pairs})
    random.shuffle(topics)
    part_of = {topic: ("known", "held out")[index % 2] for index, topic in enumerate(topics)}
    made: list[Question] = []
    used: Counter[str] = Counter()
    numbers = Counter[str]()
    for topic, thing in pairs:
        part = part_of[topic]
        alone = texts.titled[topic] - texts.having[thing]
        shared = {next(iter(c.most_common(1)))[0] for c in (texts.categories[topic], texts.categories[thing])}
        if (
            numbers[part] == QUESTIONS // 2
            or used[topic] == MOST_OF_TOPIC
            or len(alone) < BOTH
            or len(shared) > 1
            or not set(topic.split()).isdisjoint(thing.split())
        ):
            continue
        kind, phrasing, plain = PHRASINGS[part][numbers[part] % len(PHRASINGS[part])]
        topic_text, thing_text = texts.written[topic], texts.written[thing]
        made.append(
            Question(
                phrasing.format(topic=topic_text, thing=thing_text),
                plain.format(topic=topic_text),
                topic_text,
                thing_text,
                kind,
                part,
                frozenset(alone),
                frozenset(texts.having[thing]),
            )
        )
        used[topic] += 1
        numbers[part] += 1
    return made


def search(
    library: Library, q: str, mode: str, limit: int = 100, **arguments: Any
) -> tuple[list[int], float]:
    """The numbers of the first papers, and the milliseconds of the search."""
    request = SearchRequest.of(q=q, syntax="plain", mode=mode, limit=limit, timeout=60, **arguments)
    start = perf_counter()
    ranking = library._ranker.rank(library._plan(request)[0])
    return [hit.id for hit in ranking.hits], 1000 * (perf_counter() - start)


def show_questions(library: Library, questions: Sequence[Question]) -> None:
    ways: dict[str, Any] = {
        "off": lambda question: (question.text, {"negation": "off"}),
        "read": lambda question: (question.text, {}),
        "exclude=": lambda question: (question.plain, {"exclude": [question.thing]}),
    }
    print("\nShare of the first 20 that have the thing; recall of right papers in the first 100; median ms")
    for mode in MODES:
        values: dict[tuple[str, str, str], list[tuple[float, float, float]]] = defaultdict(list)
        missed: Counter[str] = Counter()
        for question in questions:
            for way, arguments in ways.items():
                q, changes = arguments(question)
                ids, ms = search(library, q, mode, **changes)
                bad = len(question.bad.intersection(ids[:20])) / 20
                recall = len(question.right.intersection(ids)) / min(len(question.right), MOST_RIGHT)
                values[question.part, question.kind, way].append((bad, recall, ms))
                if way == "read" and bad:
                    missed[question.text] = round(20 * bad)
        for (part, kind, way), rows in sorted(values.items()):
            bad, recall, _ = np.mean(rows, axis=0)
            ms = np.median([row[2] for row in rows])
            print(f"{mode:7} {part:9} {kind:9} {way:9} {len(rows):4} {bad:7.2%} {recall:6.3f} {ms:6.1f}")
        for text, count in missed.most_common(12):
            print(f"    {count:2} of 20: {text}")


def show_terms(library: Library, terms: Sequence[str]) -> None:
    changed = [
        term for term in terms if library.search(term, negation="off").results != library.search(term).results
    ]
    print(f"\n{len(terms) - len(changed)} of {len(terms)} terms unchanged; {changed}")


def show_titles(library: Library, titles: dict[int, str]) -> None:
    for mode in MODES:
        counts = [
            sum(number in search(library, f"papers on {title}", mode, 10, negation=way)[0]
                for number, title in titles.items())
            for way in ("off", "auto")
        ]  # fmt: skip
        print(
            f"{mode:7} {counts[0]} of {len(titles)} papers with a rare term are in the first 10, read {counts[1]}"
        )


def show_family(library: Library, path: Path, queries: Path) -> None:
    print(f"\n{queries}")
    for mode in MODES:
        totals, changed, count = np.zeros((2, 3)), 0, 0
        for query in judged(path, queries):
            rankings = [search(library, query.text, mode, 1000, negation=way)[0] for way in ("off", "auto")]
            rows = np.array([measure(ids, query.answers)[:3] for ids in rankings])
            totals += rows
            count += 1
            if rankings[0] != rankings[1]:
                changed += 1
                few, many = (" ".join(f"{value:.3f}" for value in rows[:, column]) for column in (1, 2))
                print(f"{mode:7} R@20 {few} R@100 {many}: {query.text}")
        for way, (ndcg, few, many) in zip(("off", "read"), totals / count, strict=True):
            print(f"{mode:7} {way:5} nDCG@10 {ndcg:.4f}, R@20 {few:.4f}, R@100 {many:.4f}, {count} questions")
        print(f"{mode:7} {changed} questions changed")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the reading of exclusions.")
    parser.add_argument(
        "--data", type=Path, required=True, help="a folder with arxiv/ and autoscholar/ in it"
    )
    parser.add_argument("--library", type=Path, required=True, help="the library of arxiv/")
    parser.add_argument("--scifact", type=Path, help="the library of scifact/; left out if missing")
    parser.add_argument("--cache", type=Path, help="where the phrases of the snapshot are kept")
    parser.add_argument("--show", action="store_true", help="only print the questions")
    options = parser.parse_args()
    if options.cache and options.cache.exists():
        texts: Texts = pickle.loads(options.cache.read_bytes())
    else:
        texts = read_texts(options.data, options.library)
        if options.cache:
            options.cache.write_bytes(pickle.dumps(texts))
    questions = make_questions(texts)
    terms, titles = read_terms(options.library)
    print(
        f"{len(questions)} questions, {len({question.topic for question in questions})} topics, {len(terms)} terms"
    )
    if options.show:
        print(
            *(f"{question.part} {question.kind}: {question.text}" for question in questions), *terms, sep="\n"
        )
        return
    with Library.open(options.library, settings=load_settings(timeout=60)) as library:
        show_questions(library, questions)
        show_terms(library, terms)
        show_titles(library, titles)
        show_family(library, options.library, options.data / "autoscholar" / "queries.jsonl")
    if options.scifact:
        with Library.open(options.scifact, settings=load_settings(timeout=60)) as library:
            show_family(library, options.scifact, options.data / "scifact")


if __name__ == "__main__":
    main()
