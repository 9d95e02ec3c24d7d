"""Whether the ways that were taken down of a few rows are those of their attempts."""

from collections.abc import Iterator, Sequence

from brinell.checks.finding import Finding
from brinell.records import AttemptRecord, TraceRecord
from brinell.result import Reading
from brinell.watched import drawn_rows

ROUNDING = 1e-4
"""By how much a share may exceed 1: both of its parts are long sums."""


def traces(reading: Reading) -> Iterator[Finding]:
    """Each attempt on a drawn row has a point for each forward pass, with its least margin and its gradients among them."""
    if reading.randomised is not None:
        return
    right = [row.row for row in reading.rows if row.clean_margin is not None and row.clean_margin > 0]
    attacked = [row for row in right if row not in reading.settled_first]
    drawn = set(drawn_rows(attacked, reading.manifest.seed))
    ways: dict[tuple[int, int, int], list[TraceRecord]] = {}
    for record in reading.traces:
        ways.setdefault((record.row, record.stage, record.attempt), []).append(record)
    off = []
    for attempt in reading.attempts:
        way = ways.pop((attempt.row, attempt.stage, attempt.attempt), [])
        if (attempt.row in drawn or way) and not _agrees(attempt, way):
            off.append(attempt.row)
    strangers = sorted({row for row, _, _ in ways} | {record.row for record in reading.traces} - drawn)
    good = f"{len(reading.traces):,} margins on {len(drawn)} drawn rows are those of their attempts"
    bad = f"{len(off)} attempts differ, rows {off[:5]}; of no attempt or not drawn: rows {strangers[:5]}"
    yield Finding("traces", not off and not strangers, bad if off or strangers else good)


def _agrees(attempt: AttemptRecord, way: Sequence[TraceRecord]) -> bool:
    margins = [record.margin for record in way if record.margin is not None]
    slopes = [record.flat for record in way if record.flat is not None]
    shares = [*slopes, *(record.gap for record in way if record.gap is not None)]
    return (
        [record.step for record in way] == list(range(attempt.forwards))
        and all(record.turn == attempt.turn for record in way)
        and min(margins, default=None) == attempt.best_margin
        and _counted(len(slopes), attempt.backwards)
        and all(0 <= share <= 1 + ROUNDING for share in shares)
    )


def _counted(slopes: int, backwards: int) -> bool:
    """Whether so many points with a gradient took so many backward passes, as many at each of them."""
    return backwards == 0 if slopes == 0 else backwards > 0 and backwards % slopes == 0
