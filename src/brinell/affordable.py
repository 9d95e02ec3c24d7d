"""Whether a run asks for anything, and can be paid for: its passes, and its room on the disk."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from brinell.budget import Budget
from brinell.errors import BadInput
from brinell.points import CANDIDATES
from brinell.subject import Subject
from brinell.suites.suite import Suite


def refuse_small(budget: Budget, subject: Subject) -> None:
    """Refuse a budget that the suite cannot keep, or that does not pay for the clean rows.

    Raises
    ------
    BadInput
        In either case.
    """
    rows = len(subject.rows)
    passes = budget.passes(rows)
    if subject.suite.draws is not None:
        raise BadInput(
            "budget",
            got=f"{budget.text} with suite {subject.suite.name}",
            expected="none: what scores a randomised model is fixed by the suite",
            remedy="Change [draws] in a suite file of your own.",
        )
    if passes is not None and passes <= rows:
        raise BadInput(
            "budget",
            got=f"{budget} for {rows} rows",
            expected=f"more than the {rows} passes on the clean rows",
            remedy="Raise it; `brinell plan` says what a suite costs.",
        )


def refuse_nothing(subject: Subject) -> None:
    """Refuse a run that would neither attack nor certify, and a budget of passes for attacks that are not made.

    Raises
    ------
    BadInput
        In either case.
    """
    if subject.suite.attacks:
        return
    if subject.certify is None:
        raise BadInput(
            f"suite {subject.suite.name}",
            got="no attack and no certificates",
            expected="at least one of them",
            remedy="Choose a suite, or seek certificates with --certify crown.",
        )
    if subject.budget is not None:
        raise BadInput(
            "budget",
            got=f"{subject.budget.text}, and no attack",
            expected="seconds for each row",
            remedy="State them with --certify-seconds (`brinell certify`: --seconds).",
        )


def refuse_full_disk(folder: Path, suite: Suite, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse a randomised run for whose kept points there is no room.

    Raises
    ------
    BadInput
        In that case.
    """
    if suite.draws is None or (folder / CANDIDATES).exists():
        return
    need = math.prod(shape) * dtype.itemsize * suite.attempts() * suite.draws.kept
    free = shutil.disk_usage(folder).free
    if need > free:
        raise BadInput(
            f"folder {folder}",
            got=f"{free / 1e9:.1f} GB free",
            expected=f"{need / 1e9:.1f} GB for the points that attacks keep",
            remedy="Take fewer rows, or lower `kept` in the suite's [draws].",
        )
