"""Which named arrays a file holds: ``.npz``, ``.npy``, ``.safetensors``, and ``.pt`` without anything that could run."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brinell.errors import BadInput

JOINED = " + "
"""Stands between the names of several files that are read as one."""


def named_arrays(paths: Sequence[Path]) -> dict[str, NDArray[Any]]:
    """All arrays of some files by their names; an ``.npy`` file's array has the file's name. Texts are left out.

    Raises
    ------
    BadInput
        If a file cannot be read, is of another kind, holds Python objects, or two hold the same name.
    """
    found: dict[str, NDArray[Any]] = {}
    for path in paths:
        for name, array in _read(path).items():
            if name in found:
                raise BadInput(
                    f"file {path}", got=f"a second {name!r}", expected="each name once", remedy="Leave one of them out."
                )
            found[name] = array
    return found


def array_of(values: object) -> NDArray[Any]:
    """A numpy array of what is given; tensors of any device and precision are taken too."""
    import torch

    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        if values.dtype == torch.bfloat16:
            values = values.float()
        return values.numpy()
    return np.asarray(values)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    reader = READERS.get(path.suffix)
    if reader is None:
        raise BadInput(
            f"file {path}",
            got=f"a file named {path.suffix or 'without an ending'}",
            expected=", ".join(READERS),
            remedy="Save it as one of these; pickled objects are never read, for reading them runs what is in them.",
        )
    try:
        return reader(path)
    except BadInput:
        raise
    except FileNotFoundError:
        raise BadInput(f"file {path}", got="no such file", expected="a file", remedy="Check the path.") from None
    except Exception as error:  # each library raises many kinds on a broken file
        reason = str(error).split(". ", 1)[0].splitlines()[0] if str(error) else ""
        raise BadInput(
            f"file {path}",
            got=f"{type(error).__name__}: {reason}",
            expected=f"an {path.suffix} file of plain arrays",
            remedy="Save it again as named arrays or tensors; pickled objects are never read.",
        ) from None


def _npz(path: Path) -> dict[str, NDArray[Any]]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays if arrays[name].dtype.kind not in "US"}


def _npy(path: Path) -> dict[str, NDArray[Any]]:
    return {path.stem: np.load(path, allow_pickle=False)}


def _safetensors(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors.torch import load_file

    return {name: array_of(tensor) for name, tensor in load_file(path).items()}


def _torch(path: Path) -> dict[str, NDArray[Any]]:
    import torch

    held = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(held, torch.Tensor):
        return {path.stem: array_of(held)}
    if not isinstance(held, Mapping):
        raise BadInput(
            f"file {path}",
            got=f"a {type(held).__name__}",
            expected="a dict of named tensors, or one tensor",
            remedy='Name what it holds: torch.save({"x": x, "x_adv": x_adv, "y": y}, path).',
        )
    return plain(held)


def plain(held: Mapping[Any, object]) -> dict[str, NDArray[Any]]:
    """What of a dict is an array, a tensor, a number, or a list of these that can be stacked.

    Raises
    ------
    BadInput
        If a list holds arrays that differ in shape.
    """
    found = {}
    for name, value in held.items():
        if isinstance(value, list | tuple) and value:
            parts = [array_of(part) for part in value]
            if len({part.shape for part in parts}) > 1:
                raise BadInput(
                    f"array {name!r}",
                    got="a list of arrays that differ in shape",
                    expected="one array, or arrays of one shape, one for each radius",
                    remedy="Join the batches: torch.cat(parts).",
                )
            found[str(name)] = np.stack(parts)
        elif value is not None and not isinstance(value, str | bytes | Mapping):
            found[str(name)] = array_of(value)
    return found


READERS: dict[str, Callable[[Path], dict[str, NDArray[Any]]]] = {
    ".npz": _npz,
    ".npy": _npy,
    ".safetensors": _safetensors,
    ".pt": _torch,
    ".pth": _torch,
}
"""What is read, by the ending of the file's name."""


def number(array: NDArray[Any]) -> float | None:
    """The number that an array of one value holds; None for the others."""
    if array.size != 1 or array.dtype.kind not in "fiub":
        return None
    value = float(array.reshape(()))
    return value if math.isfinite(value) else None
