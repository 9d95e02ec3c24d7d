"""A claim: one robustness figure with all that it depends on, whoever makes it.

What a run says of itself is complete. What a paper, a slide or a leaderboard says seldom is: each field that it leaves out
is named, in ``missing`` and at the end of ``line``.
"""

from typing import Literal

from brinell.claims.conditions import AttackSuite, ClaimedModel, Cost, Data, ThreatModel
from brinell.claims.figure import Figure
from brinell.claims.form import Count, Part

FORMAT: Literal[1] = 1
"""Version of the claim's form; raised with every change that a reader must know of."""

Quantity = Literal["robust accuracy", "expected robust accuracy", "attack success rate"]
Kind = Literal["empirical", "certified"]


class Claim(Part):
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

    @property
    def settled(self) -> bool:
        """Whether a certified figure meets the empirical one, row for row: no attack has to be trusted then."""
        mine, proved = self.figure, self.certified
        if mine.undecided or self.errors:
            return False
        return proved is not None and proved.count is not None and (proved.count, proved.of) == (mine.count, mine.of)

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
