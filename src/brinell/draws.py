"""How often a randomised model is asked, and for what."""

from dataclasses import dataclass, fields
from typing import Any

from brinell.errors import BadInput

FIRST_DRAWS = 10
"""Draws of each candidate before any of them goes."""
LEAST_SCORES = 20
"""Fewest draws from which the figures of a randomised model are made: those for 10 tries and 11 draws need them."""


@dataclass(frozen=True)
class Draws:
    """How often a randomised model is asked, and for what; no draw serves two of these purposes."""

    attack: int = 20
    """Draws of the model for each query of an attack, which gets their mean (expectation over transformation)."""
    kept: int = 4
    """Points kept of each attempt: the one that was wrong most often in each stretch of its queries."""
    select: int = 100
    """Draws after which the last two candidates of a row are parted."""
    score: int = 100
    """Draws for the figures: of the chosen point, and of the clean input."""

    def __post_init__(self) -> None:
        """Refuse draws from which no figures can be made.

        Raises
        ------
        BadInput
            If a number is below 1, or ``score`` below ``LEAST_SCORES``.
        """
        for field in fields(self):
            value, least = getattr(self, field.name), LEAST_SCORES if field.name == "score" else 1
            if type(value) is not int or value < least:
                raise BadInput(
                    f"draws, {field.name}",
                    got=repr(value),
                    expected=f"a whole number, at least {least}",
                    remedy="Compare it with a suite that ships: `brinell suites --show brinell-rand`.",
                )

    def rounds(self, candidates: int) -> list[tuple[int, int]]:
        """Candidates left in each round of choosing among so many, and the draws that each of them gets in it.

        After ``FIRST_DRAWS`` draws, after twice as many, and so on, half of the candidates goes; the last two are parted
        after ``select``.
        """
        found, left, drawn = [], candidates, 0
        while left > 1 and drawn < self.select:
            target = self.select if left == 2 else min(max(2 * drawn, FIRST_DRAWS), self.select)
            found.append((left, target - drawn))
            left, drawn = (left + 1) // 2, target
        return found

    def besides(self, attempts: int) -> int:
        """Forward passes on a row besides the attacks': clean and chosen point scored, choosing, and its control."""
        choosing = sum(left * more for left, more in self.rounds(attempts * self.kept + 1))
        return 2 * (self.score + choosing)


def draws_of(table: object, source: str) -> Draws:
    """What a suite file's ``[draws]`` table says; see ``load_suite``."""
    known = {field.name for field in fields(Draws)}
    given: dict[str, Any] = table if isinstance(table, dict) else {"": table}
    faults = [
        f"{key} = {value!r}" for key, value in given.items() if key not in known or type(value) is not int or value < 1
    ]
    if not faults and given.get("score", LEAST_SCORES) < LEAST_SCORES:
        faults = [f"score = {given['score']}"]
    if faults:
        raise BadInput(
            f"suite {source}, draws",
            got=", ".join(faults),
            expected=f"{', '.join(sorted(known))}, whole numbers above 0; score at least {LEAST_SCORES}",
            remedy="Compare it with a file that ships: `brinell suites --show brinell-rand`.",
        )
    return Draws(**given)
