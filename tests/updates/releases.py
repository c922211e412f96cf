"""Random small releases, and the differences between two of them, as files."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

Release = dict[str, dict[Any, dict[str, Any]]]
"""The records of each dataset by their primary keys."""

KEYS = {
    "papers": "corpusid",
    "abstracts": "corpusid",
    "tldrs": "corpusid",
    "paper-ids": "sha",
    "authors": "authorid",
    "publication-venues": "id",
    "citations": "citationid",
    "arxiv": "id",
}
PAPERS = 24
"""Corpus ids go up to this number; citations name some that no paper has."""
WORDS = [
    "graph", "lattice", "photon", "neural", "search", "quark", "tensor", "citation", "entropy", "parser", "$x_2$",
    "$x_{2}$",
]  # fmt: skip


def arxiv_ids() -> list[str]:
    return [f"0704.{number:04d}" for number in range(1, 13)] + ["hep-th/9901001", "2309.06180"]


def record(rng: random.Random, dataset: str, key: Any) -> dict[str, Any]:  # noqa: PLR0911
    """A record of a dataset with this key."""

    def words(count: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(count))

    def title(arxiv_id: str | None) -> str:
        """Most records with one arXiv id have one title, so that they are of one paper."""
        return words(3).title() if arxiv_id is None or rng.random() < 0.3 else f"On The Graph Of {arxiv_id}"

    match dataset:
        case "papers":
            arxiv_id = rng.choice([*arxiv_ids(), None])
            return {
                "corpusid": key,
                "externalids": {
                    "ArXiv": arxiv_id,
                    "DOI": f"10.1000/{rng.randint(1, 8)}" if rng.random() < 0.5 else None,
                },
                "url": f"https://www.semanticscholar.org/paper/{rng.getrandbits(160):040x}",
                "title": title(arxiv_id),
                "authors": [
                    {"name": f"Ann {words(1).title()}", "authorId": str(rng.randint(1, 6))}
                    for _ in range(rng.randint(0, 3))
                ],
                "venue": rng.choice(["", "Phys Lett", "Nature"]),
                "year": rng.randint(1995, 2020),
                "publicationdate": rng.choice([None, "2007-04-02", "2015-11-30"]),
                "citationcount": rng.randint(0, 3),
                "s2fieldsofstudy": [{"category": "Physics", "source": "external"}],
            }
        case "abstracts":
            return {"corpusid": key, "abstract": words(8)}
        case "tldrs":
            return {"corpusid": key, "model": "tldr", "text": words(4)}
        case "paper-ids":
            return {"corpusid": rng.randint(1, PAPERS), "sha": key, "primary": rng.random() < 0.5}
        case "authors":
            return {
                "authorid": key,
                "name": f"Ann {words(1).title()}",
                "aliases": [words(1)],
                "hindex": rng.randint(0, 9),
            }
        case "publication-venues":
            return {
                "id": key,
                "name": rng.choice(["Nature", "Physics Letters"]),
                "alternate_names": [words(1), "Phys Lett"],
            }
        case "citations":
            return {
                "citationid": key,
                "citingcorpusid": rng.randint(1, PAPERS + 4),
                "citedcorpusid": rng.randint(1, PAPERS // 2),
                "isinfluential": rng.choice([True, False, None]),
                "contexts": rng.choice([None, [words(2)], [words(2), words(1)]]),
                "intents": rng.choice([None, ["methodology"], [["background"], None]]),
            }
        case _:
            return {
                "id": key,
                "title": title(key),
                "abstract": rng.choice([words(6), None]),
                "authors": f"Bob {words(1).title()}, Cy Young",
                "categories": rng.choice(["hep-th", "cs.CL cs.IR"]),
                "doi": f"10.1000/{rng.randint(1, 8)}" if rng.random() < 0.3 else None,
                "versions": [{"version": "v1", "created": "Mon, 2 Apr 2007 19:18:42 GMT"}],
            }


def keys(rng: random.Random, dataset: str) -> Any:
    """A possible key of a dataset."""
    match dataset:
        case "papers" | "abstracts" | "tldrs":
            return rng.randint(1, PAPERS)
        case "paper-ids":
            return f"{rng.randint(1, 12):040x}"
        case "authors":
            return rng.randint(1, 8)
        case "publication-venues":
            return f"v{rng.randint(1, 4)}"
        case "citations":
            return rng.randint(1, 90)
        case _:
            return rng.choice(arxiv_ids())


def changed(rng: random.Random, release: Release, changes: int) -> Release:
    """A release after so many random changes: records that come, go, come back, or change."""
    after = {dataset: dict(release.get(dataset, {})) for dataset in KEYS}
    for _ in range(changes):
        dataset = rng.choice(["papers", "abstracts", "citations", "arxiv", *KEYS])
        key = keys(rng, dataset)
        if rng.random() < 0.3:
            after[dataset].pop(key, None)
        else:
            after[dataset][key] = record(rng, dataset, key)
    return after


def first(rng: random.Random) -> Release:
    """A release that has a paper which every rule keeps, and in which most papers cite others."""
    release = changed(rng, {}, 160)
    for dataset, most in (("papers", PAPERS), ("abstracts", PAPERS), ("citations", 60)):
        for key in range(1, most + 1):
            if key not in release[dataset] and rng.random() < 0.8:
                release[dataset][key] = record(rng, dataset, key)
    release["arxiv"]["2001.00001"] = record(rng, "arxiv", "2001.00001") | {"abstract": "A tensor network."}
    return release


def write(rng: random.Random, release: Release, folder: Path) -> Path:
    """Write a release with its records in random order, divided into files at random."""
    for dataset, records in release.items():
        lines = list(records.values())
        rng.shuffle(lines)
        cut = rng.randint(0, len(lines))
        for part, some in enumerate((lines[:cut], lines[cut:])):
            _write_lines(folder / dataset / f"{rng.randint(0, 9)}-{part}.gz", some)
    return folder


def write_diff(rng: random.Random, before: Release, after: Release, folder: Path) -> Path:
    """Write the differences between two releases; some records are written that did not change."""
    for dataset, key in KEYS.items():
        old, new = before.get(dataset, {}), after.get(dataset, {})
        updates = [one for name, one in new.items() if old.get(name) != one or rng.random() < 0.1]
        rng.shuffle(updates)
        _write_lines(folder / dataset / "updates" / "0.gz", updates)
        _write_lines(folder / dataset / "deletes" / "0.gz", [{key: name} for name in old.keys() - new.keys()])
    return folder


def _write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    if not records:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", compresslevel=1) as file:
        for one in records:
            print(json.dumps(one), file=file)
