"""Whether the passes that were spent were enough."""

from brinell.diagnose.diagnosis import Found
from brinell.diagnose.evidence import Evidence

STILL = 0.001
"""Share of all rows that may fall in the last quarter of the passes."""


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
