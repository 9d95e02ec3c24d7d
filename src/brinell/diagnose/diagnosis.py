"""What a check found, and what all of them together allow a figure to be called."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Weight = Literal["invalid", "suspect", "information"]
"""What a raised check makes of a figure: refused; printed with the finding beside it; as it was."""
Outcome = Literal["invalid", "suspect", "not contradicted"]
"""What a figure may be called. None may be called reliable."""


NO_ATTACK = "no attack was made"
SETTLED = "every row is wrong at once, broken or certified: no attack has to be trusted"
"""Why checks of attacks do not apply to a run."""


class Found(NamedTuple):
    """What a check found in one run."""

    raised: bool | None
    """None where the check could not be made."""
    said: str


@dataclass(frozen=True)
class Diagnosis:
    """One check on one run."""

    check: str
    weight: Weight
    raised: bool | None
    """None where the check could not be made."""
    said: str
    """What was found, with its counts."""
    means: str
    """What it means where it is raised."""
    advice: str
    """What to do then."""

    @property
    def moot(self) -> bool:
        """Whether the check does not apply to such a run, so that nothing is missing where it was not made."""
        return self.raised is None and self.said in (NO_ATTACK, SETTLED)

    @property
    def open(self) -> bool:
        """Whether it stands against the figure."""
        return self.raised is True and self.weight != "information"


class Explained(NamedTuple):
    """A check's docstring, in its parts."""

    raised_if: str
    means: str
    advice: str


def explained(check: Callable[..., Found]) -> Explained:
    """The parts of a check's docstring: ``Raised if …``, then ``Means: …``, then ``Do: …``."""
    text = inspect.getdoc(check) or ""
    raised_if, _, rest = text.partition("Means:")
    means, _, advice = rest.partition("Do:")
    return Explained(*(" ".join(part.split()) for part in (raised_if, means, advice)))


def name_of(check: Callable[..., Found]) -> str:
    """What the check is called in claims and tables."""
    return check.__name__.replace("_", "-")


def outcome_of(diagnoses: Sequence[Diagnosis]) -> Outcome:
    """What a figure may be called: the heaviest of what was raised."""
    raised = {diagnosis.weight for diagnosis in diagnoses if diagnosis.open}
    return "invalid" if "invalid" in raised else "suspect" if "suspect" in raised else "not contradicted"
