"""Rules of a suite: which share of the rows an attempt gets, and when an attack has had enough; found again from the record."""

from collections.abc import Mapping
from pathlib import Path

import pytest

import small_net
from brinell.attacks.pgd import PGD
from brinell.errors import BadInput
from brinell.evaluation import evaluate, finish, resume, subject_of
from brinell.opening import begin
from brinell.suites.rules import Rule
from brinell.suites.suite import Suite, suite_from
from brinell.verify import verify_files
from small_runs import THREAT, abandon, edit, fates

NAMES = {"name": "t", "version": "1"}


class Scripted:
    """Rows 0 to 9, row ``r`` with margin ``(r - 4)²`` at first; an attempt breaks what the script says."""

    def __init__(self, falls: Mapping[tuple[int, int], int]) -> None:
        self.falls = falls

    def standing(self, stage: int, attempt: int) -> dict[int, float]:
        return {row: float((row - 4) ** 2) for row in range(10)}

    def fell(self, stage: int, attempt: int) -> int:
        return self.falls.get((stage, attempt), 0)


def suite(*rules: Rule, restarts: int = 6) -> Suite:
    attacks = tuple(PGD(steps=n + 1, restarts=restarts) for n in range(len(rules)))
    return Suite("t", "1", "", attacks, rules=rules)


@pytest.mark.parametrize(
    ("share", "rows"),
    [(1.0, list(range(10))), (0.3, [3, 4, 5]), (0.41, [2, 3, 4, 5, 6]), (0.01, [4]), (0.5, [2, 3, 4, 5, 6])],
)
def test_the_nearest_share_rounded_up_in_the_order_of_the_rows(share: float, rows: list[int]) -> None:
    """Margins 16 9 4 1 0 1 4 9 16 25: nearest are 4, then 3 and 5, then 2 and 6."""
    assert next(suite(Rule(share=share)).schedule(Scripted({}))).rows == rows


@pytest.mark.parametrize(("fewest", "count"), [(0, 3), (2, 3), (4, 4), (10, 10), (50, 10)])
def test_a_share_of_few_rows_is_no_fewer_than_that(fewest: int, count: int) -> None:
    assert len(next(suite(Rule(share=0.3, fewest=fewest)).schedule(Scripted({}))).rows) == count


@pytest.mark.parametrize(
    ("falls", "attempts"),
    [
        ({}, 2),  # nothing in two attempts: enough
        ({(0, 0): 3}, 3),
        ({(0, 1): 1}, 4),
        ({(0, 1): 1, (0, 3): 1}, 6),  # and no attempt is left
    ],
)
def test_patience(falls: dict[tuple[int, int], int], attempts: int) -> None:
    made = list(suite(Rule(patience=2), Rule(), restarts=6).schedule(Scripted(falls)))
    assert [one.attempt for one in made if one.stage == 0] == list(range(attempts))
    assert [one.attempt for one in made if one.stage == 1] == list(range(6))


@pytest.mark.parametrize(("fell", "stages"), [({}, [0, 2]), ({(0, 1): 1}, [0, 2]), ({(0, 1): 1, (0, 3): 1}, [0, 1, 2])])
def test_an_attack_that_needs_the_one_before_to_break_something(
    fell: dict[tuple[int, int], int], stages: list[int]
) -> None:
    made = suite(Rule(), Rule(needs=2), Rule()).schedule(Scripted(fell))
    assert sorted({one.stage for one in made}) == stages


def test_a_rule_in_a_file() -> None:
    table = {**NAMES, "attacks": [{"attack": "pgd", "share": 0.2, "fewest": 7, "patience": 3}, {"attack": "fgsm"}]}
    read = suite_from(table, "t")
    assert read.rules == (Rule(share=0.2, fewest=7, patience=3), Rule())
    assert suite_from(read.table(), "again") == read
    assert read.digest() != suite_from({**NAMES, "attacks": [{"attack": "pgd"}, {"attack": "fgsm"}]}, "t").digest()
    assert read.within("l2").rules == read.rules


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("share", 0),
        ("share", 1.1),
        ("share", True),
        ("share", "half"),
        ("patience", -1),
        ("fewest", -1),
        ("fewest", 2.0),
        ("needs", -1),
        ("patience", 1.5),
        ("patience", True),
    ],
)
def test_a_rule_that_is_none(key: str, value: object) -> None:
    with pytest.raises(BadInput, match=key):
        suite_from({**NAMES, "attacks": [{"attack": "pgd", key: value}]}, "t")


def test_cost_counts_the_share() -> None:
    """Six restarts of one step: 12 forwards and 6 backwards; a fifth of it, rounded up."""
    assert suite(Rule(share=0.2)).cost() == (3, 2)


def laddered() -> Suite:
    """Three attacks on small_net: all rows, the nearest half, and a fifth until it breaks nothing."""
    attacks = (PGD(steps=2, step_size=0.3), PGD(steps=4, step_size=0.3, restarts=2), PGD(steps=3, restarts=5))
    return Suite("ladder", "1", "", attacks, rules=(Rule(), Rule(share=0.5), Rule(share=0.2, patience=2)))


def test_a_run_by_rules_is_verified_by_replay(tmp_path: Path) -> None:
    x, y = small_net.rows()
    result = evaluate(small_net.load(), x, y, threat=THREAT, suite=laddered(), batch_size=16, out=tmp_path / "run")
    given = [stage.given for stage in result.figures.stages]
    assert given[0] > given[1] > given[2] > 0
    assert result.figures.complete
    assert all(finding.holds for finding in verify_files(tmp_path / "run"))
    assert "schedule" in {finding.check for finding in verify_files(tmp_path / "run")}


def test_a_resumed_run_gives_the_same_rows_the_same_attempts(tmp_path: Path) -> None:
    x, y = small_net.rows()
    whole = evaluate(small_net.load(), x, y, threat=THREAT, suite=laddered(), batch_size=16, out=tmp_path / "whole")
    for after in range(1, 60, 7):
        folder = tmp_path / f"cut{after}"
        subject = subject_of(
            small_net.load(), x, y, threat=THREAT, suite=laddered(), seed=0, outputs="logits", rows="all", layout="as-is",
            size=16,
        )  # fmt: skip
        run, left = begin(subject, folder), [after]

        def stop(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] <= 0

        reading = finish(run, stop=stop)
        if not reading.figures.complete:
            assert all(finding.holds is not False for finding in verify_files(folder))
        again = resume(folder, small_net.load(), x, y)
        assert fates(again.rows) == fates(whole.rows)
        assert all(finding.holds for finding in verify_files(folder))


def test_a_run_that_was_killed_too(tmp_path: Path) -> None:
    x, y = small_net.rows()
    subject = subject_of(
        small_net.load(), x, y, threat=THREAT, suite=laddered(), seed=0, outputs="logits", rows="all", layout="as-is",
        size=16,
    )  # fmt: skip
    run, left = begin(subject, tmp_path / "run"), [20]

    class Killed(Exception):
        pass

    def observe(moment: object) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise Killed

    with pytest.raises(Killed):
        run.go(observe)
    abandon(run)
    again = resume(tmp_path / "run", small_net.load(), x, y)
    whole = evaluate(small_net.load(), x, y, threat=THREAT, suite=laddered(), batch_size=16, out=tmp_path / "whole")
    assert fates(again.rows) == fates(whole.rows)


def test_an_attempt_given_to_the_wrong_rows_is_found(tmp_path: Path) -> None:
    x, y = small_net.rows()
    result = evaluate(small_net.load(), x, y, threat=THREAT, suite=laddered(), batch_size=16, out=tmp_path / "run")
    row = next(one.row for one in result.reading.attempts if (one.stage, one.outcome) == (1, "stood"))
    edit(tmp_path / "run", "DELETE FROM attempts WHERE stage = 1 AND row = ?", row)
    failed = {finding.check for finding in verify_files(tmp_path / "run") if finding.holds is False}
    assert "schedule" in failed
