"""Defences that hide nothing: healthy models, the same on other scales, and models whose near rival is not the likely one."""

from brinell.defences.affine import least_squares
from brinell.defences.bases import CLASSES, bare, base, coded, pair, pieces, rescored, trapped
from brinell.defences.codes import Halved, behind
from brinell.defences.defence import Check, Defence, Solved
from brinell.defences.examples import fitting, odd_or_even
from brinell.defences.filters import Blur, blurred_worst
from brinell.defences.polyhedra import Maxout, maxout_worst
from brinell.defences.scores import halved, plus, softmax_of, squashed, times

SATURATED: tuple[Check, ...] = ("zero gradient", "unbounded attack")
FLOAT16_STEP = 0.016
"""Logits below 32 lie no farther apart in float16."""
OFFSET_ROUNDING = 5e-3
"""Of float32 at 1e4, in a margin."""


def healthy() -> list[Defence]:
    """Of these a tool says the truth and raises nothing."""
    x, y = fitting()
    smooth = least_squares(Blur()(x), y, CLASSES)
    nothing = "hides nothing: what is missed here is missed everywhere"
    return [
        Defence(id="affine-linf", name="affine, Linf", kind="healthy", summary=nothing, model=bare(base())),
        Defence(
            id="affine-l2", name="affine, L2", kind="healthy", summary=nothing, model=bare(base(), "l2"), norm="l2", eps=0.25
        ),
        Defence(
            id="affine-l1", name="affine, L1", kind="healthy", summary=nothing, model=bare(base(), "l1"), norm="l1", eps=0.6
        ),
        Defence(
            id="two-classes", name="two classes", kind="healthy", model=bare(pair()), given=odd_or_even,
            summary="no third class, so that ratios of logits are undefined",
        ),
        Defence(
            extra=True, id="offset", name="logits + 1e4", kind="healthy", model=rescored(plus(1e4)), slack=OFFSET_ROUNDING,
            summary="adds a number to all logits: a loss that reads the true class's alone is off",
        ),
        Defence(
            extra=True, id="blur", name="blur", kind="healthy", summary="averages neighbours, which is affine too",
            model=Solved(lambda: behind(Blur(), smooth), blurred_worst(smooth), "closed form"),
        ),
        Defence(
            extra=True, id="half-inputs", name="inputs in float16", kind="healthy", model=coded(Halved(), base()),
            summary="rounds inputs to 11 bits, far finer than eps",
        ),
    ]  # fmt: skip


def scales() -> list[Defence]:
    """The base with scores on other scales: a loss saturates, and its gradient is 0 or wrong."""
    return [
        Defence(
            extra=True, id="times-1e2", name="logits × 1e2", kind="scale", model=rescored(times(1e2)), seen_by=SATURATED,
            summary="cross-entropy's gradient underflows on most rows",
        ),
        Defence(
            id="times-1e3", name="logits × 1e3", kind="scale", model=rescored(times(1e3)), seen_by=SATURATED,
            summary="cross-entropy's gradient underflows on nearly all rows",
        ),
        Defence(
            extra=True, id="times-1e6", name="logits × 1e6", kind="scale", model=rescored(times(1e6)), seen_by=SATURATED,
            summary="cross-entropy's gradient underflows on all rows",
        ),
        Defence(
            id="over-1e6", name="logits / 1e6", kind="scale", model=rescored(times(1e-6)),
            summary="cross-entropy climbs towards the mean of the rivals",
        ),
        Defence(
            extra=True, id="squash", name="squashed logits", kind="scale", model=rescored(squashed),
            summary="far from 0 the scores are all but flat",
        ),
        Defence(
            extra=True, id="half-logits", name="logits in float16", kind="scale", model=rescored(halved), slack=FLOAT16_STEP,
            summary="near logits become equal, and losses move in steps",
        ),
        Defence(
            extra=True, id="softmax", name="softmax(z)", kind="scale", model=rescored(softmax_of(1)), outputs="probabilities",
            summary="gives probabilities, and says so",
        ),
        Defence(
            extra=True, id="softmax-30", name="softmax(30 z)", kind="scale", model=rescored(softmax_of(30)),
            outputs="probabilities", summary="gives probabilities so sharp that they round to 1", seen_by=SATURATED,
        ),
    ]  # fmt: skip


def rivals() -> list[Defence]:
    """The rival that is near is not among the likely ones, or is near from one side only."""
    low, two = "of twenty classes with low logits one is near: whoever tries the likely ones misses it", pieces()
    return [
        Defence(
            id="target-trap-l2", name="target trap, L2", kind="targets", summary=low, model=bare(trapped(), "l2"),
            norm="l2", eps=0.14, seen_by=("dominance",),
        ),
        Defence(
            extra=True, id="target-trap-l1", name="target trap, L1", kind="targets", summary=low, model=bare(trapped(), "l1"),
            norm="l1", eps=0.29, seen_by=("dominance",),
        ),
        Defence(
            id="maxout", name="two pieces a class", kind="targets", seen_by=("saturation",),
            summary="every class has two affine pieces: a row has several ways out, and one start sees one",
            model=Solved(lambda: Maxout(two, 2).eval(), maxout_worst(two, 2), "polyhedra"),
        ),
    ]  # fmt: skip
