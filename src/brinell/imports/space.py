"""Findings about where the points of an imported result lie. None of them needs a model."""

import numpy as np

from brinell.checks.finding import Finding
from brinell.geometry import Norm
from brinell.imports.evidence import Evidence, distances, flat
from brinell.threat import RELATIVE_TOLERANCE

PIXELS = 255
GRID = 1e-6
"""Distance from a multiple of 1/255, in input units, up to which a value is one."""


def points_in_ball(evidence: Evidence) -> Finding:
    """Raised if a point lies farther from its clean input than eps and rounding explain.

    Means that another eps was used, that points were saved before they were clipped, or that they belong to other rows.
    Such a point is no witness; its projection into the threat set is tried in its place. Do: look whether --eps is the
    attack's own, and save the clipped points.
    """
    threat, sizes = evidence.threat, evidence.sizes[evidence.finite]
    beyond = sizes - float(threat.eps)
    by_rule = (beyond > 0) & (beyond <= RELATIVE_TOLERANCE * threat.eps)
    slack = evidence.slack
    by_rounding = (beyond > RELATIVE_TOLERANCE * threat.eps) & (beyond <= slack)
    outside = beyond > slack
    apart = f"; {by_rule.sum()} beyond eps by at most {RELATIVE_TOLERANCE:g} of it" if by_rule.any() else ""
    if by_rounding.any():
        apart += f"; {by_rounding.sum()} beyond it by no more than the rounding of float32 ({slack:.2g})"
    largest = float(sizes.max()) if len(sizes) else 0.0
    where = f"{threat.norm.capitalize()} eps {threat.eps_text}"
    if not outside.any():
        return Finding(
            "points in the ball",
            True,
            f"{len(sizes)} of {len(sizes)} within {where}, largest size {largest:.6g}{apart}",
        )
    excess = f", {100 * (largest / threat.eps - 1):.3g} % beyond eps" if threat.eps > 0 else ""
    detail = f"{outside.sum()} of {len(sizes)} outside {where}: the largest has size {largest:.6g}{excess}{apart}"
    return Finding("points in the ball", False, detail)


def points_in_box(evidence: Evidence) -> Finding:
    """Raised if a value of a point lies outside the box.

    Means that the attack did not know the bounds of the input space, or that points were saved normalised. Such a point
    is no witness; its projection is tried in its place. Do: give the tool the bounds (`bounds`, `clip_values`).
    """
    low, high = evidence.threat.low, evidence.threat.high
    points = flat(evidence.handed.x_adv[evidence.finite]).astype(np.float64)
    beyond = np.maximum(points - high, low - points).max(axis=1, initial=0.0)
    outside = beyond > 0
    good = f"{len(points)} of {len(points)} in [{low:g}, {high:g}]"
    bad = f"{outside.sum()} of {len(points)} leave [{low:g}, {high:g}], by {beyond.max(initial=0.0):.3g} at most"
    return Finding("points in the box", not outside.any(), bad if outside.any() else good)


def points_finite(evidence: Evidence) -> Finding:
    """Raised if a point holds NaN or infinity.

    Means that the attack failed on that row. The row has no point then: it counts as not attacked, and stands. Do: run
    the attack on it again.
    """
    lost = int((~evidence.finite).sum())
    detail = f"{lost} of {len(evidence)} hold NaN or infinity" if lost else f"{len(evidence)} of {len(evidence)} are"
    return Finding("points are finite", not lost, detail)


def points_as_computed(evidence: Evidence) -> Finding:
    """Raised if the points were saved as whole numbers, or every value is a multiple of 1/255 without need.

    Means that they went through an image file: each value was moved by up to 1/510, out of the ball or out of the error.
    Where clean inputs are such multiples and the ball is of Linf with eps of whole pixels, an attack reaches such points
    by itself, and nothing is raised. Do: save the points in floating point.
    """
    check = "points as computed"
    if evidence.handed.saved.startswith(("int", "uint")):
        return Finding(
            check, False, f"saved as {evidence.handed.saved}: every value was rounded or cut to a whole number"
        )
    threat = evidence.threat
    if not _on_grid(evidence.handed.x_adv[evidence.finite]):
        return Finding(check, True, f"saved as {evidence.handed.saved}, not rounded to 1/255")
    by_itself = threat.norm == "linf" and _on_grid(np.array([float(threat.eps)])) and _on_grid(evidence.x)
    if by_itself:
        detail = "every value is a multiple of 1/255, as are the clean inputs and eps: the attack may have ended there"
        return Finding(check, True, detail)
    return Finding(check, False, "every value is a multiple of 1/255: the points were rounded to pixels")


def scale_of_inputs(evidence: Evidence) -> Finding:
    """Raised if clean inputs or points span another range than the box.

    Means that they are pixels of 0 to 255, or were saved after normalisation. Distances and eps are then on two scales.
    Do: give --scale 255, or save inputs before normalisation, or state the true box with --low and --high.
    """
    low, high = evidence.threat.low, evidence.threat.high
    slack = (high - low) / 2
    said = []
    for name, array in (("inputs", evidence.handed.x), ("points", evidence.handed.x_adv)):
        values = array[np.isfinite(array)] if array is not None else np.zeros(0)
        if values.size == 0:
            continue
        least, most = float(values.min()), float(values.max())
        # points may leave the box a little, which is another finding
        reach = slack if name == "points" else 0.0
        if least < low - reach or most > high + reach:
            looks = "pixels of 0 to 255" if least >= 0 and 1.5 * high < most <= PIXELS else "normalised values"
            said.append(f"{name} span {least:.4g} to {most:.4g}: they look like {looks}")
    return Finding("scale of the inputs", not said, "; ".join(said) or f"within the box [{low:g}, {high:g}]")


def changed(evidence: Evidence) -> Finding:
    """Raised if a row that is said to be a success has a point equal to its clean input.

    Means that the attack gave up there, and that the row counts as a success because the model was wrong before. Do:
    count successes over the rows that the model had right.
    """
    check, success = "points of successes are changed", evidence.handed.success
    norm: Norm = "linf"
    same = distances(evidence.x, evidence.handed.x_adv, norm) == 0
    left = f"{same.sum()} of {len(evidence)} points are the clean input"
    if success is None:
        return Finding(check, None, f"the file has no success mask; {left}")
    idle = int((same & success).sum())
    return Finding(check, not idle, f"{idle} of {success.sum()} successes are the clean input" if idle else left)


def _on_grid(values: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> bool:
    """Whether every value is a multiple of 1/255."""
    pixels = values.astype(np.float64) * PIXELS
    return bool((np.abs(pixels - np.round(pixels)) <= GRID * PIXELS).all()) and values.size > 0
