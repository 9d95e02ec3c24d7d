"""Which examples are evaluated: loaded, checked for form, selected, and fingerprinted.

A row keeps its index in the data set through every file and figure.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from brinell.arrays import JOINED, READERS, array_of, named_arrays
from brinell.errors import BadInput
from brinell.locate import called, located

Layout = Literal["as-is", "channels-last"]
BUILTIN_ROWS = "builtin:fmnist"
_NAMES = (
    ("x", "y"),
    ("images", "labels"),
    ("x_test", "y_test"),
    ("X", "Y"),
    ("clean_inputs", "labels"),
    ("clean_inputs", "y"),
    ("x", "labels"),
    ("x", "y_test"),
    ("x_test", "y"),
)


@dataclass(frozen=True, eq=False)
class Rows:
    """The selected examples, in the data's own space."""

    source: str
    """Where they come from, as the user named it."""
    selection: str
    """Which rows of it, as the user wrote it."""
    x: NDArray[Any]
    """Inputs, ``(row, *feature)``, float32 or float64, in input units."""
    y: NDArray[np.int64]
    """True classes."""
    index: NDArray[np.int64]
    """The rows' indices in the data set."""
    total: int
    """Rows in the data set before selection."""
    layout: Layout = "as-is"
    """How the axes were ordered before they were read."""
    notes: tuple[str, ...] = field(default=())
    """What had to be converted, a sentence each."""

    def __len__(self) -> int:
        return len(self.index)

    def digests(self) -> list[str]:
        """SHA-256 of each row: precision, shape, values and label."""
        return [row_digest(x, int(y)) for x, y in zip(self.x, self.y, strict=True)]

    def digest(self) -> str:
        """SHA-256 of all rows with their indices."""
        return rows_digest(zip(self.index.tolist(), self.digests(), strict=True))

    def table(self) -> dict[str, object]:
        """What a manifest says of them."""
        return {
            "source": self.source,
            "selection": self.selection,
            "layout": self.layout,
            "rows": len(self),
            "total": self.total,
            "shape": list(self.x.shape[1:]),
            "digest": self.digest(),
        }


def rows_digest(rows: Iterable[tuple[int, str]]) -> str:
    """SHA-256 of the indices and digests of some rows, in order."""
    whole = hashlib.sha256()
    for row, digest in rows:
        whole.update(f"{row} {digest}\n".encode())
    return whole.hexdigest()


def row_digest(x: NDArray[Any], y: int) -> str:
    """SHA-256 of one example: precision, shape, values and label."""
    digest = hashlib.sha256(f"{x.dtype.str} {x.shape} {y} ".encode())
    digest.update(np.ascontiguousarray(x).tobytes())
    return digest.hexdigest()


def load_rows(source: str, selection: str = "all", *, scale: float = 1.0, layout: Layout = "as-is") -> Rows:
    """The rows of a source: ``builtin:fmnist``, a file of named arrays, or an address of a function that returns (x, y).

    Several files are joined by `` + ``.

    Raises
    ------
    BadInput
        If the source cannot be read, holds no inputs and labels, or the selection is empty or out of range.
    """
    if source.startswith("builtin:"):
        x, y = _builtin(source)
    elif Path(source).suffix in READERS:
        x, y = _from_files(source)
    else:
        thing = located(source, subject="data")
        pair = called(thing, subject="data") if callable(thing) else thing
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise BadInput(
                f"data {source}", got=type(pair).__name__, expected="a pair (x, y)", remedy="Return inputs and labels."
            )
        x, y = (array_of(part) for part in pair)
    return rows_of(x, y, source=source, selection=selection, scale=scale, layout=layout)


def rows_of(
    x: object,
    y: object,
    *,
    source: str = "arrays",
    selection: str = "all",
    scale: float = 1.0,
    layout: Layout = "as-is",
) -> Rows:
    """Rows from arrays or tensors already at hand; ``scale`` divides the inputs, labels may be one-hot.

    Raises
    ------
    BadInput
        If inputs and labels do not fit together, or the selection is empty or out of range.
    """
    inputs, labels = array_of(x), array_of(y)
    notes: list[str] = []
    if inputs.ndim < 2 or labels.ndim not in (1, 2) or len(inputs) != len(labels):
        raise BadInput(
            f"data {source}",
            got=f"inputs of shape {inputs.shape}, labels of shape {labels.shape}",
            expected="inputs (row, *feature) and one label for each row",
            remedy="Give both with the same number of rows.",
        )
    labels = _class_indices(labels, source, notes)
    index = _selected(selection, len(inputs))
    inputs, labels = inputs[index], labels[index]
    if inputs.dtype not in (np.float32, np.float64) or scale != 1.0:
        if inputs.dtype.kind not in "fiu":
            raise BadInput(
                f"data {source}", got=f"inputs of {inputs.dtype}", expected="numbers", remedy="Convert them to float32."
            )
        wide = np.dtype(np.float64 if inputs.dtype == np.float64 else np.float32)
        inputs = np.divide(inputs.astype(wide), scale, dtype=wide)
        notes.append(f"inputs read as {wide}" + (f" and divided by {scale:g}" if scale != 1.0 else ""))
    if layout == "channels-last":
        inputs = np.ascontiguousarray(np.moveaxis(inputs, -1, 1))
        notes.append("inputs turned from channels-last to channels-first")
    total = len(array_of(y))
    return Rows(source, selection, inputs, labels, index, total=total, layout=layout, notes=tuple(notes))


def _builtin(source: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if source != BUILTIN_ROWS:
        raise BadInput("data", got=source, expected=BUILTIN_ROWS, remedy="Name the built-in rows, or a file.")
    from brinell import zoo

    return zoo.load_rows()


def _from_files(source: str) -> tuple[NDArray[Any], NDArray[Any]]:
    held = named_arrays([Path(name) for name in source.split(JOINED)])
    for name_x, name_y in _NAMES:
        if name_x in held and name_y in held:
            return held[name_x], held[name_y]
    raise BadInput(
        f"data {source}",
        got=f"the arrays {list(held)}",
        expected="arrays named x and y",
        remedy="np.savez(path, x=x, y=y)",
    )


def _class_indices(labels: NDArray[Any], source: str, notes: list[str]) -> NDArray[np.int64]:
    if labels.ndim == 2 and labels.shape[1] > 1:
        one_hot = np.isin(labels, (0, 1)).all() and bool((labels.sum(axis=1) == 1).all())
        if not one_hot:
            raise BadInput(
                f"labels of {source}",
                got=f"shape {labels.shape} that is not one-hot",
                expected="class indices, or one-hot rows",
                remedy="Give one class index for each row.",
            )
        notes.append(f"labels read as one-hot of {labels.shape[1]} classes")
        return np.asarray(labels.argmax(axis=1), dtype=np.int64)
    flat = labels.reshape(len(labels))
    whole = flat.astype(np.int64) if flat.dtype.kind in "fiub" and np.isfinite(flat).all() else None
    if whole is None or not (whole == flat).all():
        raise BadInput(
            f"labels of {source}", got=f"{labels.dtype}", expected="whole numbers", remedy="Give class indices."
        )
    if flat.dtype.kind == "f":
        notes.append(f"labels read from {flat.dtype} as whole numbers")
    return whole


def _selected(selection: str, total: int) -> NDArray[np.int64]:
    """Indices of ``all``, a slice ``0:1000`` or ``0:1000:10``, or a list ``3,17,5:9``; in the order written."""
    pieces: list[NDArray[np.int64]] = []
    for piece in selection.replace(" ", "").split(","):
        ends = ["", ""] if piece == "all" else piece.split(":")
        try:
            numbers = [int(end) if end else None for end in ends]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3 or (len(numbers) == 1 and numbers[0] is None):
            raise _unselectable(selection, total, f"the part {piece!r}")
        if len(numbers) == 1:
            numbers = [numbers[0], cast(int, numbers[0]) + 1]
        beyond = [n for n in numbers[:2] if n is not None and not 0 <= n <= total]
        if beyond or (len(numbers) == 3 and numbers[2] is not None and numbers[2] < 1):
            raise _unselectable(selection, total, f"the part {piece!r}")
        pieces.append(np.arange(total, dtype=np.int64)[slice(*numbers)])
    index = np.concatenate(pieces)
    if len(index) == 0:
        raise _unselectable(selection, total, "no rows")
    if len(np.unique(index)) < len(index):
        raise _unselectable(selection, total, "a row twice")
    return index


def _unselectable(selection: str, total: int, got: str) -> BadInput:
    return BadInput(
        f"rows {selection!r}",
        got=got,
        expected=f"a selection of the {total} rows, for example 0:{min(total, 1000)}, all, or 3,17,5:9",
        remedy="Name at least one row that the data set has, each once.",
    )
