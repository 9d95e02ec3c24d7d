"""How rows are given certificates, one by one, and what is written of each.

Each row is asked by itself and written at once, so that nothing is lost. A row that is proved is ``certified``; one on which
the search for a proof meets an error of the model is ``broken``, once the model has confirmed it as the referee does. What is
asked of the model on the way are no passes of the run's account: a search is bounded by time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from brinell.certify.chain import Certificate, certify
from brinell.certify.graph import Network, network_of
from brinell.errors import BadInput
from brinell.geometry import distance
from brinell.ledger import Ledger
from brinell.losses import margin_of
from brinell.manifest import Certified
from brinell.points import PointFile
from brinell.records import CertificateRecord, RowRecord
from brinell.spec import CertifySpec
from brinell.subject import Subject

PROVES = (
    "the network with these weights, in real numbers, is right on the whole threat set of each certified row; the slack is "
    "room for rounding, not a proof about it"
)

Told = Callable[[int, int, int], None]
"""Rows asked, rows to ask, rows certified."""


def provable(subject: Subject) -> Network:
    """The network whose bounds hold for the subject's model.

    Raises
    ------
    BadInput
        If certificates would be about another function than the model that is attacked, or its bounds are not known.
    """
    model, out = subject.model, "or leave certificates out"
    faults: tuple[tuple[bool, str, str, str], ...] = (
        (
            model.outputs != "logits",
            f"outputs declared as {model.outputs}",
            "logits",
            f"Give the model without its last layer, as logits, {out}.",
        ),
        (
            subject.suite.draws is not None,
            f"the suite {subject.suite.name}, for randomised models",
            "a deterministic model, under a suite without draws",
            f"Choose another suite, {out}.",
        ),
        (
            subject.imported is not None,
            "points that were made elsewhere",
            "a model that is asked here",
            "Leave certificates out; `brinell certify --model …` seeks them without any attack.",
        ),
        (
            model.device.type != "cpu",
            f"the device {model.device}",
            "cpu",
            f"Put the model on the CPU (--device cpu), {out}.",
        ),
        (
            model.own_dtype.itemsize < 4,
            f"a precision below float32: {str(model.own_dtype).removeprefix('torch.')}",
            "float32 or float64",
            f"Its rounding is larger than the slack: give the model in float32, {out}.",
        ),
    )
    for at_fault, got, expected, remedy in faults:
        if at_fault:
            raise BadInput("certificates", got=got, expected=expected, remedy=remedy)
    with model.undisturbed():
        return network_of(model.module, tuple(subject.rows.x.shape[1:]))


def about(asked: CertifySpec, *, first: bool) -> Certified:
    """What a manifest says of certificates that were sought."""
    return Certified(asked=(asked,), first=asked if first else None, proves=PROVES)


@dataclass(frozen=True, eq=False)
class Prover:
    """Seeks certificates for rows of a run, and writes what it finds to the run's record."""

    subject: Subject
    network: Network
    asked: CertifySpec
    first: bool
    """Whether no attack has been made."""
    ledger: Ledger
    witnesses: PointFile
    originals: PointFile

    def seek(
        self, rows: Sequence[RowRecord], *, told: Told = lambda *_: None, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Ask for a certificate of each of some rows that the model is right on, until ``stop`` says so."""
        proved, before = 0, {record.row: record.seconds for record in self.ledger.certificates()}
        for number, row in enumerate(rows, start=1):
            if stop():
                return
            x, y = self._example(row)
            model, asked = self.subject.model, self.asked
            found = next(
                certify(
                    model.module,
                    x.to(model.device),
                    y.to(model.device),
                    self.subject.threat,
                    seconds=asked.seconds,
                    last=asked.method,
                    network=self.network,
                )
            )
            self._write(row, found, before.get(row.row, 0.0) + found.seconds)
            proved += found.outcome == "certified"
            told(number, len(rows), proved)

    def _example(self, row: RowRecord) -> tuple[Tensor, Tensor]:
        x = torch.from_numpy(np.array(self.subject.rows.x[row.place : row.place + 1]))
        return x, torch.tensor([row.label])

    def _write(self, row: RowRecord, found: Certificate, spent: float) -> None:
        """One row's certificate, with the seconds spent on it in all, and the status that follows from it."""
        broken = None if found.witness is None else self._confirmed(row, found.witness)
        outcome = found.outcome if found.witness is None or broken is not None else "unknown"
        record = CertificateRecord(
            row=row.row,
            method=self.asked.method,
            step=None if outcome == "unknown" else found.method,
            first=int(self.first),
            outcome=outcome,
            margin=found.margin if np.isfinite(found.margin) else None,
            slack=found.tolerance,
            questions=found.questions,
            seconds=spent,
        )
        with self.ledger.transaction():
            self.ledger.replace_certificate(record)
            if outcome == "certified":
                self.ledger.update_row(row.row, status="certified")
            elif found.witness is not None and broken is None:
                self.ledger.update_row(row.row, unconfirmed=row.unconfirmed + 1)
            elif broken is not None:
                self.ledger.update_row(row.row, status="broken", confirmed=1, **broken)

    def _confirmed(self, row: RowRecord, witness: Tensor) -> dict[str, int | float | str | None] | None:
        """What is recorded of a broken row, its point stored; None where the model does not err on the point as stored."""
        x, y = self._example(row)
        model, threat = self.subject.model, self.subject.threat
        point = witness.cpu().to(x.dtype)
        logits = model.scores(point.to(model.device, model.dtype)).cpu()
        margin = float(margin_of(logits, y)[0])
        if not margin <= 0 or not bool(threat.contains(x, point)):
            return None
        self.originals.write(row.place, x[0].numpy())
        digest = self.witnesses.write(row.place, point[0].numpy())
        for file in (self.witnesses, self.originals):
            file.flush()
        return {
            "prediction": int(logits.argmax(1)[0]),
            "margin": margin,
            "distance": float(distance(x, point, threat.norm)[0]),
            "witness_digest": digest,
        }
