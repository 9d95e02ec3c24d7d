"""What a run's record says before the first row is asked about."""

from collections.abc import Iterator
from pathlib import Path

import torch

from brinell.geometry import size
from brinell.manifest import FORMAT, Manifest, environment, now
from brinell.proving import about
from brinell.readiness import Readiness
from brinell.records import RowRecord
from brinell.subject import Subject
from brinell.suites.suite import Suite
from brinell.threat import Threat


def blank_rows(subject: Subject) -> Iterator[RowRecord]:
    """A pending record of each row."""
    rows = subject.rows
    for place, (row, label, digest) in enumerate(zip(rows.index, rows.y, rows.digests(), strict=True)):
        x = torch.from_numpy(rows.x[place : place + 1]).double()
        yield RowRecord(
            row=int(row),
            place=place,
            label=int(label),
            digest=digest,
            status="pending",
            clean_prediction=None,
            clean_margin=None,
            input_size=float(size(x, subject.threat.norm)[0]),
            stage=None,
            attempt=None,
            prediction=None,
            margin=None,
            distance=None,
            witness_digest=None,
            confirmed=0,
            unconfirmed=0,
            forwards=0,
            backwards=0,
            reason=None,
        )


def blank_manifest(subject: Subject, suite: Suite, ready: Readiness, folder: Path, notes: list[str]) -> Manifest:
    """The manifest of a run that has begun."""
    model, rows = subject.model, subject.rows
    return Manifest(
        format=FORMAT,
        run=folder.resolve().name,
        state="running",
        started=now(),
        ended=None,
        seconds=0.0,
        environment=environment(str(model.device), model.precision),
        spec=subject.spec,
        model={
            "source": subject.model_source,
            "fingerprint": model.fingerprint(),
            "classes": ready.classes,
            "outputs": model.outputs,
            "shared_draws": ready.shared_draws,
        },
        data=rows.table(),
        threat=threat_table(subject.threat),
        suite={**suite.table(), "digest": suite.digest()},
        budget=None if subject.budget is None else subject.budget.text,
        cut=None,
        seed=subject.seed,
        batch_size=ready.batch_size,
        pull_in=ready.pull_in,
        unbounded=ready.unbounded,
        findings=ready.findings,
        unmade=ready.unmade,
        target_ranks=ready.target_ranks,
        loss_precision=ready.loss_precision,
        bypassed=ready.bypassed,
        surrogate=None if subject.surrogate is None else subject.surrogate.table(),
        imported=subject.imported,
        certified=None if subject.certify is None else about(subject.certify, first=True),
        notes=notes,
        files={},
        digest="",
    )


def threat_table(threat: Threat) -> dict[str, str | float]:
    """A threat model as the manifest holds it."""
    return {
        "norm": threat.norm,
        "eps": float(threat.eps),
        "eps_text": threat.eps_text,
        "low": threat.low,
        "high": threat.high,
        "goal": threat.goal,
        "access": threat.access,
    }
