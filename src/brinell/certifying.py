"""Certificates for a run that is complete: the rows that its attacks left standing are proved, where that can be done.

Rows that have a certificate already are not asked again, so that whoever asks again, with more time, goes on with the rest.
"""

from collections.abc import Callable
from pathlib import Path

from brinell.certify.graph import Network
from brinell.claim import threat_of
from brinell.concluding import SEALED, conclude
from brinell.errors import BadInput
from brinell.ledger import LEDGER, Ledger
from brinell.manifest import DERIVED, Manifest, file_digests, write_manifest
from brinell.opening import locked
from brinell.points import ORIGINALS, WITNESSES, PointFile
from brinell.proving import Prover, Told, about, provable
from brinell.result import Reading, read_run
from brinell.spec import CertifySpec
from brinell.subject import Subject


def certify_run(
    subject: Subject,
    folder: Path,
    *,
    asked: CertifySpec,
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
    read_run(folder)  # no lock where there is no run
    lock = locked(folder)
    try:
        reading = read_run(folder)
        _check(reading, subject)
        network = provable(subject)
        manifest = _begun(folder, reading.manifest, asked)
        with subject.model.undisturbed():
            _sought(subject, reading, network, asked, told, stop)
        return conclude(folder, manifest)
    finally:
        lock.release()


def _check(reading: Reading, subject: Subject) -> None:
    manifest = reading.manifest
    wanted: tuple[tuple[str, object, object], ...] = (
        ("state", manifest.state, "complete"),
        ("files", file_digests(reading.folder, SEALED) if manifest.files else {}, manifest.files),
        ("threat model", threat_of(manifest).describe(), subject.threat.describe()),
        ("model fingerprint", manifest.model["fingerprint"], subject.model.fingerprint()),
        ("rows", manifest.data["digest"], subject.rows.digest()),
        ("outputs", manifest.model["outputs"], subject.model.outputs),
        ("draws", "draws" in manifest.suite, False),
    )
    for name, got, expected in wanted:
        if got != expected:
            raise BadInput(
                f"{name} of run {reading.folder}",
                got=str(got),
                expected=str(expected),
                remedy="Certify a complete run of a deterministic model with logits, with the model and rows of that run.",
            )


def _begun(folder: Path, manifest: Manifest, asked: CertifySpec) -> Manifest:
    """The manifest with what is asked, written: after what was asked before."""
    for name in DERIVED:
        (folder / name).unlink(missing_ok=True)
    said, before = about(asked, first=False), manifest.certified
    if before is not None:
        said = before.model_copy(update={"asked": (*before.asked, asked)})
    manifest = manifest.model_copy(update={"certified": said, "files": {}})
    write_manifest(folder, manifest)
    return manifest


def _sought(
    subject: Subject,
    before: Reading,
    network: Network,
    asked: CertifySpec,
    told: Told,
    stop: Callable[[], bool],
) -> None:
    """Ask for every row that is open; rows that no attack has got to are, as are those that stand."""
    known = {record.row for record in before.certificates if record.outcome != "unknown"}
    rows = [row for row in before.rows if row.status in ("standing", "pending") and row.row not in known]
    ledger = Ledger.reopen(before.folder / LEDGER)
    shape, dtype = subject.rows.x.shape, subject.rows.x.dtype
    witnesses, originals = (PointFile(before.folder / name, shape, dtype) for name in (WITNESSES, ORIGINALS))
    try:
        prover = Prover(subject, network, asked, False, ledger, witnesses, originals)
        prover.seek(rows, told=told, stop=stop)
    finally:
        ledger.close()
        witnesses.close()
        originals.close()
