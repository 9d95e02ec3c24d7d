"""Checks a run again from its own files, and with the model where it can be had: nothing that it says is taken on trust."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from brinell.checks import model as by_model
from brinell.checks import points, record, statuses
from brinell.checks.finding import Finding, equal
from brinell.checks.proofs import CHECK, NUMBERS, numbers, proofs
from brinell.checks.traces import traces
from brinell.checks.transfers import remade
from brinell.errors import BadInput
from brinell.ledger import LEDGER
from brinell.manifest import MANIFEST, read_manifest
from brinell.models.torch_model import TorchModel
from brinell.result import read_run
from brinell.rows import Rows
from brinell.surrogate import Surrogate

CHECKS = (
    record.spec,
    record.suite,
    record.data,
    record.passes,
    record.schedule,
    statuses.statuses,
    statuses.frequencies,
    statuses.certificates,
    traces,
    record.result,
    record.tables,
    points.points_recorded,
    points.witnesses_in_threat,
)


def verify_files(folder: Path) -> list[Finding]:
    """All checks that need the run's folder only. A file that cannot be read is a finding, as is one that was changed.

    Raises
    ------
    BadInput
        If the folder holds no manifest, so that it is not the folder of a run.
    """
    path = folder / MANIFEST
    if not path.is_file():
        read_manifest(folder)
    try:
        manifest = read_manifest(folder)
    except BadInput as error:
        if error.got.startswith("format "):
            raise
        return [Finding(MANIFEST, False, error.got)]
    found = [equal(MANIFEST, manifest.digest, manifest.expected_digest()), *record.files(folder, manifest)]
    try:
        reading = read_run(folder)
    except Exception as error:  # a changed ledger may break any reader
        return [*found, Finding(LEDGER, False, f"cannot be read: {type(error).__name__}: {error}")]
    for check in CHECKS:
        found += _made(check.__name__, partial(check, reading))
    return found


def verify_with_model(
    folder: Path,
    model: TorchModel,
    rows: Rows,
    surrogate: Surrogate | None = None,
    *,
    seconds: float | None = None,
) -> list[Finding]:
    """The checks that ask the model and the data: fingerprints, clean decisions, and every witness.

    Where points were made on a surrogate that is given, they are made again. With ``seconds`` each certificate is proved
    again, as long a row at most.
    """
    try:
        reading = read_run(folder)
    except Exception:  # what cannot be read is named by ``verify_files``
        return []
    found = _made("model fingerprint", partial(by_model.fingerprint, reading, model))
    data = _made("data", partial(by_model.data, reading, rows))
    found += data
    if all(finding.holds for finding in data):
        said = by_model.decisions if reading.randomised is None else by_model.frequencies
        with model.undisturbed():
            found += _made(said.__name__, lambda: said(reading, model, rows))
            found += _made(NUMBERS, lambda: numbers(reading, model, rows))
            found += _made(CHECK, lambda: proofs(reading, model, rows, seconds))
            found += _made("transfer", partial(remade, reading, model, rows, surrogate))
    return found


def _made(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What a check finds; that it cannot be made is a finding too, for a changed file may break any of them."""
    try:
        return list(check())
    except Exception as error:
        reason = f"cannot be checked: {type(error).__name__}: {error}"
        return [Finding(name.replace("_", " "), False, reason)]
