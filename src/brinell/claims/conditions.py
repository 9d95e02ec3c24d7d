"""What a figure depends on: rows, threat model, attacks, model, cost; whatever is not stated is None."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from brinell.claims.form import Count, Part, Radius, Spending
from brinell.eps import Eps
from brinell.metrics import in_seconds


class Data(Part):
    """Which rows were evaluated."""

    name: str | None = None
    """The data set, or where the rows are."""
    known_as: str | None = None
    """The data set's common name, where ``name`` is a file's."""
    rows: str | None = None
    """Which of its rows: ``test set``, ``first 1000 of the test set``, ``0:1000``."""
    digest: str | None = None
    """SHA-256 over the rows, where they are to be had."""
    preprocessing: str | None = None
    """What is done to an input before the model sees it, and whether the attack went through it."""


class ThreatModel(Part):
    """What the attacker may do. No field is filled in."""

    norm: Literal["linf", "l2", "l1", "l0"] | None = None
    eps: Radius | None = None
    """Radius in the units of the box, as written: ``8/255``."""
    eps_is: Literal["absolute", "relative to the input"] | None = None
    """Whether eps is in input units, or a share of each input's norm."""
    low: float | None = None
    """Lower bound of every input value."""
    high: float | None = None
    """Upper bound of every input value."""
    goal: Literal["untargeted", "targeted"] | None = None
    """Whether any wrong class breaks a row, or one that was chosen beforehand."""
    access: str | None = None
    """``white-box``, ``score``, ``decision``, ``transfer``; with the limit of queries where there is one."""

    @field_validator("norm", mode="before")
    @classmethod
    def _in_lower_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _is_a_box(self) -> Self:
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"the box from {self.low:g} to {self.high:g} is empty")
        return self

    @property
    def box(self) -> tuple[float, float] | None:
        """The bounds of the inputs; None where one is unknown."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def radius(self) -> float | None:
        """The radius as a number."""
        return None if self.eps is None else float(Eps(self.eps))

    def describe(self) -> str:
        """As it stands in a claim: ``Linf, eps 8/255, inputs in [0, 1], untargeted, white-box``."""
        said = [
            None if self.norm is None else self.norm.capitalize(),
            None if self.eps is None else f"eps {self.eps}",
            None if self.low is None or self.high is None else f"inputs in [{self.low:g}, {self.high:g}]",
            self.goal,
            self.access,
        ]
        return ", ".join(part for part in said if part) or "threat model unstated"


class AttackSuite(Part):
    """What the model was attacked with; of a certificate, the method."""

    name: str | None = None
    version: str | None = None
    digest: str | None = None
    """SHA-256 of the suite with all settings; for Brinell's own."""
    attacks: tuple[str, ...] = ()
    """The attacks in it, each with its settings, where they are known."""
    uneven: bool = False
    """Whether which attack a row gets depends on the other rows."""
    steps: Count | None = None
    restarts: Count | None = None
    seeds: str | None = None
    """The seed, or over how many seeds the figure is a mean."""
    budget: Spending | None = None
    """What might be spent, as written."""
    cut: bool = False
    """Whether the budget ended the attacks before the suite was through."""
    draws: Count | None = None
    """Passes a query, where the model is taken for randomised."""
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Of a certificate that holds with a probability."""

    @property
    def empty(self) -> bool:
        """Whether it is known to hold no attack, so that certificates alone were sought."""
        return self.digest is not None and not self.attacks

    def describe(self) -> str:
        """As it stands in a claim: ``suite brinell v1``."""
        if self.name is None:
            return "suite unstated"
        settings = [f"{self.steps} steps" if self.steps else "", f"{self.restarts} restarts" if self.restarts else ""]
        told = ", ".join(setting for setting in settings if setting)
        return (
            f"suite {self.name}"
            + (f" {'v' * self.version[0].isdigit()}{self.version}" if self.version else "")
            + (f" ({told.replace('1 restarts', '1 restart')})" if told else "")
            + (f" cut at its budget of {self.budget}" if self.cut else "")
            + (f" with {self.draws} draw{'s' * (self.draws > 1)} a query" if self.draws else "")
        )


class ClaimedModel(Part):
    """The model, and what it was made with."""

    name: str | None = None
    fingerprint: str | None = None
    """SHA-256 of weights and architecture, where they are to be had."""
    training_attack: str | None = None
    """The attack that it was trained with, or ``none``."""
    training_data: str | None = None
    """What it was trained on."""


class Cost(Part):
    """Passes, or queries of an endpoint."""

    forwards: Count | None = None
    backwards: Count | None = None
    queries: Count | None = None
    proof_seconds: Annotated[float, Field(ge=0)] | None = None
    """Spent on the search for certificates, which makes no passes on the account; None where none were sought."""

    def describe(self) -> str:
        """As it stands in a claim: ``1,000 forward and 900 backward passes, 12 s of search for proofs``."""
        spent = "" if self.proof_seconds is None else f", {in_seconds(self.proof_seconds)} of search for proofs"
        if self.forwards is not None and self.backwards is not None:
            return f"{self.forwards:,} forward and {self.backwards:,} backward passes{spent}"
        return f"{self.queries:,} queries" if self.queries is not None else "cost unstated"
