"""Of a few rows, drawn by the seed, every point is taken down: what an attempt met, and nothing else."""

import math
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from brinell import Threat
from brinell.checks.traces import traces
from brinell.evaluation import open_run
from brinell.finishing import finish
from brinell.models.protocol import Climbed
from brinell.opening import begin
from brinell.opening import resume as reopened
from brinell.records import TraceRecord
from brinell.result import Reading, read_run
from brinell.suites.suite import suite_from
from brinell.watched import MOST, drawn_rows
from brinell.waypoints import gap_of, waypoints
from noisy_models import carried_out, data, noisy
from small_runs import TABLE, abandon, edit, small_result, small_run, small_subject


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    return open_run(small_run(tmp_path_factory.mktemp("run"))).reading


def test_drawn_rows_follow_from_the_seed_and_from_nothing_else() -> None:
    rows = [7, 3, *range(100, 300)]
    drawn = drawn_rows(rows, 0)
    assert len(drawn) == MOST == len(set(drawn))
    assert drawn == sorted(drawn) == drawn_rows(reversed(rows), 0) != drawn_rows(rows, 1)
    assert drawn_rows([5, 2], 0) == [2, 5]
    assert drawn_rows([], 0) == []


def test_each_row_is_as_likely_to_be_drawn() -> None:
    times = Counter(row for seed in range(400) for row in drawn_rows(range(64), seed))
    # 400 seeds × 16 of 64: 100 times each on average, with a standard deviation of sqrt(400 × 1/4 × 3/4) = 8.7
    assert all(60 < times[row] < 140 for row in range(64))


def test_a_way_has_a_margin_for_each_forward_pass_and_its_least_is_the_attempts(reading: Reading) -> None:
    right = [row.row for row in reading.rows if row.clean_margin is not None and row.clean_margin > 0]
    drawn = set(drawn_rows(right, 0))
    assert {record.row for record in reading.traces} == drawn
    attempts = [attempt for attempt in reading.attempts if attempt.row in drawn]
    assert {attempt.outcome for attempt in attempts} == {"fell", "stood"}
    for attempt in attempts:
        key = (attempt.row, attempt.stage, attempt.attempt, attempt.turn)
        way = [r.margin for r in reading.traces if (r.row, r.stage, r.attempt, r.turn) == key]
        assert len(way) == attempt.forwards
        assert min(margin for margin in way if margin is not None) == attempt.best_margin
        # the last point is the one that broke the row, and none before it had
        assert (way[-1] is not None and way[-1] <= 0) == (attempt.outcome == "fell")
        assert all(margin is None or margin > 0 for margin in way[:-1])


def test_the_first_point_of_fgsm_is_the_clean_input(tmp_path: Path) -> None:
    reading = small_result(tmp_path / "run", suite="fgsm").reading
    clean = {row.row: row.clean_margin for row in reading.rows}
    first = [record for record in reading.traces if record.step == 0]
    assert len(first) == MOST
    for record in first:
        assert record.margin == pytest.approx(clean[record.row], rel=1e-12)


def test_points_outside_the_threat_set_have_no_margin(tmp_path: Path) -> None:
    """FAB steps across the boundary wherever it lies: in a small ball most of its points are outside."""
    table = {"attack": "fab-t", "steps": 12, "targets": 1}
    suite = suite_from({**TABLE, "attacks": [table]}, "tests")
    reading = small_result(tmp_path / "run", suite=suite, threat=Threat("linf", 0.01)).reading
    assert any(record.margin is None for record in reading.traces)
    assert all(record.margin is None or math.isfinite(record.margin) for record in reading.traces)
    assert [finding.holds for finding in traces(reading)] == [True]


def assert_alike(some: Sequence[TraceRecord], others: Sequence[TraceRecord]) -> None:
    for name in ("margin", "loss", "flat", "gap"):
        values, expected = ([getattr(record, name) for record in records] for records in (some, others))
        assert [value is None for value in values] == [value is None for value in expected], name
        known = [[value for value in column if value is not None] for column in (values, expected)]
        assert known[0] == pytest.approx(known[1], rel=1e-9, abs=1e-9), name


def test_batches_do_not_change_a_way(reading: Reading, tmp_path: Path) -> None:
    other = small_result(tmp_path / "run", batch_size=7).reading.traces
    assert [(r.row, r.stage, r.attempt, r.step) for r in other] == [
        (r.row, r.stage, r.attempt, r.step) for r in reading.traces
    ]
    assert_alike(other, reading.traces)


def test_a_run_cut_off_and_resumed_has_the_same_ways(tmp_path: Path) -> None:
    moments = 0

    def cut(moment: object) -> None:
        nonlocal moments
        moments += 1
        if moments == 9:
            raise KeyboardInterrupt

    whole = finish(begin(small_subject(), tmp_path / "whole")).traces
    cut_off = begin(small_subject(), tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        cut_off.go(cut)
    abandon(cut_off)
    before = read_run(tmp_path / "cut").traces
    assert 0 < len(before) < len(whole)
    after = finish(reopened(small_subject(), tmp_path / "cut")).traces
    names = ("row", "turn", "stage", "attempt", "step")
    assert [[getattr(r, name) for name in names] for r in after] == [
        [getattr(r, name) for name in names] for r in whole
    ]
    assert_alike(after, whole)


LINEAR = torch.tensor([[2.0, -1.0, 0.0], [-3.0, 0.0, 0.0]], dtype=torch.float64)
"""Gradients of two rows."""


@pytest.mark.parametrize(("side", "gap"), [(1.0, 0.0), (0.0, 0.5), (-1.0, 1.0), (0.5, 0.25)])
def test_the_gap_is_what_lies_ahead(side: float, gap: float) -> None:
    """Of a linear loss on a ball that no box cuts: nothing at the best corner, all at the worst, half at the centre."""
    ball = Threat("linf", 0.1).around(torch.full_like(LINEAR, 0.5))
    found = gap_of(ball.x + 0.1 * side * LINEAR.sign(), ball, LINEAR)
    assert found.tolist() == pytest.approx([gap, gap])
    # neither the gradient's scale nor where it is 0 matters
    assert gap_of(ball.x + 0.1 * side * LINEAR.sign(), ball, 1e-300 * LINEAR).tolist() == pytest.approx([gap, gap])


def test_the_gap_counts_what_the_box_leaves() -> None:
    """At the face of the box that the gradient points out of nothing lies ahead, wherever the ball goes on."""
    ball = Threat("linf", 0.1).around(torch.tensor([[1.0], [0.95]], dtype=torch.float64))
    up = torch.ones(2, 1, dtype=torch.float64)
    # from 0.95 the ball reaches 0.85 to 1: a third of the way lies ahead
    assert gap_of(ball.x, ball, up).tolist() == pytest.approx([0, 1 / 3])


def test_a_gradient_of_zero_is_flat_and_has_no_gap() -> None:
    ball = Threat("linf", 0.1).around(torch.full_like(LINEAR, 0.5))
    grad = torch.stack([torch.zeros(3, dtype=torch.float64), LINEAR[1]])
    answer = Climbed(torch.zeros(2, 2), torch.tensor([4.0, 5.0], dtype=torch.float64), grad)
    inside, margin = torch.tensor([True, False]), torch.tensor([1.0, 2.0], dtype=torch.float64)
    flat, outside = waypoints(ball.x, ball, inside, margin, answer)
    assert (flat.margin, flat.loss, flat.flat) == (1.0, 4.0, 1.0)
    assert math.isnan(flat.gap)
    assert (outside.loss, outside.flat) == (5.0, pytest.approx(2 / 3))
    assert math.isnan(outside.margin)
    assert math.isnan(outside.gap)
    scores = waypoints(ball.x, ball, inside, margin, None)[0]
    assert [math.isnan(value) for value in scores] == [False, True, True, True]


def test_what_is_climbed_is_taken_down_with_its_slope(reading: Reading) -> None:
    """Square asks for no gradient, and the last point of an attempt with gradients is scored only."""
    attacks = reading.manifest.suite["attacks"]
    for attempt in reading.attempts:
        way = [
            r for r in reading.traces if (r.row, r.stage, r.attempt) == (attempt.row, attempt.stage, attempt.attempt)
        ]
        if not way:
            continue
        sloped = [record.flat is not None for record in way]
        assert sum(sloped) == attempt.backwards
        assert sloped == sorted(sloped, reverse=True)
        if attacks[attempt.stage]["attack"] == "square":
            assert not any(sloped)
        elif attacks[attempt.stage].get("loss") == "margin":
            assert all(r.loss == pytest.approx(-r.margin) for r in way if r.loss is not None and r.margin is not None)
    assert any(record.gap is not None for record in reading.traces)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE traces SET flat = NULL WHERE step = 1",
        "UPDATE traces SET gap = 2 WHERE gap IS NOT NULL",
        "UPDATE traces SET margin = margin - 9 WHERE step = 1",
        "UPDATE traces SET turn = turn + 1 WHERE step = 0",
        "DELETE FROM traces WHERE step = 2",
        "DELETE FROM traces WHERE row = (SELECT min(row) FROM traces)",
        "UPDATE traces SET row = 0",
    ],
)
def test_a_changed_way_is_found(reading: Reading, tmp_path: Path, change: str) -> None:
    folder = Path(shutil.copytree(reading.folder, tmp_path / "run"))
    assert [finding.holds for finding in traces(read_run(folder))] == [True]
    if change.endswith("row = 0"):
        change += (
            " WHERE (row, stage, attempt) = (SELECT row, stage, attempt FROM traces LIMIT 1)"  # 0 is misclassified
        )
    edit(folder, change)
    assert [finding.holds for finding in traces(read_run(folder))] == [False]


def test_nothing_is_taken_down_of_a_randomised_model(tmp_path: Path) -> None:
    run = carried_out(tmp_path / "run", noisy(), data(8))
    assert run.reading.attempts
    assert run.reading.traces == ()
    assert not (tmp_path / "run" / "traces.parquet").exists()
