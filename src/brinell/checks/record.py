"""Whether a run's record is consistent: its files, its sums, its statuses, its figures."""

import json
import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from brinell.budget import Budget
from brinell.certify.steps import STEPS
from brinell.checks.finding import Finding, equal
from brinell.concluding import SEALED
from brinell.exported import as_data
from brinell.frequencies import status_of
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


def statuses(reading: Reading) -> Iterator[Finding]:
    """Each row's status follows from its fields and its attempts."""
    outcomes: dict[int, list[str]] = {row.row: [] for row in reading.rows}
    for attempt in reading.attempts:
        outcomes.setdefault(attempt.row, []).append(attempt.outcome)
    counted = {record.row: record for record in reading.frequencies}
    proved = {record.row: record.outcome for record in reading.certificates}
    cut = reading.manifest.cut is not None or not reading.attacked
    wrong = [
        row.row
        for row in reading.rows
        if not (
            _status_follows(row, outcomes[row.row], proved.get(row.row), cut=cut)
            if reading.randomised is None
            else _majority_follows(row, counted.get(row.row), outcomes[row.row])
        )
    ]
    expected = reading.manifest.data["rows"]
    holds = not wrong and len(reading.rows) == expected
    detail = f"{len(reading.rows)} rows, each with the status that its record gives"
    if not holds:
        detail = f"{len(reading.rows)} rows of {expected}; {len(wrong)} statuses do not follow, rows {wrong[:5]}"
    yield Finding("statuses", holds, detail)


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
    good = f"{len(record.turns)} turns, each with the rows and the attempt that the suite names"
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


def _status_follows(row: RowRecord, outcomes: list[str], certificate: str | None, *, cut: bool) -> bool:
    """``cut``: a budget ended the attacks, or none was asked for, so that rows on which none was run are pending."""
    wrong_at_start = row.clean_margin is not None and row.clean_margin <= 0
    if row.status == "misclassified":
        return wrong_at_start and row.clean_prediction != row.label and not outcomes
    if wrong_at_start:
        return False
    if row.status == "broken":
        found = "fell" in outcomes or (row.stage is None and certificate == "violated")
        return row.confirmed == 1 and found and row.margin is not None and row.margin <= 0
    if row.confirmed or (row.stage is not None and row.status != "pending"):
        return False
    if row.status == "standing":
        if certificate not in (None, "unknown"):
            return False
        return not {"fell", "error"} & set(outcomes) and not (cut and not outcomes)
    if row.status == "error":
        return "error" in outcomes and row.reason is not None
    if row.status == "certified":
        return not {"fell", "error"} & set(outcomes) and certificate == "certified"
    return row.status == "pending" and not (cut and outcomes)


def _majority_follows(row: RowRecord, counted: FrequencyRecord | None, outcomes: list[str]) -> bool:
    """The same for a row of a randomised model, by how often the model was right."""
    if counted is None:
        return row.status == "pending" and row.clean_margin is None and not outcomes
    if counted.draws is None or counted.correct is None:
        return row.status == "pending" or (row.status == "error" and row.reason is not None)
    settled, failed = status_of(counted), "error" in outcomes
    expected = {"error", "pending"} if settled == "standing" and failed else {settled}
    return set(outcomes) <= {"proposed", "error"} and row.confirmed == 1 and row.status in expected


def certificates(reading: Reading) -> Iterator[Finding]:
    """A certificate has a margin above its slack; no row that is settled first was attacked, or that fell asked for."""
    about = reading.manifest.certified
    if about is None and not reading.certificates:
        return
    status = {row.row: row.status for row in reading.rows}
    attacked = {attempt.row for attempt in reading.attempts}
    off = [
        record.row
        for record in reading.certificates
        if about is None
        or (record.row in attacked and record.row in reading.settled_first)
        or (record.first and about.first is None)
        or record.method not in STEPS[: STEPS.index(about.method) + 1]
        or record.row not in status
        or (record.outcome == "certified") != (status[record.row] == "certified")
        or (record.outcome == "certified" and not (record.margin is not None and record.margin > record.slack))
    ]
    proved = sum(record.outcome == "certified" for record in reading.certificates)
    detail = f"{proved} of {len(reading.certificates)} rows that were asked for are certified"
    yield Finding("certificates", not off, detail if not off else f"do not hold together, rows {off[:5]}")


def frequencies(reading: Reading) -> Iterator[Finding]:
    """How often the model was right adds up: no more often than it was asked, as often as the suite says."""
    if reading.randomised is None:
        return
    draws, off = reading.randomised.draws, []
    for record in reading.frequencies:
        pairs = (
            (record.clean_correct, record.clean_draws),
            (record.select_correct, record.select_draws),
            (record.control_correct, record.control_draws),
            (record.correct, record.draws),
        )
        within = all(right is None or asked is None or 0 <= right <= asked for right, asked in pairs)
        whole = record.clean_draws == draws.score and record.draws in (None, draws.score)
        if not (within and whole):
            off.append(record.row)
    known = {row.row for row in reading.rows} >= {record.row for record in reading.frequencies}
    detail = f"{len(reading.frequencies)} rows, {draws.score} draws of each point"
    yield Finding("frequencies", known and not off, detail if not off else f"do not add up, rows {off[:5]}")


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
