"""Whether the points that lie beside the ledger are those that it names, and are allowed."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from brinell.checks.finding import Finding
from brinell.claim import threat_of
from brinell.geometry import distance, size
from brinell.points import ORIGINALS, WITNESSES
from brinell.records import RowRecord
from brinell.result import Reading
from brinell.rows import row_digest

CHUNK = 256


def pointed(reading: Reading) -> list[RowRecord]:
    """Rows with a point: the broken ones, or where the model is randomised those whose point is chosen."""
    if reading.randomised is None:
        return [row for row in reading.rows if row.status == "broken"]
    chosen = {record.row for record in reading.frequencies if record.candidates is not None}
    return [row for row in reading.rows if row.row in chosen]


def points_recorded(reading: Reading) -> Iterator[Finding]:
    """The points beside the ledger are those that it names."""
    yield from _over_pointed(
        reading,
        "clean inputs of broken rows",
        ORIGINALS,
        lambda row, point: row_digest(point, row.label) == row.digest,
    )
    yield from _over_pointed(
        reading,
        "witnesses as recorded",
        WITNESSES,
        lambda row, point: hashlib.sha256(np.ascontiguousarray(point).tobytes()).hexdigest() == row.witness_digest,
    )


def witnesses_in_threat(reading: Reading) -> Iterator[Finding]:
    """Each witness lies in the threat model, at the distance that is recorded."""
    threat = threat_of(reading.manifest)
    rows = pointed(reading)
    points, originals = points_of(reading, WITNESSES), points_of(reading, ORIGINALS)
    if points is None or originals is None:
        return
    outside, off = [], []
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        places = [row.place for row in chunk]
        x, x_adv = torch.from_numpy(originals[places]), torch.from_numpy(points[places])
        distances, sizes = distance(x, x_adv, threat.norm).tolist(), size(x.double(), threat.norm).tolist()
        for row, inside, length, own in zip(chunk, threat.contains(x, x_adv).tolist(), distances, sizes, strict=True):
            if not inside:
                outside.append(row.row)
            recorded = (row.distance or 0.0, row.input_size or 0.0)
            if not np.allclose(recorded, (length, own), rtol=1e-9, atol=0.0):
                off.append(row.row)
    good = f"{len(rows)} of {len(rows)} within {threat.describe()}"
    yield Finding(
        "witnesses in the threat model", not outside, f"{len(outside)} outside, rows {outside[:5]}" if outside else good
    )
    detail = f"{len(off)} are not, rows {off[:5]}" if off else f"{len(rows)} of {len(rows)} are those of the points"
    yield Finding("sizes as recorded", not off, detail)


def points_of(reading: Reading, name: str) -> NDArray[Any] | None:
    """The points in one of the run's files, a place a row; None where they cannot be read."""
    try:
        points: NDArray[Any] = np.load(reading.folder / name, mmap_mode="r")
    except (OSError, EOFError, ValueError):
        return None
    return points if len(points) == len(reading.rows) else None


def _over_pointed(
    reading: Reading, check: str, name: str, holds: Callable[[RowRecord, NDArray[Any]], bool]
) -> Iterator[Finding]:
    points = points_of(reading, name)
    if points is None:
        yield Finding(check, False, f"{name} is missing or is not an array of {len(reading.rows)} points")
        return
    rows = pointed(reading)
    off = [row.row for row in rows if not holds(row, points[row.place])]
    good = f"{len(rows)} of {len(rows)} match their digests"
    yield Finding(check, not off, f"{len(off)} do not match their digests, rows {off[:5]}" if off else good)
