"""The device of a model."""

from __future__ import annotations

from scholarbase.errors import EncoderError


def choose_device(name: str | None) -> str:
    """The device for a model: ``name`` if specified, else ``cuda`` if available, else ``cpu``.

    Models always get an explicit device: without one, some libraries use every GPU of the machine.

    Raises:
        EncoderError: torch does not know the device, or does not find it here.
    """
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise EncoderError(
            f"Unknown device {name!r}: give cpu, cuda, cuda:1 or another device of torch's."
        ) from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise EncoderError(
            f"No device {name!r}: torch finds {torch.cuda.device_count()} CUDA devices. "
            "Use cpu, or install a CUDA build of torch."
        )
    return name
