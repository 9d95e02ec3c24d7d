"""How much a run may spend: passes for each row, passes in all, or time; kept as written."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from brinell.errors import BadInput

_FORM = re.compile(r"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>k|M|G|/row|s|min|h)?")
_PASSES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """What a run may spend before it stops: ``500/row``, ``2M`` passes in all, or ``30min``.

    Passes are forwards and backwards alike: those of the attacks, on clean rows and by the referee; the checks before the
    attacks are not among them.

    Raises
    ------
    BadInput
        If the text is none of these.
    """

    text: str

    def __post_init__(self) -> None:
        form = _FORM.fullmatch(self.text.strip()) if isinstance(self.text, str) else None
        if form is None or float(form["count"]) <= 0:
            raise BadInput(
                "budget",
                got=repr(self.text),
                expected="passes for each row (500/row), passes in all (200k, 2M), or time (90s, 30min, 2h), above 0",
                remedy="Write it like one of these.",
            )

    @property
    def seconds(self) -> float | None:
        """The time; None where passes are counted."""
        count, unit = self._parts()
        return count * _SECONDS[unit] if unit in _SECONDS else None

    def passes(self, rows: int) -> int | None:
        """The passes for a run of so many rows; None where time is counted."""
        count, unit = self._parts()
        if unit in _SECONDS:
            return None
        return int(Fraction(str(count)) * (rows if unit == "/row" else _PASSES[unit]))

    def for_attacks(self, rows: int) -> float:
        """The passes that attacks and referee may make, once the clean rows have theirs; infinite where time is counted."""
        passes = self.passes(rows)
        return math.inf if passes is None else passes - rows

    def _parts(self) -> tuple[float, str]:
        form = _FORM.fullmatch(self.text.strip())
        assert form is not None
        return float(form["count"]), form["unit"] or ""

    def __str__(self) -> str:
        count, unit = self._parts()
        if unit == "/row":
            return f"{count:g} passes a row"
        return f"{count:g} {unit}" if unit in _SECONDS else f"{self.passes(1):,} passes"
