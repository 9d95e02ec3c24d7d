"""Checks on the ways of watched rows, between attacks and on what was spent: each raised and cleared on a made-up record."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import small_runs
from brinell.diagnose.diagnosis import Diagnosis
from brinell.records import AttemptRecord, TraceRecord
from brinell.result import Reading, read_run

PGD = {"attack": "pgd", "loss": "margin"}
DLR = {"attack": "pgd", "loss": "dlr"}
SQUARE = {"attack": "square"}
ROWS = 10
"""Rows that stand, each right before any attack by a margin of 1."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    return small_runs.small_result(tmp_path_factory.mktemp("sound") / "run").reading


def record_of(
    sound: Reading,
    attacks: Sequence[dict[str, Any]],
    attempts: Sequence[AttemptRecord] = (),
    traces: Sequence[TraceRecord] = (),
) -> Reading:
    """A record of ten rows that stand after such attempts."""
    return replace(
        sound,
        rows=tuple(replace(sound.rows[1], row=row, status="standing", clean_margin=1.0) for row in range(ROWS)),
        attempts=tuple(attempts),
        traces=tuple(traces),
        manifest=sound.manifest.model_copy(update={"suite": {**sound.manifest.suite, "attacks": list(attacks)}}),
    )


def found(reading: Reading, check: str) -> Diagnosis:
    return next(one for one in reading.diagnoses if one.check == check)


def way(
    row: int,
    losses: Sequence[float],
    *,
    stage: int = 0,
    attempt: int = 0,
    margins: Sequence[float] | None = None,
    flat: float | Sequence[float] = 0.0,
    gap: float | None = 0.0,
) -> list[TraceRecord]:
    """One attempt on a row: by default the margin is the loss's negative, no gradient is zero, and nothing lies ahead."""
    flats = [flat] * len(losses) if isinstance(flat, float) else flat
    met = [-loss for loss in losses] if margins is None else margins
    return [
        TraceRecord(
            row=row, turn=stage, stage=stage, attempt=attempt, step=step, margin=margin, loss=loss, flat=share, gap=gap
        )
        for step, (loss, margin, share) in enumerate(zip(losses, met, flats, strict=True))
    ]


RISES = [-1.0, -0.8, -0.6, -0.5, -0.45, -0.42, -0.41, -0.405, -0.402, -0.4]
"""Most of the way at first, little at the end, and 0.4 is left."""
CUT_OFF = [-1.0, -0.9, -0.8, -0.7, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1]
"""0.2 in the last fifth; carried on for as long again it would go 1.0 further, and 0.1 is left."""
UP_AND_DOWN = [-1.0, *([-0.8, -1.0] * 6)]
"""Falls on 6 of 12 steps, and gains 0.2 over a length of 2.4, a twelfth."""
FALLS = [-1.0, -1.1, -1.2, -1.3, -1.3, -1.3, -1.3, -1.3, -1.3, -1.3]
FLAT_MOSTLY = [0.0] * 4 + [1.0] * 6

WAYS: dict[str, tuple[list[float], dict[str, Any]]] = {
    "flat-gradients": (RISES, {"flat": FLAT_MOSTLY}),
    "no-ascent": (FALLS, {}),
    "wandering": (UP_AND_DOWN, {}),
    "still-climbing": (CUT_OFF, {}),
    "short-of-the-top": (RISES, {"gap": 0.11}),
    "idle-attacks": (RISES, {"flat": FLAT_MOSTLY}),
}
FEWEST = {"short-of-the-top": 6, "idle-attacks": 6}
"""Of ten rows: more than half, for a median and for most attempts; of the other checks more than one, and a tenth."""


@pytest.mark.parametrize("check", WAYS)
def test_what_is_seen_on_enough_rows_is_said(sound: Reading, check: str) -> None:
    losses, kept = WAYS[check]
    fewest = FEWEST.get(check, 2)
    for rows, raised in ((fewest, True), (1, False), (0, False)):
        ways = [way(row, losses, **kept) if row < rows else way(row, RISES) for row in range(ROWS)]
        one = found(record_of(sound, [PGD], traces=[point for own in ways for point in own]), check)
        assert one.raised is raised, one.said


@pytest.mark.parametrize("check", [name for name in WAYS if name not in ("short-of-the-top", "idle-attacks")])
def test_one_attempt_that_is_sound_clears_a_row(sound: Reading, check: str) -> None:
    """Of the attempts on a row all must show it; of those cut off, the one that came nearest."""
    losses, kept = WAYS[check]
    closer = [loss / 100 for loss in RISES] if check == "still-climbing" else RISES
    first = [point for row in range(ROWS) for point in way(row, losses, **kept)]
    again = [point for row in range(ROWS) for point in way(row, losses, attempt=1, **kept)]
    other = [point for row in range(ROWS) for point in way(row, closer, attempt=1)]
    for second, raised in ((again, True), (other, False)):
        traces = sorted([*first, *second], key=lambda point: (point.row, point.stage, point.attempt, point.step))
        assert found(record_of(sound, [PGD], traces=traces), check).raised is raised


def test_the_least_gap_of_a_row_counts(sound: Reading) -> None:
    """At the highest loss, not at the end; and None where no way has one, as in other norms."""

    def with_gaps(first: float | None, second: float | None) -> Diagnosis:
        traces = [
            point
            for row in range(ROWS)
            for point in (*way(row, RISES, gap=first), *way(row, RISES, attempt=1, gap=second))
        ]
        return found(record_of(sound, [PGD], traces=traces), "short-of-the-top")

    assert with_gaps(0.3, 0.3).raised is True
    assert with_gaps(0.3, 0.05).raised is False
    assert with_gaps(None, None).raised is None
    late = [replace(point, gap=0.0) if point.step == 9 else point for point in way(0, [*RISES[:9], -0.9], gap=0.3)]
    traces = [replace(point, row=row) for row in range(ROWS) for point in late]
    assert found(record_of(sound, [PGD], traces=traces), "short-of-the-top").raised is True


@pytest.mark.parametrize("check", WAYS)
def test_without_rows_enough_nothing_is_said(sound: Reading, check: str) -> None:
    """Neither of three rows, nor of attacks that do not climb one loss from start to end."""
    losses, kept = WAYS[check]
    few = record_of(sound, [PGD], traces=[p for row in range(3) for p in way(row, losses, **kept)])
    other = record_of(sound, [SQUARE], traces=[p for row in range(ROWS) for p in way(row, losses, **kept)])
    assert found(other, check).raised is None
    assert found(few, check).raised is (True if check == "idle-attacks" else None)


def test_rows_that_fell_are_not_looked_at(sound: Reading) -> None:
    """Their last point broke them, wherever the way led before."""
    reading = record_of(sound, [PGD], traces=[p for row in range(ROWS) for p in way(row, FALLS)])
    broken = tuple(replace(row, status="broken") for row in reading.rows)
    assert found(reading, "no-ascent").raised is True
    assert found(replace(reading, rows=broken), "no-ascent").raised is None


def attempts_on(rows: Sequence[int], margins: Sequence[float], *, stage: int = 0) -> list[AttemptRecord]:
    """On each of the rows one attempt for each least margin, in turns that go on from those of the stages before."""
    fields = {"outcome": "stood", "forwards": 1, "backwards": 1, "reason": None}
    return [
        AttemptRecord(row=row, stage=stage, attempt=number, turn=100 * stage + number, best_margin=margin, **fields)
        for number, margin in enumerate(margins)
        for row in rows
    ]


EVERY = range(ROWS)


@pytest.mark.parametrize(
    ("nearer", "least", "raised"),
    [(3, 0.5, True), (2, 0.5, False), (0, 0.5, False), (10, 0.56, False), (10, 0.54, True)],
)
def test_square_that_comes_nearer(sound: Reading, nearer: int, least: float, raised: bool) -> None:
    """Gradients met 0.6 of a clean margin of 1: 0.55 and less is nearer. On the other rows it meets as much as they."""
    made = [
        *attempts_on(EVERY, [0.7, 0.6]),
        *attempts_on(EVERY[:nearer], [least], stage=1),
        *attempts_on(EVERY[nearer:], [0.6], stage=1),
    ]
    check = found(record_of(sound, [PGD, SQUARE], made), "black-box-finds-more")
    assert check.raised is raised
    assert f"nearer on {nearer if least < 0.55 else 0}" in check.said


@pytest.mark.parametrize(("other", "raised"), [([0.9, 0.4], True), ([0.9, 0.6], False), ([], None)])
def test_a_loss_that_gets_further(sound: Reading, other: list[float], raised: bool | None) -> None:
    """0.7 by the margin, and 0.4 or 0.6 by DLR, of a clean margin of 1: 30 or 10 %."""
    made = [*attempts_on(EVERY, [0.7, 0.8]), *attempts_on(EVERY, other, stage=1)]
    check = found(record_of(sound, [PGD, DLR], made), "a-loss-gets-further")
    assert check.raised is raised
    assert ("dlr got nearer than margin" in check.said) is (raised is not None)


@pytest.mark.parametrize(
    ("margins", "raised"),
    [([0.8, 0.8, 0.4, 0.4], True), ([0.8, 0.8, 0.41, 0.41], False), ([0.4, 0.8, 0.4, 0.4], False), ([0.8, 0.1], None)],
)
def test_restarts_that_still_gain(sound: Reading, margins: list[float], raised: bool | None) -> None:
    """From 0.8 to 0.4 in the later half: as much as is left."""
    made = attempts_on(EVERY, margins)
    assert found(record_of(sound, [PGD], made), "restarts-still-gain").raised is raised
    assert found(record_of(sound, [SQUARE], made), "restarts-still-gain").raised is None


@pytest.mark.parametrize(("near", "raised"), [(2, True), (1, False), (0, False)])
def test_near_misses(sound: Reading, near: int, raised: bool) -> None:
    """0.04 left of a clean margin of 1."""
    made = [*attempts_on(EVERY[:near], [0.7, 0.04]), *attempts_on(EVERY[near:], [0.06])]
    assert found(record_of(sound, [PGD], made), "near-misses").raised is raised
    assert found(record_of(sound, [PGD]), "near-misses").raised is None


@pytest.mark.parametrize(("nearest", "raised"), [(0.3, False), (0.9, True)])
def test_rows_that_are_passed_over(sound: Reading, nearest: float, raised: bool) -> None:
    """Five rows at 0.5 get one attack alone; the five at 0.3, or 0.9, get two."""
    made = [
        *attempts_on(EVERY[:5], [0.5]),
        *attempts_on(EVERY[5:], [nearest]),
        *attempts_on(EVERY[5:], [nearest], stage=1),
    ]
    assert found(record_of(sound, [PGD, DLR], made), "passed-over").raised is raised
    assert found(record_of(sound, [PGD, DLR], attempts_on(EVERY, [0.5])), "passed-over").raised is None


def test_a_run_says_of_its_own_ways_what_its_files_say(tmp_path: Path) -> None:
    """From the folder, the same checks follow again."""
    reading = small_runs.small_result(tmp_path / "run").reading
    again = read_run(tmp_path / "run")
    assert again.diagnoses == reading.diagnoses
    assert found(again, "no-ascent").raised is False
