"""Checks a run again from its own files, and with the model where it can be had: nothing that it says is taken on trust."""

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from brinell.claim import threat_of
from brinell.errors import BadInput
from brinell.geometry import distance, size
from brinell.ledger import LEDGER
from brinell.losses import margin_of
from brinell.manifest import ATTEMPTS_TABLE, MANIFEST, RESULT, ROWS_TABLE, SPEC, Manifest, file_digests, read_manifest
from brinell.models.torch_model import TorchModel
from brinell.points import ORIGINALS, WITNESSES
from brinell.queries import Cost
from brinell.records import AttemptRecord, Record, RowRecord, as_columns
from brinell.result import SEALED, Reading, as_data, read_run
from brinell.rows import Rows, row_digest, rows_digest
from brinell.spec import Spec
from brinell.suites.suite import suite_of
from brinell.threat import Threat

CHUNK = 256


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    check: str
    """What was checked."""
    holds: bool | None
    """Whether it holds; None where it could not be checked."""
    detail: str
    """What was found, or why it could not be checked."""


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
        return [Finding(MANIFEST, False, error.got)]
    found = [_equal(MANIFEST, manifest.digest, manifest.expected_digest()), *_files(folder, manifest)]
    try:
        reading = read_run(folder)
    except Exception as error:  # a changed ledger may break any reader
        return [*found, Finding(LEDGER, False, f"cannot be read: {type(error).__name__}: {error}")]
    for check in (_spec, _suite, _data, _passes, _statuses, _result, _tables, _points_recorded, _witnesses_in_threat):
        found += _made(check.__name__, partial(check, reading))
    return found


def verify_with_model(folder: Path, model: TorchModel, rows: Rows) -> list[Finding]:
    """The checks that ask the model and the data: fingerprints, clean decisions, and every witness."""
    try:
        reading = read_run(folder)
    except Exception:  # what cannot be read is named by ``verify_files``
        return []
    manifest = reading.manifest
    found = [
        _equal("model fingerprint", model.fingerprint(), manifest.model["fingerprint"]),
        _equal("data", rows.digest(), manifest.data["digest"]),
    ]
    if found[1].holds:
        with model.undisturbed():
            found += _made("_decisions", lambda: _decisions(reading, model, rows))
    return found


def _made(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What a check finds; that it cannot be made is a finding too, for a changed file may break any of them."""
    try:
        return list(check())
    except Exception as error:
        reason = f"cannot be checked: {type(error).__name__}: {error}"
        return [Finding(name.strip("_").replace("_", " "), False, reason)]


def _files(folder: Path, manifest: Manifest) -> Iterator[Finding]:
    sealed = manifest.files
    if not sealed and manifest.state == "running":
        yield Finding("files", None, "not sealed yet: the run is under way, or was killed")
        return
    found = file_digests(folder, SEALED)
    changed = sorted(name for name in {*found, *sealed} if found.get(name) != sealed.get(name))
    for name in changed:
        happened = "is missing" if name not in found else "was not sealed" if name not in sealed else "was changed"
        yield Finding(name, False, f"{happened} since the session ended")
    if not sealed:
        yield Finding(MANIFEST, False, "seals no file, though the session has ended")
    elif not changed:
        yield Finding("files", True, f"{len(sealed)} files as they were sealed")


def _spec(reading: Reading) -> Iterator[Finding]:
    """The spec beside the run is the one that it was made from."""
    manifest, path = reading.manifest, reading.folder / SPEC
    if manifest.spec is None:
        return
    table = tomllib.loads(path.read_text("utf-8"))
    asked = Threat(manifest.spec.threat.norm, manifest.spec.threat.eps)
    holds = (
        Spec.model_validate(table) == manifest.spec
        and (asked.norm, asked.eps_text) == (manifest.threat["norm"], manifest.threat["eps_text"])
        and manifest.spec.seed == manifest.seed
    )
    yield Finding(SPEC, holds, "what the run was made from" if holds else "is not what the run was made from")


def _suite(reading: Reading) -> Iterator[Finding]:
    """The suite's digest is that of its attacks, and each attempt made the passes that its attack makes."""
    suite = suite_of(reading.manifest.suite)
    yield _equal("suite", suite.digest(), reading.manifest.suite["digest"])
    alone = [Cost(*(passes // attack.attempts() for passes in attack.cost())) for attack in suite.attacks]
    off = []
    for attempt in reading.attempts:
        whole, made = alone[attempt.stage], Cost(attempt.forwards, attempt.backwards)
        within = made.forwards <= whole.forwards and made.backwards <= whole.backwards
        if not within or (attempt.outcome == "stood" and made != whole):
            off.append(attempt.row)
    yield Finding(
        "attempts",
        not off,
        f"{len(reading.attempts):,} attempts made the passes of their attacks"
        if not off
        else f"{len(off)} attempts did not make the passes of their attacks, rows {off[:5]}",
    )


def _data(reading: Reading) -> Iterator[Finding]:
    """The rows of the ledger, with their labels and places, are those that the manifest names."""
    digest = rows_digest((row.row, row.digest) for row in reading.rows)
    places = [row.place for row in reading.rows] == list(range(len(reading.rows)))
    finding = _equal("rows", digest, reading.manifest.data["digest"])
    yield finding if places else Finding("rows", False, "places that are not 0, 1, 2, …")


def _passes(reading: Reading) -> Iterator[Finding]:
    """A row's passes are the sum of its attempts', and no session made fewer than count."""
    sums: dict[int, list[int]] = {row.row: [0, 0] for row in reading.rows}
    strangers = 0
    for attempt in reading.attempts:
        if attempt.row not in sums:
            strangers += 1
            continue
        sums[attempt.row][0] += attempt.forwards
        sums[attempt.row][1] += attempt.backwards
    off = [row.row for row in reading.rows if sums[row.row] != [row.forwards, row.backwards]]
    made = sum(session.forwards for session in reading.sessions)
    counted = sum(row.forwards for row in reading.rows)
    holds = not off and not strangers and made >= counted
    detail = f"{counted:,} forward passes in {len(reading.attempts):,} attempts add up"
    if not holds:
        detail = f"rows {off[:5]} do not add up, {strangers} attempts of no row, {made} made for {counted} counted"
    yield Finding("passes", holds, detail)


def _statuses(reading: Reading) -> Iterator[Finding]:
    """Each row's status follows from its fields and its attempts."""
    outcomes: dict[int, list[str]] = {row.row: [] for row in reading.rows}
    for attempt in reading.attempts:
        outcomes.setdefault(attempt.row, []).append(attempt.outcome)
    attacked = reading.manifest.threat["eps"] > 0
    attempts = sum(attack.attempts() for attack in suite_of(reading.manifest.suite).attacks) if attacked else 0
    wrong = [row.row for row in reading.rows if not _status_follows(row, outcomes[row.row], attempts)]
    expected = reading.manifest.data["rows"]
    holds = not wrong and len(reading.rows) == expected
    detail = f"{len(reading.rows)} rows, each with the status that its record gives"
    if not holds:
        detail = f"{len(reading.rows)} rows of {expected}; {len(wrong)} statuses do not follow, rows {wrong[:5]}"
    yield Finding("statuses", holds, detail)


def _status_follows(row: RowRecord, outcomes: list[str], attempts: int) -> bool:
    wrong_at_start = row.clean_margin is not None and row.clean_margin <= 0
    if row.status == "misclassified":
        return wrong_at_start and row.clean_prediction != row.label and not outcomes
    if wrong_at_start:
        return False
    if row.status == "broken":
        return row.confirmed == 1 and "fell" in outcomes and row.margin is not None and row.margin <= 0
    if row.confirmed or (row.stage is not None and row.status != "pending"):
        return False
    if row.status == "standing":
        return len(outcomes) == attempts and not {"fell", "error"} & set(outcomes)
    if row.status == "error":
        return len(outcomes) == attempts and "error" in outcomes and row.reason is not None
    return row.status == "pending"  # nothing certifies yet, so that nothing is certified


def _result(reading: Reading) -> Iterator[Finding]:
    """The figures as written are those that the ledger gives."""
    path = reading.folder / RESULT
    if not path.is_file():
        yield Finding(RESULT, None, "not written yet")
        return
    try:
        written = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        yield Finding(RESULT, False, f"cannot be read: {error}")
        return
    current = json.loads(json.dumps(as_data(reading)))
    differs = sorted(key for key in {*written, *current} if written.get(key) != current.get(key))
    figure = reading.figures.robust_accuracy
    yield Finding(
        "figures",
        not differs,
        f"follow from the ledger: {figure}" if not differs else f"differ in {', '.join(differs)}",
    )


def _tables(reading: Reading) -> Iterator[Finding]:
    """The tables for other tools say what the ledger says."""
    import pyarrow.parquet as pq

    tables: tuple[tuple[str, type[Record], Sequence[Record]], ...] = (
        (ROWS_TABLE, RowRecord, reading.rows),
        (ATTEMPTS_TABLE, AttemptRecord, reading.attempts),
    )
    for name, kind, records in tables:
        if not (reading.folder / name).is_file():
            continue  # named among the files, or not written yet
        same = pq.read_table(reading.folder / name).to_pydict() == as_columns(kind, records)
        yield Finding(name, same, "says what the ledger says" if same else "does not say what the ledger says")


def _points_recorded(reading: Reading) -> Iterator[Finding]:
    """The points beside the ledger are those that it names."""
    yield from _over_broken(
        reading,
        "clean inputs of broken rows",
        ORIGINALS,
        lambda row, point: row_digest(point, row.label) == row.digest,
    )
    yield from _over_broken(
        reading,
        "witnesses as recorded",
        WITNESSES,
        lambda row, point: hashlib.sha256(np.ascontiguousarray(point).tobytes()).hexdigest() == row.witness_digest,
    )


def _witnesses_in_threat(reading: Reading) -> Iterator[Finding]:
    """Each witness lies in the threat model, at the distance that is recorded."""
    threat = threat_of(reading.manifest)
    broken = [row for row in reading.rows if row.status == "broken"]
    points, originals = _points(reading, WITNESSES), _points(reading, ORIGINALS)
    if points is None or originals is None:
        return
    outside, off = [], []
    for start in range(0, len(broken), CHUNK):
        chunk = broken[start : start + CHUNK]
        places = [row.place for row in chunk]
        x, x_adv = torch.from_numpy(originals[places]), torch.from_numpy(points[places])
        distances, sizes = distance(x, x_adv, threat.norm).tolist(), size(x.double(), threat.norm).tolist()
        for row, inside, length, own in zip(chunk, threat.contains(x, x_adv).tolist(), distances, sizes, strict=True):
            if not inside:
                outside.append(row.row)
            recorded = (row.distance or 0.0, row.input_size or 0.0)
            if not np.allclose(recorded, (length, own), rtol=1e-9, atol=0.0):
                off.append(row.row)
    good = f"{len(broken)} of {len(broken)} within {threat.describe()}"
    yield Finding(
        "witnesses in the threat model", not outside, f"{len(outside)} outside, rows {outside[:5]}" if outside else good
    )
    detail = f"{len(off)} are not, rows {off[:5]}" if off else f"{len(broken)} of {len(broken)} are those of the points"
    yield Finding("sizes as recorded", not off, detail)


def _points(reading: Reading, name: str) -> NDArray[Any] | None:
    try:
        points: NDArray[Any] = np.load(reading.folder / name, mmap_mode="r")
    except (OSError, EOFError, ValueError):
        return None
    return points if len(points) == len(reading.rows) else None


def _over_broken(
    reading: Reading, check: str, name: str, holds: Callable[[RowRecord, NDArray[Any]], bool]
) -> Iterator[Finding]:
    points = _points(reading, name)
    if points is None:
        yield Finding(check, False, f"{name} is missing or is not an array of {len(reading.rows)} points")
        return
    broken = [row for row in reading.rows if row.status == "broken"]
    off = [row.row for row in broken if not holds(row, points[row.place])]
    good = f"{len(broken)} of {len(broken)} match their digests"
    yield Finding(check, not off, f"{len(off)} do not match their digests, rows {off[:5]}" if off else good)


def _decisions(reading: Reading, model: TorchModel, rows: Rows) -> Iterator[Finding]:
    """The model errs on each witness, is right on the rows that are said to stand, and wrong on the misclassified."""
    points = _points(reading, WITNESSES)
    if points is None:
        return
    broken = [row for row in reading.rows if row.status == "broken"]
    margins = _margins(model, broken, lambda places: points[places])
    refuted = [row.row for row, margin in zip(broken, margins, strict=True) if not margin <= 0]
    yield Finding(
        "witnesses by the model",
        not refuted,
        f"the model errs on {len(broken) - len(refuted)} of {len(broken)}"
        + (f"; not on rows {refuted[:5]}" if refuted else ""),
    )
    scored = [row for row in reading.rows if row.clean_margin is not None]
    margins = _margins(model, scored, lambda places: rows.x[places])
    off = [
        row.row for row, margin in zip(scored, margins, strict=True) if (margin > 0) != (row.status != "misclassified")
    ]
    yield Finding(
        "clean decisions by the model",
        not off,
        f"as recorded on {len(scored) - len(off)} of {len(scored)} rows" + (f"; not on {off[:5]}" if off else ""),
    )


def _margins(
    model: TorchModel, records: list[RowRecord], points_at: Callable[[list[int]], NDArray[Any]]
) -> list[float]:
    margins: list[float] = []
    for start in range(0, len(records), CHUNK):
        chunk = records[start : start + CHUNK]
        points = np.array(points_at([row.place for row in chunk]))
        x = torch.from_numpy(points).to(model.device, model.dtype)
        y = torch.tensor([row.label for row in chunk], device=model.device)
        margins += margin_of(model.scores(x), y).tolist()
    return margins


def _equal(check: str, found: str, expected: str) -> Finding:
    if found == expected:
        return Finding(check, True, f"{expected[:16]}… as recorded")
    return Finding(check, False, f"{found[:16]}…, recorded as {expected[:16]}…")
