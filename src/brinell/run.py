"""One run, from the first row to the last: what is asked of the engine goes into the ledger, batch by batch."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray

from brinell.attacks.catalogue import identity, title
from brinell.engine import Engine
from brinell.errors import BadInput
from brinell.flight import Attempted, Claim, Clean, Step
from brinell.geometry import distance
from brinell.ledger import Ledger
from brinell.losses import decision, margin_of
from brinell.manifest import Manifest, now, read_manifest
from brinell.points import CANDIDATES, PointFile
from brinell.queries import Attack, Cost, Learner, Success
from brinell.random import stream_key
from brinell.records import AttemptRecord, TraceRecord
from brinell.subject import Subject
from brinell.suites.programme import Assignment
from brinell.suites.rules import Brought, brought_by
from brinell.suites.suite import Suite
from brinell.tally import Observer, Planned, Tally, ignore
from brinell.watched import drawn_rows

MANY_REFUSED = 3
"""Witnesses that did not hold when scored again, above which the record doubts that the model is deterministic."""
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
class Run:
    """A run whose folder is open. Make it with ``begin`` or ``resume``."""

    folder: Path
    subject: Subject
    suite: Suite
    """The suite as fitted to the model."""
    engine: Engine
    ledger: Ledger
    lock: FileLock
    """Keeps other processes out of the folder."""
    session: int
    places: dict[int, int]
    """Place of each row in the selection."""
    witnesses: PointFile
    originals: PointFile
    clean_logits: PointFile
    candidates: PointFile | None
    """Points that attempts kept, where the model is randomised; removed once the run is complete."""
    before: float = 0.0
    """Seconds of the sessions before this one."""
    started: float = field(default_factory=time.perf_counter)
    cut: Literal["passes", "time"] | None = None
    """Which budget ended the attacks before the suite was through."""
    unwritten: Cost = field(default_factory=lambda: Cost(0, 0))
    """Passes of batches that brought nothing to write down, not yet on the session's account."""
    written: float = 0.0
    """When the account was last written, by a clock that only goes forward."""

    def go(self, observer: Observer = ignore, stop: Callable[[], bool] = lambda: False) -> bool:
        """Work until the suite is through or ``stop`` says so; whether it is through.

        What has been found is in the ledger after every batch.

        Raises
        ------
        BadInput
            If the model gives non-finite logits on clean rows.
        ModelFailed
            If the model raises on every row of a batch, or memory runs out on one.
        """
        with self.subject.model.undisturbed():
            self._score_clean_rows()
            self._referee()
            self.engine.watched = self._watched()
            through = self.attack(observer, stop) if self.subject.threat.eps > 0 else True
        if through:
            with self.ledger.transaction():
                self.ledger.settle(cut=self.cut is not None)
        return through

    def close(self, state: str) -> Manifest:
        """End this session and fold the ledger into one file; the manifest that is to be sealed with it."""
        with self.ledger.transaction():
            self.ledger.count_passes(self.session, **self.unwritten._asdict())
            self.ledger.end_session(self.session, now())
        for points in (self.witnesses, self.originals, self.clean_logits):
            points.flush()
            points.close()
        if self.candidates is not None:
            self.candidates.close()
        if state == "complete":
            (self.folder / CANDIDATES).unlink(missing_ok=True)
        refused = sum(record.unconfirmed for record in self.ledger.rows())
        self.ledger.close()
        manifest = read_manifest(self.folder)
        doubt = (
            f"{refused} witnesses did not hold when they were scored again: is the model randomised? (autoattack-rand)"
        )
        if refused > MANY_REFUSED:
            notes = [note for note in manifest.notes if "did not hold when" not in note]
            manifest = manifest.model_copy(update={"notes": [*notes, doubt]})
        update = {
            "state": state,
            "ended": now(),
            "cut": self.cut,
            "seconds": round(manifest.seconds + time.perf_counter() - self.started, 3),
            "batch_size": self.engine.batch_size,
        }
        return manifest.model_copy(update=update)

    def _score_clean_rows(self) -> None:
        """Find the rows that are wrong before any attack."""
        todo = [record.row for record in self.ledger.rows() if record.clean_prediction is None]
        unusable: list[int] = []
        for chunk in chunks(todo, self.engine.batch_size):
            x, y = self.examples(chunk)
            logits = self.engine.scores(x)
            margin, decided, readable = margin_of(logits, y), decision(logits, y), logits.isfinite().all(dim=1)
            unusable += [row for row, good in zip(chunk, readable.tolist(), strict=True) if not good]
            with self.ledger.transaction():
                self.ledger.count_passes(self.session, clean_forwards=len(chunk))
                for i, row in enumerate(chunk):
                    self.clean_logits.write(self.places[row], logits[i].cpu().numpy())
                    if bool(readable[i]):
                        self.ledger.update_row(
                            row,
                            clean_prediction=int(decided[i]),
                            clean_margin=float(margin[i]),
                            status="pending" if float(margin[i]) > 0 else "misclassified",
                        )
        refuse_unreadable(unusable)

    def _watched(self) -> frozenset[int]:
        """The rows whose way is kept; none where the model is randomised, so that no single point tells anything."""
        if self.suite.draws is not None:
            return frozenset()
        return frozenset(drawn_rows(self.ledger.to_attack(), self.subject.seed))

    def attack(self, observer: Observer, stop: Callable[[], bool]) -> bool:
        """Make every attempt of the suite that has not been made, until ``stop`` says so; whether all are made.

        A budget that runs out ends the attacks as if the suite were through; ``cut`` says so.
        """
        budget, rows = self.subject.budget, len(self.places)
        passes = math.inf if budget is None else budget.for_attacks(rows)
        planned = Planned(self.suite.cost(rows))
        programme = self.suite.programme(Recorded(self.ledger), seed=self.subject.seed, budget=passes)
        for assignment in programme.turns():
            done = {attempt.row for attempt in self.ledger.of_turn(assignment.turn)}
            standing = self.ledger.to_attempt()
            own = self.suite.cost_of_attempt(assignment.stage)
            planned.take(own, len(assignment.rows), len(programme.standing))
            left = [row for row in assignment.rows if row in standing and row not in done]
            if not left:
                continue
            todo = replace(assignment, rows=left, attack=self._informed(assignment))
            tally = self._tally(todo, own, planned.left())
            observer(tally.moment())
            for step in self.engine.run(todo, self._clean):
                self._record(todo, step)
                tally.take(step)
                observer(tally.moment())
                if stop() or self._out_of_time():
                    self._referee()
                    self.cut = "time" if self._out_of_time() else None
                    return self.cut is not None
            self._referee()
        self.cut = "passes" if programme.cut else None
        return True

    def _informed(self, assignment: Assignment) -> Attack:
        """The turn's attack, told what fell in earlier turns if it wants to know."""
        if not isinstance(assignment.attack, Learner):
            return assignment.attack
        successes = [
            Success(
                attack=self.suite.attacks[stage],
                stream=stream_key(identity(self.suite.attacks[stage])),
                attempt=attempt,
                row=row,
                label=label,
                prediction=prediction,
            )
            for row, stage, attempt, label, prediction in self.ledger.fallen_before(assignment.turn)
        ]
        return assignment.attack.learn(successes, self.subject.seed, self.engine.classes)

    def _out_of_time(self) -> bool:
        seconds = None if self.subject.budget is None else self.subject.budget.seconds
        return seconds is not None and self.before + time.perf_counter() - self.started > seconds

    def _tally(self, assignment: Assignment, own: Cost, after: Cost) -> Tally:
        counted = self.ledger.progress()
        spent = Cost(counted.forwards, counted.backwards)
        attempts = assignment.attack.attempts()
        return Tally(
            label=title(assignment.attack) + (f" {assignment.attempt + 1}/{attempts}" if attempts > 1 else ""),
            own=own,
            after=after,
            standing=counted.standing,
            fallen=counted.fallen,
            under_way=len(assignment.rows),
            settled=spent,
            spent=spent,
        )

    def _record(self, assignment: Assignment, step: Step) -> None:
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
            TraceRecord(row=attempted.row, step=step, margin=margin if math.isfinite(margin) else None, **which)
            for step, margin in enumerate(attempted.trace)
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

    def _referee(self) -> None:
        """Score each new witness once more, as stored, in a pass with other neighbours; refuse what does not hold."""
        claimed = self.ledger.claimed()[::-1]
        for chunk in chunks(claimed, self.engine.batch_size):
            x, y = self.examples([record.row for record in chunk])
            stored = np.stack([self.witnesses.read(record.place) for record in chunk])
            points = torch.from_numpy(stored).to(x.device, x.dtype)
            logits = self.engine.credited(self.engine.scores(points), y)
            holds = logits.isfinite().all(dim=1) & (margin_of(logits, y) <= 0) & self.subject.threat.contains(x, points)
            with self.ledger.transaction():
                self.ledger.count_passes(self.session, referee_forwards=len(chunk))
                for record, held in zip(chunk, holds.tolist(), strict=True):
                    if held:
                        self.ledger.update_row(record.row, status="broken", confirmed=1)
                    else:
                        self.ledger.refuse_witness(record.row)

    def examples(self, rows: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Clean inputs and true classes of some rows, where the model expects them."""
        places = [self.places[row] for row in rows]
        model = self.subject.model
        x = torch.from_numpy(self.subject.rows.x[places]).to(model.device, model.dtype)
        return x, torch.from_numpy(self.subject.rows.y[places]).to(model.device)

    def _clean(self, rows: Sequence[int]) -> Clean:
        x, y = self.examples(rows)
        logits = np.stack([self.clean_logits.read(self.places[row]) for row in rows])
        return Clean(x, y, torch.from_numpy(logits).to(x.device))


Item = TypeVar("Item")


def refuse_unreadable(rows: Sequence[int]) -> None:
    """Refuse a model that gave non-finite logits on some clean rows."""
    if rows:
        raise BadInput(
            "model",
            got=f"no finite logits on {len(rows)} clean rows ({', '.join(map(str, rows[:5]))}"
            + (", …)" if len(rows) > 5 else ")"),
            expected="finite logits on every clean row",
            remedy="Find what overflows or raises there; a row cannot be left out of the denominator for it.",
        )


def chunks(items: Sequence[Item], length: int) -> Iterator[Sequence[Item]]:
    """The items in order, so many at a time."""
    return (items[start : start + length] for start in range(0, len(items), length))
