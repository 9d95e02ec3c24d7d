"""How a run begins, and how it goes on after it was cut off: checks first, then the folder."""

from dataclasses import replace
from os.path import isfile
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from brinell.affordable import refuse_full_disk, refuse_nothing, refuse_small
from brinell.before.surrogate import usable
from brinell.blank import blank_manifest, blank_rows, threat_table
from brinell.certify.graph import Network
from brinell.engine import Engine
from brinell.errors import BadInput
from brinell.fresh import refuse_taken, refuse_unwritable
from brinell.ledger import LEDGER, Ledger
from brinell.manifest import DERIVED, MANIFEST, SPEC, Manifest, now, read_manifest, replace_text, write_manifest
from brinell.oracle import Oracle
from brinell.points import CANDIDATES, CLEAN_LOGITS, ORIGINALS, WITNESSES, PointFile
from brinell.preflight import preflight
from brinell.proving import Prover, provable
from brinell.recording import Recording
from brinell.run import Run
from brinell.spec import written
from brinell.subject import Subject
from brinell.suites.further import further
from brinell.suites.suite import Suite

LOCK = ".lock"
BEGUN = (LEDGER, WITNESSES, ORIGINALS, CLEAN_LOGITS, CANDIDATES, SPEC, LOCK)
"""Files that a run has before it has a manifest."""


def begin(subject: Subject, folder: Path) -> Run:
    """Check everything, then make the folder and its empty ledger; no attack has run when this returns.

    Raises
    ------
    BadInput
        If anything would make the number wrong, or the folder holds something already or cannot be written in.
    """
    if isfile(folder / LOCK) and not isfile(folder / MANIFEST):
        for left in folder.iterdir():  # a run that was killed before it was one
            if left.name in BEGUN or left.name.startswith(f"{LEDGER}-") or left.suffix == ".partial":
                left.unlink()
    refuse_taken(folder)
    refuse_unwritable(folder)
    subject.suite.check(subject.threat.norm)
    if subject.budget is not None:
        refuse_small(subject.budget, subject)
    refuse_nothing(subject)
    network = None if subject.certify is None else provable(subject)
    asked = subject.suite.within(subject.threat.norm)
    ready = preflight(subject.model, subject.rows, subject.threat, asked.draws, batch_size=subject.batch_size)
    subject = replace(subject, surrogate=usable(subject.surrogate, subject.model, subject.rows, asked.draws, ready))
    fitted = asked.fit(ready.classes)
    subject.model.bypassed, subject.model.loss_precision = ready.bypassed, ready.loss_precision
    suite = further(fitted, ready.bypassed, subject.surrogate, ready.classes)
    notes = [*ready.notes, *asked.replacements(fitted)]
    folder.mkdir(parents=True, exist_ok=True)
    lock = locked(folder)
    manifest = blank_manifest(subject, suite, ready, folder, notes)
    if subject.spec is not None:
        replace_text(folder / SPEC, written(subject.spec))
    ledger = Ledger.create(folder / LEDGER)
    with ledger.transaction():
        ledger.add(blank_rows(subject))
    run = _opened(folder, subject, manifest, suite, ledger, lock, network)
    write_manifest(folder, manifest)  # last, for it is what makes the folder a run
    with ledger.transaction():
        ledger.count_passes(
            run.recording.session, preflight_forwards=ready.forwards, preflight_backwards=ready.backwards
        )
    return run


def resume(subject: Subject, folder: Path) -> Run:
    """Open a run that was cut off; it goes on with the same random numbers.

    Raises
    ------
    BadInput
        If the folder holds no run or an imported one, or model, surrogate, rows, threat model, suite or seed are not those
        that it was begun with.
    """
    manifest = read_manifest(folder)
    if manifest.imported is not None:
        raise BadInput(
            f"run {folder}",
            got="an imported run, which does not keep the points that it was given",
            expected="a run of Brinell's own",
            remedy="Import the file again, into another folder.",
        )
    if manifest.surrogate is None and subject.surrogate is not None and subject.surrogate.kind == "base":
        subject = replace(subject, surrogate=None)  # it was of no use
    classes = manifest.model["classes"]
    subject.model.bypassed, subject.model.loss_precision = manifest.bypassed, manifest.loss_precision
    fitted = subject.suite.within(subject.threat.norm).fit(classes)
    suite = further(fitted, manifest.bypassed, subject.surrogate, classes)
    then_and_now = {
        "model fingerprint": (manifest.model["fingerprint"], subject.model.fingerprint()),
        "rows": (manifest.data["digest"], subject.rows.digest()),
        "threat model": (manifest.threat, threat_table(subject.threat)),
        "surrogate": (manifest.surrogate, None if subject.surrogate is None else subject.surrogate.table()),
        "suite": (manifest.suite["digest"], suite.digest()),
        "seed": (manifest.seed, subject.seed),
        "budget": (manifest.budget, None if subject.budget is None else subject.budget.text),
        "certificates": (None if manifest.certified is None else manifest.certified.first, subject.certify),
    }
    for subject_name, (then, current) in then_and_now.items():
        if then != current:
            raise BadInput(
                f"{subject_name} of run {folder}",
                got=str(current),
                expected=f"{then}, as when it was begun",
                remedy="Resume with what it was begun with, or start another run.",
            )
    if suite.draws is not None and not (folder / CANDIDATES).is_file() and manifest.state != "complete":
        raise BadInput(
            f"run {folder}",
            got=f"no {CANDIDATES}",
            expected="the points that its attempts have kept",
            remedy="Put it back, or start another run.",
        )
    network = None if subject.certify is None else provable(subject)
    lock = locked(folder)
    for name in DERIVED:
        (folder / name).unlink(missing_ok=True)
    write_manifest(folder, manifest.model_copy(update={"state": "running", "ended": None, "files": {}}))
    return _opened(folder, subject, manifest, suite, Ledger.reopen(folder / LEDGER), lock, network)


def locked(folder: Path) -> FileLock:
    """The lock that keeps a second process out of a run.

    Raises
    ------
    BadInput
        If another process holds it.
    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BadInput(
            f"run {folder}",
            got="a run that another process is working on",
            expected="a run that nobody works on",
            remedy="Wait for it, or stop it.",
        ) from None
    return lock


def _opened(
    folder: Path,
    subject: Subject,
    manifest: Manifest,
    suite: Suite,
    ledger: Ledger,
    lock: FileLock,
    network: Network | None,
) -> Run:
    rows, model = subject.rows, subject.model
    shape = (len(rows), *rows.x.shape[1:])
    with ledger.transaction():
        session = ledger.start_session(now())
    oracle = Oracle(
        model,
        classes=manifest.model["classes"],
        seed=subject.seed,
        batch_size=manifest.batch_size,
        draws=suite.draws,
        shared=manifest.model["shared_draws"],
        rejects=model.rejects,
        session=session,
    )
    recording = Recording(
        folder=folder,
        subject=subject,
        suite=suite,
        ledger=ledger,
        session=session,
        places={int(row): place for place, row in enumerate(rows.index)},
        witnesses=PointFile(folder / WITNESSES, shape, rows.x.dtype),
        originals=PointFile(folder / ORIGINALS, shape, rows.x.dtype),
        clean_logits=PointFile(folder / CLEAN_LOGITS, (len(rows), oracle.columns), rows.x.dtype),
        candidates=_candidates(folder, suite, shape, rows.x.dtype),
    )
    engine = Engine(oracle, subject.threat, manifest.pull_in)
    prover = None
    if network is not None and subject.certify is not None:
        prover = Prover(subject, network, subject.certify, True, ledger, recording.witnesses, recording.originals)
    return Run(subject, engine, recording, lock, before=manifest.seconds, prover=prover)


def _candidates(folder: Path, suite: Suite, shape: tuple[int, ...], dtype: np.dtype[Any]) -> PointFile | None:
    """A place for each point that the attempts on a randomised model may keep."""
    if suite.draws is None:
        return None
    refuse_full_disk(folder, suite, shape, dtype)
    return PointFile(folder / CANDIDATES, (shape[0] * suite.attempts() * suite.draws.kept, *shape[1:]), dtype)
