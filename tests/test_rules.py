"""Rules of a suite: which rows an attempt gets, and when an attack is left out; found again from the record."""

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import pytest

import small_net
from brinell.attacks.pgd import PGD
from brinell.attacks.square import Square
from brinell.concluding import conclude
from brinell.errors import BadInput
from brinell.evaluation import Result, evaluate, resume
from brinell.finishing import finish
from brinell.geometry import NORMS, Norm
from brinell.handed import subject_of
from brinell.losses import MARGIN
from brinell.manifest import read_manifest
from brinell.opening import begin
from brinell.plan import plan_of
from brinell.queries import Cost, Given, Scores, Search
from brinell.random import Noise
from brinell.run import Run
from brinell.suites.programme import Assignment
from brinell.suites.rules import Brought, Rule
from brinell.suites.suite import Suite, suite_from
from brinell.threat import Ball
from brinell.verify import verify_files
from small_runs import THREAT, abandon, edit, fates, small_subject

NAMES = {"name": "t", "version": "1"}


class Scripted:
    """Rows 0 to 9, row ``r`` with margin ``(r - 4)²`` at first; a turn brings what the script says."""

    def __init__(self, script: Mapping[int, Brought] | None = None) -> None:
        self.script = script or {}

    def rows(self) -> dict[int, float]:
        return {row: float((row - 4) ** 2) for row in range(10)}

    def brought(self, turn: int) -> Brought:
        return self.script.get(turn, met({}))


def fell(*rows: int) -> Brought:
    return Brought(rows, dict.fromkeys(rows, -1.0), 1)


def met(margins: Mapping[int, float]) -> Brought:
    return Brought((), margins, 1)


def suite(*rules: Rule, restarts: int = 6) -> Suite:
    attacks = tuple(PGD(steps=n + 1, restarts=restarts) for n in range(len(rules)))
    return Suite("t", "1", "", attacks, rules=rules)


def turns(suite: Suite, script: Mapping[int, Brought] | None = None, seed: int = 0) -> list[Assignment]:
    return list(suite.programme(Scripted(script), seed=seed).turns())


# A share of the rows


@pytest.mark.parametrize(
    ("share", "rows"),
    [(1.0, list(range(10))), (0.3, [3, 4, 5]), (0.41, [2, 3, 4, 5, 6]), (0.01, [4]), (0.5, [2, 3, 4, 5, 6])],
)
def test_the_nearest_share_rounded_up_in_the_order_of_the_rows(share: float, rows: list[int]) -> None:
    """Margins 16 9 4 1 0 1 4 9 16 25: nearest are 4, then 3 and 5, then 2 and 6."""
    assert turns(suite(Rule(share=share)))[0].rows == rows


@pytest.mark.parametrize(("fewest", "count"), [(0, 3), (2, 3), (4, 4), (10, 10), (50, 10)])
def test_a_share_of_few_rows_is_no_fewer_than_that(fewest: int, count: int) -> None:
    assert len(turns(suite(Rule(share=0.3, fewest=fewest)))[0].rows) == count


def test_the_nearest_are_those_that_an_attack_came_nearest_to() -> None:
    """Row 9 comes to 0.5, behind row 4 alone; row 3 had met 1 before, which stays the least that it met."""
    given = turns(suite(Rule(share=0.2)), {0: met({9: 0.5, 3: 7.0}), 1: met({2: 0.7, 9: 3.0})})
    assert [turn.rows for turn in given[:3]] == [[3, 4], [4, 9], [4, 9]]
    given = turns(suite(Rule(share=0.4)), {0: met({9: 0.5, 3: 7.0})})
    assert given[1].rows == [3, 4, 5, 9]


def test_rows_that_fell_are_given_no_more_and_the_share_is_of_those_that_stand() -> None:
    """Six of ten are left after the first turn; half of them are three: 3, 2 and 1, with 1, 4 and 9."""
    given = turns(suite(Rule(), Rule(share=0.5), restarts=1), {0: fell(4, 5, 6, 7)})
    assert [turn.rows for turn in given] == [list(range(10)), [1, 2, 3]]


def test_turns_are_counted_over_all_attacks() -> None:
    given = turns(suite(Rule(), Rule(), restarts=2))
    assert [(turn.turn, turn.stage, turn.attempt) for turn in given] == [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]


def test_no_turn_without_rows() -> None:
    assert len(turns(suite(Rule(), Rule(share=0.5), Rule(sample=3)), {0: fell(*range(10))})) == 1


# A sample of the rows


def test_a_sample_is_drawn_by_lot_in_the_order_of_the_rows() -> None:
    """Not the nearest, not always the same; with one seed it is one sample, at every attempt."""
    drawn = {seed: [turn.rows for turn in turns(suite(Rule(sample=3), restarts=2), seed=seed)] for seed in range(20)}
    for first, second in drawn.values():
        assert first == second
        assert list(first) == sorted(set(first))
        assert len(first) == 3
    assert len({tuple(first) for first, _ in drawn.values()}) > 10
    assert drawn[7] == [turn.rows for turn in turns(suite(Rule(sample=3), restarts=2), seed=7)]


def test_each_row_is_as_likely_in_a_sample() -> None:
    """Three of ten, 1,000 times: 300 each, with a standard deviation of √(1000 · 0.3 · 0.7) = 14.5."""
    seen = [0] * 10
    for seed in range(1000):
        for row in turns(suite(Rule(sample=3), restarts=1), seed=seed)[0].rows:
            seen[row] += 1
    assert sum(seen) == 3000
    assert all(240 <= count <= 360 for count in seen)


def test_two_attacks_draw_samples_of_their_own() -> None:
    pairs = [[turn.rows for turn in turns(suite(Rule(sample=5), Rule(sample=5), restarts=1), seed=s)] for s in range(9)]
    assert any(first != second for first, second in pairs)


def test_a_sample_is_drawn_from_the_rows_that_stand() -> None:
    given = turns(suite(Rule(), Rule(sample=3), restarts=1), {0: fell(0, 1, 2, 3, 4, 5)})[1].rows
    assert len(given) == 3
    assert set(given) <= {6, 7, 8, 9}


def test_a_sample_of_more_rows_than_stand_is_all_of_them() -> None:
    assert turns(suite(Rule(sample=11)))[0].rows == list(range(10))


# What the attack before must have done


@pytest.mark.parametrize(
    ("script", "stages"),
    [
        ({}, [0, 2]),
        ({1: fell(7)}, [0, 2]),
        ({1: fell(7), 3: fell(0)}, [0, 1, 2]),
        ({1: fell(7), 6: fell(0)}, [0, 2]),  # turn 6 is the third attack's
        ({0: met({7: 8.0, 0: 15.0})}, [0, 1, 2]),  # from 9 and 16: nearer
        ({0: met({7: 8.92, 0: 15.85})}, [0, 2]),  # by less than a hundredth, which is none
        ({0: met({7: 10.0, 0: 17.0})}, [0, 2]),  # further off
        ({0: met({7: 8.0}), 1: met({7: 7.0})}, [0, 2]),  # one row, twice
        ({0: met({7: 8.0}), 1: fell(7)}, [0, 2]),
        ({0: met({7: 8.0}), 1: fell(0)}, [0, 1, 2]),
    ],
)
def test_an_attack_that_needs_the_one_before_to_gain_on_two_rows(script: dict[int, Brought], stages: list[int]) -> None:
    assert sorted({turn.stage for turn in turns(suite(Rule(), Rule(needs=2), Rule()), script)}) == stages


def test_nearer_than_every_attack_before() -> None:
    """The first attack met 5 on row 7; the second is nearer with 4.9, not with 4.96, and not with what the clean row had."""
    for margin, stages in ((4.9, [0, 1, 2]), (4.96, [0, 1]), (8.0, [0, 1])):
        script = {0: met({7: 5.0}), 1: met({7: margin})}
        given = turns(suite(Rule(), Rule(), Rule(needs=1), restarts=1), script)
        assert [turn.stage for turn in given] == stages


def test_the_first_attack_has_none_before_it() -> None:
    assert turns(suite(Rule(needs=1), restarts=1)) == []


def test_an_attack_left_out_has_gained_nothing() -> None:
    script = {0: fell(7)}
    given = turns(suite(Rule(), Rule(needs=2), Rule(needs=1), restarts=1), script)
    assert [turn.stage for turn in given] == [0]


# In a file


def test_a_rule_in_a_file() -> None:
    attacks = [
        {"attack": "pgd", "share": 0.2, "fewest": 7, "pays": 0.5},
        {"attack": "fgsm"},
        {"attack": "square", "sample": 30},
        {"attack": "square", "queries": 9, "needs": 2, "pays": 1},
    ]
    read = suite_from({**NAMES, "attacks": attacks}, "t")
    assert read.rules == (
        Rule(share=0.2, fewest=7, pays=0.5),
        Rule(),
        Rule(sample=30),
        Rule(needs=2, pays=1.0),
    )
    assert suite_from(read.table(), "again") == read
    assert read.within("l2").rules == read.rules


@pytest.mark.parametrize(("key", "value"), [("share", 0.2), ("fewest", 7), ("sample", 3), ("needs", 1), ("pays", 0.5)])
def test_a_rule_is_part_of_the_digest(key: str, value: float) -> None:
    ruled, plain = ({**NAMES, "attacks": [{"attack": "pgd", **rule}]} for rule in ({key: value}, {}))
    assert suite_from(ruled, "t").digest() != suite_from(plain, "t").digest()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("share", 0),
        ("share", 1.1),
        ("share", True),
        ("share", "half"),
        ("share", float("nan")),
        ("fewest", -1),
        ("fewest", 2.0),
        ("sample", -1),
        ("sample", 1.5),
        ("sample", True),
        ("needs", -1),
        ("needs", "2"),
        ("pays", -0.1),
        ("pays", float("inf")),
        ("pays", float("nan")),
        ("pays", False),
        ("patience", 3),  # of an earlier version
    ],
)
def test_a_rule_that_is_none(key: str, value: object) -> None:
    with pytest.raises(BadInput, match=key):
        suite_from({**NAMES, "attacks": [{"attack": "pgd", key: value}]}, "t")


@pytest.mark.parametrize("beside", [{"share": 0.5}, {"fewest": 3}, {"pays": 0.1}])
def test_a_sample_is_no_share_and_has_no_price(beside: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="sample"):
        suite_from({**NAMES, "attacks": [{"attack": "pgd", "sample": 3, **beside}]}, "t")


@pytest.mark.parametrize("rule", [{"share": 0.5}, {"fewest": 3}, {"sample": 3}, {"needs": 1}, {"pays": 0.1}])
def test_no_rule_beside_draws(rule: dict[str, float]) -> None:
    """Of a randomised model nothing falls, and rows that are not attacked have no candidates."""
    with pytest.raises(BadInput, match="beside draws"):
        suite_from({**NAMES, "draws": {}, "attacks": [{"attack": "apgd", **rule}]}, "t")


# What it costs


def test_cost_counts_the_share() -> None:
    """Six restarts of one step: 12 forwards and 6 backwards; a fifth of it, rounded up."""
    assert suite(Rule(share=0.2)).cost() == (3, 2)


def test_cost_of_a_sample_is_spread_over_a_thousand_rows() -> None:
    """12 forwards and 6 backwards on 300 of them: 3.6 and 1.8."""
    assert suite(Rule(sample=300)).cost() == (4, 2)


@pytest.mark.parametrize(("rows", "cost"), [(100, (12, 6)), (300, (12, 6)), (400, (9, 5)), (0, (0, 0))])
def test_cost_of_a_sample_of_the_rows_that_there_are(rows: int, cost: tuple[int, int]) -> None:
    """Of up to 300 all are in it; of 400 three quarters: 9 forwards and 4.5 backwards a row."""
    assert suite(Rule(sample=300)).cost(rows) == cost


def test_an_attack_that_needs_costs_nothing_where_nothing_falls() -> None:
    costs = suite(Rule(), Rule(needs=1))
    assert costs.cost_at(1) == (0, 0)
    assert costs.cost() == costs.cost_at(0) == (12, 6)


def test_cost_of_what_must_pay() -> None:
    """A slice is 500 rows of 2 forwards and 1 backward, 1,500 passes. Nothing falls, so that after one of them half a row
    is believed of 1,500 passes, 0.333 of 1,000, which is worth another; of 3,000 it is 0.167, which is not.
    """
    assert suite(Rule(share=0.5, pays=0.3)).cost() == (2, 1)
    assert suite(Rule(share=0.5, pays=0.4)).cost() == (1, 1)


def test_a_plan_covers_what_a_run_with_a_sample_takes(tmp_path: Path) -> None:
    """50 queries on each of 40 rows, of 60."""
    sampling = Suite("t", "1", "", (PGD(steps=1), Square(queries=50)), rules=(Rule(), Rule(sample=40)))
    planned = plan_of(replace(small_subject(), suite=sampling)).most
    passes = a_run(tmp_path / "run", sampling).figures.passes
    assert passes.attack_forwards + passes.clean_forwards <= planned.forwards


# Runs


def ruled(**changes: Rule) -> Suite:
    """All rows, the nearest half, a sample, an attack that needs what the sample brought, and two that must pay."""
    attacks = (
        PGD(steps=1, step_size=0.1),
        PGD(steps=1, step_size=0.3, restarts=2),
        Square(queries=5),
        PGD(steps=3),
        PGD(steps=4, restarts=4),
        PGD(steps=4, restarts=4, loss=MARGIN),
    )
    pays = Rule(share=0.1, pays=2.0)
    rules = (Rule(), Rule(share=0.5), Rule(sample=8), changes.get("fourth", Rule(needs=2)), pays, pays)
    return Suite("ruled", "1", "", attacks, rules=rules)


def a_run(folder: Path, suite: Suite) -> Result:
    x, y = small_net.rows()
    return evaluate(small_net.load(), x, y, threat=THREAT, suite=suite, batch_size=16, out=folder)


def a_begun_run(folder: Path) -> Run:
    x, y = small_net.rows()
    subject = subject_of(
        small_net.load(), x, y, threat=THREAT, suite=ruled(), seed=0, outputs="logits", rows="all", layout="as-is",
        size=16,
    )  # fmt: skip
    return begin(subject, folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return a_run(tmp_path_factory.mktemp("whole") / "run", ruled())


@pytest.fixture
def copy(tmp_path: Path, whole: Result) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(whole.folder, tmp_path / "run"))


def given_in(result: Result, stage: int) -> set[int]:
    """The rows of the attack's first attempt."""
    return {one.row for one in result.reading.attempts if (one.stage, one.attempt) == (stage, 0)}


def before(result: Result, stage: int) -> dict[int, float]:
    """The rows that stood when the attack began, each with the least margin that it had met."""
    met = {row.row: row.clean_margin or 0.0 for row in result.rows if row.status != "misclassified"}
    for one in result.reading.attempts:
        if one.stage < stage:
            met[one.row] = min(met[one.row], one.best_margin or 0.0)
            if one.outcome == "fell":
                del met[one.row]
    return met


def nearest(margins: dict[int, float], count: int) -> set[int]:
    return set(sorted(margins, key=margins.__getitem__)[:count])


def test_a_run_by_rules_gives_each_attack_its_rows(whole: Result) -> None:
    assert whole.figures.complete
    assert given_in(whole, 0) == set(before(whole, 0))
    assert given_in(whole, 1) == nearest(before(whole, 1), math.ceil(len(before(whole, 1)) / 2))
    assert len(given_in(whole, 2)) == 8
    assert given_in(whole, 2) <= set(before(whole, 2))
    assert given_in(whole, 2) != nearest(before(whole, 2), 8)
    (sample,) = whole.reading.samples
    assert sample.nearer >= 2
    assert given_in(whole, 3) == set(before(whole, 3))
    first = next(turn for turn in whole.reading.turns if turn.stage == 4)
    assert first.given == math.ceil(len(before(whole, 4)) / 10)
    trading = [turn.stage for turn in whole.reading.turns if turn.turn >= first.turn]
    assert trading[:2] == [4, 5]
    assert trading != sorted(trading)


def test_a_run_by_rules_is_verified_by_replay(whole: Result) -> None:
    findings = {finding.check: finding.holds for finding in verify_files(whole.folder)}
    assert all(findings.values())
    assert "schedule" in findings


def test_a_run_that_leaves_an_attack_out_is_verified_too(tmp_path: Path) -> None:
    """Of a sample of eight rows nobody comes nearer to nine."""
    result = a_run(tmp_path / "run", ruled(fourth=Rule(needs=9)))
    assert [stage.given > 0 for stage in result.figures.stages] == [True, True, True, False, True, True]
    assert all(finding.holds for finding in verify_files(tmp_path / "run"))


@dataclass(frozen=True, kw_only=True)
class Crashing:
    """Raises before it has asked anything."""

    name: ClassVar[str] = "pgd"
    summary: ClassVar[str] = "raises"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    def fit(self, classes: int) -> Self:
        return self

    def attempts(self) -> int:
        return 2

    def cost(self) -> Cost:
        return Cost(2, 2)

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        if given.attempt >= 0:
            raise ZeroDivisionError("nothing to climb")
        yield Scores(given.x)


def test_an_attack_that_crashes_costs_its_rows_not_the_run(tmp_path: Path) -> None:
    """It has made no pass, so that nothing can be expected of 1,000."""
    suite = Suite("t", "1", "", (PGD(steps=1), Crashing()), rules=(Rule(), Rule(share=0.5, pays=1.0)))
    result = a_run(tmp_path / "run", suite)
    assert result.figures.complete
    assert result.figures.status["error"] > 0
    assert set(result.figures.errors) == {"attack crashed: ZeroDivisionError: nothing to climb"}
    assert "schedule" not in {finding.check for finding in verify_files(tmp_path / "run") if finding.holds is False}


def after(count: int) -> Callable[..., bool]:
    left = [count]

    def over(moment: object = None) -> bool:
        left[0] -= 1
        return left[0] <= 0

    return over


def turns_made(result: Result) -> list[tuple[int, ...]]:
    return [(one.turn, one.stage, one.attempt, one.row) for one in result.reading.attempts]


@pytest.mark.usefixtures("without_shape_checks")
def test_a_resumed_run_gives_the_same_rows_the_same_attempts(tmp_path: Path, whole: Result) -> None:
    x, y = small_net.rows()
    interrupted_in = set()
    for count in range(1, 140, 9):
        folder = tmp_path / f"cut{count}"
        reading = finish(a_begun_run(folder), stop=after(count))
        if reading.manifest.state == "interrupted":
            interrupted_in |= {turn.stage for turn in reading.turns[-1:]}
            assert [finding for finding in verify_files(folder) if finding.holds is False] == []
        again = resume(folder, small_net.load(), x, y)
        assert fates(again.rows) == fates(whole.rows)
        assert turns_made(again) == turns_made(whole)
        assert all(finding.holds for finding in verify_files(folder))
    assert {4, 5} < interrupted_in  # also while they take turns


def test_a_run_that_was_killed_too(tmp_path: Path, whole: Result) -> None:
    run, killed = a_begun_run(tmp_path / "run"), after(60)

    class Killed(Exception):
        pass

    def observe(moment: object) -> None:
        if killed():
            raise Killed

    with pytest.raises(Killed):
        run.go(observe)
    abandon(run)
    x, y = small_net.rows()
    again = resume(tmp_path / "run", small_net.load(), x, y)
    assert fates(again.rows) == fates(whole.rows)
    assert turns_made(again) == turns_made(whole)


def failed(folder: Path) -> set[str]:
    """What verification holds against a run whose tables, result and digests were made anew."""
    conclude(folder, read_manifest(folder))
    return {finding.check for finding in verify_files(folder) if finding.holds is False}


@pytest.mark.parametrize("stage", range(6))
def test_an_attempt_given_to_the_wrong_rows_is_found(copy: Path, whole: Result, stage: int) -> None:
    row = next(one.row for one in whole.reading.attempts if (one.stage, one.outcome) == (stage, "stood"))
    edit(copy, "DELETE FROM attempts WHERE stage = ? AND row = ?", stage, row)
    assert "schedule" in failed(copy)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE attempts SET turn = turn + 1",
        "UPDATE attempts SET turn = turn + 1 WHERE turn = (SELECT MAX(turn) FROM attempts)",
        "UPDATE attempts SET turn = 1 - turn WHERE turn < 2",
        "UPDATE attempts SET turn = 0 WHERE stage = 4",
        "UPDATE attempts SET attempt = 4 WHERE stage = 4 AND attempt = 0",
        "DELETE FROM attempts WHERE turn = (SELECT MAX(turn) FROM attempts)",
        "DELETE FROM attempts WHERE stage = 2",
        "INSERT INTO attempts SELECT row, stage, attempt + 4, turn + 1, outcome, best_margin, forwards, backwards, reason "
        "FROM attempts WHERE turn = (SELECT MAX(turn) FROM attempts)",
    ],
)
def test_a_turn_that_was_tampered_with_is_found(copy: Path, statement: str) -> None:
    assert failed(copy) == set()
    edit(copy, statement)
    assert "schedule" in failed(copy)
