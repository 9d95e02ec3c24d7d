"""Attacks that take turns: the next one goes to whichever is expected to break most rows for its passes.

A slice is ten rows, and a row costs 100 passes, so that a slice is 1,000 of them and rows broken in a slice are rows broken
in 1,000 passes. Where an attack has made ``n`` slices, half a row is believed besides: ``0.5 / n`` of 1,000 passes.
"""

from collections.abc import Callable, Collection
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brinell.attacks.pgd import PGD
from brinell.suites.programme import Assignment
from brinell.suites.rules import Brought, Rule
from brinell.suites.suite import Suite

Breaks = Callable[[Assignment], Collection[int]]
PASSES = 100


class Fair:
    """Rows 0, 1, 2, …, each a little further from an error than the one before; a function says what a turn breaks."""

    def __init__(self, rows: int, breaks: Breaks) -> None:
        self.count = rows
        self.breaks = breaks
        self.made: list[Assignment] = []

    def rows(self) -> dict[int, float]:
        return {row: 1.0 + row for row in range(self.count)}

    def brought(self, turn: int) -> Brought:
        asked = self.made[turn]
        return Brought(self.breaks(asked), {}, PASSES * len(asked.rows))


def nothing(asked: Assignment) -> Collection[int]:
    return ()


def paying(pays: float, **changes: float) -> Rule:
    return Rule(**{"share": 0.01, "fewest": 10, "pays": pays, **changes})  # type: ignore[arg-type]


def suite(*rules: Rule, restarts: int = 40) -> Suite:
    attacks = tuple(PGD(steps=n + 1, restarts=restarts) for n in range(len(rules)))
    return Suite("t", "1", "", attacks, rules=rules)


def played(suite: Suite, breaks: Breaks = nothing, *, rows: int = 100) -> list[Assignment]:
    """All turns, in the end."""
    fair = Fair(rows, breaks)
    for turn in suite.programme(fair).turns():
        fair.made.append(turn)
        assert len(fair.made) < 10_000
    return fair.made


def stages(turns: list[Assignment]) -> list[int]:
    return [turn.stage for turn in turns]


def test_the_first_turns_go_to_each_attack_once_in_order() -> None:
    """Whatever the first one breaks; each gets the nearest slice of what stands then."""
    turns = played(suite(*[paying(0.2)] * 4), lambda asked: asked.rows[:5] if asked.stage == 0 else ())
    assert [(turn.stage, turn.attempt) for turn in turns[:4]] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert turns[0].rows == list(range(10))
    assert turns[1].rows == turns[2].rows == list(range(5, 15))


def test_an_attack_that_breaks_goes_deeper() -> None:
    """The second of three breaks five of each slice: 0.8 · 5 is expected of the next one down, 0.5 of the others."""
    turns = played(suite(*[paying(0.2)] * 3), lambda asked: asked.rows[:5] if asked.stage == 1 else ())
    assert stages(turns[:6]) == [0, 1, 2, 1, 1, 1]
    assert {turn.attempt for turn in turns[:6]} == {0}
    assert [turn.rows[0] for turn in turns if turn.stage == 1][:4] == [0, 10, 20, 30]


def test_an_attack_whose_descent_dries_up_begins_again_at_the_nearest_rows() -> None:
    """After slices that broke 5 and 0, deeper is worth 0.8 · 3 / 1.6 = 1.5, and another start 0.4 · 5 = 2."""
    turns = played(suite(paying(1.9)), lambda asked: asked.rows[:5] if (asked.attempt, asked.rows[0]) == (0, 0) else ())
    assert [(turn.attempt, turn.rows[0]) for turn in turns[:3]] == [(0, 0), (0, 10), (1, 5)]


def test_a_descent_that_was_left_is_gone_on_with_where_it_was() -> None:
    """Slices of 8 and 0: another start is worth 3.2, deeper 0.8 · 4.8 / 1.6 = 2.4. It breaks 1: now deeper on the first."""

    def breaks(asked: Assignment) -> Collection[int]:
        return asked.rows[: {(0, 0): 8, (1, 8): 1}.get((asked.attempt, asked.rows[0]), 0)]

    turns = played(suite(paying(1.9)), breaks)
    assert [(turn.attempt, turn.rows[0]) for turn in turns[:4]] == [(0, 0), (0, 10), (1, 8), (0, 20)]


@pytest.mark.parametrize(("pays", "count"), [(0.6, 1), (0.4, 2), (0.2, 3), (0.15, 4), (0.11, 5)])
def test_a_fruitless_attack_ends_when_the_floor_is_reached(pays: float, count: int) -> None:
    """Believed after 1, 2, … slices: 0.5, 0.25, 0.167, 0.125, 0.1."""
    assert len(played(suite(paying(pays)))) == count


def test_fruitless_attacks_end_after_as_many_slices_each_in_turn() -> None:
    assert stages(played(suite(*[paying(0.2)] * 3))) == [0, 1, 2] * 3


def test_each_attack_has_a_floor_of_its_own() -> None:
    turns = stages(played(suite(paying(0.6), paying(0.2), paying(0.11))))
    assert [turns.count(stage) for stage in range(3)] == [1, 3, 5]


def test_what_was_broken_long_ago_counts_less() -> None:
    """The first slice breaks nine, none after: worth after n more is 0.8 · 9 · 0.6ⁿ / (1 + 0.6 + … + 0.6ⁿ), and a belief.

    That is 2.70, 1.32, 0.71, 0.41, … of a thousand; with 0.5 / 2, / 3, / 4, / 5 beside it 2.95, 1.49, 0.84, 0.51.
    """
    turns = played(suite(paying(0.6), restarts=1), lambda asked: asked.rows[:9] if asked.rows[0] == 0 else ())
    assert [turn.rows[0] for turn in turns] == [0, 10, 20, 30, 40]


def test_an_attack_that_breaks_is_gone_on_with_while_the_others_have_ended() -> None:
    """The first breaks three of each slice, all the way down; the second, which breaks nothing, had three slices."""
    whole = suite(paying(0.2), paying(0.2), restarts=1)
    turns = played(whole, lambda asked: asked.rows[:3] if asked.stage == 0 else ())
    assert stages(turns).count(0) == 10
    assert stages(turns).count(1) == 3
    assert {row for turn in turns if turn.stage == 0 for row in turn.rows} == set(range(100))


def test_the_cheaper_of_two_that_break_as_many_goes_first() -> None:
    """The second makes a tenth of the passes."""
    whole = suite(paying(0.2), paying(0.2))
    fair = Fair(100, lambda asked: asked.rows[:2])
    original = fair.brought
    fair.brought = lambda turn: original(turn)._replace(  # type: ignore[method-assign]
        passes=1000 if fair.made[turn].stage == 0 else 100
    )
    for turn in whole.programme(fair).turns():
        fair.made.append(turn)
    assert stages(fair.made[:6]) == [0, 1, 1, 1, 1, 1]


def test_attempts_are_exhausted_where_anything_pays() -> None:
    """Two attacks of three attempts, each on thirty rows: then there is nothing more to do."""
    turns = played(suite(paying(1e-9), paying(1e-9), restarts=3), rows=30)
    given = [(turn.stage, turn.attempt, row) for turn in turns for row in turn.rows]
    assert sorted(given) == [(stage, attempt, row) for stage in (0, 1) for attempt in range(3) for row in range(30)]


def test_the_market_closes_when_no_row_stands() -> None:
    assert stages(played(suite(paying(0.2), paying(0.2)), lambda asked: asked.rows, rows=10)) == [0]


def test_attacks_that_do_not_stand_beside_each_other_do_not_trade() -> None:
    turns = played(suite(paying(0.2), paying(0.2), Rule(), paying(0.2), restarts=3))
    assert stages(turns) == [0, 1] * 3 + [2] * 3 + [3] * 3


def test_an_attack_in_the_market_that_needs_what_was_not_gained_is_left_out() -> None:
    """The second would need three of the first attack, which is in no market; the third needs nothing."""
    whole = suite(Rule(), paying(0.2, needs=3), paying(0.2), restarts=3)
    assert set(stages(played(whole))) == {0, 2}
    gaining = played(whole, lambda asked: asked.rows[:1] if asked.stage == 0 else ())
    assert stages(gaining) == [0] * 3 + [1, 2] * 3


def test_the_same_record_gives_the_same_turns() -> None:
    def breaks(asked: Assignment) -> Collection[int]:
        return [row for row in asked.rows if (7 * row + 3 * asked.stage + 5 * asked.attempt) % 11 == 0]

    first, second = (played(suite(*[paying(0.1)] * 3), breaks) for _ in range(2))
    assert first == second
    assert len(set(stages(first))) == 3


RULES = st.fixed_dictionaries(
    {
        "share": st.sampled_from([0.01, 0.1, 0.3, 1.0]),
        "fewest": st.integers(0, 5),
        "needs": st.sampled_from([0, 0, 1, 3]),
        "pays": st.sampled_from([0.0, 1e-6, 0.5, 5.0]),
    }
)


class Drawn:
    """A record of anything: rows of any margin, turns that break any rows and come as near as they like to the others."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.margins = dict(enumerate(data.draw(st.lists(st.floats(1e-3, 10), max_size=12))))
        self.standing = set(self.margins)
        self.now: Assignment | None = None

    def rows(self) -> dict[int, float]:
        return dict(self.margins)

    def brought(self, turn: int) -> Brought:
        assert self.now is not None
        assert self.now.turn == turn
        rows = self.now.rows
        fell = self.data.draw(st.sets(st.sampled_from(rows), max_size=len(rows) // 2 + 1))
        met = {row: self.data.draw(st.floats(-1, 10)) for row in rows if self.data.draw(st.booleans())}
        self.standing -= fell
        return Brought(fell, met, self.data.draw(st.integers(1, 5000)))


@given(st.data())
def test_whatever_falls_no_row_is_given_twice_to_an_attempt_or_once_it_fell(data: st.DataObject) -> None:
    rules = [Rule(**table) for table in data.draw(st.lists(RULES, min_size=1, max_size=4))]
    whole, record = suite(*rules, restarts=data.draw(st.integers(1, 3))), Drawn(data)
    turns, seen = list[Assignment](), set[tuple[int, int, int]]()
    for turn in whole.programme(record).turns():
        assert turn.turn == len(turns)
        assert turn.attack == whole.attacks[turn.stage]
        assert turn.attempt < turn.attack.attempts()
        assert len(turn.rows) > 0
        assert set(turn.rows) <= record.standing
        assert list(turn.rows) == [row for row in record.margins if row in turn.rows]  # in the order of the rows
        given = {(turn.stage, turn.attempt, row) for row in turn.rows}
        assert not given & seen
        seen |= given
        record.now = turn
        turns.append(turn)
    for stage in set(stages(turns)):
        begun = list(dict.fromkeys(turn.attempt for turn in turns if turn.stage == stage))
        assert all(after == before + 1 for before, after in pairwise(begun))  # one after the other
