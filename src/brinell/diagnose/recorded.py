"""Whether the record itself is sound: rows that are missing, in error, refused or contradicted."""

from brinell.diagnose.diagnosis import Found
from brinell.diagnose.evidence import Evidence
from brinell.statistics import clopper_pearson

SHARE_REFUSED = 0.002
"""Share of all rows whose witnesses the referee may refuse."""
DECLARED_OFF = 0.02
"""How far clean accuracy may lie from the declared one, if chance does not explain it either."""


def incomplete(run: Evidence) -> Found:
    """Raised if rows are pending.

    Means: the figure is an interval; rows that no attack has got to would count as robust.
    Do: resume the run, or raise its budget.
    """
    pending = run.figures.status["pending"]
    if not run.manifest.suite["attacks"] and run.manifest.state == "complete":
        return Found(None, f"no attack was asked for; {pending} of {run.figures.rows} rows are unresolved")
    return Found(pending > 0, f"{pending} of {run.figures.rows} rows are pending")


def clean_accuracy_as_declared(run: Evidence) -> Found:
    """Raised if clean accuracy is more than 2 points from the declared one, and outside its 99 % interval.

    Means: these are not the model, the rows or the preprocessing that the declaration speaks of.
    Do: check scale, normalisation, channel order and labels before anything else.
    """
    spec = run.manifest.spec
    declared = spec.declared.clean_accuracy if spec is not None else None
    figure = run.figures.clean_accuracy
    if declared is None or figure.value is None:
        return Found(None, "no clean accuracy is declared" if declared is None else "clean accuracy is not known yet")
    low, high = clopper_pearson(figure.count, figure.of, 0.99)
    off = abs(figure.value - declared) > DECLARED_OFF and not low <= declared <= high
    return Found(off, f"declared {100 * declared:.1f} %, measured {figure}")


def certified_and_broken(run: Evidence) -> Found:
    """Raised if a row has both a certificate and a confirmed witness.

    Means: one of them is wrong, so that neither figure can be given.
    Do: report it; until it is found, believe neither the certificates nor the attacks.
    """
    if not run.certificates:
        return Found(None, "no certificates were sought")
    certified = {record.row for record in run.certificates if record.outcome == "certified"}
    both = sorted(row.row for row in run.rows if row.row in certified and row.status == "broken")
    return Found(bool(both), f"{len(both)} rows are both certified and broken{f': {both[:5]}' if both else ''}")


def errors_in_rows(run: Evidence) -> Found:
    """Raised if any row is in error.

    Means: the model raised, or gave no finite scores or gradients; such rows count as not robust, whatever they are.
    Do: read the reasons in the report; an overflow in float16 is the commonest.
    """
    errors = run.figures.status["error"]
    return Found(errors > 0, f"{errors} of {run.figures.rows} rows could not be judged")


def witnesses_refused(run: Evidence) -> Found:
    """Raised if the referee refused more than a row in 500, and more than one.

    Means: the model answers otherwise in another batch; what stands may depend on its neighbours.
    Do: look for statistics over the batch, mixed precision or randomness.
    """
    refused = run.figures.unconfirmed
    return Found(
        refused > max(1, SHARE_REFUSED * run.figures.rows),
        f"{refused} witnesses did not hold when they were scored again",
    )
