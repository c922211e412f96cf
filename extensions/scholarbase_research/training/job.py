"""A training: texts to vocabulary, tokens, steps and the files of a model2vec model."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
from safetensors.numpy import save
from tokenizers import Tokenizer

from scholarbase.encoders.checkpoint import read_json
from scholarbase.encoders.static import CONFIG, FILES, TABLE, TOKENIZER
from scholarbase.errors import EncoderError
from scholarbase.extras import check_installed
from scholarbase.files import atomic_write, locked, storage_errors, temporary_files
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_research.training.options import TrainingOptions
from scholarbase_research.training.pairs import Pairs, has_tokens, write_tokens
from scholarbase_research.training.vocabulary import train_tokenizer

WORK: Final = "training"
"""The folder of an unfinished training, inside the model's folder."""
PLAN: Final = "plan.json"
MAX_TOKENS: Final = 1_024
"""Enough for a title and an abstract: arXiv limits abstracts to 1,920 characters."""

Papers = Callable[[], Iterable[tuple[str, str]]]
"""Titles and abstracts, the same in the same order at each call."""


def train(
    papers: Papers,
    folder: Path,
    options: TrainingOptions | None = None,
    *,
    restart: bool = False,
    reporter: Reporter | None = None,
) -> None:
    """Train a static encoder on titles and abstracts, and write it into ``folder``.

    A killed training continues with the same arguments, and gives the same files as an undisturbed one. One that has
    ended is not repeated. ``restart`` deletes what an earlier training left in the folder.

    Raises:
        InvalidRequest: an option is out of its range.
        MissingExtra: sentence-transformers or torch is not installed.
        EncoderError: there are too few papers, the folder has other files or a training with other options or papers,
            or another process trains there.
        StorageError: a file cannot be written.
    """
    options = options or TrainingOptions()
    options.check()
    check_installed("training", "Training an encoder")
    reporter = reporter or SilentReporter()
    with storage_errors(folder), _locked(folder, restart=restart) as work:
        plan = {**options.to_dict(), **_describe(papers, reporter)}
        if (folder / TABLE).exists():
            shutil.rmtree(work)
            _check_model(folder, plan)
            return
        _check_plan(work, plan)
        tokenizer = _tokenize(papers, work, options, plan["papers"], reporter)
        table = _run(work, tokenizer, options, reporter)
        _write(folder, tokenizer, table, plan)
        shutil.rmtree(work)


@contextmanager
def _locked(folder: Path, *, restart: bool) -> Iterator[Path]:
    """The work folder, which one process at a time may use."""
    work = folder / WORK
    if folder.is_dir() and not work.exists() and not (folder / TABLE).exists():
        others = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
        if others:
            raise EncoderError(
                f"{folder} is not empty and not an encoder (it contains {others[0]!r}): give an empty or a new folder."
            )
    work.mkdir(parents=True, exist_ok=True)
    busy = EncoderError(f"Another process trains an encoder in {folder}: wait until it ends, or stop it.")
    with locked(work / "lock", busy):
        for path in [path for name in FILES for path in temporary_files(folder / name)]:
            path.unlink()
        if restart:
            for path in (*(folder / name for name in FILES), *work.iterdir()):
                if path.name != "lock":
                    path.unlink(missing_ok=True)
        yield work


def _describe(papers: Papers, reporter: Reporter) -> dict[str, Any]:
    """The number of papers, and a hash of their texts."""
    digest, count = hashlib.sha256(), 0
    with reporter.stage("read papers", "papers", None) as tracker:
        for pair in papers():
            digest.update(orjson.dumps(pair))
            count += 1
            tracker.advance(1)
    if count < 2:
        raise EncoderError(
            f"The library has {count} papers with a title and an abstract: training needs 2 or more, and learns "
            "little from less than some thousands."
        )
    return {"papers": count, "texts": digest.hexdigest()[:32]}


def _check_model(folder: Path, plan: dict[str, Any]) -> None:
    """Check that the model in the folder is of this plan."""
    config = read_json(folder / CONFIG)
    written = config.get("training") if isinstance(config, dict) else None
    _compare(folder, written if isinstance(written, dict) else {}, plan)


def _check_plan(work: Path, plan: dict[str, Any]) -> None:
    path = work / PLAN
    if path.exists():
        written = read_json(path)
        _compare(work.parent, written if isinstance(written, dict) else {}, plan)
        return
    with atomic_write(path) as file:
        file.write(orjson.dumps(plan, option=orjson.OPT_INDENT_2))


def _compare(folder: Path, written: dict[str, Any], plan: dict[str, Any]) -> None:
    differences = [
        f"{name} {written.get(name)!r}, now {value!r}"
        for name, value in plan.items()
        if written.get(name) != value
    ]
    if differences:
        raise EncoderError(
            f"{folder} has an encoder or an unfinished training with other options or papers "
            f"({'; '.join(differences)}): use the same, choose another folder, or give --restart to replace it."
        )


def _tokenize(
    papers: Papers, work: Path, options: TrainingOptions, count: int, reporter: Reporter
) -> Tokenizer:
    path = work / TOKENIZER
    if not path.exists():
        with reporter.stage("train vocabulary", "papers", 2 * count) as tracker:

            def texts() -> Iterator[str]:
                for title, abstract in papers():
                    yield f"{title}\n{abstract}"
                    tracker.advance(1)

            content = train_tokenizer(texts, options.vocabulary).to_str().encode()
        with atomic_write(path) as file:
            file.write(content)
    tokenizer = Tokenizer.from_file(str(path))
    if not has_tokens(work):
        with reporter.stage("tokenize", "papers", count) as tracker:
            write_tokens(work, tokenizer, papers(), tracker.advance)
    return tokenizer


def _run(
    work: Path, tokenizer: Tokenizer, options: TrainingOptions, reporter: Reporter
) -> npt.NDArray[np.float32]:
    from scholarbase_research.training.steps import run_steps, steps_done

    with reporter.stage("train", "steps", options.steps, steps_done(work)) as tracker:

        def progress(done: int) -> None:
            tracker.at(done)
            tracker.advance(1)

        return run_steps(work, tokenizer, Pairs(work, options), options, progress)


def _write(folder: Path, tokenizer: Tokenizer, table: npt.NDArray[np.float32], plan: dict[str, Any]) -> None:
    """Write the files of the model, the table last."""
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "hidden_dim": table.shape[1],
        "normalize": True,
        "max_length": MAX_TOKENS,
        "embedding_dtype": "int8",
        "training": plan,
    }
    for name, content in (
        (CONFIG, orjson.dumps(config, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)),
        (TOKENIZER, tokenizer.to_str().encode()),
        (TABLE, save(_quantize(table))),
    ):
        with atomic_write(folder / name) as file:
            file.write(content)


def _quantize(table: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[Any]]:
    """The table as int8, with a factor for each token. Recall is that of float16, in half the size."""
    weights = np.abs(table).max(axis=1) / np.float32(127)
    rows = np.rint(table / np.where(weights > 0, weights, np.float32(1))[:, None])
    return {"embeddings": rows.astype(np.int8), "weights": weights.astype(np.float32)}
