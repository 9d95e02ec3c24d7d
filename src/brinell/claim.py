"""A claim: one figure in one line that never loses its conditions."""

from dataclasses import dataclass

from brinell.frequencies import Frequency, RandomisedFigures
from brinell.manifest import Manifest
from brinell.metrics import Figures, Proportion
from brinell.threat import Threat


@dataclass(frozen=True)
class Claim:
    """A robust accuracy with all that it depends on."""

    figure: Proportion | Frequency
    """Of a randomised model, the expected robust accuracy."""
    rows: str
    """Data and selection."""
    threat: str
    suite: str
    """Name and version."""
    model: str
    """Source and the start of its fingerprint."""
    cost: str
    """Passes."""
    errors: int
    """Rows that could not be judged: in the denominator, in no numerator."""
    state: str
    """Empty where the run is complete; else what is missing."""

    def line(self) -> str:
        """The claim in one line."""
        name = "robust accuracy" if isinstance(self.figure, Proportion) else "expected robust accuracy"
        bound = f"{name}, at most" if not self.state else f"{name} ({self.state})"
        errors = f", {self.errors} rows in error counted as not robust" if self.errors else ""
        conditions = (self.rows, self.threat, f"suite {self.suite}", f"model {self.model}", self.cost)
        return " | ".join((f"{bound} {self.figure}{errors}", *conditions))


def claim_of(manifest: Manifest, figures: Figures, randomised: RandomisedFigures | None) -> Claim:
    """The claim that a run supports."""
    data, model, suite = manifest.data, manifest.model, manifest.suite
    passes = figures.passes
    return Claim(
        figure=figures.robust_accuracy if randomised is None else randomised.expected,
        rows=f"{data['source']} rows {data['selection']} ({data['digest'][:12]})",
        threat=threat_of(manifest).describe(),
        suite=f"{suite['name']} v{suite['version']}"
        + (f" cut at its budget of {manifest.budget}" if manifest.cut else "")
        + (f" with {randomised.draws.attack} draws a query" if randomised is not None else ""),
        model=f"{model['source']} ({model['fingerprint'][:12]})",
        cost=f"{passes.forwards:,} forward and {passes.backwards:,} backward passes",
        errors=figures.status["error"] if randomised is None else randomised.failed,
        state=""
        if figures.complete
        else f"run {'out of budget' if manifest.cut else 'incomplete'}, {figures.status['pending']} rows pending",
    )


def threat_of(manifest: Manifest) -> Threat:
    """The threat model that a run was made under."""
    table = manifest.threat
    return Threat(
        table["norm"],
        table["eps_text"],
        low=table["low"],
        high=table["high"],
        goal=table["goal"],
        access=table["access"],
    )
