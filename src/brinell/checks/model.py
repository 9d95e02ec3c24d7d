"""Whether the model says again what it is recorded to have said."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from brinell.checks.finding import Finding, equal
from brinell.checks.points import CHUNK, points_of
from brinell.losses import margin_of
from brinell.models.torch_model import TorchModel
from brinell.points import WITNESSES
from brinell.random import stream_key
from brinell.records import RowRecord
from brinell.rejection import credited
from brinell.result import Reading
from brinell.rows import Rows
from brinell.shapes import Columns, Labels, Logits


def fingerprint(reading: Reading, model: TorchModel) -> Iterator[Finding]:
    """It is the model that was attacked."""
    yield equal("model fingerprint", model.fingerprint(), reading.manifest.model["fingerprint"])


def data(reading: Reading, rows: Rows) -> Iterator[Finding]:
    """They are the rows that were attacked, under the labels that the record gives them."""
    whole = equal("data", rows.digest(), reading.manifest.data["digest"])
    yield whole
    if not whole.holds:
        return
    held = list(zip(rows.index.tolist(), rows.y.tolist(), rows.digests(), strict=True))
    off = [
        row.row
        for row in reading.rows
        if row.place not in range(len(held)) or (row.row, row.label, row.digest) != held[row.place]
    ]
    detail = f"those of the data on {len(reading.rows) - len(off)} of {len(reading.rows)} rows"
    yield Finding("labels", not off, detail + (f"; not on {off[:5]}" if off else ""))


def decisions(reading: Reading, model: TorchModel, rows: Rows) -> Iterator[Finding]:
    """The model errs on each witness, is right on the rows that are said to stand, and wrong on the misclassified."""
    points = points_of(reading, WITNESSES)
    if points is None:
        return
    broken = [row for row in reading.rows if row.status == "broken"]
    margins = _margins(model, broken, lambda places: points[places], _judged if model.rejects else _as_they_are)
    refuted = [row.row for row, margin in zip(broken, margins, strict=True) if not margin <= 0]
    yield Finding(
        "witnesses by the model",
        not refuted,
        f"the model errs on {len(broken) - len(refuted)} of {len(broken)}"
        + (f"; not on rows {refuted[:5]}" if refuted else ""),
    )
    scored = [row for row in reading.rows if row.clean_margin is not None]
    margins = _margins(model, scored, lambda places: rows.x[places], _as_they_are)
    off = [
        row.row for row, margin in zip(scored, margins, strict=True) if (margin > 0) != (row.status != "misclassified")
    ]
    yield Finding(
        "clean decisions by the model",
        not off,
        f"as recorded on {len(scored) - len(off)} of {len(scored)} rows" + (f"; not on {off[:5]}" if off else ""),
    )


def _margins(
    model: TorchModel,
    records: list[RowRecord],
    points_at: Callable[[list[int]], NDArray[Any]],
    seen: Callable[[Columns, Labels], Logits],
) -> list[float]:
    margins: list[float] = []
    for start in range(0, len(records), CHUNK):
        chunk = records[start : start + CHUNK]
        points = np.array(points_at([row.place for row in chunk]))
        x = torch.from_numpy(points).to(model.device, model.dtype)
        y = torch.tensor([row.label for row in chunk], device=model.device)
        margins += margin_of(seen(model.scores(x), y), y).tolist()
    return margins


def _as_they_are(logits: Columns, y: Labels) -> Logits:
    return logits


def _judged(logits: Columns, y: Labels) -> Logits:
    """As a witness is judged where the model may reject it: exactly, with no room."""
    return credited(logits, y, room=0.0)


DRAWS = 20
"""Fresh draws of each point by which recorded frequencies are checked."""
STRANGE = 1e-4
"""Chance, over all rows, at which a frequency that fits the record is taken for one that does not."""


def frequencies(reading: Reading, model: TorchModel, rows: Rows) -> Iterator[Finding]:
    """A randomised model is right about as often as is recorded: on each row, and on all together."""
    points = points_of(reading, WITNESSES)
    places = {row.row: row.place for row in reading.rows}
    labels = {row.row: row.label for row in reading.rows}
    scored = [record for record in reading.frequencies if record.correct is not None]
    kinds: list[tuple[str, NDArray[Any] | None, list[tuple[int, int, int]]]] = [
        ("chosen points by the model", points, [(r.row, r.correct or 0, r.draws or 0) for r in scored]),
        ("clean inputs by the model", rows.x, [(r.row, r.clean_correct, r.clean_draws) for r in reading.frequencies]),
    ]
    for check, held, counts in kinds:
        if held is None:
            continue  # named among the points
        array = held
        at = [places[row] for row, _, _ in counts]
        chunk = 1 if reading.manifest.model["shared_draws"] else CHUNK
        again = _times_right(
            model, array, at, [labels[row] for row, _, _ in counts], chunk, f"verify {reading.manifest.digest} {check}"
        )
        odd = [
            row
            for (row, correct, draws), right in zip(counts, again, strict=True)
            if chance_of_difference(correct, draws, right, DRAWS) < STRANGE / max(len(counts), 1)
        ]
        before = sum(correct / draws for _, correct, draws in counts) / max(len(counts), 1)
        now = sum(again) / DRAWS / max(len(counts), 1)
        pooled = [(c + r) / (m + DRAWS) for (_, c, m), r in zip(counts, again, strict=True)]
        shares = zip(pooled, (m for _, _, m in counts), strict=True)
        spread = math.sqrt(sum(p * (1 - p) * (1 / m + 1 / DRAWS) for p, m in shares)) / max(len(counts), 1)
        holds = not odd and abs(now - before) <= 4 * spread + 1e-12
        detail = f"right in {now:.1%} of {DRAWS} fresh draws of {len(counts)} rows, recorded {before:.1%}"
        yield Finding(check, holds, detail + (f"; not the same on rows {odd[:5]}" if odd else ""))


def _times_right(
    model: TorchModel, points: NDArray[Any], places: list[int], labels: list[int], chunk: int, purpose: str
) -> list[int]:
    """How often the model is right on some points in ``DRAWS`` draws of its own."""
    times: list[int] = []
    for start in range(0, len(places), chunk):
        x = torch.from_numpy(np.array(points[places[start : start + chunk]])).to(model.device, model.dtype)
        y = torch.tensor(labels[start : start + chunk], device=model.device)
        right = torch.zeros_like(y)
        for draw in range(DRAWS):
            model.reseed(stream_key(f"{purpose} {start} {draw}"))
            right += margin_of(model.scores(x), y) > 0
        times += right.tolist()
    return times


def chance_of_difference(correct: int, draws: int, again: int, more: int) -> float:
    """Fisher's exact test, two-sided: how likely counts as unlike as these are if both come of one frequency."""
    total = correct + again

    def likelihood(first: int) -> float:
        return math.comb(draws, first) * math.comb(more, total - first) / math.comb(draws + more, total)

    seen = likelihood(correct)
    ways = (likelihood(first) for first in range(max(0, total - more), min(draws, total) + 1))
    return min(sum(way for way in ways if way <= seen * (1 + 1e-9)), 1.0)
