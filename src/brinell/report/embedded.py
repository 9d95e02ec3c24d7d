"""The rows, attempts and pictures that a page carries as data for its table: as many as keep the page small."""

import json
from collections.abc import Sequence
from typing import Any

from brinell.records import STATUSES, AttemptRecord, RowRecord
from brinell.report.pictures import Pictures
from brinell.report.sections import shortened
from brinell.result import Reading

MOST_ROWS = 20_000
"""Rows of the table."""
MOST_ATTEMPTS = 500_000
"""Bytes, about, of the attempts shown with their rows."""
ATTEMPT_BYTES = 48
"""Of one attempt as it stands in the page, at most."""
MOST_REASONS = 100
"""Different reasons for errors that are spelt out."""

ROW_FIELDS = (
    *("row", "label", "status", "clean_prediction", "clean_margin", "prediction", "margin", "distance"),
    *("stage", "attempt", "unconfirmed", "forwards", "backwards", "reason"),
)
ATTEMPT_FIELDS = ("turn", "stage", "attempt", "outcome", "best_margin", "forwards", "backwards", "reason")
OUTCOMES = ("fell", "stood", "unconfirmed", "proposed", "error")


class Reasons:
    """Texts of other people's, each kept once and cut to size."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(self, text: str | None) -> int | None:
        """The place of a text in the list; the last place stands for all that come too late."""
        if text is None:
            return None
        short = shortened(text)
        if short not in self.texts:
            if len(self.texts) == MOST_REASONS:
                self.texts.append("another reason; see rows.parquet")
            if len(self.texts) > MOST_REASONS:
                return MOST_REASONS
            self.texts.append(short)
        return self.texts.index(short)


def embedded(reading: Reading, pictures: Pictures | None) -> dict[str, Any]:
    """What the page's table is made from, by columns; numbers are cut to five digits."""
    rows, reasons = reading.rows[:MOST_ROWS], Reasons()
    attempts, with_attempts = _attempts(reading, rows, reasons)
    return {
        "rows": {field: _column(rows, field, reasons) for field in ROW_FIELDS},
        "of": len(reading.rows),
        "statuses": STATUSES,
        "attempts": attempts,
        "withAttempts": with_attempts,
        "outcomes": OUTCOMES,
        "reasons": reasons.texts,
        "stages": [f"{number}. {title}" for number, title in enumerate(reading.stage_titles(), start=1)],
        "norm": reading.manifest.threat["norm"].capitalize(),
        "randomised": reading.randomised is not None,
        "pictures": None
        if pictures is None
        else {
            "height": pictures.height,
            "width": pictures.width,
            "sheets": pictures.sheets,
            "where": pictures.where,
            "factors": {row: _short(factor) for row, factor in pictures.factors.items()},
        },
    }


def _attempts(
    reading: Reading, rows: Sequence[RowRecord], reasons: Reasons
) -> tuple[dict[int, list[list[int | float | None]]], int]:
    """Attempts by row for the first rows, whole rows only; and of how many rows these are all the attempts."""
    by_row: dict[int, list[AttemptRecord]] = {}
    for attempt in reading.attempts:
        by_row.setdefault(attempt.row, []).append(attempt)
    kept: dict[int, list[list[int | float | None]]] = {}
    left = MOST_ATTEMPTS // ATTEMPT_BYTES
    for number, row in enumerate(rows):
        made = sorted(by_row.get(row.row, ()), key=lambda attempt: attempt.turn)
        left -= len(made)
        if left < 0:
            return kept, number
        if made:
            columns = [_column(made, field, reasons) for field in ATTEMPT_FIELDS]
            kept[row.row] = [list(values) for values in zip(*columns, strict=True)]
    return kept, len(rows)


def _column(
    records: Sequence[RowRecord] | Sequence[AttemptRecord], field: str, reasons: Reasons
) -> list[int | float | None]:
    values = [getattr(record, field) for record in records]
    if field in ("status", "outcome"):
        places = {name: place for place, name in enumerate(STATUSES if field == "status" else OUTCOMES)}
        return [places[value] for value in values]
    if field == "reason":
        return [reasons.number(value) for value in values]
    return [_short(value) if isinstance(value, float) else value for value in values]


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def as_script(data: dict[str, Any]) -> str:
    """Data as JSON that may stand in a ``script`` element: nothing in it can end the element or begin another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
