"""Their numbers beside the run's: which rows each counted, its value by that rule, and what it is with the right ones."""

from collections.abc import Callable

import numpy as np

from brinell.geometry import Norm
from brinell.imports.account import Recount
from brinell.imports.evidence import Evidence, distances
from brinell.metrics import Figures


def recounts(evidence: Evidence, figures: Figures | None) -> list[Recount]:
    """A line for each number that the file tells or that its tool reports; ``figures`` are those of a complete run."""
    lines = [line(evidence, figures) for line in LINES]
    return [line for line in lines if line is not None]


def success_rate(evidence: Evidence, figures: Figures | None) -> Recount | None:
    """Their rule: the mean of the success mask, over every row, wrong before or not."""
    told, success, wrong = evidence.handed.told.get("success rate"), evidence.handed.success, evidence.wrong_before
    if told is None and success is None:
        return None
    rule = f"the mean of the success mask over all {len(evidence)} rows of the file"
    if wrong is not None:
        rule += f", {wrong.sum()} of them wrong before any attack"
    return Recount(
        figure="success rate",
        told=told,
        by_their_rule=None if success is None else float(success.mean()),
        rule=rule,
        right=None if figures is None else figures.attack_success_rate.value,
        right_rule="" if figures is None else str(figures.attack_success_rate),
    )


def robust_accuracy(evidence: Evidence, figures: Figures | None) -> Recount | None:
    """Their rule: the share of the file's rows whose point the model gets right by the file's labels, in the ball or not."""
    told, labels, said = evidence.handed.told.get("robust accuracy"), evidence.judged_by, evidence.said
    predictions = said.points if said is not None else evidence.handed.predictions
    if told is None and (predictions is None or labels is None):
        return None
    known = predictions is not None and labels is not None
    right = predictions == labels if known else None
    outside = int((~evidence.inside).sum())
    by = "" if said is not None or not known else ", by the file's predictions"
    return Recount(
        figure="robust accuracy",
        told=told,
        by_their_rule=None if right is None else float(np.mean(right)),
        rule=f"points that the model gets right, over all {len(evidence)} rows of the file, {outside} of whose points lie "
        f"outside the threat set{by}",
        right=None if figures is None else figures.robust_accuracy.value,
        right_rule="" if figures is None else str(figures.robust_accuracy),
    )


def empirical_robustness(evidence: Evidence, figures: Figures | None) -> Recount | None:
    """ART's rule (`art/metrics/metrics.py`, 1.20): the mean of ``‖x_adv - x‖ / ‖x‖`` over rows whose prediction changed.

    Labels have no part in it: rows that were wrong before count, and rows that moved from one wrong class to another, or
    to the true one. The norm is the attack's where it has one, else L2. It is 0.0 where no prediction changes, as if the
    model gave way at once. No eps bounds it: the attack is run with `minimal`, which makes FGSM search for the least eps.
    """
    told = evidence.handed.told.get("empirical robustness")
    if told is None and evidence.handed.tool != "art":
        return None
    norm, said, wrong = evidence.threat.norm, evidence.said, evidence.wrong_before
    rule = f"mean {norm.capitalize()} size relative to the input over rows whose prediction changed, 0 if none did"
    value = None
    if said is not None and wrong is not None:
        changed = said.points != said.clean
        own = distances(np.zeros_like(evidence.x), evidence.x, norm)[changed]
        if (own > 0).all():  # else it is infinite
            value = float((evidence.sizes[changed] / own).mean()) if changed.any() else 0.0
        rule += f": {changed.sum()} rows, {(changed & wrong).sum()} of them wrong before any attack"
    perturbation = None if figures is None else figures.perturbation
    return Recount(
        figure="empirical robustness",
        told=told,
        by_their_rule=value,
        rule=rule,
        right=None if perturbation is None else perturbation.relative_mean,
        right_rule="" if perturbation is None else f"over the {perturbation.relative_count} broken rows",
    )


def mean_distance(evidence: Evidence, figures: Figures | None) -> Recount | None:
    """Their rule: torchattacks takes L2, in any threat model, over the rows that the model has wrong at the points.

    For the others: over the rows of the success mask, or all rows where the file has none.
    """
    told = evidence.handed.told.get("mean distance")
    if told is None:
        return None
    torchattacks, said, success = evidence.handed.tool == "torchattacks", evidence.said, evidence.handed.success
    norm: Norm = "l2" if torchattacks else evidence.threat.norm
    counted = success if success is not None else np.ones(len(evidence), dtype=bool)
    rule = "rows of the success mask" if success is not None else "all rows of the file"
    if torchattacks:
        labels = evidence.judged_by
        known = said is not None and labels is not None
        counted = said.points != labels if said is not None and known else np.zeros(len(evidence), dtype=bool)
        rule = "rows that the model has wrong at the points, those wrong before among them"
    sizes = distances(evidence.x, evidence.handed.x_adv, norm)[counted & evidence.finite]
    perturbation = None if figures is None else figures.perturbation
    return Recount(
        figure="mean distance",
        told=told,
        by_their_rule=float(sizes.mean()) if len(sizes) else None,
        rule=f"mean {norm.capitalize()} size over {rule}" + (f": {len(sizes)} rows" if len(sizes) else ""),
        right=None if perturbation is None else perturbation.mean,
        right_rule=""
        if perturbation is None
        else f"{perturbation.norm.capitalize()}, over the {perturbation.count} broken rows",
    )


Line = Callable[[Evidence, Figures | None], Recount | None]
LINES: tuple[Line, ...] = (success_rate, robust_accuracy, empirical_robustness, mean_distance)
