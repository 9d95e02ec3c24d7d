"""Of a few rows, drawn by the seed, the margin at every point is kept: what an attempt met, and nothing else."""

import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from brinell import Threat
from brinell.checks.traces import traces
from brinell.evaluation import finish, open_run
from brinell.opening import begin
from brinell.opening import resume as reopened
from brinell.result import Reading, read_run
from brinell.suites.suite import suite_from
from brinell.watched import MOST, drawn_rows
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


def test_batches_do_not_change_a_way(reading: Reading, tmp_path: Path) -> None:
    other = small_result(tmp_path / "run", batch_size=7).reading.traces
    assert [(r.row, r.stage, r.attempt, r.step) for r in other] == [
        (r.row, r.stage, r.attempt, r.step) for r in reading.traces
    ]
    assert [r.margin for r in other] == pytest.approx([r.margin for r in reading.traces], rel=1e-9)


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
    assert [replace(record, margin=None) for record in after] == [replace(record, margin=None) for record in whole]
    assert [record.margin for record in after] == pytest.approx([record.margin for record in whole], rel=1e-9)


@pytest.mark.parametrize(
    "change",
    [
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
