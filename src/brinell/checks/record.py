"""Whether a run's record is consistent: its files, its sums, its statuses, its figures."""

import json
import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from brinell.budget import Budget
from brinell.checks.finding import Finding, equal
from brinell.concluding import SEALED
from brinell.exported import as_data
from brinell.manifest import (
    ATTEMPTS_TABLE,
    CERTIFICATES_TABLE,
    FREQUENCIES_TABLE,
    MANIFEST,
    RESULT,
    ROWS_TABLE,
    SPEC,
    TRACES_TABLE,
    Manifest,
    file_digests,
)
from brinell.metrics import counted
from brinell.queries import Cost
from brinell.records import (
    AttemptRecord,
    CertificateRecord,
    FrequencyRecord,
    Record,
    RowRecord,
    TraceRecord,
    as_columns,
)
from brinell.result import Reading
from brinell.rows import rows_digest
from brinell.spec import Spec
from brinell.suites.rules import Brought, brought_by
from brinell.suites.suite import suite_of
from brinell.threat import Threat


def files(folder: Path, manifest: Manifest) -> Iterator[Finding]:
    """The files are those that were sealed when the session ended."""
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


def spec(reading: Reading) -> Iterator[Finding]:
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


def suite(reading: Reading) -> Iterator[Finding]:
    """The suite's digest is that of its attacks, and each attempt made the passes that its attack makes."""
    suite = suite_of(reading.manifest.suite)
    yield equal("suite", suite.digest(), reading.manifest.suite["digest"])
    alone = [suite.cost_of_attempt(stage) for stage in range(len(suite.attacks))]
    off = []
    for attempt in reading.attempts:
        whole, made = alone[attempt.stage], Cost(attempt.forwards, attempt.backwards)
        within = made.forwards <= whole.forwards and made.backwards <= whole.backwards
        if not within or (attempt.outcome in ("stood", "proposed") and made != whole):
            off.append(attempt.row)
    yield Finding(
        "attempts",
        not off,
        f"{len(reading.attempts):,} attempts made the passes of their attacks"
        if not off
        else f"{len(off)} attempts did not make the passes of their attacks, rows {off[:5]}",
    )


def data(reading: Reading) -> Iterator[Finding]:
    """The rows of the ledger, with their labels and places, are those that the manifest names."""
    digest = rows_digest((row.row, row.digest) for row in reading.rows)
    places = [row.place for row in reading.rows] == list(range(len(reading.rows)))
    finding = equal("rows", digest, reading.manifest.data["digest"])
    yield finding if places else Finding("rows", False, "places that are not 0, 1, 2, …")


def passes(reading: Reading) -> Iterator[Finding]:
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


def schedule(reading: Reading) -> Iterator[Finding]:
    """Each turn gave the rows that the suite names the attempt that it names, which is found again from the record."""
    manifest, record = reading.manifest, _Record(reading)
    passes = math.inf if manifest.budget is None else Budget(manifest.budget).for_attacks(len(reading.rows))
    programme = suite_of(manifest.suite).programme(record, seed=manifest.seed, budget=passes)
    off: list[int] = []
    through = manifest.state == "complete" and manifest.cut != "time"
    seen = 0
    for asked in programme.turns() if manifest.threat["eps"] > 0 else ():
        made = record.turns.get(asked.turn, [])
        seen += bool(made)
        given = {attempt.row for attempt in made}
        same = {(attempt.stage, attempt.attempt) for attempt in made} <= {(asked.stage, asked.attempt)}
        if not same or (given != set(asked.rows) and not (given <= set(asked.rows) and not through)):
            off.append(asked.turn)
        if given != set(asked.rows):
            break  # where the run was cut off
    if seen < len(record.turns):
        off += sorted(record.turns)[seen:]
    spent = None if manifest.budget is None else "passes" if passes < math.inf else "time"
    if manifest.cut not in (None, spent):
        off.append(len(record.turns))
    if not off and through and programme.cut != (manifest.cut == "passes"):
        off.append(len(record.turns))
    good = f"{counted(len(record.turns), 'turn')}, each with the rows and the attempt that the suite names"
    bad = f"not what the suite names: turns {', '.join(map(str, off[:3]))}"
    yield Finding("schedule", not off, bad if off else good)


class _Record:
    """What a suite's programme reads of a run, from the records."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.turns: dict[int, list[AttemptRecord]] = {}
        for attempt in reading.attempts:
            self.turns.setdefault(attempt.turn, []).append(attempt)

    def rows(self) -> dict[int, float]:
        never = {record.row for record in self.reading.frequencies if record.clean_correct == 0}
        found = {}
        for row in self.reading.rows:
            wrong_at_once = self.reading.randomised is None and (row.clean_margin or 0.0) <= 0
            out = row.row in never or row.row in self.reading.settled_first
            if row.clean_margin is not None and not out and not wrong_at_once:
                found[row.row] = row.clean_margin
        return found

    def brought(self, turn: int) -> Brought:
        return brought_by(self.turns.get(turn, []))


def result(reading: Reading) -> Iterator[Finding]:
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
    figure = reading.claim.figure
    yield Finding(
        "figures",
        not differs,
        f"follow from the ledger: {figure}" if not differs else f"differ in {', '.join(differs)}",
    )


def tables(reading: Reading) -> Iterator[Finding]:
    """The tables for other tools say what the ledger says."""
    import pyarrow.parquet as pq

    tables: tuple[tuple[str, type[Record], Sequence[Record]], ...] = (
        (ROWS_TABLE, RowRecord, reading.rows),
        (ATTEMPTS_TABLE, AttemptRecord, reading.attempts),
        (TRACES_TABLE, TraceRecord, reading.traces),
        (FREQUENCIES_TABLE, FrequencyRecord, reading.frequencies),
        (CERTIFICATES_TABLE, CertificateRecord, reading.certificates),
    )
    for name, kind, records in tables:
        if not (reading.folder / name).is_file():
            continue  # named among the files, or not written yet
        same = pq.read_table(reading.folder / name).to_pydict() == as_columns(kind, records)
        yield Finding(name, same, "says what the ledger says" if same else "does not say what the ledger says")
