"""Checks what was found of a smoothed classifier again: its figures from its own files, and some rows with the model."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from brinell.checks.finding import Finding, equal
from brinell.errors import BadInput
from brinell.manifest import MANIFEST, SPEC, file_digests
from brinell.models.torch_model import TorchModel
from brinell.rows import Rows, rows_digest
from brinell.smoothing.folder import POINTS, RESULT, ROWS, SEALED, SmoothReading, read_smoothing, smoothing_data
from brinell.smoothing.making import point_at, reached, smoothed_of
from brinell.smoothing.record import Attacked, SmoothedRow, judged_of, outcome_of
from brinell.smoothing.setting import Setting
from brinell.smoothing.smoothed import Smoothed, answer
from brinell.spec import read_spec
from brinell.threat import Threat

AGAIN = 5
"""Rows on which all noise is drawn again with the model, spread over the selection."""
ERRORS = 20
"""Rows whose attack is recorded as one that could not be made on which it is tried again, spread over these."""
TINY = 1e-12


def verify_smoothing_files(folder: Path) -> list[Finding]:
    """All checks that need the folder only.

    Raises
    ------
    BadInput
        If the folder is of a format that this version does not know.
    """
    try:
        reading = read_smoothing(folder)
    except BadInput as error:
        if error.got.startswith("format "):
            raise
        return [Finding(error.subject, False, error.got)]
    found = [equal(MANIFEST, reading.manifest.digest, reading.manifest.expected_digest())]
    for check in (_files, _spec, _rows, _counts, _attacks, _result):
        found += _made(check.__name__.strip("_"), lambda check=check: check(reading))  # type: ignore[misc]
    return found


def verify_smoothing_with_model(folder: Path, model: TorchModel, rows: Rows) -> list[Finding]:
    """The checks that ask the base classifier: fingerprint, data, and all noise of some rows drawn again."""
    try:
        reading = read_smoothing(folder)
    except BadInput:  # named by the checks of the files
        return []
    manifest = reading.manifest
    found = [
        equal("base classifier's fingerprint", model.fingerprint(), manifest.model["fingerprint"]),
        equal("data", rows.digest(), manifest.data["digest"]),
    ]
    if found[-1].holds:
        found.append(_labels(reading, rows))
    if all(finding.holds for finding in found):
        with model.undisturbed():
            found += _made("attacks that could not be made", lambda: _failed(reading, model, rows))
            found += _made("noise drawn again", lambda: _again(reading, model, rows))
            found += _made("attacked points", lambda: _points(reading, model, rows))
    return found


def _labels(reading: SmoothReading, rows: Rows) -> Finding:
    """Every row has the index, the label and the digest that the data gives it."""
    held = list(zip(rows.index.tolist(), rows.y.tolist(), rows.digests(), strict=True))
    off = [
        row.row
        for row in reading.rows
        if row.place not in range(len(held)) or (row.row, row.label, row.digest) != held[row.place]
    ]
    detail = f"those of the data on {len(reading.rows) - len(off)} of {len(reading.rows)} rows"
    return Finding("labels", not off, detail + (f"; not on {off[:5]}" if off else ""))


def _made(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What a check finds; that it cannot be made is a finding too, for a changed file may break any of them."""
    try:
        return list(check())
    except Exception as error:
        return [Finding(name, False, f"cannot be checked: {type(error).__name__}: {error}")]


def _files(reading: SmoothReading) -> Iterator[Finding]:
    manifest = reading.manifest
    if manifest.state == "running":
        yield Finding("files", None, "not sealed: the process goes on, or was killed")
        return
    found = file_digests(reading.folder, SEALED)
    for name in sorted({*found, *manifest.files, ROWS, RESULT}):
        yield equal(name, found.get(name, "not there"), manifest.files.get(name, "not sealed"))


def _spec(reading: SmoothReading) -> Iterator[Finding]:
    spec = reading.manifest.spec
    if spec is None:
        return
    same = read_spec(reading.folder / SPEC, {}) == spec
    yield Finding("spec", same, "as in the manifest" if same else "another than in the manifest")


def _rows(reading: SmoothReading) -> Iterator[Finding]:
    manifest, rows = reading.manifest, reading.rows
    places = [row.place for row in rows]
    once = len(set(places)) == len(places) and all(0 <= place < manifest.data["rows"] for place in places)
    whole = len(rows) == manifest.data["rows"]
    if not once or (manifest.state == "complete" and not whole):
        yield Finding("rows", False, f"{len(rows)} lines for {manifest.data['rows']} rows, or a place twice")
    elif whole:
        yield equal("rows", rows_digest((row.row, row.digest) for row in rows), manifest.data["digest"])
    else:
        yield Finding("rows", None, f"{len(rows)} of {manifest.data['rows']} are done")


def _counts(reading: SmoothReading) -> Iterator[Finding]:
    """Bounds, radii and outcomes follow from the counts, and the counts from n and n0."""
    manifest = reading.manifest
    wrong = [row.row for row in reading.rows if not _follows(row, manifest.setting, manifest.seed)]
    said = f"bounds, radii and outcomes of {len(reading.rows)} rows follow from their counts"
    yield Finding("certificates", not wrong, said if not wrong else f"do not follow from their counts: rows {wrong}")


def _follows(row: SmoothedRow, setting: Setting, seed: int) -> bool:
    radius = setting.radius(row.k)
    return (
        (row.n, row.n0, row.seed) == (setting.n, setting.n0, seed)
        and 0 <= row.k0 <= row.n0
        and row.k >= 0
        and row.undecided >= 0
        and row.k + row.undecided <= row.n
        and abs(row.lower - setting.lower(row.k)) <= TINY
        and (row.radius is None) == (radius is None)
        and (row.radius is None or radius is None or abs(row.radius - radius) <= TINY * max(1.0, radius))
        and row.outcome == outcome_of(setting, top=row.top, k=row.k, label=row.label)
    )


def _attacks(reading: SmoothReading) -> Iterator[Finding]:
    """Every row whose class is right was attacked if any was, and what is said of it follows from the counts."""
    manifest = reading.manifest
    wrong = []
    for row in reading.rows:
        due = manifest.eps is not None and row.outcome == "certified"
        if (row.attacked is not None) != due or (row.attacked is not None and not _judged(row.attacked, row, reading)):
            wrong.append(row.row)
    made = sum(row.attacked is not None for row in reading.rows)
    yield Finding("attacks", not wrong, f"{made} follow from their counts" if not wrong else f"do not: rows {wrong}")


def _judged(attacked: Attacked, row: SmoothedRow, reading: SmoothReading) -> bool:
    if attacked.outcome == "error":
        return bool(attacked.reason) and attacked == Attacked(outcome="error", reason=attacked.reason)
    if attacked.reason is not None:
        return False
    first, counts = attacked.first, (attacked.count_first, attacked.count_second)
    if first is None or counts[0] is None or counts[1] is None or attacked.distance is None:
        return False
    setting = reading.manifest.setting
    said = judged_of(answer(first, counts[0], counts[1], setting.alpha), row.label)
    within = bool(attacked.distance <= _threat(reading).eps * (1 + 1e-6))
    return said == attacked.outcome and counts[0] >= counts[1] >= 0 and sum(counts) <= setting.n and within  # type: ignore[arg-type]


def _result(reading: SmoothReading) -> Iterator[Finding]:
    if reading.manifest.state == "running":
        return
    expected: dict[str, Any] = smoothing_data(reading.manifest, reading.rows)
    same = json.loads((reading.folder / RESULT).read_text("utf-8")) == json.loads(json.dumps(expected))
    yield Finding(RESULT, same, "follows from the rows" if same else "does not follow from the rows")


def _threat(reading: SmoothReading) -> Threat:
    manifest = reading.manifest
    return Threat("l2", manifest.eps or 0, low=manifest.low, high=manifest.high)


def spread(count: int, most: int = AGAIN) -> list[int]:
    """Some places of a selection, evenly spread, its ends included."""
    return sorted({int(place) for place in np.linspace(0, count - 1, min(most, count)).round()})


def _again(reading: SmoothReading, model: TorchModel, rows: Rows) -> Iterator[Finding]:
    """CERTIFY, and PREDICT where there was an attack, with the same noise. Counts may differ by copies that rounding turns."""
    smoothed = smoothed_of(model, rows, reading.manifest)
    known = {row.place: row for row in reading.rows}
    for place in spread(len(rows)):
        if place in known:
            yield from _row_again(smoothed, reading, known[place], model, rows)


def _row_again(
    smoothed: Smoothed, reading: SmoothReading, row: SmoothedRow, model: TorchModel, rows: Rows
) -> Iterator[Finding]:
    found = smoothed.certify(point_at(rows, row.place, model), row.row)
    off, room = abs(found.k - row.k), found.close + row.close
    same_top = found.top == row.top
    yield Finding(
        f"noise of row {row.row} drawn again",
        same_top and off <= room,
        f"class {found.top}, {found.k} of {row.n} copies; recorded {row.top}, {row.k}; rounding explains up to {room}",
    )
    attacked = row.attacked
    if attacked is None or attacked.count_first is None or attacked.close is None:
        return
    x_adv = torch.from_numpy(_stored(reading, row.place)[None]).to(model.device, model.dtype)
    said = smoothed.predict(x_adv, row.row)
    off, room = abs(said.count_first - attacked.count_first), said.close + attacked.close
    yield Finding(
        f"attacked point of row {row.row} predicted again",
        said.first == attacked.first and off <= room,
        f"class {said.first}, {said.count_first} copies; recorded {attacked.first}, {attacked.count_first}",
    )


def _failed(reading: SmoothReading, model: TorchModel, rows: Rows) -> Iterator[Finding]:
    """An attack that could not be made cannot be made now either: up to ``ERRORS`` rows."""
    manifest = reading.manifest
    failed = [row for row in reading.rows if row.attacked is not None and row.attacked.outcome == "error"]
    if not failed or manifest.attack is None:
        return
    smoothed = smoothed_of(model, rows, manifest)
    tried = [failed[at] for at in spread(len(failed), ERRORS)]
    off = []
    for row in tried:
        x = point_at(rows, row.place, model)
        found = reached(manifest.attack, smoothed, x, row.label, row.row, _threat(reading))
        if not isinstance(found, Attacked):
            off.append(row.row)
    detail = f"{len(tried) - len(off)} of {len(tried)} cannot be made now either"
    yield Finding("attacks that could not be made", not off, detail + (f"; not rows {off[:5]}" if off else ""))


def _points(reading: SmoothReading, model: TorchModel, rows: Rows) -> Iterator[Finding]:
    """Every attacked point is the recorded one and lies in the attack's threat set."""
    threat, outside, changed, held = _threat(reading), [], [], 0
    for row in reading.rows:
        if row.attacked is None or row.attacked.digest is None:
            continue
        point = _stored(reading, row.place)
        held += 1
        if hashlib.sha256(point.tobytes()).hexdigest() != row.attacked.digest:
            changed.append(row.row)
        x_adv = torch.from_numpy(point[None]).to(model.device, model.dtype)
        if not bool(threat.contains(point_at(rows, row.place, model), x_adv)[0]):
            outside.append(row.row)
    if held:
        bad = f"changed: rows {changed}; outside: rows {outside}"
        yield Finding(
            "attacked points", not changed and not outside, bad if changed or outside else f"{held} lie within eps"
        )


def _stored(reading: SmoothReading, place: int) -> NDArray[Any]:
    return np.array(np.load(reading.folder / POINTS, mmap_mode="r")[place])
