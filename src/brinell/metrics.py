"""Figures over the ledger, as types that cannot be printed without their counts."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from brinell.records import STATUSES, AttemptRecord, RowRecord, SessionRecord
from brinell.statistics import LEVEL, clopper_pearson

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def counted(count: int, noun: str) -> str:
    """``1 row``, ``1,200 rows``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def in_seconds(spent: float) -> str:
    """``0.25 s``, ``1,200 s``."""
    return f"{spent:.2g} s" if spent < 9.5 else f"{spent:,.0f} s"


@dataclass(frozen=True)
class Proportion:
    """A count out of a named whole, with its interval. With undecided rows it is bounded, not known."""

    count: int
    """Rows counted so far."""
    of: int
    """The whole."""
    denominator: str
    """What the whole is."""
    undecided: int = 0
    """Rows of the whole that may still come to be counted: the run has not got to them."""
    level: float = LEVEL

    @property
    def value(self) -> float | None:
        """The proportion; None where the whole is empty or rows are undecided."""
        return self.count / self.of if self.of > 0 and self.undecided == 0 else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """What the proportion can still come to be; None where the whole is empty."""
        return (self.count / self.of, (self.count + self.undecided) / self.of) if self.of > 0 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Clopper-Pearson at ``level``, for the population that the rows are a sample of; None where ``value`` is."""
        return clopper_pearson(self.count, self.of, self.level) if self.value is not None else None

    def __str__(self) -> str:
        if self.bounds is None:
            return f"n/a (0 {self.denominator})"
        low, high = self.bounds
        if self.interval is None:
            return (
                f"between {self.count}/{self.of} and {self.count + self.undecided}/{self.of} = {100 * low:.1f} to "
                f"{100 * high:.1f} % of {self.denominator} ({self.undecided} undecided)"
            )
        ends = ", ".join(f"{100 * end:.1f}" for end in self.interval)
        return f"{self.count}/{self.of} = {100 * low:.1f} % [{ends}] of {self.denominator}"

    __repr__ = __str__


@dataclass(frozen=True)
class PerturbationSize:
    """Sizes of the witnesses found, over broken rows only. Undefined, neither 0 nor NaN, where nothing broke."""

    count: int
    """Broken rows, over which everything here is taken."""
    norm: str
    eps: float
    """The budget, in input units."""
    mean: float | None
    """Mean norm of witness minus clean input, in input units."""
    quantiles: dict[str, float] | None
    """Minimum, quartiles and maximum of the same."""
    relative_mean: float | None
    """Mean of the same divided by the norm of the clean input, row by row."""
    relative_count: int
    """Broken rows whose clean input is not all zero, over which the relative mean is taken."""

    def __str__(self) -> str:
        if self.mean is None:
            return "undefined (0 broken rows)"
        return (
            f"mean {self.norm.capitalize()} {self.mean:.4g} over {self.count} broken rows (budget {self.eps:.4g}; "
            f"relative to the input {'n/a' if self.relative_mean is None else f'{self.relative_mean:.3g}'})"
        )

    __repr__ = __str__


@dataclass(frozen=True)
class StageFigures:
    """What one attack of the suite did. Its rows are those left by the attacks before it: no robust accuracy."""

    stage: int
    given: int
    """Rows that the attack was run on."""
    broke: int
    """Rows that it was the first to break."""
    errors: int
    """Rows on which an attempt of it could not be judged."""
    forwards: int
    backwards: int

    @property
    def left(self) -> int:
        """Rows that it was given and did not break."""
        return self.given - self.broke


@dataclass(frozen=True)
class Passes:
    """Passes, by what they were made for."""

    attack_forwards: int
    """By attacks, in attempts that count."""
    attack_backwards: int
    clean_forwards: int
    """On the clean inputs, one a row."""
    referee_forwards: int
    """To confirm witnesses."""
    select_forwards: int
    """To choose among candidates, controls included (randomised models)."""
    score_forwards: int
    """To score the chosen points (randomised models)."""
    cut_off_forwards: int
    """In attempts that were cut off; a resume makes them again."""
    cut_off_backwards: int
    preflight_forwards: int
    """By the checks before the attacks."""
    preflight_backwards: int

    @property
    def forwards(self) -> int:
        """All forward passes that the figures rest on: clean, attacks, referee, choosing and scoring."""
        judged = self.referee_forwards + self.select_forwards + self.score_forwards
        return self.clean_forwards + self.attack_forwards + judged

    @property
    def backwards(self) -> int:
        """All backward passes that the figures rest on."""
        return self.attack_backwards


@dataclass(frozen=True)
class Figures:
    """All figures of a run."""

    rows: int
    clean_accuracy: Proportion
    robust_accuracy: Proportion
    """Rows that stand, over all rows. An upper bound of the truth: a stronger attack can only lower it."""
    certified_accuracy: Proportion
    """Rows that are proved to have no witness, over all rows. A lower bound of the truth."""
    attack_success_rate: Proportion
    """Broken rows, over the rows that were correct before any attack."""
    perturbation: PerturbationSize
    status: dict[str, int]
    """Rows by status; they add up to all rows."""
    unconfirmed: int
    """Witnesses that the referee refused."""
    stages: tuple[StageFigures, ...]
    passes: Passes
    complete: bool
    """Whether every row has been through the suite."""
    errors: dict[str, int] = field(default_factory=dict)
    """Rows in error by reason."""

    @property
    def unresolved(self) -> int:
        """Rows that are right, and neither proved nor broken; an error is no proof of anything."""
        return sum(self.status[name] for name in ("standing", "pending", "error"))

    @property
    def not_broken(self) -> Proportion:
        """Rows that are right and have no witness, proved or not, over all rows. An upper bound of the truth."""
        return Proportion(self.status["certified"] + self.unresolved, self.rows, "all rows")

    @property
    def settled(self) -> bool:
        """Whether each row is known: wrong before any attack, broken or certified."""
        return self.rows == sum(self.status[name] for name in ("misclassified", "broken", "certified"))


def figures_of(
    rows: Sequence[RowRecord],
    attempts: Iterable[AttemptRecord],
    sessions: Sequence[SessionRecord],
    *,
    norm: str,
    eps: float,
    stages: int,
    right: Collection[int] | None = None,
) -> Figures:
    """The figures that follow from a ledger; the suite has so many stages.

    ``right`` are the rows that a randomised model is right on before any attack; of others the rows say it themselves.
    Nothing is known of a randomised model's row before it is scored.
    """
    status: dict[str, int] = {name: sum(row.status == name for row in rows) for name in STATUSES}
    unscored = sum(row.clean_prediction is None for row in rows) if right is None else status["pending"]
    correct = len(rows) - status["misclassified"] - unscored
    if right is not None:
        correct = sum(row.row in right and row.status != "pending" for row in rows)
    robust = status["standing"] + status["certified"]
    by_stage = _stages(attempts, rows, stages)
    errors: dict[str, int] = {}
    for row in rows:
        if row.status == "error":
            errors[row.reason or "unknown"] = errors.get(row.reason or "unknown", 0) + 1
    return Figures(
        rows=len(rows),
        clean_accuracy=Proportion(correct, len(rows), "all rows", undecided=unscored),
        robust_accuracy=Proportion(robust, len(rows), "all rows", undecided=status["pending"]),
        certified_accuracy=Proportion(status["certified"], len(rows), "all rows"),
        attack_success_rate=Proportion(
            status["broken"],
            correct,
            "initially correct rows" if unscored == 0 else "rows found correct so far",
            undecided=status["pending"] - unscored,
        ),
        perturbation=perturbation_of(rows, norm=norm, eps=eps),
        status=status,
        unconfirmed=sum(row.unconfirmed for row in rows),
        stages=by_stage,
        passes=_passes(rows, sessions),
        complete=status["pending"] == 0,
        errors=errors,
    )


def perturbation_of(rows: Iterable[RowRecord], *, norm: str, eps: float) -> PerturbationSize:
    """The sizes of the broken rows' witnesses."""
    broken = [row for row in rows if row.status == "broken" and row.distance is not None]
    sizes = np.array([row.distance for row in broken], dtype=np.float64)
    relative = [row.distance / row.input_size for row in broken if row.distance is not None and row.input_size]
    quantiles = {f"{q:g}": float(np.quantile(sizes, q)) for q in QUANTILES} if broken else None
    return PerturbationSize(
        count=len(broken),
        norm=norm,
        eps=float(eps),
        mean=float(sizes.mean()) if broken else None,
        quantiles=quantiles,
        relative_mean=float(np.mean(relative)) if relative else None,
        relative_count=len(relative),
    )


def _stages(attempts: Iterable[AttemptRecord], rows: Sequence[RowRecord], count: int) -> tuple[StageFigures, ...]:
    given: list[set[int]] = [set() for _ in range(count)]
    errors: list[set[int]] = [set() for _ in range(count)]
    forwards, backwards = [0] * count, [0] * count
    for attempt in attempts:
        given[attempt.stage].add(attempt.row)
        forwards[attempt.stage] += attempt.forwards
        backwards[attempt.stage] += attempt.backwards
        if attempt.outcome == "error":
            errors[attempt.stage].add(attempt.row)
    broke = [sum(row.status == "broken" and row.stage == stage for row in rows) for stage in range(count)]
    return tuple(
        StageFigures(stage, len(given[stage]), broke[stage], len(errors[stage]), forwards[stage], backwards[stage])
        for stage in range(count)
    )


def _passes(rows: Sequence[RowRecord], sessions: Sequence[SessionRecord]) -> Passes:
    attack_forwards = sum(row.forwards for row in rows)
    attack_backwards = sum(row.backwards for row in rows)
    made_forwards = sum(session.forwards for session in sessions)
    made_backwards = sum(session.backwards for session in sessions)
    return Passes(
        attack_forwards=attack_forwards,
        attack_backwards=attack_backwards,
        clean_forwards=sum(session.clean_forwards for session in sessions),
        referee_forwards=sum(session.referee_forwards for session in sessions),
        select_forwards=sum(session.select_forwards for session in sessions),
        score_forwards=sum(session.score_forwards for session in sessions),
        cut_off_forwards=made_forwards - attack_forwards,
        cut_off_backwards=made_backwards - attack_backwards,
        preflight_forwards=sum(session.preflight_forwards for session in sessions),
        preflight_backwards=sum(session.preflight_backwards for session in sessions),
    )
