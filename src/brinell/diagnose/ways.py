"""The ways that attempts took up their loss, as they were taken down of the rows that are watched."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

from brinell.diagnose.attacks import ASCENTS
from brinell.diagnose.evidence import Evidence
from brinell.records import TraceRecord

FLAT_STEPS = 0.5
"""Of a way's gradients, the share that must be zero throughout for the way to be flat."""


@dataclass(frozen=True)
class Way:
    """The points of one attempt that climbs one loss from its start to its end, in order."""

    row: int
    stage: int
    points: Sequence[TraceRecord]

    @cached_property
    def losses(self) -> list[float]:
        """The loss at each point at which a gradient was asked for."""
        return [point.loss for point in self.points if point.loss is not None]

    @cached_property
    def margins(self) -> list[float]:
        """The margin at each point inside the threat set."""
        return [point.margin for point in self.points if point.margin is not None]

    @property
    def flat(self) -> bool:
        """Whether most of its gradients were zero in every coordinate."""
        slopes = [point.flat for point in self.points if point.flat is not None]
        return sum(slope == 1 for slope in slopes) > FLAT_STEPS * len(slopes)

    @property
    def rose(self) -> bool:
        """Whether the loss was ever higher than at the start."""
        return max(self.losses, default=0.0) > self.losses[0] if self.losses else False

    @property
    def falls(self) -> float:
        """Share of the steps on which the loss fell; 0 without steps."""
        steps = list(pairwise(self.losses))
        return sum(after < before for before, after in steps) / len(steps) if steps else 0.0

    @property
    def efficiency(self) -> float:
        """What the loss gained from its start to its highest, over the length of its ups and downs; 1 where it stayed."""
        length = sum(abs(after - before) for before, after in pairwise(self.losses))
        return (max(self.losses) - self.losses[0]) / length if length else 1.0

    @property
    def gap(self) -> float | None:
        """The gap that was left at the point of the highest loss; None where no point has one."""
        known = [(point.loss, point.gap) for point in self.points if point.loss is not None and point.gap is not None]
        return max(known, key=lambda pair: pair[0])[1] if known else None

    def gained_at_the_end(self, share: float) -> float:
        """By how much that share of the points, the last ones, lowered the least margin, in logit units."""
        before = len(self.margins) - int(share * len(self.margins))
        return min(self.margins[:before]) - min(self.margins) if before > 0 else 0.0


def ways_of(run: Evidence) -> dict[int, list[Way]]:
    """Of each watched row that stands, the ways by attacks that climb one loss; a row without any is left out."""
    standing = {row.row for row in run.rows if row.status == "standing"}
    climbs = {stage for stage, table in enumerate(run.manifest.suite["attacks"]) if table["attack"] in ASCENTS}
    found: dict[int, list[Way]] = {}
    kept = [point for point in run.traces if point.row in standing and point.stage in climbs]
    for (row, stage, _), points in groupby(kept, key=lambda point: (point.row, point.stage, point.attempt)):
        found.setdefault(row, []).append(Way(row, stage, tuple(points)))
    return found
