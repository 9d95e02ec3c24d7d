"""A verdict on two claims, and how it is written."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["more robust", "stands higher", "cannot conclude"]
"""By bounds of the truth; or only by what both were measured with; or neither."""


@dataclass(frozen=True)
class Paired:
    """Two runs on the same rows, row by row."""

    rows: int
    only_first: int
    """Rows that stand in the first alone."""
    only_second: int
    p: float
    """Of the exact paired test (McNemar)."""
    interval: tuple[float, float]
    """Of the difference first less second (Tango)."""


@dataclass(frozen=True)
class Verdict:
    """What follows from two claims."""

    outcome: Outcome
    better: str | None
    """The name of the one that is more robust, or stands higher."""
    reasons: tuple[str, ...]
    """Each inference, a sentence."""
    differs: tuple[str, ...] = ()
    """The fields in which the claims differ."""
    unstated: tuple[str, ...] = ()
    """The fields that a claim leaves out and that would matter here."""
    paired: Paired | None = None
    assumed: tuple[str, ...] = ()
    """What the verdict rests on though no claim states it."""
    certified: bool = False
    """Whether both figures are certified, so that higher means proven on more rows."""

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        given = f", provided that {listed(self.assumed)}" if self.assumed else ""
        if self.outcome == "more robust":
            return f"{self.better} is more robust{given}"
        if self.outcome == "stands higher" and self.certified:
            return f"{self.better} is certified on more rows by the same method; which is more robust is open"
        if self.outcome == "stands higher":
            return f"{self.better} stands higher, measured alike; what another suite would find is open"
        if self.differs:
            word = "differ" if len(self.differs) > 1 or self.differs == ("rows",) else "differs"
            return f"cannot conclude: not comparable, for {listed(self.differs)} {word}"
        if self.unstated:
            return f"cannot conclude: {listed(self.unstated)} unstated"
        return "cannot conclude"


def points(difference: float) -> str:
    """A difference of shares, in percentage points."""
    return f"{100 * difference:+.1f}"


def listed(names: tuple[str, ...]) -> str:
    """``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
