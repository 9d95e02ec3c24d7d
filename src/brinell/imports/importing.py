"""How a result that was made elsewhere becomes a run: read, put beside the data, checked, judged, recounted.

A row's points are proposed by an attack (``attacks.given``), so that engine, referee, ledger, figures and ``verify`` do
with them what they do with any other.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from brinell.attacks.given import GivenPoints, digest_of, key_of
from brinell.before.inputs import check_inputs
from brinell.checks.finding import Finding
from brinell.concluding import conclude
from brinell.errors import BadInput
from brinell.imports import answers, examples, space
from brinell.imports.account import Imported
from brinell.imports.evidence import Evidence, asked
from brinell.imports.matching import beside
from brinell.imports.recounts import recounts
from brinell.imports.source import Source
from brinell.opening import begin
from brinell.result import Reading
from brinell.rows import Rows
from brinell.run import Run
from brinell.subject import Subject
from brinell.suites.suite import IMPORTED, Suite
from brinell.threat import Threat

CHECKS = (
    examples.rows_of_the_data,
    examples.order_of_the_rows,
    examples.each_row_once,
    examples.form_of_labels,
    answers.labels_are_true,
    space.scale_of_inputs,
    space.points_finite,
    space.points_in_ball,
    space.points_in_box,
    space.points_as_computed,
    answers.clipped_points,
    answers.success_by_the_model,
    answers.successes_were_right_before,
    space.changed,
    answers.predictions_by_the_model,
)


@dataclass(frozen=True, eq=False)
class Import:
    """An import whose files have been read and checked; nothing has been judged by the engine yet."""

    subject: Subject
    evidence: Evidence

    def begun(self, folder: Path) -> Run:
        """The run's folder, opened; see ``opening.begin``."""
        run = begin(self.subject, folder)
        assert self.evidence.said is not None
        with run.ledger.transaction():
            run.ledger.count_passes(run.recording.session, preflight_forwards=self.evidence.said.forwards)
        return run

    def concluded(self, reading: Reading) -> Reading:
        """The run with what its figures say of theirs; one that was cut off as it is, for it has none."""
        imported = reading.manifest.imported
        if imported is None or not reading.figures.complete:
            return reading
        lines = recounts(self.evidence, reading.figures)
        account = imported.model_copy(
            update={"recounts": lines, "findings": [*imported.findings, _as_they_are(reading, self.evidence)]}
        )
        return conclude(reading.folder, reading.manifest.model_copy(update={"imported": account}))


def prepared(source: Source, subject: Subject, *, apart: bool) -> Import:
    """An import of what is in the source into a run on some rows, by a model, under a threat model.

    The subject says all of this; its suite is replaced by the points. ``apart``: its rows are not those of the source.

    Raises
    ------
    BadInput
        If points and rows do not fit together.
    """
    rows, threat = subject.rows, subject.threat
    check_inputs(rows, threat)
    evidence = beside(source.handed(threat), rows, threat, apart=apart)
    evidence = replace(evidence, said=asked(subject.model, evidence))
    held = _held(evidence, rows)
    attack = GivenPoints(
        tool=source.tool, points=digest_of(held), tries=max(map(len, held.values()), default=1), held=held
    )
    left = sum(key_of(torch.from_numpy(x), int(y)) not in held for x, y in zip(rows.x, rows.y, strict=True))
    account = _account(source, evidence).model_copy(update={"points": attack.points, "unattacked": left})
    note = f"{left} of {len(rows)} rows have no point in the file: they were not attacked, and stand"
    suite = Suite(
        name=f"{IMPORTED}{source.tool}", version=attack.points[:12], summary=attack.summary, attacks=(attack,)
    )
    rows = replace(rows, notes=(*rows.notes, note)) if left else rows
    return Import(replace(subject, suite=suite, rows=rows, imported=account, surrogate=None), evidence)


def unjudged(source: Source, threat: Threat, rows: Rows | None) -> Imported:
    """What can be said of a file without a model: findings, and their numbers by their own word.

    ``rows`` are the data, where they were named apart from the file.

    Raises
    ------
    BadInput
        If there are no clean inputs to compare the points with.
    """
    handed = source.handed(threat)
    if rows is not None:
        return _account(source, beside(handed, rows, threat, apart=True))
    if handed.x is None:
        raise BadInput(
            f"{source.tool} file",
            got="no clean inputs",
            expected="an array x of clean inputs, where no data are named",
            remedy="Save x too, or name the data with --data.",
        )
    places = np.arange(len(handed), dtype=np.int64)
    return _account(source, Evidence(handed, threat, handed.x, handed.labels, places, of=len(handed)))


def _account(source: Source, evidence: Evidence) -> Imported:
    """What is found in the files, and their numbers without a run's."""
    handed = evidence.handed
    unread = [Finding("names in the file", None, f"not read: {', '.join(handed.unread)}")] if handed.unread else []
    return Imported(
        tool=source.tool,
        files=dict(source.files),
        points="",
        rows=len(evidence) + evidence.strangers,
        unattacked=0,
        findings=[*unread, *(check(evidence) for check in CHECKS)],
        recounts=recounts(evidence, None),
    )


def _held(evidence: Evidence, rows: Rows) -> dict[str, list[torch.Tensor]]:
    """The points of each row of the data, in its precision; one that is not finite is none."""
    held: dict[str, list[torch.Tensor]] = {}
    for i in np.flatnonzero(evidence.finite):
        place = evidence.place[i]
        key = key_of(torch.from_numpy(rows.x[place]), int(rows.y[place]))
        held.setdefault(key, []).append(torch.from_numpy(np.array(evidence.handed.x_adv[i], rows.x.dtype)))
    return held


def _as_they_are(reading: Reading, evidence: Evidence) -> Finding:
    """Raised if rows fell to the projection of their point alone, and rounding does not explain it.

    Means that the points lie outside the threat set, where they prove nothing; what the nearest points inside do is not
    what the tool found. Do: attack again with the threat model of the claim.
    """
    places = {row.row: row.place for row in reading.rows}
    fell = [attempt for attempt in reading.attempts if attempt.outcome == "fell"]
    projected = {places[attempt.row] for attempt in fell if attempt.forwards == 2}
    rounded = projected & set(evidence.place[evidence.inside].tolist())
    detail = f"{len(fell) - len(projected)} rows fell to their point as it is, {len(projected)} only to its projection"
    detail += f", {len(rounded)} of them for rounding" if rounded else ""
    return Finding("rows broken by the points themselves", projected == rounded, detail)
