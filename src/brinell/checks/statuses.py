"""Whether each row's status follows from its record, and certificates and frequencies hold together."""

import math
from collections.abc import Iterator

from brinell.certify.slack import TOLERANCE
from brinell.certify.steps import STEPS
from brinell.checks.finding import Finding
from brinell.frequencies import status_of
from brinell.records import CertificateRecord, FrequencyRecord, RowRecord
from brinell.result import Reading


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


def _status_follows(row: RowRecord, outcomes: list[str], certificate: str | None, *, cut: bool) -> bool:
    """``cut``: a budget ended the attacks, or none was asked for, so that rows on which none was run are pending."""
    scored = row.clean_margin is not None and row.clean_prediction is not None
    if not scored:
        return row.status == "pending" and row.clean_margin is row.clean_prediction is None and not outcomes
    wrong_at_start = row.clean_margin is not None and row.clean_margin <= 0
    if row.status == "misclassified":
        return wrong_at_start and row.clean_prediction != row.label and not outcomes
    if wrong_at_start or row.clean_prediction != row.label:
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
    """A certificate has a margin above its slack, by a step that was allowed; no row that it settled first was attacked."""
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
        or not _step_allowed(record)
        or not TOLERANCE <= record.slack < math.inf
        or record.row not in status
        or (record.outcome == "certified") != (status[record.row] == "certified")
        or (
            record.outcome == "certified"
            and not (record.margin is not None and record.slack < record.margin < math.inf)
        )
    ]
    proved = sum(record.outcome == "certified" for record in reading.certificates)
    detail = f"{proved} of {len(reading.certificates)} rows that were asked for are certified"
    yield Finding("certificates", not off, detail if not off else f"do not hold together, rows {off[:5]}")


def _step_allowed(record: CertificateRecord) -> bool:
    """What settled the row is no dearer than what was allowed; a point in the middle of the set may break it before any step."""
    if record.outcome == "unknown":
        return record.step is None
    if record.outcome == "violated" and record.step == "none":
        return True
    return record.step in STEPS[: STEPS.index(record.method) + 1]


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
