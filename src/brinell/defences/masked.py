"""Defences that look robust: their gradient is false, absent, or leads astray; and defences that may decline to answer."""

from brinell.defences.affine import least_squares
from brinell.defences.bases import CLASSES, base, coded, rescored
from brinell.defences.codes import Clamped, Quantised, Sawtooth, Thermometer, behind
from brinell.defences.defence import Check, Defence, Solved
from brinell.defences.examples import fitting
from brinell.defences.filters import Rounded, rounded_worst
from brinell.defences.rejecting import CloseCalls, OutsideSlab, Slab, close_calls_worst, slab_worst
from brinell.defences.scores import (
    gain_trap,
    gradient_times,
    label_alone,
    random_gradient,
    ranks,
    rounded,
    sine_gain,
    underflowing,
)
from brinell.defences.winners import Winners, winners_worst

FALSE: tuple[Check, ...] = ("finite differences", "unbounded attack", "dominance")
ABSENT: tuple[Check, ...] = ("zero gradient", "unbounded attack", "finite differences", "dominance")
CUT: tuple[Check, ...] = ("gradients cut off", "score alphabet")
BENT: tuple[Check, ...] = ("Frank-Wolfe gap", "dominance")
STEP = 0.03
"""Of the rounded frequencies; eps moves most of them by several."""
KEPT = 24
"""Of 64 pixels."""


def gradients() -> list[Defence]:
    """Forwards an affine model; backwards something else."""
    return [
        Defence(
            id="no-gradient", name="no gradient", kind="gradient", summary="shows a gradient of 0",
            model=rescored(gradient_times(0.0), "forward kept"), seen_by=ABSENT,
        ),
        Defence(
            id="negated-gradient", name="negated gradient", kind="gradient", summary="shows the gradient's opposite",
            model=rescored(gradient_times(-1.0), "forward kept"), seen_by=FALSE,
        ),
        Defence(
            extra=True, id="random-gradient", name="random gradient", kind="gradient", seen_by=FALSE,
            summary="multiplies each logit's gradient by a random number", model=rescored(random_gradient, "forward kept"),
        ),
        Defence(
            extra=True, id="underflow", name="gradient in float16", kind="gradient", seen_by=("finite differences",),
            summary="small gradients underflow on the way back", model=rescored(underflowing, "forward kept"),
        ),
        Defence(
            extra=True, id="dead-zone", name="dead zone", kind="gradient", model=coded(Clamped(0.2, 0.8)), eps=0.1,
            summary="cuts inputs off at 0.2 and 0.8: at most pixels of a clean row the gradient is 0",
            seen_by=("zero gradient",),
        ),
        Defence(
            extra=True, id="box-faces", name="clamped to the box", kind="gradient", model=coded(Clamped(0.0, 1.0), base()),
            summary="cuts inputs off at 0 and 1, which changes nothing but hides the gradient on the faces of the box",
            seen_by=("box faces",),
        ),
    ]  # fmt: skip


def roundings() -> list[Defence]:
    """Steps: between them the gradient is 0, or there is none."""
    (x, y), filtered = fitting(), Rounded(STEP)
    affine = least_squares(filtered(x), y, CLASSES)
    return [
        Defence(
            id="ranks", name="ranks", kind="rounding", model=rescored(ranks), seen_by=CUT,
            summary="gives the place of each class, and no gradient at all",
        ),
        Defence(
            id="label-alone", name="the label alone", kind="rounding", model=rescored(label_alone), seen_by=CUT,
            summary="gives the decision, and no gradient at all",
        ),
        Defence(
            id="rounded-logits", name="logits rounded to halves", kind="rounding", model=rescored(rounded),
            summary="rounds the scores: the gradient is 0", seen_by=ABSENT,
        ),
        *(
            Defence(
                extra=levels < 16, id=f"levels-{levels}", name=f"{levels} levels", kind="rounding",
                model=coded(Quantised(levels)), eps=0.049,
                summary=f"rounds inputs to {levels} levels: the gradient is 0", seen_by=ABSENT,
            )
            for levels in (16, 8, 4)
        ),
        Defence(
            id="thermometer", name="thermometer code", kind="rounding", model=coded(Thermometer(8)), eps=0.031,
            summary="compares each input with eight thresholds: the gradient is 0", seen_by=ABSENT,
        ),
        Defence(
            extra=True, id="frequencies", name="rounded frequencies", kind="rounding", seen_by=ABSENT,
            summary="rounds a cosine transform of the image: the gradient is 0",
            model=Solved(lambda: behind(filtered, affine), rounded_worst(affine, STEP), "bracket"),
        ),
    ]  # fmt: skip


def landscapes() -> list[Defence]:
    """The gradient is true and leads astray."""
    x, y = fitting()
    affine = least_squares(Winners(KEPT)(x), y, CLASSES)
    return [
        Defence(
            id="sine-gain", name="sine gain", kind="landscape", model=rescored(sine_gain), seen_by=FALSE,
            summary="a gain that swings along one direction makes every loss wavy but ratios of logits",
        ),
        Defence(
            id="gain-trap", name="gain trap", kind="landscape", model=rescored(gain_trap), seen_by=("unbounded attack",),
            summary="the margin grows on the way to the boundary, so that climbing leads away from it",
        ),
        Defence(
            extra=True, id="sawtooth-0.03", name="sawtooth 0.03", kind="landscape", model=coded(Sawtooth(0.03)), seen_by=BENT,
            summary="a triangle wave on each input: half of the time its slope is near 0",
        ),
        Defence(
            id="sawtooth-0.06", name="sawtooth 0.06", kind="landscape", model=coded(Sawtooth(0.06)), seen_by=BENT,
            summary="a larger wave: local optima in every coordinate",
        ),
        Defence(
            extra=True, id="winners", name="winners take all", kind="landscape", seen_by=BENT,
            summary="keeps the 24 brightest pixels: the score jumps where one overtakes another",
            model=Solved(lambda: behind(Winners(KEPT), affine), winners_worst(affine, KEPT), "threshold"),
        ),
    ]  # fmt: skip


def rejecting() -> list[Defence]:
    """An eleventh score for declining; to decline is to err."""
    affine, slab = base(), Slab.of(fitting()[0], 0.9)
    return [
        Defence(
            id="close-calls", name="declines close calls", kind="reject", eps=0.03,
            summary="declines where the two highest logits are near each other",
            model=Solved(
                lambda: CloseCalls(affine.module(), 0.5).eval(), close_calls_worst(affine, 0.5), "closed form"
            ),
        ),
        Defence(
            extra=True, id="brightness", name="declines odd brightness", kind="reject", eps=0.03,
            summary="declines outside the brightness of nine tenths of the images",
            model=Solved(lambda: OutsideSlab(affine.module(), slab).eval(), slab_worst(affine, slab), "closed form"),
        ),
    ]  # fmt: skip
