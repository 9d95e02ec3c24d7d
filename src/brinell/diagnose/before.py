"""What the checks before the attack found, as it stands in the record."""

from brinell.diagnose.attacks import aims, own
from brinell.diagnose.diagnosis import Found
from brinell.diagnose.evidence import Evidence

FAR_TARGETS = 0.1
"""Share of the rows whose nearest wrong class may lie beyond the targets that were tried."""


def wrong_gradients(run: Evidence) -> Found:
    """Raised if on a tenth of the rows tried the margin does not change as its gradient says.

    Means: the backward pass is not that of the model: rounded or replaced, zero, negated, random.
    Do: attack through a stated backward (`brinell.adaptive.bpda`), and believe no figure without it.
    """
    return _of_gradients(run, "wrong-gradients", "the margin changes as its gradient says")


def short_sighted_gradients(run: Evidence) -> Found:
    """Raised if on a tenth of the rows tried the margin does not change as its gradient says across a quarter of the ball,
    though it does close by.

    Means: the backward pass is right and says little at the attack's scale: an oscillating or switching score.
    Do: a first step as large as the ball, losses without scale (DLR), more queries without gradients.
    """
    return _of_gradients(
        run, "short-sighted-gradients", "the margin changes as its gradient says across a quarter of the ball"
    )


def zero_gradients(run: Evidence) -> Found:
    """Raised if the gradient of cross-entropy is exactly zero on a row tried.

    Means: the loss is saturated, or the graph is cut; an attack on cross-entropy alone finds nothing there.
    Do: use a suite with margin or DLR losses; state the true outputs (logits or probabilities).
    """
    return _found_before(run, "zero-gradients", "no gradient of cross-entropy is exactly zero")


def misleading_gradients(run: Evidence) -> Found:
    """Raised if climbing the margin with no limit but the box leaves more than 5 % of the rows tried right.

    Means: gradients lead nowhere: with the whole box to go, a sound attack succeeds on nearly every row.
    Do: look for a step that hides gradients (rounding, clamps, large gains), and attack through a stated backward.
    """
    counts = run.manifest.unbounded
    if not counts:
        return Found(None, "not made for randomised models, or at eps 0")
    if "misleading-gradients" in run.manifest.unmade:
        return Found(None, run.manifest.unmade["misleading-gradients"])
    rows = counts["rows"]
    losses = [name for name in counts if name != "rows"]
    if not rows:
        return Found(None, "no row tried was right before any attack")
    said = "; ".join(f"{name} leaves {counts[name]} of {rows}" for name in losses)
    misled = [name for name in losses if f"misleading-gradients of {name}" in run.manifest.findings]
    return Found("margin" in misled, f"with no limit but the box, {said} rows right")


def saturated_cross_entropy(run: Evidence) -> Found:
    """Raised if climbing cross-entropy with no limit but the box leaves more than 5 % of the rows tried right, where the
    margin does not.

    Means: large logits saturate cross-entropy. Suites with other losses are not misled by it.
    Do: nothing under such a suite; never trust an attack on cross-entropy alone here.
    """
    findings, counts = run.manifest.findings, run.manifest.unbounded
    if not counts:
        return Found(None, "not made for randomised models, or at eps 0")
    if "saturated-cross-entropy" in run.manifest.unmade:
        return Found(None, run.manifest.unmade["saturated-cross-entropy"])
    names = [
        name for name in counts if name not in ("rows", "margin") and f"misleading-gradients of {name}" in findings
    ]
    alone = bool(names) and "misleading-gradients of margin" not in findings
    return Found(alone, f"{', '.join(names) or 'cross-entropy'} {'misleads' if alone else 'does not mislead'} alone")


def noisy_gradients(run: Evidence) -> Found:
    """Raised if the mean gradients of two halves of an attack's draws have a median cosine below 0.3.

    Means: an attack on this randomised model follows noise more than the gradient.
    Do: raise `attack` in the suite's [draws].
    """
    if not run.randomised:
        return Found(None, "the model is deterministic")
    return _found_before(run, "noisy-gradients", "gradients of two halves of the draws agree")


def input_spread(run: Evidence) -> Found:
    """Raised if the inputs spread over less than a hundredth of the box.

    Means: box and inputs are probably on two scales, so that eps is another than meant.
    Do: state `low` and `high` on the inputs' scale.
    """
    return _found_before(run, "input-spread", "inputs fill the box")


def other_preprocessing(run: Evidence) -> Found:
    """Raised if the model is clearly better on the same rows prepared otherwise: on another scale, normalised or not, with
    channels reversed (more rows by a twentieth of those tried, and more than chance explains).

    Means: these are not the inputs that the model is for, so that no figure is that of the model in use.
    Do: prepare inputs as the model expects them (`--scale`, `--layout`), or make the preparation part of the model.
    """
    if run.randomised:
        return Found(None, "not made for randomised models")
    return _found_before(
        run, "other-preprocessing", "no other scale or order of the inputs makes the model clearly better"
    )


def few_targets(run: Evidence) -> Found:
    """Raised if on a tenth of the rows tried the wrong class that is nearest to first order (MALT) has a lower logit than all
    that targeted attacks aim at.

    Means: with many classes the highest logits are not always the nearest classes.
    Do: raise `targets`.
    """
    ranks = run.manifest.target_ranks
    if not ranks:
        return Found(None, "not made for so few classes")
    tried = max((table.get("targets", 0) for table in own(run.manifest.suite["attacks"]) if aims(table)), default=0)
    if not tried:
        return Found(None, "no attack of the suite aims at a class")
    beyond = sum(rank > tried for rank in ranks)
    return Found(
        beyond > FAR_TARGETS * len(ranks),
        f"on {beyond} of {len(ranks)} rows the nearest class lies beyond {tried} targets",
    )


def clamped_inputs(run: Evidence) -> Found:
    """Raised if gradients vanish on the faces of the box, as where a model clamps its input.

    Means: an attack that moves along the faces sees no gradient there. Gradients were taken a hair inside instead.
    Do: nothing; the record says so.
    """
    if "clamped-inputs" in run.manifest.unmade:
        return Found(None, run.manifest.unmade["clamped-inputs"])
    return Found(
        run.manifest.pull_in > 0,
        f"gradients were taken {run.manifest.pull_in:.0e} inside the box"
        if run.manifest.pull_in
        else "they do not vanish",
    )


def _of_gradients(run: Evidence, check: str, otherwise: str) -> Found:
    """What the comparison with differences found, where it was made."""
    if "stated-backward" in run.manifest.findings:
        return Found(None, run.manifest.findings["stated-backward"])
    if not run.manifest.unbounded:
        return Found(None, "not made for randomised models, or at eps 0")
    return _found_before(run, check, otherwise)


def _found_before(run: Evidence, check: str, otherwise: str) -> Found:
    said = run.manifest.findings.get(check)
    if said is None and check in run.manifest.unmade:
        return Found(None, run.manifest.unmade[check])
    return Found(said is not None, said or otherwise)
