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
    """Refuse a run that cannot be certified, or a subject that is not the run's: what was given against what the run has."""
    manifest, run = reading.manifest, f"run {reading.folder}"
    if manifest.state != "complete":
        on = f"brinell {'run --resume' if manifest.suite['attacks'] else 'certify'} {reading.folder}"
        remedy = f"It was cut off: go on with it first, without options: {on}."
        if manifest.imported is not None:
            remedy = "The import was cut off: import again, into another folder."
        raise BadInput(f"state of {run}", got=manifest.state, expected="complete", remedy=remedy)
    sealed = file_digests(reading.folder, SEALED) if manifest.files else {}
    changed = sorted(name for name in {*sealed, *manifest.files} if sealed.get(name) != manifest.files.get(name))
    if changed:
        raise BadInput(
            f"files of {run}",
            got=f"{', '.join(changed)} changed or gone since the run ended",
            expected="the files as the run sealed them",
            remedy="Put them back, or run again; `brinell verify` says what does not hold.",
        )
    if "draws" in manifest.suite:
        raise BadInput(
            f"suite of {run}",
            got=f"{manifest.suite['name']}, for randomised models",
            expected="a deterministic model, under a suite without draws",
            remedy="No certificate is known of a model that answers at random: leave it out.",
        )
    given: tuple[tuple[str, str, str, str], ...] = (
        (
            "model fingerprint",
            subject.model.fingerprint(),
            manifest.model["fingerprint"],
            "--model: the run's own model.",
        ),
        ("rows", subject.rows.digest(), manifest.data["digest"], "--data: the rows of the run, as it selected them."),
        ("threat model", subject.threat.describe(), threat_of(manifest).describe(), "the run's threat model."),
        ("outputs", subject.model.outputs, manifest.model["outputs"], "the outputs that the run declared."),
    )
    for name, got, expected, give in given:
        if got != expected:
            raise BadInput(f"{name} of {run}", got=got, expected=f"{expected}, the run's own", remedy=f"Give {give}")


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
