"""A budget: how it is written, that a run keeps it, and that what it left undone is said and can be checked."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import brinell.run
import small_net
from brinell.attacks.pgd import PGD
from brinell.budget import Budget
from brinell.cli import main
from brinell.concluding import conclude
from brinell.errors import BadInput
from brinell.evaluation import Result, open_run, resume
from brinell.finishing import finish
from brinell.manifest import read_manifest, write_manifest
from brinell.opening import begin
from brinell.opening import resume as reopened
from brinell.run import Run
from brinell.suites.programme import Assignment
from brinell.suites.rules import Brought, Rule
from brinell.suites.suite import Suite
from brinell.verify import verify_files
from noisy_models import suite as randomised_suite
from small_runs import SMALL, edit, fates, small_options, small_result, small_subject, suite_file
from test_evaluation import Forgiving

CLEAN = 60
"""Passes on the clean rows of ``small_net``, of which 54 are right."""
TRADING = Suite(
    "trading",
    "1",
    "",
    SMALL.attacks,
    rules=(Rule(share=0.2, pays=1.0), Rule(share=0.2, pays=1.0)),
)
SAMPLING = replace(TRADING, rules=(Rule(), Rule(sample=6)))

# How it is written


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("500/row", 30_000),  # of 60 rows
        ("0.5/row", 30),
        ("1500", 1500),
        ("200k", 200_000),
        ("2M", 2_000_000),
        ("2.5M", 2_500_000),
        ("1G", 1_000_000_000),
        (" 2 M ", 2_000_000),
    ],
)
def test_passes(text: str, passes: int) -> None:
    assert Budget(text).passes(60) == passes
    assert Budget(text).seconds is None


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1.5min", 90), ("2h", 7200), ("0.5 s", 0.5)])
def test_time(text: str, seconds: float) -> None:
    assert Budget(text).seconds == seconds
    assert Budget(text).passes(60) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "0", "0.0", "0/row", "0s", "-5", "-5/row", "+5", "many", "M", "/row", ".5M", "5.", "1e3", "1,000"),
        *("inf", "nan", "5 rows", "5/rows", "5/row/row", "5 /", "5m", "5K", "5 minutes", "5MM", "5M 5k", "1.2.3"),
    ],
)
def test_a_text_that_is_none(text: str) -> None:
    with pytest.raises(BadInput) as error:
        Budget(text)
    assert (error.value.subject, error.value.got) == ("budget", repr(text))
    assert all(example in error.value.expected for example in ("500/row", "2M", "30min"))


@pytest.mark.parametrize(
    ("text", "said"),
    [("500/row", "500 passes a row"), ("0.5/row", "0.5 passes a row"), ("2M", "2,000,000 passes"), ("90s", "90 s")],
)
def test_it_is_said_in_words_and_kept_as_written(text: str, said: str) -> None:
    assert str(Budget(text)) == said
    assert Budget(text).text == text


# What is refused


def refusal(folder: Path, **changes: Any) -> BadInput:
    with pytest.raises(BadInput) as error:
        small_result(folder / "run", **changes)
    assert not (folder / "run").exists()
    return error.value


@pytest.mark.parametrize("budget", ["60", "1", "0.06k", "1/row", "0.001/row"])
def test_a_budget_that_the_clean_rows_use_up(tmp_path: Path, budget: str) -> None:
    error = refusal(tmp_path, budget=budget)
    assert error.got == f"{Budget(budget)} for 60 rows"
    assert error.expected == "more than the 60 passes on the clean rows"


def test_a_budget_for_a_randomised_model(tmp_path: Path) -> None:
    assert "fixed by the suite" in refusal(tmp_path, budget="1M", suite=randomised_suite(steps=2)).expected


def test_a_text_in_python_that_is_no_budget(tmp_path: Path) -> None:
    assert refusal(tmp_path, budget="much").got == "'much'"


# That a run keeps it


def failed(folder: Path) -> set[str]:
    return {finding.check for finding in verify_files(folder) if finding.holds is not True}


def made(result: Result) -> int:
    return result.figures.passes.forwards + result.figures.passes.backwards


def attempted(result: Result) -> set[int]:
    return {one.row for one in result.reading.attempts}


class Spending:
    """Twenty rows, of which every turn breaks some, each after some of the passes that an attempt can take."""

    def __init__(self, suite: Suite) -> None:
        self.costs = [sum(suite.cost_of_attempt(stage)) for stage in range(len(suite.attacks))]
        self.made: list[Assignment] = []
        self.spent = 0
        """Passes of attacks and referee."""

    def rows(self) -> dict[int, float]:
        return {row: 1.0 + row for row in range(20)}

    def brought(self, turn: int) -> Brought:
        asked = self.made[turn]
        cost = self.costs[asked.stage]
        passes = {row: cost - (5 * row + 3 * turn) % cost if (row + turn) % 4 == 0 else cost for row in asked.rows}
        fell = [row for row in asked.rows if (row + turn) % 4 == 0]
        self.spent += sum(passes.values()) + len(fell)
        return Brought(fell, {}, sum(passes.values()), len(fell))


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("suite", [SMALL, TRADING, SAMPLING], ids=["in order", "in turns", "on a sample"])
def test_no_budget_whatever_is_overrun(suite: Suite) -> None:
    """From nothing to more than is asked for: from there on nothing is cut."""
    cuts, spent = [], []
    for budget in range(1500):
        record = Spending(suite)
        programme = suite.programme(record, budget=budget)
        for turn in programme.turns():
            record.made.append(turn)
        assert record.spent <= budget
        cuts.append(programme.cut)
        spent.append(record.spent)
    assert spent[0] == spent[11] == 0  # a row takes 12
    assert spent[12] > 0
    first = cuts.index(False)
    assert cuts == [True] * first + [False] * (1500 - first)
    assert len(set(spent[first:])) == 1


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("suite", [SMALL, TRADING], ids=["in order", "in turns"])
def test_passes_stay_within_every_budget(tmp_path: Path, suite: Suite) -> None:
    """From one beyond the clean rows, up to what the whole suite takes."""
    whole = small_result(tmp_path / "whole", suite=suite)
    cuts = []
    for budget in range(CLEAN + 1, made(whole) + 200, 89):
        result = small_result(tmp_path / str(budget), suite=suite, budget=str(budget))
        assert made(result) <= budget
        assert failed(tmp_path / str(budget)) == set()
        assert result.reading.manifest.state == "complete"
        cuts.append(result.reading.manifest.cut)
        status = {row.row: row.status for row in result.rows}
        right = {row for row in status if status[row] != "misclassified"}
        assert len(right) == 54
        assert {row for row in right if status[row] == "pending"} == right - attempted(result)
        if cuts[-1] is None:
            assert fates(result.rows) == fates(whole.rows)
    assert cuts[0] == "passes"
    assert cuts[-1] is None
    assert cuts.index(None) > 5


def test_no_more_is_left_over_than_the_next_row_would_take(tmp_path: Path) -> None:
    """An attempt of PGD takes 11 passes and its referee one; of APGD 17 and one. Of 400, under 12 are left, or all is done."""
    result = small_result(tmp_path / "run", budget="400")
    assert result.reading.manifest.cut == "passes"
    assert 400 - 12 < made(result) <= 400


def test_a_sample_that_a_budget_cuts_is_drawn_by_lot_all_the_same() -> None:
    """Three of twenty are paid for: in 60 samples each row is expected nine times. Row 0 is the nearest."""
    suite = replace(SAMPLING, attacks=SMALL.attacks[:1], rules=(Rule(sample=15),))
    seen = [next(iter(suite.programme(Spending(suite), seed=seed, budget=40).turns())).rows for seed in range(60)]
    assert all(len(rows) == 3 for rows in seen)
    assert sum(0 in rows for rows in seen) < 20


def test_refused_witnesses_are_paid_for_too(tmp_path: Path) -> None:
    """Each attempt falls to its first query, two passes, and is refused by the referee, a third."""
    model = Forgiving().eval()
    suite = Suite("often", "1", "", (PGD(steps=2, restarts=40),))
    result = small_result(tmp_path / "run", model=model, suite=suite, budget="200", observer=model.arm)
    assert result.figures.unconfirmed > 40
    assert made(result) <= 200


@pytest.mark.parametrize(("budget", "rows"), [(72, 1), (83, 1), (84, 2), (60 + 12 * 10, 10)])
def test_the_rows_nearest_to_an_error_come_first(tmp_path: Path, budget: int, rows: int) -> None:
    """Besides the clean rows there is room for so many rows at 12 passes each, should they stand until the last."""
    result = small_result(tmp_path / "run", budget=str(budget))
    first = {one.row for one in result.reading.attempts if one.turn == 0}
    margins = {row.row: row.clean_margin or 0.0 for row in result.rows if row.status != "misclassified"}
    assert first == set(sorted(margins, key=margins.__getitem__)[:rows])


def test_a_budget_of_the_most_that_a_suite_can_take_changes_nothing(tmp_path: Path) -> None:
    """60 clean passes, and 54 rows at 2 · (6 + 5) + 2 · (9 + 8) = 56 and a referee's: 3138; in fact many fall sooner."""
    whole = small_result(tmp_path / "whole")
    ample = small_result(tmp_path / "ample", budget=str(60 + 54 * 57))
    assert ample.reading.manifest.cut is None
    assert fates(ample.rows) == fates(whole.rows)
    assert "budget" not in ample.claim
    assert "at most" in ample.claim


def test_passes_for_each_row_are_of_the_rows_selected(tmp_path: Path) -> None:
    """Ten rows at 10 passes; one of them is wrong at first."""
    result = small_result(tmp_path / "run", rows="0:10", budget="10/row")
    assert 100 - 12 < made(result) <= 100
    assert result.reading.manifest.budget == "10/row"
    assert failed(tmp_path / "run") == set()


def test_nothing_but_clean_rows_at_radius_zero(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run", threat=replace(small_subject().threat, eps=0), budget="61")
    assert (result.figures.complete, result.reading.manifest.cut) == (True, None)


# What is said


def test_the_claim_says_what_the_budget_left_undone(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run", budget="300")
    pending = result.figures.status["pending"]
    assert pending > 0
    assert f"robust accuracy (run out of budget, {pending} rows pending) between " in result.claim
    assert "suite small v1 cut at its budget of 300 |" in result.claim
    assert "at most" not in result.claim
    said = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))
    assert (said["budget"], said["cut"], said["complete"]) == ("300", "passes", False)


def test_a_cut_that_left_no_row_untried_is_said_too(tmp_path: Path) -> None:
    """Every row had its first attempt, so that the figure is known; the suite was not gone through."""
    result = small_result(tmp_path / "run", budget="1000")
    assert result.figures.status["pending"] == 0
    assert "robust accuracy, at most" in result.claim
    assert "suite small v1 cut at its budget of 1000 |" in result.claim


# Whether it was kept, found again from the record


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    small_result(folder / "cut", budget="300")
    small_result(folder / "whole")
    small_result(folder / "ample", budget="1M")
    return folder


def with_manifest(folder: Path, copy: Path, **changes: Any) -> set[str]:
    """What verification says of a run whose manifest was changed, and all digests with it."""
    shutil.copytree(folder, copy)
    write_manifest(copy, read_manifest(copy).model_copy(update=changes))
    conclude(copy, read_manifest(copy))
    return failed(copy)


@pytest.mark.parametrize(
    ("run", "changes"),
    [
        ("cut", {"cut": None}),
        ("cut", {"budget": None}),
        ("cut", {"budget": "312"}),
        ("cut", {"budget": "1M", "cut": None}),
        ("whole", {"cut": "passes"}),
        ("whole", {"budget": "300", "cut": "passes"}),
        ("whole", {"budget": "300"}),
        ("ample", {"cut": "passes"}),
    ],
)
def test_a_budget_that_was_not_kept_is_found(runs: Path, tmp_path: Path, run: str, changes: dict[str, Any]) -> None:
    assert with_manifest(runs / run, tmp_path / "untouched") == set()
    assert "schedule" in with_manifest(runs / run, tmp_path / "run", **changes)


@pytest.mark.parametrize("run", ["cut", "whole", "ample"])
def test_a_cut_by_time_without_a_budget_of_time_is_found(runs: Path, tmp_path: Path, run: str) -> None:
    assert with_manifest(runs / run, tmp_path / "run", cut="time") != set()


def test_a_row_that_nothing_was_tried_on_and_is_said_to_stand_is_found(runs: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(runs / "cut", tmp_path / "run"))
    edit(copy, "UPDATE rows SET status = 'standing' WHERE status = 'pending'")
    conclude(copy, read_manifest(copy))
    assert failed(copy) != set()


# Interrupted under a budget


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("suite", [SMALL, TRADING], ids=["in order", "in turns"])
def test_a_run_interrupted_under_a_budget_ends_as_one_that_was_let_alone(tmp_path: Path, suite: Suite) -> None:
    whole = small_result(tmp_path / "whole", suite=suite, budget="800", batch_size=16)
    assert whole.reading.manifest.cut == "passes"
    x, y = small_net.rows()
    interrupted = 0
    for count in range(1, 60, 5):
        folder = tmp_path / str(count)
        subject = replace(small_subject(), suite=suite, budget=Budget("800"))
        reading = finish(begin(subject, folder), stop=after(count))
        interrupted += reading.manifest.state == "interrupted"
        again = resume(folder, small_net.load(), x, y)
        assert fates(again.rows) == fates(whole.rows)
        assert turns_made(again) == turns_made(whole)
        assert again.reading.manifest.cut == "passes"
        assert failed(folder) == set()
    assert interrupted > 5


def after(count: int) -> Callable[[], bool]:
    left = [count]

    def over() -> bool:
        left[0] -= 1
        return left[0] <= 0

    return over


def turns_made(result: Result) -> list[tuple[int, ...]]:
    return [(one.turn, one.stage, one.attempt, one.row) for one in result.reading.attempts]


def test_an_interrupted_run_is_gone_on_with_under_its_own_budget_alone(tmp_path: Path) -> None:
    subject = replace(small_subject(), budget=Budget("800"))
    finish(begin(subject, tmp_path / "run"), stop=after(3))
    for other in (None, Budget("801")):
        with pytest.raises(BadInput, match="budget of run"):
            reopened(replace(subject, budget=other), tmp_path / "run")


# Time


class Clock:
    """In place of the module ``time``: an hour goes by with every look at it."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.looks = 0

    def perf_counter(self) -> float:
        self.looks += 1
        return time.perf_counter() + 3600 * self.looks


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    slow = Clock()
    monkeypatch.setattr(brinell.run, "time", slow)
    return slow


def test_time_ends_the_attacks(tmp_path: Path, clock: Clock) -> None:
    """The clock is looked at after each batch. The fifth look is past four hours and a half."""
    run = begin(replace(small_subject(), budget=Budget("4.5h")), tmp_path / "run")
    batches = batches_of(run)
    result = Result(finish(run))
    assert len(batches) == 5
    manifest = result.reading.manifest
    assert (manifest.state, manifest.cut, manifest.budget) == ("complete", "time", "4.5h")
    untried = {row.row for row in result.rows if row.status != "misclassified"} - attempted(result)
    assert len(untried) > 0
    assert {row.row for row in result.rows if row.status == "pending"} == untried
    assert f"(run out of budget, {len(untried)} rows pending)" in result.claim
    assert "cut at its budget of 4.5h |" in result.claim
    assert failed(tmp_path / "run") == set()


def test_what_was_broken_when_time_ran_out_is_confirmed(tmp_path: Path, clock: Clock) -> None:
    result = small_result(tmp_path / "run", budget="2.5h")
    assert result.figures.status["broken"] > 0
    assert all(row.confirmed for row in result.rows if row.status == "broken")
    assert all(row.stage is None for row in result.rows if row.status in ("pending", "standing"))


def test_time_enough_changes_nothing(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run", budget="2h")
    assert result.reading.manifest.cut is None
    assert result.figures.complete
    assert fates(result.rows) == fates(small_result(tmp_path / "whole").rows)


def test_time_spent_before_an_interruption_counts(tmp_path: Path, clock: Clock) -> None:
    """Three batches and the end of the first session take four hours. Seven batches later ten and a half are over."""
    subject = replace(small_subject(), budget=Budget("10.5h"))
    finish(begin(subject, tmp_path / "run"), stop=after(3))
    before = read_manifest(tmp_path / "run")
    assert (before.state, before.cut, round(before.seconds / 3600)) == ("interrupted", None, 4)
    clock.looks = 0
    run = reopened(subject, tmp_path / "run")
    batches = batches_of(run)
    finish(run)
    assert read_manifest(tmp_path / "run").cut == "time"
    assert len(batches) == 7


def batches_of(run: Run) -> list[object]:
    """Will hold what each batch from now on brings."""
    seen, record = list[object](), run.recording.record

    def recording(assignment: Any, step: Any) -> None:
        seen.append(step)
        record(assignment, step)

    run.recording.record = recording  # type: ignore[method-assign]
    return seen


# By the command


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, for rows are pending; the run can be verified."""
    options = [*small_options(suite_file(tmp_path)), "--budget", "5/row"]
    assert main(["run", *options, "--out", str(tmp_path / "run"), "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert (said["budget"], said["cut"]) == ("5/row", "passes")
    assert said["cost"]["forwards"] + said["cost"]["backwards"] <= 300
    assert 'budget = "5/row"' in (tmp_path / "run" / "spec.toml").read_text("utf-8")
    assert main(["verify", str(tmp_path / "run")]) == 0
    assert main(["run", str(tmp_path / "run" / "spec.toml"), "--out", str(tmp_path / "again"), "--quiet"]) == 3
    assert fates(open_run(tmp_path / "again").rows) == fates(open_run(tmp_path / "run").rows)


def test_nobody_is_sent_to_resume_a_run_that_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [*small_options(suite_file(tmp_path)), "--budget", "300"]
    main(["run", *options, "--out", str(tmp_path / "run")])
    assert "--resume" not in capsys.readouterr().err


def test_a_share_of_a_pass_is_not_lost_to_rounding() -> None:
    assert Budget("0.29/row").passes(100) == 29


@pytest.mark.usefixtures("without_shape_checks")
def test_a_number_is_refused_with_what_to_write() -> None:
    with pytest.raises(BadInput, match="500/row"):
        Budget(500)  # type: ignore[arg-type]
