"""What a run finds, written down as it comes: the ledger and the points, batch by batch."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from brinell.flight import Attempted, Claim, Clean, Step
from brinell.geometry import distance
from brinell.ledger import Ledger
from brinell.manifest import now
from brinell.points import PointFile
from brinell.queries import Cost
from brinell.records import AttemptRecord, TraceRecord
from brinell.subject import Subject
from brinell.suites.programme import Assignment
from brinell.suites.rules import Brought, brought_by
from brinell.suites.suite import Suite

PASSES_WAIT = 0.5
"""Seconds for which the passes of batches that brought nothing may stay out of the ledger."""


class Recorded:
    """What a suite's programme reads of a run's ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def rows(self) -> dict[int, float]:
        """The rows to attack."""
        return self.ledger.to_attack()

    def brought(self, turn: int) -> Brought:
        """What a turn brought."""
        return brought_by(self.ledger.of_turn(turn))


@dataclass(eq=False)
class Recording:
    """The files of a run while it grows."""

    folder: Path
    subject: Subject
    suite: Suite
    """The suite as fitted to the model."""
    ledger: Ledger
    session: int
    places: dict[int, int]
    """Place of each row in the selection."""
    witnesses: PointFile
    originals: PointFile
    clean_logits: PointFile
    candidates: PointFile | None
    """Points that attempts kept, where the model is randomised; removed once the run is complete."""
    unwritten: Cost = field(default_factory=lambda: Cost(0, 0))
    """Passes of batches that brought nothing to write down, not yet on the session's account."""
    written: float = 0.0
    """When the account was last written, by a clock that only goes forward."""

    def examples(self, rows: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Clean inputs and true classes of some rows, where the model expects them."""
        places = [self.places[row] for row in rows]
        model = self.subject.model
        x = torch.from_numpy(self.subject.rows.x[places]).to(model.device, model.dtype)
        return x, torch.from_numpy(self.subject.rows.y[places]).to(model.device)

    def clean(self, rows: Sequence[int]) -> Clean:
        """Some rows as the attacks get them."""
        x, y = self.examples(rows)
        logits = np.stack([self.clean_logits.read(self.places[row]) for row in rows])
        return Clean(x, y, torch.from_numpy(logits).to(x.device))

    def record(self, assignment: Assignment, step: Step) -> None:
        """Write what one batch brought, all of it or nothing; where it brought nothing, its passes wait for the next."""
        self.unwritten = self.unwritten + Cost(step.forwards, step.backwards)
        if not step.attempted and time.monotonic() - self.written < PASSES_WAIT:
            return
        with self.ledger.transaction():
            self.ledger.count_passes(self.session, **self.unwritten._asdict())
            self.unwritten, self.written = Cost(0, 0), time.monotonic()
            for claim in step.claims:
                self._record_claim(assignment, claim)
            for attempted in step.attempted:
                self._record_attempt(assignment, attempted)
                if attempted.kept is not None:
                    self._keep(assignment, attempted.row, attempted.kept)

    def _record_attempt(self, assignment: Assignment, attempted: Attempted) -> None:
        """Write down an attempt that has ended, with the way of a row that is watched."""
        which = {"stage": assignment.stage, "attempt": assignment.attempt, "turn": assignment.turn}
        self.ledger.add_attempt(
            AttemptRecord(
                row=attempted.row,
                outcome=attempted.outcome,
                best_margin=attempted.best_margin,
                forwards=attempted.forwards,
                backwards=attempted.backwards,
                reason=attempted.reason,
                **which,
            )
        )
        self.ledger.add(
            TraceRecord(
                row=attempted.row,
                step=step,
                margin=_finite(waypoint.margin),
                loss=_finite(waypoint.loss),
                flat=_finite(waypoint.flat),
                gap=_finite(waypoint.gap),
                **which,
            )
            for step, waypoint in enumerate(attempted.trace)
        )

    def _keep(self, assignment: Assignment, row: int, points: torch.Tensor) -> None:
        """Write down the points of an attempt that are worth another look."""
        assert self.candidates is not None
        first = self._first_candidate(row) + self.suite.ordinal(assignment.stage, assignment.attempt) * len(points)
        for i, point in enumerate(points.cpu().numpy()):
            self.candidates.write(first + i, point)

    def read_candidates(self, row: int, first: int, count: int) -> NDArray[Any]:
        """Some of the points that attempts kept of a row, by their place among all that the suite's can keep."""
        assert self.candidates is not None
        start = self._first_candidate(row) + first
        return np.stack([self.candidates.read(start + i) for i in range(count)])

    def _first_candidate(self, row: int) -> int:
        assert self.suite.draws is not None
        return self.places[row] * self.suite.attempts() * self.suite.draws.kept

    def _record_claim(self, assignment: Assignment, claim: Claim) -> None:
        self.record_point(claim.row, claim.point, assignment.stage, assignment.attempt)
        self.ledger.update_row(claim.row, prediction=claim.prediction, margin=claim.margin)

    def record_point(self, row: int, found: torch.Tensor, stage: int | None, attempt: int | None) -> None:
        """Keep a row's point: a witness, or the one that was chosen to be scored."""
        place, point = self.places[row], found.cpu()[None]
        x = torch.from_numpy(self.subject.rows.x[place : place + 1])
        self.originals.write(place, self.subject.rows.x[place])
        self.ledger.update_row(
            row,
            stage=stage,
            attempt=attempt,
            distance=float(distance(x, point, self.subject.threat.norm)[0]),
            witness_digest=self.witnesses.write(place, point[0].numpy()),
        )

    def close(self) -> int:
        """End the session and fold the ledger into one file; how many witnesses were refused."""
        with self.ledger.transaction():
            self.ledger.count_passes(self.session, **self.unwritten._asdict())
            self.ledger.end_session(self.session, now())
        for points in (self.witnesses, self.originals, self.clean_logits):
            points.flush()
            points.close()
        if self.candidates is not None:
            self.candidates.close()
        refused = sum(record.unconfirmed for record in self.ledger.rows())
        self.ledger.close()
        return refused


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
