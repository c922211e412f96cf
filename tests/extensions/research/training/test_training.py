import json
import lzma
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scholarbase.encoders.static import FILES, StaticEncoder
from scholarbase_research.training import TrainingOptions, job, steps, train
from scholarbase_research.training.options import TrainingOptions as Options
from scholarbase_research.training.pairs import Pairs, write_tokens
from scholarbase_research.training.vocabulary import train_tokenizer
from tests.conftest import SAMPLE, run_cli, succeeded

SMALL = TrainingOptions(steps=7, dimensions=16, vocabulary=700, batch=64)


def papers(count: int = 200) -> list[tuple[str, str]]:
    with lzma.open(SAMPLE / "arxiv" / "arxiv-metadata-sample.jsonl.xz", "rt", encoding="utf-8") as file:
        records = [json.loads(next(file)) for _ in range(count)]
    return [(record["title"], record["abstract"]) for record in records]


PAPERS = papers()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    folder = tmp_path_factory.mktemp("trained") / "small"
    train(lambda: PAPERS, folder, SMALL)
    return folder


@pytest.mark.slow
def test_the_result_is_a_static_encoder(trained: Path) -> None:
    assert sorted(contents(trained)) == sorted(FILES)
    encoder = StaticEncoder(trained)
    assert (encoder.spec.name, encoder.spec.dimensions, encoder.spec.max_tokens) == ("small", 16, 1024)
    assert encoder.vocabulary_size <= 700
    facts = json.loads((trained / "config.json").read_bytes())["training"]
    assert (facts["steps"], facts["papers"], facts["seed"]) == (7, 200, 0)


def test_quantized_rows_keep_their_directions_and_lengths() -> None:
    table = (
        np.random.default_rng(0).standard_normal((50, 256)).astype(np.float32)
        * np.logspace(-4, 4, 50)[:, None]
    )
    table[7] = 0
    tensors = job._quantize(table.astype(np.float32))
    again = tensors["embeddings"] * tensors["weights"][:, None]
    assert tensors["embeddings"].dtype == np.int8
    errors = np.linalg.norm(again - table, axis=1) / np.maximum(np.linalg.norm(table, axis=1), 1e-9)
    assert errors.max() < 0.01


@pytest.mark.slow
def test_a_step_is_that_of_a_loop_in_numpy(tmp_path: Path) -> None:
    """One step by hand: the gradient of the loss by differences, and Adam's first step, rate x sign(gradient)."""
    pytest.importorskip("sentence_transformers")
    options = Options(
        steps=1, dimensions=3, vocabulary=300, batch=4, chunks=0, dropped=0, deviation=1, rate=0.01
    )
    tokenizer = train_tokenizer(lambda: (f"{title} {abstract}" for title, abstract in PAPERS), 300)
    write_tokens(
        tmp_path, tokenizer, [(title, abstract[:40]) for title, abstract in PAPERS[:4]], lambda count: None
    )
    pairs = Pairs(tmp_path, options)
    before = _start(tokenizer.get_vocab_size(), options)
    after = steps.run_steps(tmp_path, tokenizer, pairs, options, lambda done: None)
    columns = [[ids.tolist() for ids in np.split(bag.ids, bag.offsets[1:])] for bag in pairs.step(0)]

    def loss(table: Any) -> float:
        rows = [np.stack([table[ids].mean(axis=0) for ids in column]) for column in columns]
        titles, abstracts = (row / np.linalg.norm(row, axis=1, keepdims=True) for row in rows)
        scores = 20 * titles @ abstracts.T
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores.diagonal()))

    for token in sorted({token for column in columns for ids in column for token in ids})[:20]:
        for place in range(3):
            step = np.zeros_like(before)
            step[token, place] = 1e-5
            gradient = (loss(before + step) - loss(before - step)) / 2e-5
            if abs(gradient) > 1e-4:
                moved = after[token, place] - before[token, place]
                assert moved == pytest.approx(-0.01 * np.sign(gradient), rel=1e-2)


def _start(tokens: int, options: Options) -> Any:
    import torch

    generator = torch.Generator().manual_seed(options.seed)
    return (
        (torch.randn((tokens, options.dimensions), generator=generator) * options.deviation).double().numpy()
    )


# -- the same bytes -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_stopped_at_any_write_and_resumed_it_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sentence_transformers")
    options = Options(steps=7, dimensions=8, vocabulary=400, batch=16)

    def run(folder: Path) -> None:
        train(lambda: PAPERS[:40], folder, options)

    run(tmp_path / "undisturbed" / "small")
    expected = contents(tmp_path / "undisturbed" / "small")
    monkeypatch.setattr(steps, "STEPS_PER_CHECKPOINT", 2)
    write, seen = os.fsync, 0

    def stop_at(number: int) -> None:
        def fsync(descriptor: int) -> None:
            nonlocal seen
            seen += 1
            if seen == number:
                raise KeyboardInterrupt
            write(descriptor)

        nonlocal seen
        seen = 0
        monkeypatch.setattr(os, "fsync", fsync)

    number = 1
    while True:
        folder = tmp_path / str(number) / "small"
        stop_at(number)
        try:
            run(folder)
        except KeyboardInterrupt:
            monkeypatch.setattr(os, "fsync", write)
            run(folder)
        else:
            break
        assert contents(folder) == expected, f"stopped at write {number}"
        number += 1
    # plan, vocabulary, four files of tokens, three checkpoints, three files of the model
    assert number == 13


# -- the pairs of a step --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    tokenizer = train_tokenizer(lambda: (text for pair in PAPERS for text in pair), 700)
    write_tokens(folder, tokenizer, PAPERS, lambda count: None)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_an_epoch_has_every_paper_once(tokens: Path) -> None:
    pairs = Pairs(tokens, Options(batch=50, chunks=0, dropped=0))
    sums = [
        sorted(int(ids.sum()) for number in range(start, start + 4) for ids in _texts(pairs.step(number)[1]))
        for start in (0, 4)
    ]
    assert sums[0] == sums[1]
    assert len(sums[0]) == 200
    assert _texts(pairs.step(0)[1])[0].tolist() != _texts(pairs.step(4)[1])[0].tolist()


def test_chunks_are_parts_of_abstracts_and_tokens_are_dropped(tokens: Path) -> None:
    whole = Pairs(tokens, Options(batch=200, chunks=0, dropped=0)).step(0)
    parts = Pairs(tokens, Options(batch=200, chunks=1, dropped=0)).step(0)
    shares = []
    for text, part in zip(_texts(whole[1]), _texts(parts[1]), strict=True):
        assert part.tobytes() in text.tobytes()
        shares.append(len(part) / len(text))
    assert 0.35 < np.mean(shares) < 0.45
    dropped = Pairs(tokens, Options(batch=200, chunks=0, dropped=0.1)).step(0)
    for full, fewer in zip(whole, dropped, strict=True):
        assert len(fewer.ids) == pytest.approx(0.9 * len(full.ids), rel=0.05)
        assert all(len(text) for text in _texts(fewer))


def _texts(bag: Any) -> list[Any]:
    return np.split(bag.ids, bag.offsets[1:])


@pytest.mark.slow
def test_encoder_train_gives_an_encoder(tmp_path: Path, dense_library: Path) -> None:
    pytest.importorskip("sentence_transformers")
    options = ("--steps", "2", "--dimensions", "8", "--vocabulary", "500", "--batch", "16", "--seed", "3")
    done = succeeded("encoder", "train", dense_library, "--out", tmp_path / "encoder", *options)
    assert f"The encoder is in {tmp_path / 'encoder'}" in done.stdout
    spec = json.loads(run_cli("encoder", "info", tmp_path / "encoder", "--json").stdout)
    assert (spec["name"], spec["dimensions"], spec["max_tokens"]) == ("encoder", 8, 1024)
