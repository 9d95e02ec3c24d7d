"""One run, from the first row to the last: what is asked of the engine goes into the record, batch by batch."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from filelock import FileLock

from brinell.attacks.catalogue import identity, title
from brinell.engine import Engine
from brinell.ledger import Ledger
from brinell.manifest import Manifest, now, read_manifest
from brinell.oracle import Oracle
from brinell.points import CANDIDATES
from brinell.proving import Prover
from brinell.queries import Attack, Cost, Learner, Success
from brinell.random import stream_key
from brinell.recording import Recorded, Recording
from brinell.scoring import referee, score_clean_rows
from brinell.subject import Subject
from brinell.suites.programme import Assignment
from brinell.suites.suite import Suite
from brinell.tally import Moment, Observer, Planned, Tally, ignore
from brinell.watched import drawn_rows

MANY_REFUSED = 3
"""Witnesses that did not hold when scored again, above which the record doubts that the model is deterministic."""


@dataclass(eq=False)
class Run:
    """A run whose folder is open. Make it with ``begin`` or ``resume``."""

    subject: Subject
    engine: Engine
    recording: Recording
    lock: FileLock
    """Keeps other processes out of the folder."""
    before: float = 0.0
    """Seconds of the sessions before this one."""
    started: float = field(default_factory=time.perf_counter)
    prover: Prover | None = None
    """Asks for certificates before any attack; None where none are sought first."""
    cut: Literal["passes", "time"] | None = None
    """Which budget ended the attacks before the suite was through."""

    @property
    def folder(self) -> Path:
        """Where the record lies."""
        return self.recording.folder

    @property
    def suite(self) -> Suite:
        """The suite as fitted to the model."""
        return self.recording.suite

    @property
    def ledger(self) -> Ledger:
        """The record of every row and attempt."""
        return self.recording.ledger

    @property
    def oracle(self) -> Oracle:
        """The model as the run asks it."""
        return self.engine.oracle

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
            score_clean_rows(self.oracle, self.recording)
            referee(self.oracle, self.recording)
            if self.prover is not None and not self._certify(self.prover, observer, stop):
                return False
            self.engine.watched = self._watched()
            through = self.attack(observer, stop) if self.subject.threat.eps > 0 else True
        if through:
            with self.ledger.transaction():
                self.ledger.settle(cut=self.cut is not None or not self.suite.attacks)
        return through

    def close(self, state: str) -> Manifest:
        """End this session; the manifest that is to be sealed with it."""
        refused = self.recording.close()
        if state == "complete":
            (self.folder / CANDIDATES).unlink(missing_ok=True)
        manifest = read_manifest(self.folder)
        doubt = f"{refused} witnesses did not hold when they were scored again: is the model randomised? (brinell-rand)"
        if refused > MANY_REFUSED:
            notes = [note for note in manifest.notes if "did not hold when" not in note]
            manifest = manifest.model_copy(update={"notes": [*notes, doubt]})
        update = {
            "state": state,
            "ended": now(),
            "cut": self.cut,
            "seconds": round(manifest.seconds + time.perf_counter() - self.started, 3),
            "batch_size": self.oracle.batch_size,
        }
        return manifest.model_copy(update=update)

    def _certify(self, prover: Prover, observer: Observer, stop: Callable[[], bool]) -> bool:
        """Ask for every row that is right and was not asked for; whether nobody stopped it. Time that is up ends it."""
        known = {record.row for record in self.ledger.certificates()}
        standing = self.ledger.to_attempt() - known
        rows = [row for row in self.ledger.rows() if row.row in standing]

        def told(asked: int, of: int, proved: int) -> None:
            label = f"certifying by {prover.asked.method}: {asked} of {of} rows, {proved} certified"
            observer(Moment(label, of - asked, 0, Cost(0, 0), Cost(0, 0)))

        prover.seek(rows, told=told, stop=lambda: stop() or self._out_of_time())
        return not stop()

    def _watched(self) -> frozenset[int]:
        """The rows whose way is kept; none where the model is randomised, so that no single point tells anything."""
        if self.suite.draws is not None:
            return frozenset()
        return frozenset(drawn_rows(self.ledger.to_attack(), self.subject.seed))

    def attack(self, observer: Observer, stop: Callable[[], bool]) -> bool:
        """Make every attempt of the suite that has not been made, until ``stop`` says so; whether all are made.

        A budget that runs out ends the attacks as if the suite were through; ``cut`` says so.
        """
        budget, rows = self.subject.budget, len(self.subject.rows)
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
            for step in self.engine.run(todo, self.recording.clean):
                self.recording.record(todo, step)
                tally.take(step)
                observer(tally.moment())
                if stop() or self._out_of_time():
                    referee(self.oracle, self.recording)
                    self.cut = "time" if self._out_of_time() else None
                    return self.cut is not None
            referee(self.oracle, self.recording)
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
        return assignment.attack.learn(successes, self.subject.seed, self.oracle.classes)

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
