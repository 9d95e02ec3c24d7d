"""A run's folder, read: its records, its figures, its claim."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from brinell.claim import claim_of
from brinell.claims.claim import Claim
from brinell.diagnose.checks import diagnosed
from brinell.diagnose.diagnosis import Diagnosis
from brinell.diagnose.evidence import Evidence
from brinell.draws import Draws
from brinell.frequencies import Frequency, RandomisedFigures, randomised_figures, right_at_first
from brinell.ledger import LEDGER, Ledger
from brinell.manifest import (
    Manifest,
    read_manifest,
)
from brinell.metrics import Figures, Proportion, figures_of
from brinell.queries import Cost
from brinell.records import (
    AttemptRecord,
    CertificateRecord,
    FrequencyRecord,
    RowRecord,
    SessionRecord,
    TraceRecord,
)
from brinell.spending import Sample, Saturation, Turn, samples_of, saturation_of, turns_of
from brinell.transferred import spent_on_surrogate


@dataclass(frozen=True)
class Reading:
    """All that a run's folder says. Nothing of it is computed by a model."""

    folder: Path
    manifest: Manifest
    rows: tuple[RowRecord, ...]
    attempts: tuple[AttemptRecord, ...]
    frequencies: tuple[FrequencyRecord, ...]
    sessions: tuple[SessionRecord, ...]
    traces: tuple[TraceRecord, ...] = ()
    certificates: tuple[CertificateRecord, ...] = ()

    @cached_property
    def figures(self) -> Figures:
        """All figures, computed from the ledger."""
        return figures_of(
            self.rows,
            self.attempts,
            self.sessions,
            norm=self.manifest.threat["norm"],
            eps=self.manifest.threat["eps"],
            stages=len(self.manifest.suite["attacks"]),
            right=None
            if self.randomised is None
            else {record.row for record in self.frequencies if right_at_first(record)},
        )

    @cached_property
    def randomised(self) -> RandomisedFigures | None:
        """What is said of a randomised model besides; None for a suite that takes the model for deterministic."""
        if "draws" not in self.manifest.suite:
            return None
        failed = {attempt.row for attempt in self.attempts if attempt.outcome == "error"}
        failed |= {row.row for row in self.rows if row.status == "error"}
        draws = Draws(**self.manifest.suite["draws"])
        return randomised_figures(self.frequencies, rows=len(self.rows), failed=failed, draws=draws)

    @cached_property
    def false_rejections(self) -> Proportion | None:
        """Clean rows that are rejected, over all rows; None for a model whose rejections are not credited."""
        if self.manifest.model["outputs"] != "logits-and-reject":
            return None
        seen = [row.clean_prediction for row in self.rows]
        count = sum(prediction == self.manifest.model["classes"] for prediction in seen)
        return Proportion(count, len(seen), "all rows", undecided=seen.count(None))

    @cached_property
    def turns(self) -> list[Turn]:
        """What each turn of the suite did, in order."""
        return turns_of(self.attempts)

    @property
    def on_surrogate(self) -> Cost:
        """Passes on the surrogate, which are on no other account."""
        return spent_on_surrogate(self.manifest, self.attempts)

    @property
    def saturation(self) -> Saturation | None:
        """How the last passes paid; None where nothing was attacked, nothing falls (the model is randomised), or there are no
        more points to try (an import)."""
        if self.randomised is not None or self.manifest.imported is not None:
            return None
        return saturation_of(self.turns, self.figures.unresolved)

    @property
    def attacked(self) -> bool:
        """Whether attacks were asked for; a run may seek certificates alone."""
        return bool(self.manifest.suite["attacks"])

    @property
    def complete(self) -> bool:
        """Whether the run has got to every row. Without attacks, rows that were asked for a certificate may stay unresolved."""
        return self.figures.complete or (not self.attacked and self.manifest.state == "complete")

    @cached_property
    def settled_first(self) -> frozenset[int]:
        """Rows that a certificate, or the search for one, settled before any attack: no attack was made on them."""
        return frozenset(record.row for record in self.certificates if record.first and record.outcome != "unknown")

    @property
    def samples(self) -> list[Sample]:
        """What the attacks did that the suite runs on rows drawn at random."""
        rows = [row for row in self.rows if row.row not in self.settled_first]
        return samples_of(self.manifest.suite["attacks"], rows, self.attempts)

    @property
    def robust_accuracy(self) -> Proportion | Frequency:
        """The headline: rows that stand over all rows, or how often a randomised model is right at the chosen points."""
        return self.figures.robust_accuracy if self.randomised is None else self.randomised.expected

    @property
    def clean_accuracy(self) -> Proportion | Frequency:
        """The same before any attack."""
        return self.figures.clean_accuracy if self.randomised is None else self.randomised.clean

    @cached_property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """What the checks say of the figure."""
        evidence = Evidence(
            manifest=self.manifest,
            figures=self.figures,
            rows=self.rows,
            attempts=self.attempts,
            turns=self.turns,
            samples=self.samples,
            saturation=self.saturation,
            randomised=self.randomised is not None,
            certificates=self.certificates,
            traces=self.traces,
        )
        return diagnosed(evidence)

    @property
    def refused(self) -> str | None:
        """Why no robust accuracy is given, where a check says that what was measured is none; None where one is."""
        against = [one for one in self.diagnoses if one.open and one.weight == "invalid" and one.check != "incomplete"]
        return "; ".join(f"{one.check}: {one.said}" for one in against) or None

    @property
    def contradicted(self) -> bool:
        """Whether a row is both certified and broken, so that neither bound can be given."""
        return any(one.check == "certified-and-broken" and one.open for one in self.diagnoses)

    @property
    def claim(self) -> Claim:
        """The claim that the run supports."""
        return claim_of(self.manifest, self.figures, self.randomised, self.diagnoses, self.certificates)

    def stage_titles(self) -> list[str]:
        """A short name for each attack of the suite."""
        return [f"{table['attack']} {table.get('loss', '')}".strip() for table in self.manifest.suite["attacks"]]


def read_run(folder: Path) -> Reading:
    """Read a run's folder; a run under way is read as far as it has got.

    Raises
    ------
    BadInput
        If it is not the folder of a run.
    """
    manifest = read_manifest(folder)
    ledger = Ledger.open(folder / LEDGER)
    rows, attempts, sessions = tuple(ledger.rows()), tuple(ledger.attempts()), tuple(ledger.sessions())
    frequencies, traces = tuple(ledger.frequencies()), tuple(ledger.traces())
    certificates = tuple(ledger.certificates())
    ledger.release()
    return Reading(folder, manifest, rows, attempts, frequencies, sessions, traces, certificates)
