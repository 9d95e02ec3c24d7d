"""Which charts a run has: what is read from the ledger for each, and what is said of it."""

from collections.abc import Sequence
from itertools import groupby, pairwise

from brinell.claim import threat_of
from brinell.records import RowRecord, TraceRecord
from brinell.report.chart import Chart, Line, Point, thinned
from brinell.report.text import saturation_line
from brinell.result import Reading
from brinell.spending import Turn

MOST_POINTS = 160
"""Points of a line: more cannot be told apart at a chart's width."""
MOST_ATTACKS = 6
"""Charts of margins by attack, the first ones of the suite."""


def charts_of(reading: Reading) -> list[Chart]:
    """The charts of a run, in the page's order; those that have nothing to show are left out."""
    if reading.randomised is not None:
        return []  # no row falls, so that neither flips nor nearest witnesses mean anything
    return [*_by_eps(reading), *_by_passes(reading), *_ways(reading), *_by_attack(reading)]


def bounds_by_eps(rows: Sequence[RowRecord], eps: float) -> list[Point]:
    """An upper bound of robust accuracy at each radius up to ``eps``, from the witnesses' distances.

    ``(rows not wrong before any attack, not in error and without a witness within the radius) / rows``. It steps down at
    each witness; at ``eps`` it is the run's own figure, with pending rows counted as robust. Without rows: no point.
    """
    if not rows:
        return []
    held = sum(row.status not in ("misclassified", "error") for row in rows)
    points = [Point(0.0, held / len(rows))]
    for distance, together in groupby(
        sorted(row.distance for row in rows if _broken(row) and row.distance is not None)
    ):
        held -= len(list(together))
        points.append(Point(min(distance, eps), held / len(rows)))
    return [*points, Point(eps, held / len(rows))]


def _broken(row: RowRecord) -> bool:
    return row.status == "broken"


def _by_eps(reading: Reading) -> list[Chart]:
    threat = threat_of(reading.manifest)
    if not any(map(_broken, reading.rows)):
        return []
    points = bounds_by_eps(reading.rows, float(threat.eps))
    sought = "The attacks" if reading.attacked else "The search for a proof"
    ends = f"At eps {threat.eps}: {100 * (points[-1].y or 0):.1f} %; at 0: {100 * (points[0].y or 0):.1f} %."
    return [
        Chart(
            key="by-eps",
            title="Robust accuracy against eps, upper bounds",
            caption=f"Upper bounds. {ends} At each eps between: all rows but those that were wrong, could not be judged, "
            f"or have a witness within it. {sought} sought points anywhere in the ball of {threat.eps}, so that most "
            "witnesses lie near its edge; below it the truth may be far lower. Rows pending count as robust.",
            x_label=f"eps, {threat.norm.capitalize()}, input units",
            y_label="accuracy, at most",
            lines=[Line("upper bound", points, steps=True)],
            floor=0.0,
            percent=True,
        )
    ]


def _by_passes(reading: Reading) -> list[Chart]:
    saturation = reading.saturation
    if saturation is None or not saturation.last:
        return []
    paid = saturation_line(saturation)
    return [
        Chart(
            key="by-passes",
            title="Rows broken against passes",
            caption="Rows with a witness after so many forward and backward passes of attacks, turn by turn. "
            f"{paid[0].upper()}{paid[1:]}.",
            x_label="passes of attacks",
            y_label="rows broken",
            lines=[Line("rows broken", _flips(reading.turns), steps=True)],
            floor=0.0,
        )
    ]


def _flips(turns: Sequence[Turn]) -> list[Point]:
    points = [Point(0.0, 0.0), *(Point(turn.passes, turn.broken) for turn in turns)]
    changes = [p for before, p in pairwise(points) if p.y != before.y]
    return list(dict.fromkeys([points[0], *thinned(changes, MOST_POINTS), points[-1]]))


def _ways(reading: Reading) -> list[Chart]:
    """Least margin met so far by each watched row, over all of its attempts."""
    lines = []
    for row, records in groupby(reading.traces, key=lambda record: record.row):
        ordered = sorted(records, key=lambda record: (record.turn, record.step))
        lines.append(_line(reading, row, thinned(least_so_far(ordered), MOST_POINTS), steps=True))
    if not lines:
        return []
    return [
        Chart(
            key="ways",
            title="Least margin met, sampled rows",
            caption=f"{len(lines)} rows drawn at random from those that were right: the least margin met inside the threat "
            "set after so many forward passes on the row, on a logarithmic axis. At or below 0 the row is broken.",
            x_label="forward passes on the row",
            y_label="least margin, logits",
            lines=lines,
            zero=True,
            logarithmic=True,
        )
    ]


def least_so_far(records: Sequence[TraceRecord]) -> list[Point]:
    """The least margin among the first 1, 2, 3, … points; None until one lay inside the threat set."""
    points: list[Point] = []
    least: float | None = None
    for passes, record in enumerate(records, start=1):
        if record.margin is not None:
            least = record.margin if least is None else min(least, record.margin)
        points.append(Point(passes, least))
    return points


def _by_attack(reading: Reading) -> list[Chart]:
    """The margins themselves, point by point, in the first attempt of each attack."""
    found: dict[int, list[Line]] = {}
    most: dict[int, int] = {}
    first = [record for record in reading.traces if record.attempt == 0]
    for (row, stage), records in groupby(first, key=lambda record: (record.row, record.stage)):
        points = [Point(record.step, record.margin) for record in records]
        found.setdefault(stage, []).append(_line(reading, row, thinned(points, MOST_POINTS), steps=False))
        most[stage] = max(most.get(stage, 0), len(points))
    charts = []
    for stage in sorted(found)[:MOST_ATTACKS]:
        title = reading.stage_titles()[stage]
        less = (
            f" Of every {most[stage]} points {MOST_POINTS} are drawn, the lowest." if most[stage] > MOST_POINTS else ""
        )
        charts.append(
            Chart(
                key=f"attack-{stage + 1}",
                title=f"Margin, point by point: {stage + 1}. {title}",
                caption=f"The first attempt of attack {stage + 1}, {title}, on {len(found[stage])} of the sampled rows: the "
                f"margin at each point inside the threat set.{less}",
                x_label="point of the attempt",
                y_label="margin, logits",
                lines=found[stage],
                zero=True,
            )
        )
    return charts


def _line(reading: Reading, row: int, points: list[Point], *, steps: bool) -> Line:
    status = next(record.status for record in reading.rows if record.row == row)
    return Line(f"row {row}, {status}", points, tone="second" if status == "broken" else "quiet", steps=steps)
