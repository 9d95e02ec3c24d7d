"""Findings about what an imported result says of the model, beside what the model says."""

from brinell.checks.finding import Finding
from brinell.imports.evidence import Evidence, distances


def successes_were_right_before(evidence: Evidence) -> Finding:
    """Raised if rows that are said to be successes were wrong before any attack.

    Means that the tool counts every error at its points, whoever made it. The share of successes is then no success rate.
    Do: divide the successes among the rows that were right before by the count of these.
    """
    check, success, wrong = "successes were right before", evidence.handed.success, evidence.wrong_before
    if success is None or wrong is None:
        return _open(check, evidence)
    found = int((success & wrong).sum())
    return Finding(check, not found, f"{found} of {success.sum()} successes were wrong before any attack")


def success_by_the_model(evidence: Evidence) -> Finding:
    """Raised if the success mask is not what the model says on the same points, by the labels that the tool had.

    Means another model, other preprocessing, a model in training mode, points rounded since, points of another eps, or a
    mask of other rows. Do: judge the points that were saved, by the model that is evaluated.
    """
    check, success, labels = "success by the model", evidence.handed.success, evidence.judged_by
    if success is None or evidence.said is None or labels is None:
        return _open(check, evidence)
    errs = evidence.said.points != labels
    too_many, too_few = int((success & ~errs).sum()), int((errs & ~success).sum())
    bad = f"{too_many} of {success.sum()} successes are no error of the model, {too_few} of its errors are no success"
    good = f"the model says the same of {len(evidence)} of {len(evidence)}"
    return Finding(check, not too_many + too_few, bad if too_many + too_few else good)


def clipped_points(evidence: Evidence) -> Finding:
    """Raised if points were saved before they were clipped to the ball, or the mask is that of such points.

    Foolbox returns `(raw, clipped, success)`, and judges success on the clipped points. A raw point may lie outside the
    ball. Do: save and use `clipped`.
    """
    check, handed = "points are the clipped ones", evidence.handed
    if handed.tool != "foolbox":
        return Finding(check, True, f"{handed.tool} returns one kind of points")
    reach = float(evidence.threat.eps) + evidence.slack
    if not handed.clipped:
        beyond = int((evidence.sizes > reach).sum())
        detail = f"the file has `raw` only; success is judged on `clipped`; {beyond} raw points lie outside the ball"
        return Finding(check, not beyond, detail)
    if handed.raw is None:
        return Finding(check, True, "`clipped` was read")
    beyond = int((distances(evidence.x, handed.raw, evidence.threat.norm) > reach).sum())
    detail = f"`clipped` was read; {beyond} raw points lie outside the ball"
    said, labels = evidence.said, evidence.judged_by
    if said is None or said.raw is None or handed.success is None or labels is None:
        return Finding(check, True, detail)
    of_clipped, of_raw = (int((handed.success == (each != labels)).sum()) for each in (said.points, said.raw))
    detail += f"; the mask agrees with the model on {of_clipped} clipped and {of_raw} raw points"
    return Finding(check, of_clipped >= of_raw, detail)


def predictions_by_the_model(evidence: Evidence) -> Finding:
    """Raised if the classes that the file gives the points are not those that the model gives.

    Means another model, other preprocessing, or points rounded since. AutoAttack gives the rows that it did not break
    their true class, which is what the model says there. Do: predict again from the file.
    """
    check, predictions = "predictions by the model", evidence.handed.predictions
    if predictions is None or evidence.said is None:
        return _open(check, evidence)
    off = int((predictions != evidence.said.points).sum())
    return Finding(check, not off, f"{off} of {len(evidence)} differ" if off else f"the same on all {len(evidence)}")


def labels_are_true(evidence: Evidence) -> Finding:
    """Raised if the file's labels differ from those of the data.

    Where they are the model's own predictions, as ART takes them if `y` is None, the attack went after these: rows that
    the model had wrong were attacked too, away from the wrong class, and count as right before. Do: attack with the true
    labels.
    """
    check, labels, said = "labels are true", evidence.handed.labels, evidence.said
    if labels is None:
        return Finding(check, None, "the file has no labels")
    own = said is not None and bool((labels == said.clean).all())
    if not evidence.apart or evidence.y is None:
        if own:
            return Finding(
                check, None, "they are what the model says on every row: name the data with --data to compare"
            )
        return Finding(check, None, "no data were named with --data to compare them with")
    off = int((labels != evidence.y).sum())
    if not off:
        return Finding(check, True, f"the data's own on {len(evidence)} of {len(evidence)} rows")
    detail = f"{off} of {len(evidence)} differ from the data's"
    return Finding(check, False, detail + ("; all are the model's own predictions" if own else ""))


def _open(check: str, evidence: Evidence) -> Finding:
    """What cannot be checked, and why."""
    return Finding(
        check, None, "no model was named with --model" if evidence.said is None else "the file does not say it"
    )
