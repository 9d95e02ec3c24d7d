"""Checks a run again from its own files, and with the model where it can be had: nothing that it says is taken on trust."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from brinell.claim import threat_of
from brinell.losses import margin_of
from brinell.manifest import MANIFEST, file_digests
from brinell.models.torch_model import TorchModel
from brinell.points import ORIGINALS, WITNESSES
from brinell.records import RowRecord
from brinell.result import RESULT, SEALED, Reading, as_data, read_run
from brinell.rows import Rows, row_digest

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
    """All checks that need the run's folder only.

    Raises
    ------
    BadInput
        If it is not the folder of a run.
    """
    reading = read_run(folder)
    checks = (_manifest, _files, _accounts, _statuses, _result, _originals, _witnesses_in_threat)
    return [finding for check in checks for finding in check(reading)]


def verify_with_model(folder: Path, model: TorchModel, rows: Rows) -> list[Finding]:
    """The checks that ask the model and the data: fingerprints, clean decisions, and every witness."""
    reading = read_run(folder)
    manifest = reading.manifest
    found = [
        _equal("model fingerprint", model.fingerprint(), manifest.model["fingerprint"]),
        _equal("data", rows.digest(), manifest.data["digest"]),
    ]
    if found[1].holds:
        with model.undisturbed():
            found += _decisions(reading, model, rows)
    return found


def _manifest(reading: Reading) -> Iterator[Finding]:
    manifest = reading.manifest
    yield _equal(MANIFEST, manifest.digest, manifest.expected_digest())


def _files(reading: Reading) -> Iterator[Finding]:
    sealed = reading.manifest.files
    if not sealed:
        yield Finding("files", None, "not sealed yet: the run is under way, or was killed")
        return
    found = file_digests(reading.folder, SEALED)
    changed = sorted(name for name in {*found, *sealed} if found.get(name) != sealed.get(name))
    for name in changed:
        happened = "is missing" if name not in found else "was added" if name not in sealed else "was changed"
        yield Finding(name, False, f"{happened} after the run was sealed")
    if not changed:
        yield Finding("files", True, f"{len(sealed)} files as they were sealed")


def _accounts(reading: Reading) -> Iterator[Finding]:
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
    attacks = reading.manifest.suite["attacks"]
    attempts = sum(_attempts_of(table) for table in attacks) if reading.manifest.threat["eps"] > 0 else 0
    wrong = [row.row for row in reading.rows if not _status_follows(row, outcomes[row.row], attempts)]
    expected = reading.manifest.data["rows"]
    holds = not wrong and len(reading.rows) == expected
    detail = f"{len(reading.rows)} rows, each with the status that its record gives"
    if not holds:
        detail = (
            f"{len(reading.rows)} rows of {expected}; statuses of rows {wrong[:5]} do not follow ({len(wrong)} in all)"
        )
    yield Finding("statuses", holds, detail)


def _attempts_of(table: dict[str, Any]) -> int:
    from brinell.attacks.catalogue import attack_from

    return attack_from(table).attempts()


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
    return row.status in ("pending", "certified")


def _result(reading: Reading) -> Iterator[Finding]:
    """The figures as written are those that the ledger gives."""
    import json

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


def _originals(reading: Reading) -> Iterator[Finding]:
    """The clean inputs kept beside the witnesses are those that the ledger names."""
    yield from _over_broken(
        reading,
        "clean inputs of broken rows",
        ORIGINALS,
        lambda row, point: row_digest(point, row.label) == row.digest,
        "match their digests",
    )


def _witnesses_in_threat(reading: Reading) -> Iterator[Finding]:
    yield from _over_broken(
        reading,
        "witnesses as recorded",
        WITNESSES,
        lambda row, point: hashlib.sha256(np.ascontiguousarray(point).tobytes()).hexdigest() == row.witness_digest,
        "match their digests",
    )
    threat = threat_of(reading.manifest)
    broken = [row for row in reading.rows if row.status == "broken"]
    points, originals = _points(reading, WITNESSES), _points(reading, ORIGINALS)
    if points is None or originals is None:
        return
    outside = []
    for start in range(0, len(broken), CHUNK):
        chunk = broken[start : start + CHUNK]
        places = [row.place for row in chunk]
        x, x_adv = torch.from_numpy(originals[places]), torch.from_numpy(points[places])
        inside = threat.contains(x, x_adv).tolist()
        outside += [row.row for row, good in zip(chunk, inside, strict=True) if not good]
    yield Finding(
        "witnesses in the threat model",
        not outside,
        f"{len(broken)} of {len(broken)} within {threat.describe()}"
        if not outside
        else f"{len(outside)} outside, rows {outside[:5]}",
    )


def _points(reading: Reading, name: str) -> NDArray[Any] | None:
    try:
        points: NDArray[Any] = np.load(reading.folder / name, mmap_mode="r")
    except (OSError, ValueError):
        return None
    return points if len(points) == len(reading.rows) else None


def _over_broken(
    reading: Reading, check: str, name: str, holds: Callable[[RowRecord, NDArray[Any]], bool], good: str
) -> Iterator[Finding]:
    points = _points(reading, name)
    if points is None:
        yield Finding(check, False, f"{name} is missing or is not an array of {len(reading.rows)} points")
        return
    broken = [row for row in reading.rows if row.status == "broken"]
    off = [row.row for row in broken if not holds(row, points[row.place])]
    detail = f"{len(broken)} of {len(broken)} {good}" if not off else f"{len(off)} do not, rows {off[:5]}"
    yield Finding(check, not off, detail)


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
