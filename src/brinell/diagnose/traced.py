"""What the ways of the watched rows say: whether the attacks climbed, got to a top, and had steps enough."""

from collections.abc import Callable, Sequence
from statistics import median

from brinell.diagnose.diagnosis import Found
from brinell.diagnose.evidence import Evidence
from brinell.diagnose.ways import Way, ways_of

FEWEST_ROWS = 4
"""Watched rows that must stand, with ways of their own, for a check to be made."""
SHARE_OF_ROWS = 0.1
"""Share of them, and more than one, on which something must be seen before it is said."""
FALLS, WASTED = 0.4, 0.1
"""Share of the steps on which a loss falls, and its gain over the length of its way, where it wanders."""
LAST = 0.2
"""Share of a way's points whose gain is carried on for as long as the whole way."""
GAP = 0.1
"""Gap at the highest point, in the median of the rows, above which the tops were not reached."""


def flat_gradients(run: Evidence) -> Found:
    """Raised if on a tenth of the watched rows that stand, and on more than one, the gradient was exactly zero at most
    points of every attempt.

    Means: the attacks with gradients did not move there by anything that the model told them; such rows stand untried.
    Do: climb another loss (margin, DLR), attack through a stated backward (`brinell.adaptive.bpda`), or without gradients.
    """
    return _rows_where(run, lambda ways: all(way.flat for way in ways), "gradients were zero at most points throughout")


def no_ascent(run: Evidence) -> Found:
    """Raised if on a tenth of the watched rows that stand, and on more than one, no attempt ever raised its loss above
    that of its start, though its gradients were not zero.

    Means: the gradients do not lead up: wrong, random, or of a surface far rougher than the steps.
    Do: hold the gradients against differences (`brinell doctor`), take smaller steps, attack without gradients.
    """

    def stuck(ways: Sequence[Way]) -> bool:
        return not any(way.rose for way in ways) and not all(way.flat for way in ways)

    return _rows_where(run, stuck, "no attempt raised its loss above that of its start")


def wandering(run: Evidence) -> Found:
    """Raised if on a tenth of the watched rows that stand, and on more than one, every attempt's loss fell on more than
    two steps in five and gained less than a tenth of the length of its ups and downs.

    Means: steps are too large for the surface, or gradients are noise; such an attempt ends where chance left it.
    Do: smaller steps, a schedule that falls (`schedule = "cosine"`, APGD), gradients averaged over draws.
    """
    return _rows_where(
        run,
        lambda ways: all(way.falls > FALLS and way.efficiency < WASTED for way in ways),
        "every attempt's loss went up and down and gained little",
    )


def still_climbing(run: Evidence) -> Found:
    """Raised if on a tenth of the watched rows that stand, and on more than one, the attempt that came nearest would have
    got there, had it gone on for as long again as in the last fifth of its points.

    Means: the attempts were cut off: with more steps such rows fall.
    Do: more steps (`steps`), or a larger `step_size`.
    """

    def cut_off(ways: Sequence[Way]) -> bool:
        nearest = min((way for way in ways if way.margins), key=lambda way: min(way.margins), default=None)
        return nearest is not None and nearest.gained_at_the_end(LAST) / LAST >= min(nearest.margins)

    return _rows_where(run, cut_off, "the nearest attempt would have got there in as many steps again")


def short_of_the_top(run: Evidence) -> Found:
    """Raised if in the median of the watched rows that stand the best attempt left more than a tenth of the way across the
    ball unclimbed, to first order, at the highest point of its loss (Linf).

    Means: the attacks ended where the loss still leads up: steps too small or too large, too few, or gradients that
    say nothing at their scale.
    Do: more steps, another step size, more restarts; then an attack without gradients.
    """
    if run.randomised:
        return Found(None, "not made for randomised models")
    known = [[way.gap for way in ways if way.gap is not None] for ways in ways_of(run).values()]
    gaps = [min(found) for found in known if found]
    if len(gaps) < FEWEST_ROWS:
        return Found(None, f"{len(gaps)} watched rows stand whose ways have a gap; {FEWEST_ROWS} are needed")
    middle = median(gaps)
    return Found(middle > GAP, f"{middle:.0%} of the way across the ball was left, in the median of {len(gaps)} rows")


def idle_attacks(run: Evidence) -> Found:
    """Raised if an attack's gradients were exactly zero at most points of more than half of its attempts on watched rows
    that stand.

    Means: the passes of that attack bought nothing there; what stands is shown by the others alone.
    Do: leave its loss out, or state the true outputs (logits or probabilities).
    """
    if run.randomised:
        return Found(None, "not made for randomised models")
    made: dict[int, list[bool]] = {}
    for ways in ways_of(run).values():
        for way in ways:
            made.setdefault(way.stage, []).append(way.flat)
    if not made:
        return Found(None, "no watched row stands with a way of its own")
    attacks = run.manifest.suite["attacks"]
    idle = [stage for stage, flat in sorted(made.items()) if 2 * sum(flat) > len(flat)]
    names = dict.fromkeys(f"{attacks[stage]['attack']} on {attacks[stage].get('loss', 'its loss')}" for stage in idle)
    return Found(
        bool(idle), f"flat on most attempts: {', '.join(names)}" if idle else "no attack's gradients were flat"
    )


def _rows_where(run: Evidence, seen: Callable[[Sequence[Way]], bool], said: str) -> Found:
    """Whether something is seen in the ways of so many watched rows that it must be said."""
    if run.randomised:
        return Found(None, "not made for randomised models")
    ways = ways_of(run)
    if len(ways) < FEWEST_ROWS:
        return Found(None, f"{len(ways)} watched rows stand with ways of their own; {FEWEST_ROWS} are needed")
    rows = sum(seen(own) for own in ways.values())
    return Found(rows > max(1, SHARE_OF_ROWS * len(ways)), f"on {rows} of {len(ways)} watched rows {said}")
