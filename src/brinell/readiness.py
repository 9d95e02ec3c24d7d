"""What the checks before an attack found out."""

from dataclasses import dataclass, field

from brinell.models.double import LossPrecision


@dataclass(eq=False)
class Readiness:
    """What preflight found out about a model on some rows."""

    classes: int = 0
    pull_in: float = 0.0
    """How far inside the box gradients must be taken, in input units; 0 where its faces do not mask them."""
    batch_size: int = 0
    shared_draws: bool = False
    """Whether a randomised model draws once for a whole pass, so that the rows of a batch share their luck."""
    unbounded: dict[str, int] = field(default_factory=dict)
    """Rows on which each loss was climbed with no limit but the box, and how many of them stood."""
    findings: dict[str, str] = field(default_factory=dict)
    """What speaks against gradients or inputs, a sentence under the name of each check that raised."""
    unmade: dict[str, str] = field(default_factory=dict)
    """Why a check could not be made though it was tried, by the check's name."""
    loss_precision: LossPrecision = "own"
    """In which precision a loss is climbed whose slope underflows."""
    bypassed: dict[str, str] = field(default_factory=dict)
    """Parts of the model that hide its gradient and can be stepped over on the way back, with what each is."""
    target_ranks: list[int] = field(default_factory=list)
    """Of some rows, the place by logit, from 1, of the wrong class that is nearest to first order; empty where not asked."""
    forwards: int = 0
    """Passes made by the checks."""
    backwards: int = 0
    notes: list[str] = field(default_factory=list)
    """What was adapted or is worth knowing, a sentence each."""

    def find(self, check: str, sentence: str) -> None:
        """Take note of what a check raised."""
        self.findings[check] = sentence
        self.notes.append(sentence)

    def skip(self, why: str, *checks: str) -> None:
        """Take note that checks could not be made: they are neither raised nor cleared."""
        self.unmade.update({check: why for check in checks if check not in self.findings})
        self.notes.append(why)
