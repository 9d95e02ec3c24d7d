"""Certificates for a run: the rows that its attacks have left standing are proved, where that can be done.

A row that is certified needs no attack, and one on which the search for a proof meets an error is broken after all: the
model confirms it once more, as the referee does. What was found is written row by row, so that nothing is lost; rows that
have a certificate already are not asked again.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock

from brinell.certify.chain import Certificate, certify
from brinell.certify.graph import network_of
from brinell.claim import threat_of
from brinell.concluding import SEALED, conclude
from brinell.errors import BadInput
from brinell.geometry import distance
from brinell.ledger import LEDGER, Ledger
from brinell.losses import margin_of
from brinell.manifest import DERIVED, Certified, Manifest, file_digests, write_manifest
from brinell.opening import locked
from brinell.points import ORIGINALS, WITNESSES, PointFile
from brinell.records import CertificateRecord, RowRecord
from brinell.result import Reading, read_run
from brinell.subject import Subject

METHOD = "chain"
PROVES = (
    "the network with these weights, in real numbers, is right on the whole threat set of each certified row; the slack is "
    "room for rounding, not a proof about it"
)

Told = Callable[[int, int, int], None]
"""Rows asked, rows to ask, rows certified."""


def certify_run(
    subject: Subject,
    folder: Path,
    *,
    seconds: float,
    told: Told = lambda *_: None,
    stop: Callable[[], bool] = lambda: False,
) -> Reading:
    """Seek a certificate for each row that stands in a run, and write what is found to its record.

    Raises
    ------
    BadInput
        If the run is not complete, is of another model or other rows, or bounds of the model are not known; nothing has
        been written then.
    """
    reading = read_run(folder)
    _check(reading, subject)
    module, shape = subject.model.module, tuple(reading.manifest.data["shape"])
    with subject.model.undisturbed():
        network = network_of(module, shape)
        lock = locked(folder)
        try:
            _begin(folder, reading.manifest, seconds)
            return _certified(subject, folder, reading, network, seconds, told, stop)
        finally:
            _unlock(lock)


def _check(reading: Reading, subject: Subject) -> None:
    manifest = reading.manifest
    wanted: tuple[tuple[str, object, object], ...] = (
        ("state", manifest.state, "complete"),
        ("files", file_digests(reading.folder, SEALED) if manifest.files else {}, manifest.files),
        ("threat model", threat_of(manifest).describe(), subject.threat.describe()),
        ("model fingerprint", manifest.model["fingerprint"], subject.model.fingerprint()),
        ("rows", manifest.data["digest"], subject.rows.digest()),
        ("outputs", manifest.model["outputs"], "logits"),
        ("outputs", subject.model.outputs, "logits"),
        ("draws", "draws" in manifest.suite, False),
        ("a precision below float32", subject.model.own_dtype.itemsize < 4, False),
    )
    for name, got, expected in wanted:
        if got != expected:
            raise BadInput(
                f"{name} of run {reading.folder}",
                got=str(got),
                expected=str(expected),
                remedy="Certify a complete run of a deterministic model with logits, with the model and rows of that run.",
            )


def _begin(folder: Path, manifest: Manifest, seconds: float) -> None:
    for name in DERIVED:
        (folder / name).unlink(missing_ok=True)
    about = Certified(method=METHOD, seconds_a_row=seconds, proves=PROVES)
    write_manifest(folder, manifest.model_copy(update={"certified": about, "files": {}}))


def _certified(
    subject: Subject,
    folder: Path,
    before: Reading,
    network: object,
    seconds: float,
    told: Told,
    stop: Callable[[], bool],
) -> Reading:
    ledger = Ledger.reopen(folder / LEDGER)
    known = {record.row for record in before.certificates if record.outcome != "unknown"}
    asked = [row for row in before.rows if row.status == "standing" and row.row not in known]
    proved = 0
    for number, row in enumerate(asked):
        if stop():
            break
        x = torch.from_numpy(np.array(subject.rows.x[row.place : row.place + 1])).to(subject.model.device)
        y = torch.tensor([row.label], device=subject.model.device)
        found = next(certify(subject.model.module, x, y, subject.threat, seconds=seconds, network=network))  # type: ignore[arg-type]
        with ledger.transaction():
            _record(subject, folder, ledger, row, found)
        proved += found.outcome == "certified"
        told(number + 1, len(asked), proved)
    ledger.close()
    manifest = read_run(folder).manifest
    return conclude(folder, manifest)


def _record(subject: Subject, folder: Path, ledger: Ledger, row: RowRecord, found: Certificate) -> None:
    """One row's certificate, and the status that follows from it."""
    ledger.replace_certificate(
        CertificateRecord(
            row=row.row,
            method=METHOD,
            step=None if found.outcome == "unknown" else found.method,
            outcome=found.outcome,
            margin=found.margin if np.isfinite(found.margin) else None,
            slack=found.tolerance,
            questions=found.questions,
            seconds=found.seconds,
        )
    )
    if found.outcome == "certified":
        ledger.update_row(row.row, status="certified")
    elif found.witness is not None:
        _break(subject, folder, ledger, row, found.witness)


def _break(subject: Subject, folder: Path, ledger: Ledger, row: RowRecord, witness: torch.Tensor) -> None:
    """The search met an error of the model: the row is broken, by no attack of the suite."""
    shape = subject.rows.x.shape
    x = torch.from_numpy(np.array(subject.rows.x[row.place : row.place + 1]))
    point = witness.cpu().to(x.dtype)
    logits = subject.model.scores(point.to(subject.model.device, subject.model.dtype))
    margin = float(margin_of(logits, torch.tensor([row.label], device=logits.device))[0])
    assert margin <= 0
    points, originals = (PointFile(folder / name, shape, subject.rows.x.dtype) for name in (WITNESSES, ORIGINALS))
    originals.write(row.place, x[0].numpy())
    digest = points.write(row.place, point[0].numpy())
    for file in (points, originals):
        file.flush()
        file.close()
    ledger.update_row(
        row.row,
        status="broken",
        confirmed=1,
        prediction=int(logits.argmax(1)[0]),
        margin=margin,
        distance=float(distance(x, point, subject.threat.norm)[0]),
        witness_digest=digest,
    )


def _unlock(lock: FileLock) -> None:
    lock.release()
