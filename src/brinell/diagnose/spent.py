"""Whether the passes that were spent were enough."""

from statistics import median

from brinell.diagnose.attacks import follows_gradients
from brinell.diagnose.diagnosis import Found
from brinell.diagnose.evidence import Evidence

STILL = 0.001
"""Share of all rows that may fall in the last quarter of the passes."""
FEWEST_ATTEMPTS = 4
RESTARTS = 0.01
"""Share of all rows whose later half of attempts may gain as much as is left."""
OVER = 0.002
"""Share of all rows that may be passed over."""
NEAR = 0.05
"""Of the median clean margin: what is left where a row was nearly broken."""
NEAR_ROWS = 0.05
"""Share of all rows that may stand as near as that."""


def still_breaking(run: Evidence) -> Found:
    """Raised if a budget ended the attacks, or a row in 1,000 (and more than one) fell in the last quarter of the passes.

    Means: more of the same would find more.
    Do: raise the budget, or add restarts.
    """
    saturation, passes = run.saturation, len(run.turns)
    if run.manifest.cut is not None:
        return Found(True, f"the budget of {run.manifest.budget} ended the attacks before the suite was through")
    if saturation is None or passes < 4:
        return Found(None, "too few turns to see whether they still pay")
    recent, share = saturation.recent_broke, saturation.recent_passes / saturation.passes
    return Found(
        recent > max(1, STILL * run.figures.rows) and share < 0.9,
        f"{recent} rows fell in the last {saturation.recent_passes:,} of {saturation.passes:,} passes",
    )


def restarts_still_gain(run: Evidence) -> Found:
    """Raised if on a row in a hundred (and more than one) that stands, the later half of its attempts by gradients, of at
    least four, lowered the least margin by at least as much as is left.

    Means: the row was getting nearer to the end; as many attempts again would be expected to break it.
    Do: raise `restarts`, or the budget.
    """
    if run.randomised:
        return Found(None, "not made for randomised models")
    standing = {row.row for row in run.rows if row.status == "standing"}
    led = {stage for stage, table in enumerate(run.manifest.suite["attacks"]) if follows_gradients(table)}
    met: dict[int, list[float]] = {}
    for attempt in sorted(run.attempts, key=lambda attempt: attempt.turn):
        if attempt.row in standing and attempt.stage in led and attempt.best_margin is not None:
            met.setdefault(attempt.row, []).append(attempt.best_margin)
    tried = [margins for margins in met.values() if len(margins) >= FEWEST_ATTEMPTS]
    if not tried:
        return Found(None, f"no row that stands had {FEWEST_ATTEMPTS} attempts by gradients")
    gaining = sum(min(margins[: len(margins) // 2]) >= 2 * min(margins) for margins in tried)
    return Found(
        gaining > max(1, RESTARTS * run.figures.rows),
        f"on {gaining} of {len(tried)} rows the later attempts gained as much as is left",
    )


def near_misses(run: Evidence) -> Found:
    """Raised if more than a row in twenty stands with less than a twentieth of the median clean margin left.

    Means: so many rows were nearly broken; the figure hangs on how long one tries.
    Do: spend more on them: suite `brinell` does, with a larger budget; or certify them.
    """
    if run.randomised:
        return Found(None, "not made for randomised models")
    clean = [row.clean_margin for row in run.rows if row.clean_margin is not None and row.clean_margin > 0]
    left = _left(run)
    if not left:
        return Found(None, "no row stands after an attack")
    near = sum(margin < NEAR * median(clean) for margin in left.values())
    return Found(
        near > max(1, NEAR_ROWS * run.figures.rows),
        f"{near} of {run.figures.rows} rows stand with less than {NEAR:.0%} of the median clean margin left",
    )


def passed_over(run: Evidence) -> Found:
    """Raised if rows in 500 (and more than one) stand after the first attack alone, with less margin left than half of
    those that got more.

    Means: the rows nearest to an error did not get the strong attacks; they would be the first to fall.
    Do: raise the budget, or the attacks' `share` and `fewest` in the suite.
    """
    left = _left(run)
    stages: dict[int, set[int]] = {}
    for attempt in run.attempts:
        stages.setdefault(attempt.row, set()).add(attempt.stage)
    more = [margin for row, margin in left.items() if len(stages[row]) > 1]
    if run.randomised or not more:
        return Found(
            None, "not made for randomised models" if run.randomised else "no row that stands got a second attack"
        )
    over = sum(margin < median(more) for row, margin in left.items() if len(stages[row]) == 1)
    return Found(
        over > max(1, OVER * run.figures.rows), f"{over} rows nearer than half of those that got more got one attack"
    )


def _left(run: Evidence) -> dict[int, float]:
    """The least margin that any attempt met on each row that stands, in logit units."""
    standing = {row.row for row in run.rows if row.status == "standing"}
    left: dict[int, float] = {}
    for attempt in run.attempts:
        if attempt.row in standing and attempt.best_margin is not None:
            left[attempt.row] = min(left.get(attempt.row, attempt.best_margin), attempt.best_margin)
    return left
