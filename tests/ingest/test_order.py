"""The order of records, and how they are divided into files, change nothing."""

import random
from pathlib import Path

import pytest

from scholarbase.ingest.job import ingest
from scholarbase.ingest.numbering import paper_number
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import read_manifest
from tests.ingest.contents import points, rows
from tests.updates import releases


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "keep"), [(2, "title"), pytest.param(3, "text", marks=pytest.mark.slow)])
def test_shuffled_sources_give_the_same_content(tmp_path: Path, seed: int, keep: str) -> None:
    """Some records have the same key: of those one is chosen, whichever comes first."""
    rng = random.Random(seed)
    release, other = releases.first(rng), releases.first(rng)
    for name in ("one", "two"):
        again = random.Random(f"{seed}{name}")
        folders = [releases.write(again, release, tmp_path / name / "a")]
        folders.append(
            releases.write(
                again, {key: other[key] for key in other if key != "citations"}, tmp_path / name / "b"
            )
        )
        again.shuffle(folders)
        ingest(folders, tmp_path / f"library-{name}", rules=IngestRules(keep=keep))  # type: ignore[arg-type]
    one, two = (tmp_path / f"library-{name}" for name in ("one", "two"))
    first, second = ({t: r for t, r in rows(library).items() if t != "meta"} for library in (one, two))
    assert first == second
    assert points(one) == points(two)
    assert read_manifest(one)[0].content_hash == read_manifest(two)[0].content_hash


def test_numbers_of_papers_with_different_ids_differ() -> None:
    ids = [("0704.0001", None, {}), ("0705.0001", None, {}), ("hep-th/9901001", None, {})]
    ids += [("math/9901001", None, {}), ("hep-th/9901002", None, {}), ("hep-th/0001001", None, {})]
    ids += [(None, number, {}) for number in (1, 2, 2**40, 2**62, 2**63 - 1)]
    ids += [(None, None, {"Doc": "1"}), (None, None, {"Doc": "2"}), (None, None, {"DOI": "1"})]
    numbers = [paper_number(*one) for one in ids]
    assert all(0 < number < 2**63 for number in numbers)
    assert len({*numbers}) == len(numbers)
