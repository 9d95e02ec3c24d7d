"""What the checks over a run's record look at."""

from collections.abc import Sequence
from dataclasses import dataclass

from brinell.manifest import Manifest
from brinell.metrics import Figures
from brinell.records import AttemptRecord, CertificateRecord, RowRecord, TraceRecord
from brinell.spending import Sample, Saturation, Turn


@dataclass(frozen=True)
class Evidence:
    """The record of one run, with what follows from it."""

    manifest: Manifest
    figures: Figures
    rows: Sequence[RowRecord]
    attempts: Sequence[AttemptRecord]
    turns: Sequence[Turn]
    samples: Sequence[Sample]
    saturation: Saturation | None
    randomised: bool
    certificates: Sequence[CertificateRecord] = ()
    traces: Sequence[TraceRecord] = ()
    """By row, stage, attempt and step; of a few rows, and none where the model is randomised."""

    @property
    def standing(self) -> int:
        """Rows that stand."""
        return self.figures.status["standing"]

    @property
    def settled(self) -> bool:
        """Whether each row is known, so that no attack has to be trusted; of a randomised model none ever is."""
        return not self.randomised and self.figures.settled

    @property
    def attacked(self) -> bool:
        """Whether any attack was made."""
        return bool(self.attempts)
