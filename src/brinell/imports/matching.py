"""Which row of the data each row of a file is, by value."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brinell.errors import BadInput
from brinell.imports.evidence import Evidence
from brinell.imports.names import Handed
from brinell.rows import Rows
from brinell.threat import Threat

NEAR = 1e-6
"""Largest difference of a value, in input units, at which two inputs are one."""
NOWHERE = -1


def places_of(x: NDArray[Any], among: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each row of ``x`` among the rows of ``among``; ``NOWHERE`` for those that are not there.

    Copies of a row get the places of its copies in order; where there are more of them than places, they share the last.
    Both are ``(row, *feature)`` of the same features. A row with NaN is nowhere.
    """
    mine, others = (array.reshape(len(array), -1).astype(np.float64) for array in (x, among))
    # rows that differ by NEAR at most differ by ``reach`` at most along any one line, on which they can be sorted
    line = np.random.default_rng(0).standard_normal(mine.shape[1])
    reach = NEAR * np.abs(line).sum() + 1e-12
    along, order = mine @ line, np.argsort(others @ line)
    sorted_line = (others @ line)[order]
    first = np.searchsorted(sorted_line, along - reach, side="left")
    end = np.searchsorted(sorted_line, along + reach, side="right")
    found = np.full(len(mine), NOWHERE, dtype=np.int64)
    taken: set[int] = set()
    for row in range(len(mine)):
        near = order[first[row] : end[row]]
        same = np.sort(near[(np.abs(others[near] - mine[row]) <= NEAR).all(axis=1)])
        if len(same):
            free = [place for place in same.tolist() if place not in taken]
            found[row] = free[0] if free else same[-1]
            taken.add(int(found[row]))
    return found


def beside(handed: Handed, rows: Rows, threat: Threat, *, apart: bool) -> Evidence:
    """The file's rows beside those of the data, matched by value.

    Raises
    ------
    BadInput
        If they have other shapes, or none of the file's is among the data.
    """
    if handed.x_adv.shape[1:] != rows.x.shape[1:]:
        turned = handed.x_adv.ndim == 4 and np.moveaxis(handed.x_adv[:0], -1, 1).shape[1:] == rows.x.shape[1:]
        raise BadInput(
            f"points of the {handed.tool} file",
            got=f"the shape {handed.x_adv.shape[1:]}",
            expected=f"that of the data, {rows.x.shape[1:]}",
            remedy="Give --layout channels-last to have them turned."
            if turned
            else "Name the data that were attacked.",
        )
    if handed.x is None and len(handed) != len(rows):
        raise BadInput(
            f"{handed.tool} file",
            got=f"{len(handed)} points without clean inputs for {len(rows)} rows",
            expected="a point for each row, in order, or clean inputs by which to find them",
            remedy="Save x too, or select the rows that were attacked with --rows.",
        )
    place = np.arange(len(rows), dtype=np.int64) if handed.x is None else places_of(handed.x, rows.x)
    known = np.flatnonzero(place != NOWHERE)
    if len(known) == 0:
        raise BadInput(
            f"{handed.tool} file",
            got="clean inputs of which none is among the data",
            expected="rows of the data",
            remedy="Name the data that were attacked; pixels need --scale 255, normalised inputs must be turned back.",
        )
    used = place[known]
    return Evidence(
        handed.at(known), threat, x=rows.x[used], y=rows.y[used], place=used, of=len(rows),
        strangers=len(handed) - len(known), apart=apart,
    )  # fmt: skip
