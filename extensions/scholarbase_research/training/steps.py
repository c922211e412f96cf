"""The training steps: sentence-transformers' static embedding and ranking loss, Adam, and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import safe_open
from tokenizers import Tokenizer

from scholarbase.errors import EncoderError
from scholarbase.files import atomic_write
from scholarbase_research.training.options import TrainingOptions
from scholarbase_research.training.pairs import Bag, Pairs

CHECKPOINT: Final = "checkpoint.safetensors"
STEPS_PER_CHECKPOINT: Final = 250
_MOMENTS: Final = ("exp_avg", "exp_avg_sq")
"""The state of torch's Adam."""


def run_steps(
    folder: Path,
    tokenizer: Tokenizer,
    pairs: Pairs,
    options: TrainingOptions,
    progress: Callable[[int], None],
) -> npt.NDArray[np.float32]:
    """Run the steps after the checkpoint in ``folder``, if there is one. Returns the token vectors.

    ``progress`` gets the number of steps that are done.

    Raises:
        EncoderError: the loss is not finite.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    with _deterministic(options.threads):
        generator = torch.Generator().manual_seed(options.seed)
        shape = tokenizer.get_vocab_size(), options.dimensions
        table = torch.randn(shape, generator=generator) * options.deviation
        model = SentenceTransformer(
            modules=[StaticEmbedding(tokenizer, embedding_weights=table)], device="cpu"
        )
        loss_of = MultipleNegativesRankingLoss(model, scale=options.scale)
        [weights] = model.parameters()
        adam = torch.optim.Adam([weights], lr=options.rate, fused=True)
        done = _restore(folder, weights, adam)
        while done < options.steps:
            adam.param_groups[0]["lr"] = options.rate * (1 - done / options.steps)
            loss = loss_of([_features(column) for column in pairs.step(done)], None)
            adam.zero_grad()
            loss.backward()
            adam.step()
            done += 1
            if not torch.isfinite(loss):
                raise EncoderError(
                    f"The loss of step {done} is {loss.item()}: start again with --restart and a lower --rate than "
                    f"{options.rate:g}."
                )
            if done % STEPS_PER_CHECKPOINT == 0:
                _save(folder / CHECKPOINT, done, weights, adam)
            progress(done)
        table_now: npt.NDArray[np.float32] = weights.detach().numpy()
        return table_now


@contextmanager
def _deterministic(threads: int) -> Iterator[None]:
    """Sums in the same order in every run."""
    import torch

    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])


def _features(bag: Bag) -> dict[str, Any]:
    """A column as ``StaticEmbedding.preprocess`` returns it."""
    import torch

    return {"input_ids": torch.from_numpy(bag.ids), "offsets": torch.from_numpy(bag.offsets)}


def _save(path: Path, done: int, weights: Any, adam: Any) -> None:
    from safetensors.torch import save

    state = adam.state[weights]
    tensors = {"weights": weights.detach(), **{name: state[name] for name in _MOMENTS}}
    with atomic_write(path) as file:
        file.write(save(tensors, metadata={"steps": str(done)}))


def steps_done(folder: Path) -> int:
    """The number of steps of the checkpoint in ``folder``, 0 without one."""
    path = folder / CHECKPOINT
    if not path.exists():
        return 0
    with safe_open(path, framework="numpy") as file:
        return int(file.metadata()["steps"])


def _restore(folder: Path, weights: Any, adam: Any) -> int:
    """Load the checkpoint, if there is one. Returns its number of steps."""
    import torch

    done = steps_done(folder)
    if not done:
        return 0
    with safe_open(folder / CHECKPOINT, framework="pt") as file:
        with torch.no_grad():
            weights.copy_(file.get_tensor("weights"))
        adam.state[weights] = {
            "step": torch.tensor(float(done)),
            **{name: file.get_tensor(name) for name in _MOMENTS},
        }
    return done
