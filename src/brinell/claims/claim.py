"""A claim: one robustness figure with all that it depends on, whoever makes it.

What a run says of itself is complete. What a paper, a slide or a leaderboard says seldom is: each field that it leaves out
is named, in ``missing`` and at the end of ``line``.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from brinell.budget import Budget
from brinell.eps import Eps
from brinell.errors import BadInput
from brinell.metrics import Proportion

FORMAT: Literal[1] = 1
"""Version of the claim's form; raised with every change that a reader must know of."""
ROUNDING = 5e-4
"""How far a share may lie from its count over its whole: papers print a tenth of a percent."""
MOST = 10**12
"""Beyond any number of rows, passes or queries."""

Quantity = Literal["robust accuracy", "expected robust accuracy", "attack success rate"]
Kind = Literal["empirical", "certified"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _share(value: object) -> object:
    """``"48.2 %"`` is read as 0.482."""
    if isinstance(value, bool):
        raise ValueError("true and false are no shares")
    if isinstance(value, str) and value.strip().endswith("%"):
        return round(float(value.strip().removesuffix("%")) / 100, 12)
    if isinstance(value, int | float) and 1 < value < MOST:
        raise ValueError(f"{value} is no share; write it as {value / 100:g} or as '{value:g} %'")
    return value


def _spending(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return Budget(value).text
    except BadInput as error:
        raise ValueError(f"{value!r} is no budget; write {error.expected}") from None


def _radius(value: object) -> str:
    try:
        if isinstance(value, bool) or "_" in str(value):
            raise TypeError
        return str(Eps(value))  # type: ignore[arg-type]  # whatever cannot be read is refused there
    except (BadInput, TypeError, OverflowError):
        raise ValueError(f"{value!r} is not a radius; write it as 0.03 or 8/255") from None


Share = Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=MOST)]


class Figure(_Part):
    """A share of rows, with its count as far as it is known."""

    value: Share | None = None
    """The share, from 0 to 1, or as a text ``"48.2 %"``; None where rows are undecided."""
    count: Annotated[float, Field(ge=0, le=MOST)] | None = None
    """Rows counted; of a randomised model the sum of their shares."""
    of: Count | None = None
    """The whole."""
    denominator: Literal["all rows", "initially correct rows"] | None = None
    """What the whole is."""
    undecided: Count = 0
    """Rows of the whole that may still come to be counted."""
    noise: Annotated[float, Field(ge=0)] | None = None
    """Of a randomised model: the standard error of the share by its draws alone."""
    text: str | None = None
    """The figure as its maker writes it, where that says more."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.count is not None and self.of is not None:
            if self.count + self.undecided > self.of:
                raise ValueError(f"{self.count:g} of {self.of} is more than all")
            if self.value is not None and self.of and abs(self.value - self.count / self.of) > ROUNDING:
                raise ValueError(f"{self.value:g} is not {self.count:g}/{self.of} = {self.count / self.of:.4f}")
        return self

    @property
    def share(self) -> float | None:
        """The share by its count, or as given; None while rows are undecided."""
        if self.undecided:
            return None
        if self.count is not None and self.of:
            return self.count / self.of
        return self.value

    @property
    def rounding(self) -> float:
        """How far the true share may lie from one that is stated without its count: half its last digit."""
        if self.value is None or (self.count is not None and self.of):
            return 0.0
        digits = f"{100 * self.value:.6f}".rstrip("0").partition(".")[2]
        return float(0.005 * 10.0 ** -len(digits))

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        counted = self.count is not None and self.of is not None and float(self.count).is_integer()
        if counted and (self.undecided or self.share is not None or not self.of):
            assert self.count is not None
            assert self.of is not None
            whole = self.denominator or "rows of unstated kind"
            return str(Proportion(int(self.count), self.of, whole, undecided=self.undecided))
        if self.share is None:
            return "unstated"
        return f"{100 * self.share:.1f} %" + (f" of {self.denominator}" if self.denominator else "")


class Data(_Part):
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


class ThreatModel(_Part):
    """What the attacker may do. No field is filled in."""

    norm: Literal["linf", "l2", "l1", "l0"] | None = None
    eps: Annotated[str, BeforeValidator(_radius)] | None = None
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


class AttackSuite(_Part):
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
    budget: Annotated[str, BeforeValidator(_spending)] | None = None
    """What might be spent, as written."""
    cut: bool = False
    """Whether the budget ended the attacks before the suite was through."""
    draws: Count | None = None
    """Passes a query, where the model is taken for randomised."""
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Of a certificate that holds with a probability."""

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


class ClaimedModel(_Part):
    """The model, and what it was made with."""

    name: str | None = None
    fingerprint: str | None = None
    """SHA-256 of weights and architecture, where they are to be had."""
    training_attack: str | None = None
    """The attack that it was trained with, or ``none``."""
    training_data: str | None = None
    """What it was trained on."""


class Cost(_Part):
    """Passes, or queries of an endpoint."""

    forwards: Count | None = None
    backwards: Count | None = None
    queries: Count | None = None

    def describe(self) -> str:
        """As it stands in a claim: ``1,000 forward and 900 backward passes``."""
        if self.forwards is not None and self.backwards is not None:
            return f"{self.forwards:,} forward and {self.backwards:,} backward passes"
        return f"{self.queries:,} queries" if self.queries is not None else "cost unstated"


class Claim(_Part):
    """One figure with its conditions. Every field may be unknown; none is ever guessed."""

    format: Literal[1] = FORMAT
    made_by: str | None = None
    """Who says it: a run, a paper, a leaderboard."""
    quantity: Quantity = "robust accuracy"
    kind: Kind = "empirical"
    """An empirical robust accuracy bounds the truth from above, a certified one from below."""
    figure: Figure
    clean: Figure | None = None
    """Clean accuracy on the same rows."""
    certified: Figure | None = None
    """Certified accuracy on the same rows within the same threat model, beside an empirical figure."""
    data: Data = Data()
    threat: ThreatModel = ThreatModel()
    suite: AttackSuite = AttackSuite()
    model: ClaimedModel = ClaimedModel()
    cost: Cost = Cost()
    errors: Count = 0
    """Rows that could not be judged: in the denominator, in no numerator."""
    outcome: Literal["invalid", "suspect", "not contradicted"] | None = None
    """What checks allow the figure to be called; None where none were made."""
    findings: tuple[str, ...] = ()
    """The checks that stand against it, by name."""
    state: str = ""
    """Empty where the evaluation is complete; else what is missing."""
    unsaid: tuple[str, ...] = ()
    """Sentences that its source attaches to it: footnotes, flags."""

    @property
    def upper(self) -> bool:
        """Whether it bounds the true robust accuracy from above."""
        return self.kind == "empirical"

    def missing(self) -> list[str]:
        """The fields that a caption needs and that are unknown, by name."""
        figure, suite = self.figure, self.suite
        attacked = self.kind == "empirical"
        wanted = {
            "count": figure.count,
            "denominator": figure.of,
            "what the denominator is": figure.denominator,
            "data": self.data.name,
            "rows": self.data.rows,
            "norm": self.threat.norm,
            "eps": self.threat.eps,
            "bounds of the inputs": None if self.threat.low is None else self.threat.high,
            "goal": self.threat.goal,
            "access": self.threat.access if attacked else "",
            "suite" if attacked else "method": suite.name,
            "its version": suite.version if attacked else "",
            "seeds": suite.seeds if attacked else "",
            "model": self.model.name,
            "cost": self.cost.forwards if self.cost.queries is None else self.cost.queries,
        }
        return [name for name, value in wanted.items() if value is None]

    def line(self) -> str:
        """The claim in one line, its conditions included; what is unknown is named at its end."""
        rate = self.quantity == "attack success rate"
        side = "at most" if self.upper != rate else "at least"
        bound = f"{self.kind + ' ' if not self.upper else ''}{self.quantity}"
        open_ = self.state or ("rows undecided" if self.figure.undecided else "")
        head = f"{bound} ({open_})" if open_ else f"{bound}, {side}"
        errors = f", {self.errors} rows in error counted as not robust" if self.errors else ""
        figure = f"{head} {self.figure}{errors}"
        if self.outcome == "invalid" and not open_:
            figure = f"no {bound}: refused, for {', '.join(self.findings)}"
        if self.certified is not None and (self.outcome != "invalid" or open_):
            figure = f"certified, at least {self.certified} | {figure}"
        parts = [figure, self._rows(), self.threat.describe(), self.suite.describe()]
        parts += [self._model(), self.cost.describe()]
        if self.outcome is not None:
            parts.append(self.outcome + (f": {', '.join(self.findings)}" if self.findings else ""))
        if missing := self.missing():
            parts.append(f"underspecified: {', '.join(missing)}")
        return " | ".join(parts)

    def _rows(self) -> str:
        data = self.data
        rows = f" rows {data.rows}" if data.rows else ""
        return f"{data.name or 'data unstated'}{rows}" + (f" ({data.digest[:12]})" if data.digest else "")

    def _model(self) -> str:
        print_ = f" ({self.model.fingerprint[:12]})" if self.model.fingerprint else ""
        return f"model {self.model.name or 'unstated'}{print_}"
