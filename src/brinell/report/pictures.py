"""Pictures of rows: clean, perturbation, adversarial, side by side on sheets of PNG that a page carries in itself."""

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brinell.points import ORIGINALS, WITNESSES
from brinell.records import RowRecord
from brinell.report.coverage import pictures as are_pictures
from brinell.result import Reading

MOST_BYTES = 2_600_000
"""Of a page's sheets as they stand in it."""
SHEET_PIXELS = 300_000
"""Of one sheet, about; a sheet has one row at least."""
SHOTS = 8
"""Rows that are shown by themselves, fewer where pictures are large."""
SHOT_PIXELS = 200_000
"""Of all of these."""
KINDS = 3
"""Clean, perturbation, adversarial."""

Picture = NDArray[np.uint8]
"""``(height, width, channel)``"""


@dataclass(frozen=True)
class Pictures:
    """The pictures of some rows."""

    height: int
    """Of one picture, in pixels."""
    width: int
    sheets: tuple[str, ...]
    """Data URIs. On each, one row of pictures for each row of the data set: clean, perturbation, adversarial."""
    where: dict[int, tuple[int, int]]
    """Sheet, and line on it, by the row's index."""
    factors: dict[int, float]
    """By how much the perturbation was scaled to be seen, by the row's index."""
    of: int
    """Broken rows, of which those at the front were taken."""
    first: tuple["Shot", ...]
    """A few of them by themselves."""


@dataclass(frozen=True)
class Shot:
    """One row's three pictures, one below the other."""

    row: int
    label: int
    prediction: int | None
    """Class of the adversarial point."""
    image: str
    """Data URI."""


def pictures_of(reading: Reading, most_bytes: int = MOST_BYTES) -> Pictures | None:
    """The broken rows' pictures, in the order of the selection, as many as fit; None where rows are no pictures.

    Of other rows the run's folder keeps no points.
    """
    shape = reading.manifest.data["shape"]
    broken = [row for row in reading.rows if row.status == "broken" and row.witness_digest is not None]
    if not are_pictures(shape) or not broken:
        return None
    sheets: list[str] = []
    where: dict[int, tuple[int, int]] = {}
    factors: dict[int, float] = {}
    left = most_bytes
    for rows, sheet, scaled in _sheets(reading, broken):
        left -= len(sheet)
        if left < 0:
            break
        where |= {row.row: (len(sheets), line) for line, row in enumerate(rows)}
        factors |= {row.row: factor for row, factor in zip(rows, scaled, strict=True)}
        sheets.append(sheet)
    first = tuple(_shots(reading, broken))
    return Pictures(shape[1], shape[2], tuple(sheets), where, factors, len(broken), first)


def _shots(reading: Reading, broken: Sequence[RowRecord]) -> Iterator[Shot]:
    _, height, width = reading.manifest.data["shape"]
    some = broken[: min(SHOTS, SHOT_PIXELS // (KINDS * height * width))]
    for row, (tiles, _) in zip(some, _tiles(reading, some), strict=True):
        yield Shot(row.row, row.label, row.prediction, as_png(np.concatenate(tiles, axis=0)))


def _sheets(reading: Reading, rows: Sequence[RowRecord]) -> Iterator[tuple[Sequence[RowRecord], str, list[float]]]:
    _, height, width = reading.manifest.data["shape"]
    length = max(1, SHEET_PIXELS // (KINDS * height * width))
    for start in range(0, len(rows), length):
        some = rows[start : start + length]
        tiles, factors = zip(*_tiles(reading, some), strict=True)
        yield some, as_png(np.concatenate([np.concatenate(three, axis=1) for three in tiles], axis=0)), list(factors)


def _tiles(reading: Reading, rows: Sequence[RowRecord]) -> Iterator[tuple[list[Picture], float]]:
    """The three pictures of each row, and by how much the change was scaled."""
    low, high = reading.manifest.threat["low"], reading.manifest.threat["high"]
    originals = np.load(reading.folder / ORIGINALS, mmap_mode="r")
    witnesses = np.load(reading.folder / WITNESSES, mmap_mode="r")
    for row in rows:
        x, x_adv = originals[row.place], witnesses[row.place]
        change, factor = magnified(x_adv - x, high - low)
        yield [shown(x, low, high), change, shown(x_adv, low, high)], factor


def shown(point: NDArray[Any], low: float, high: float) -> Picture:
    """A point ``(channel, height, width)`` of the box as a picture: ``low`` is black, ``high`` white, at 8 bits."""
    share = (np.asarray(point, dtype=np.float64) - low) / (high - low)
    levels: Picture = np.round(255 * share.clip(0, 1)).astype(np.uint8)
    return levels.transpose(1, 2, 0)


def magnified(change: NDArray[Any], span: float) -> tuple[Picture, float]:
    """A change as a picture, and by how much it was scaled: none is mid-grey, the largest is black or white.

    The factor takes the largest change to half the ``span`` of the box. Where nothing changed it is 1.
    """
    most = float(np.abs(np.asarray(change, dtype=np.float64)).max())
    factor = span / 2 / most if most > 0 else 1.0
    return shown(factor * np.asarray(change, dtype=np.float64), -span / 2, span / 2), factor


def as_png(picture: Picture) -> str:
    """A picture as a data URI."""
    from PIL import Image

    image = Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
