"""How near this tool's own figures are to the truth, on defences of which the truth is known.

Each defence is attacked as any model would be. A row that fell though no point can break it is a fault of the tool. A row
that stands though a point is known that breaks it is what the suite did not see, and then it matters whether the run said
that something was wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from brinell.defences.catalogue import defences, defences_named
from brinell.defences.defence import Defence, Kind, Truth
from brinell.defences.examples import ATTACKED, attacked
from brinell.errors import BadInput
from brinell.evaluation import Result, evaluate
from brinell.frequencies import Frequency
from brinell.geometry import Norm
from brinell.shapes import Mask
from brinell.suites.suite import Suite, load_suite
from brinell.threat import Threat

SUITES = ("brinell", "brinell-rand")
ROWS = 40
OF_THE_SUITE = ("weak-suite", "still-breaking")
"""Checks that speak of the suite, whatever the model."""
CHANCE, BEYOND_CHANCE = 2.0, 4.0
"""Standard errors of a randomised model's figure by its draws: within, it is exact; beyond, it is below the truth."""

Outcome = Literal["exact", "too kind", "below the truth", "not judged", "refused", "not refused"]
"""``not judged``: rows ended in error, and the figure is no verdict of the suite."""


@dataclass(frozen=True)
class Trial:
    """What a suite made of a defence."""

    defence: str
    """Its id."""
    kind: Kind
    suite: str
    norm: Norm
    eps: float
    """Input units."""
    rows: int
    """How many were attacked."""
    truth: tuple[float, float] | None
    """Robust rows: those that no point breaks, and those that no known point breaks. Of a randomised defence, bounds of
    the expected number of right answers at the worst points. None for a mistake."""
    figure: float | None
    """Rows that the suite left standing, or the expected number that it measured; None where it was refused."""
    outcome: Outcome
    by: float
    """Rows by which the figure is too kind, that fell against the truth, or that ended in error."""
    notes: tuple[str, ...]
    """The checks that stand against the figure; where it was refused, why."""

    @property
    def false_alarm(self) -> bool:
        """Whether a healthy model was warned of, or refused."""
        return self.kind == "healthy" and bool(self.notes)

    @property
    def verdict(self) -> str:
        """In a few words."""
        rows = f"{self.by:.3g} row" + ("" if self.by == 1 else "s")
        if self.outcome == "too kind":
            return f"too kind by {rows}, {'suspect' if self.notes else 'unsuspected'}"
        if self.outcome == "below the truth":
            return f"BELOW THE TRUTH by {rows}"
        if self.outcome == "not judged":
            return f"not judged on {rows}"
        return f"{self.outcome}, FALSE ALARM" if self.false_alarm else self.outcome


def pairs(only: Sequence[str], suites: Sequence[Suite], *, everything: bool) -> list[tuple[Defence, Suite]]:
    """Which defence meets which suite: all that are named, else the quick ones, or all. Suites with draws get randomised ones.

    Raises
    ------
    BadInput
        If a name is unknown, or nothing is left.
    """
    found = [
        (defence, suite)
        for defence in (defences_named(only) if only else defences())
        for suite in suites
        if (only or everything or not defence.extra)
        and defence.norm in suite.norms()
        and (suite.draws is None or defence.randomised)
    ]
    if not found:
        raise BadInput(
            "selftest",
            got=f"suites {', '.join(suite.name for suite in suites)}, which are meant for none of these defences",
            expected="a suite with draws for randomised defences, one without for the others, in their norms",
            remedy="Name other suites; `brinell selftest --list` says what the defences are.",
        )
    return found


def trials(
    only: Sequence[str] = (), suites: Sequence[str] = SUITES, *, rows: int = ROWS, everything: bool = False
) -> Iterator[Trial]:
    """Try each chosen defence under each suite that is meant for its kind, one after the other.

    Raises
    ------
    BadInput
        Before anything is attacked, if a suite or a name is unknown, or ``rows`` out of range.
    """
    if not 1 <= rows <= ATTACKED:
        raise BadInput("rows", got=str(rows), expected=f"1 to {ATTACKED}", remedy=f"Leave it out for {ROWS}.")
    chosen = pairs(only, [load_suite(name) for name in suites], everything=everything)
    return (tried(defence, suite, rows) for defence, suite in chosen)


def tried(defence: Defence, suite: Suite, rows: int) -> Trial:
    """Attack the first rows of a defence, and hold the figure against its truth."""
    x, y = defence.given(*attacked(rows))
    truth = defence.truth(x, y) if defence.model.worst is not None else None
    threat = Threat(defence.norm, defence.eps)
    figure: float | None
    outcome: Outcome
    notes: tuple[str, ...]
    try:
        result = evaluate(
            defence.model.make(), x, y, threat=threat, suite=suite, outputs=defence.outputs, batch_size=len(x)
        )
    except BadInput as refusal:
        figure, outcome, by, notes = None, "refused", 0.0, (str(refusal),)
    else:
        figure, outcome, by = judged(defence, truth, result)
        notes = tuple(
            f"{one.check}: {one.said}" for one in result.reading.diagnoses if one.open and one.check not in OF_THE_SUITE
        )
    return Trial(
        defence=defence.id,
        kind=defence.kind,
        suite=suite.name,
        norm=defence.norm,
        eps=defence.eps,
        rows=len(x),
        truth=None if truth is None else counted(defence, truth),
        figure=figure,
        outcome=outcome,
        by=by,
        notes=notes,
    )


def counted(defence: Defence, truth: Truth) -> tuple[float, float]:
    """Bounds of the number of robust rows, or of the expected number of right answers."""
    if defence.randomised:
        return float(truth.least.sum()), float(truth.most.sum())
    return float(defence.robust(truth).sum()), float((~defence.breakable(truth)).sum())


def judged(defence: Defence, truth: Truth | None, result: Result) -> tuple[float, Outcome, float]:
    """The figure of a run, what it is beside the truth, and by how many rows."""
    measured = result.robust_accuracy
    if isinstance(measured, Frequency):
        assert truth is not None
        return judged_frequency(measured, counted(defence, truth))
    stands = _with_status(result, "standing")
    fallen, figure = _with_status(result, "broken", "misclassified"), float(stands.sum())
    if truth is None or defence.randomised:
        return figure, "not refused", 0.0
    counts: tuple[tuple[Outcome, Mask], ...] = (
        ("below the truth", fallen & defence.robust(truth)),
        ("not judged", ~(stands | fallen)),
        ("too kind", stands & defence.breakable(truth)),
    )
    for outcome, rows in counts:
        if bool(rows.any()):
            return figure, outcome, float(rows.sum())
    return figure, "exact", 0.0


def _with_status(result: Result, *statuses: str) -> Mask:
    return torch.tensor([record.status in statuses for record in result.rows])


def judged_frequency(measured: Frequency, truth: tuple[float, float]) -> tuple[float, Outcome, float]:
    """The same of a randomised model: its figure is a mean over draws, and chance is allowed for."""
    error, (least, most) = measured.noise * measured.of, truth
    if measured.total < least - BEYOND_CHANCE * error - 1e-9:
        return measured.total, "below the truth", least - measured.total
    if measured.total > most + CHANCE * error + 1e-9:
        return measured.total, "too kind", measured.total - most
    return measured.total, "exact", 0.0
