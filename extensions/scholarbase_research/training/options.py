"""The options of a training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from scholarbase.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """What decides the result of a training, with the defaults of the packaged encoder.

    A step takes ``batch`` papers. The vector of each title should be nearer to that of its abstract than to those of
    the other abstracts, by cosines times ``scale``. In a share ``chunks`` of the papers the abstract is replaced by a
    part of it, and a share ``dropped`` of all tokens is left out. ``rate`` is Adam's learning rate, which falls
    linearly to zero. The file has the same bytes for the same ``seed`` and number of ``threads``.
    """

    steps: int = 4_500
    dimensions: int = 256
    vocabulary: int = 29_000
    seed: int = 0
    threads: int = 1
    batch: int = 2_048
    scale: float = 20.0
    rate: float = 2e-3
    deviation: float = 0.1
    """The standard deviation of the random vectors at the start."""
    chunks: float = 0.4
    dropped: float = 0.1

    def check(self) -> None:
        """
        Raises:
            InvalidRequest: an option is out of its range.
        """
        for name, least, most in (
            ("steps", 1, 10_000_000),
            ("dimensions", 1, 4_096),
            ("vocabulary", 100, 1_000_000),
            ("seed", 0, 2**32 - 1),
            ("threads", 1, 1_024),
            ("batch", 2, 65_536),
            ("scale", 0.01, 1_000),
            ("rate", 1e-6, 10),
            ("deviation", 1e-6, 10),
            ("chunks", 0, 1),
            ("dropped", 0, 0.9),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidRequest(f"{name} is {value}: it must be from {least:g} to {most:g}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
