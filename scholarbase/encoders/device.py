"""The device a model runs on."""

from __future__ import annotations

from scholarbase.errors import EncoderError


def choose_device(name: str | None) -> str:
    """The device to name to a model: ``name`` where given, else ``cuda`` where torch finds one, else ``cpu``.

    One device is always named: left to themselves, some libraries take every GPU of the machine.

    Raises:
        EncoderError: torch knows no such device, or does not find it here.
    """
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise EncoderError(
            f"Unknown device {name!r}: it is cpu, cuda, cuda:1 or another of torch's."
        ) from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise EncoderError(
            f"The device {name!r} is not here: torch finds {torch.cuda.device_count()} CUDA devices. "
            "Use cpu, or install a CUDA build of torch."
        )
    return name
