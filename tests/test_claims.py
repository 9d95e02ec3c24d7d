"""What claims say and leave out, and what follows from two of them."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

import small_runs
from brinell.claims.account import Account
from brinell.claims.bounds import bounds_of, holds_within, robust_accuracy
from brinell.claims.claim import Claim
from brinell.claims.compare import compare
from brinell.claims.conditions import ThreatModel
from brinell.claims.files import claim_from, read_claim, schema, written
from brinell.claims.groups import grouped
from brinell.claims.questions import not_concluded, questions
from brinell.claims.sources import account_from, account_of
from brinell.cli import main
from brinell.errors import BadInput
from brinell.statistics import mcnemar, paired_difference, unpaired_difference, wilson
from brinell.threat import Threat

BOX = {"low": 0, "high": 1, "goal": "untargeted", "access": "white-box"}


def claim(value: float | None = None, **changes: Any) -> Claim:
    """A claim that states all that matters, on 1,000 rows, but for what is changed; a table updates the one it names."""
    table: dict[str, Any] = {
        "figure": {"count": round((value or 0) * 1000), "of": 1000, "denominator": "all rows"},
        "data": {"name": "CIFAR-10", "rows": "test set 0:1000"},
        "threat": {"norm": "linf", "eps": "8/255", **BOX},
        "suite": {"name": "AutoAttack", "version": "standard"},
        "model": {"name": "a model"},
    }
    for key, change in changes.items():
        table[key] = {**table.get(key, {}), **change} if isinstance(change, dict) and key != "figure" else change
    return claim_from(table, "test")


def account(
    name: str, value: float | None = None, statuses: str = "", dimension: int | None = None, **changes: Any
) -> Account:
    """``statuses``: a letter a row, ``s`` standing, ``b`` broken, ``m`` misclassified, ``c`` certified."""
    names = {"s": "standing", "b": "broken", "m": "misclassified", "c": "certified"}
    rows = {f"row {i}": names[letter] for i, letter in enumerate(statuses)} if statuses else None
    if statuses:
        stands = sum(letter in "sc" for letter in statuses)
        changes["figure"] = {"count": stands, "of": len(statuses), "denominator": "all rows"}
    return Account(name, claim(value, **changes), rows, dimension)


A_48 = account("A", figure={"value": "48 %"}, data={"rows": None}, threat={"low": None, "high": None})
PGD_10 = {"name": "PGD", "version": None, "steps": 10, "restarts": 1}
B_55 = account(
    "B", figure={"value": "55 %"}, data={"rows": None}, threat={"eps": "4/255", "low": None, "high": None}, suite=PGD_10
)
CROWN = {"name": "CROWN", "version": None}


def test_eps_and_suite_differ() -> None:
    """A 48 % at 8/255 under AutoAttack, B 55 % at 4/255 under PGD-10."""
    verdict = compare(A_48, B_55)
    assert (verdict.outcome, verdict.better) == ("cannot conclude", None)
    assert verdict.differs == ("eps", "suite")
    assert "B within Linf 8/255 is at most 55.0 %, which settles nothing: both are upper bounds." in verdict.reasons
    assert "Of A within Linf 4/255 nothing follows from its figure within Linf 8/255." in verdict.reasons
    assert "for eps and suite differ" in verdict.sentence


def test_certified_at_more_than_broken_at_less() -> None:
    """A certified 35 % at 8/255, B 30 % at 4/255: A more robust at both, and between."""
    better = account("A", 0.35, kind="certified", suite=CROWN)
    verdict = compare(account("B", 0.30, threat={"eps": "4/255"}), better)
    assert (verdict.outcome, verdict.better, verdict.assumed) == ("more robust", "A", ())
    assert "within Linf 4/255, within Linf 8/255 and between" in verdict.reasons[-1]


PAIRS: list[tuple[str, Account, Account, str, str | None]] = [
    # name, first, second, outcome, better
    (
        "the certificate is for the smaller ball",
        account("A", 0.35, kind="certified", suite=CROWN, threat={"eps": "4/255"}),
        account("B", 0.30),
        "cannot conclude",
        None,
    ),
    (
        "the bounds overlap",
        account("A", 0.30, kind="certified", suite=CROWN),
        account("B", 0.30),
        "cannot conclude",
        None,
    ),
    (
        "an L2 ball lies inside the Linf ball of its radius: A holds in Linf 0.5, so in L2 0.5, where B falls",
        account("A", 0.40, kind="certified", suite=CROWN, threat={"eps": "0.5"}),
        account("B", 0.39, threat={"norm": "l2", "eps": "0.5"}),
        "more robust",
        "A",
    ),
    (
        "and not the other way",
        account("A", 0.40, kind="certified", suite=CROWN, threat={"norm": "l2", "eps": "0.5"}),
        account("B", 0.39, threat={"eps": "0.5"}),
        "cannot conclude",
        None,
    ),
    (
        "unless it is large enough: a Linf ball of 0.01 over 100 values lies in the L2 ball of 0.1",
        account("A", 0.40, kind="certified", suite=CROWN, threat={"norm": "l2", "eps": "0.1"}, dimension=100),
        account("B", 0.39, threat={"eps": "0.01"}),
        "more robust",
        "A",
    ),
    (
        "clean accuracy bounds from above, at every eps",
        account("A", 0.40, kind="certified", suite=CROWN),
        account("B", 0.90, clean={"count": 390, "of": 1000, "denominator": "all rows"}, threat={"eps": "1/255"}),
        "more robust",
        "A",
    ),
    (
        "success rates over correct rows: 0.8 (1 - 0.6) = 0.32 < 0.35",
        account("A", 0.35, kind="certified", suite=CROWN),
        account(
            "B",
            quantity="attack success rate",
            figure={"count": 480, "of": 800, "denominator": "initially correct rows"},
            clean={"count": 800, "of": 1000, "denominator": "all rows"},
        ),
        "more robust",
        "A",
    ),
    (
        "success-rate rules that differ",
        account(
            "A",
            quantity="attack success rate",
            figure={"count": 480, "of": 800, "denominator": "initially correct rows"},
        ),
        account("B", quantity="attack success rate", figure={"count": 680, "of": 1000, "denominator": "all rows"}),
        "cannot conclude",
        None,
    ),
    (
        "other data",
        account("A", 0.35, kind="certified", suite=CROWN),
        account("B", 0.30, data={"name": "CIFAR-100"}),
        "cannot conclude",
        None,
    ),
    (
        "one box only is stated",
        account("A", 0.35, kind="certified", suite=CROWN, threat={"low": None, "high": None}),
        account("B", 0.30),
        "cannot conclude",
        None,
    ),
    (
        "a targeted attack's witness is an untargeted one, so the targeted figure bounds the untargeted truth",
        account("A", 0.35, kind="certified", suite=CROWN),
        account("B", 0.30, threat={"goal": "targeted"}),
        "more robust",
        "A",
    ),
    (
        "other rows of the same data: 35 % of 1,000 is at least 32.0 %, 33 % at most 36.0 %",
        account("A", 0.35, kind="certified", suite=CROWN, data={"rows": "test set 1000:2000"}),
        account("B", 0.33),
        "cannot conclude",
        None,
    ),
    (
        "and 25 % at most 27.8 %",
        account("A", 0.35, kind="certified", suite=CROWN, data={"rows": "test set 1000:2000"}),
        account("B", 0.25),
        "more robust",
        "A",
    ),
    (
        "same rows by the row: 8 of 8 rows differ one way, p = 2/256",
        account("A", statuses="ssssssssbm"),
        account("B", statuses="bbbbbbbbbm"),
        "stands higher",
        "A",
    ),
    (
        "5 of 5 rows, p = 2/32 > 0.05",
        account("A", statuses="sssssbbbbm"),
        account("B", statuses="bbbbbbbbbm"),
        "cannot conclude",
        None,
    ),
    (
        "measured alike on rows of their own: 40 % and 30 % of 1,000",
        account("A", 0.30),
        account("B", 0.40),
        "stands higher",
        "B",
    ),
    (
        "an incomplete run",
        account("A", 0.30, state="run incomplete, 3 rows pending"),
        account("B", 0.40),
        "cannot conclude",
        None,
    ),
]


@pytest.mark.parametrize(
    ("first", "second", "outcome", "better"), [pair[1:] for pair in PAIRS], ids=[pair[0] for pair in PAIRS]
)
def test_pairs(first: Account, second: Account, outcome: str, better: str | None) -> None:
    """Whichever is named first."""
    for verdict in (compare(first, second), compare(second, first)):
        assert (verdict.outcome, verdict.better) == (outcome, better), verdict


def test_subset_against_the_whole() -> None:
    """On the rows that both have, where A stands on 8 and B on none; a suite whose rows compete is not comparable so."""
    few, many = account("A", statuses="ssssssss"), account("B", statuses="bbbbbbbbssssssss")
    verdict = compare(few, many)
    assert (verdict.outcome, verdict.better) == ("stands higher", "A")
    assert verdict.paired is not None
    assert (verdict.paired.rows, verdict.paired.only_first, verdict.paired.only_second) == (8, 8, 0)
    uneven = {"name": "AutoAttack", "version": "standard", "uneven": True}
    verdict = compare(
        account("A", statuses="ssssssss", suite=uneven), account("B", statuses="bbbbbbbbssssssss", suite=uneven)
    )
    assert (verdict.outcome, verdict.differs) == ("cannot conclude", ("rows",))


def test_bounds_on_a_subset_are_counted_on_it() -> None:
    """A certifies 6 of its 8 rows; B, on these and 8 more, stands on 4 of these 8 and on 12 of all."""
    few = account("A", statuses="ccccccbb", kind="certified", suite=CROWN)
    many = account("B", statuses="ssssbbbb" + "ssssssss", threat={"eps": "4/255"})
    verdict = compare(few, many)
    assert (verdict.outcome, verdict.better) == ("more robust", "A")
    assert "at least 75.0 %" in verdict.reasons[-1]
    assert "at most 50.0 %" in verdict.reasons[-1]


def test_one_suite_holds_the_other() -> None:
    """Whoever stands higher although it met more attacks stands higher; else nothing follows."""
    small, large = {"name": "small", "attacks": ["fgsm"]}, {"name": "large", "attacks": ["fgsm", "pgd"]}
    hard = account("A", statuses="ssssssssbb", suite=large)
    easy = account("B", statuses="bbbbbbbbbb", suite=small)
    verdict = compare(hard, easy)
    assert (verdict.outcome, verdict.better) == ("stands higher", "A")
    assert "large standard has every attack of small standard and 1 more" in verdict.reasons[-1]
    verdict = compare(
        account("A", statuses="bbbbbbbbbb", suite=large), account("B", statuses="ssssssssbb", suite=small)
    )
    assert (verdict.outcome, verdict.differs) == ("cannot conclude", ("suite",))
    assert "Run it with" in verdict.reasons[-1]


RATE = {"quantity": "attack success rate"}
NOISY = {"count": 300, "of": 1000, "denominator": "all rows", "noise": 0.02}
OF_CORRECT = "initially correct rows"
WRONG: list[tuple[str, Account, Account, str, str | None]] = [
    (
        "the higher success rate stands lower",
        account("A", **RATE, figure={"count": 300, "of": 1000, "denominator": "all rows"}),
        account("B", **RATE, figure={"count": 600, "of": 1000, "denominator": "all rows"}),
        "stands higher",
        "A",
    ),
    (
        "over correct rows 450/500 is 45 % of all and 650/950 is 65 %",
        account("A", figure={"count": 450, "of": 500, "denominator": OF_CORRECT}, clean={"count": 500, "of": 1000}),
        account("B", figure={"count": 650, "of": 950, "denominator": OF_CORRECT}, clean={"count": 950, "of": 1000}),
        "stands higher",
        "B",
    ),
    (
        "rows in error may be robust: B is at most 90 %",
        account("A", 0.35, kind="certified", suite=CROWN),
        account("B", 0.30, errors=600),
        "cannot conclude",
        None,
    ),
    ("and measured alike", account("A", 0.60), account("B", 0.30, errors=400), "cannot conclude", None),
    (
        "undecided rows too",
        account("A", figure={"count": 300, "of": 1000, "denominator": "all rows", "undecided": 400}),
        account("B", 0.5),
        "cannot conclude",
        None,
    ),
    (
        "an unfinished run bounds from above: 100 and 150 of 1,000 are at most 25 %",
        account("A", 0.35, kind="certified", suite=CROWN),
        account("B", state="150 pending", figure={"count": 100, "of": 1000, "denominator": "all rows", "undecided": 150}),
        "more robust",
        "A",
    ),
    (
        "two figures of which neither says on what data",
        account("A", 0.3, data={"name": None}),
        account("B", 0.5, data={"name": None}),
        "cannot conclude",
        None,
    ),
    (
        "files of one name with other contents",
        account("A", 0.3, data={"name": "data.npz", "digest": "aa"}),
        account("B", 0.5, data={"name": "data.npz", "digest": "bb"}),
        "cannot conclude",
        None,
    ),
    (
        "other numbers of rows are other rows: 3 of 10 is at most 65 %",
        account("A", 0.35, kind="certified", suite=CROWN, data={"rows": "test set"}),
        account("B", figure={"count": 3, "of": 10, "denominator": "all rows"}, data={"rows": "test set"}),
        "cannot conclude",
        None,
    ),
    (
        "two targets need not be one",
        account("A", 0.35, kind="certified", suite=CROWN, threat={"goal": "targeted"}),
        account("B", 0.30, threat={"goal": "targeted"}),
        "cannot conclude",
        None,
    ),
    (
        "one attack's name without its settings",
        account("A", 0.3, suite={"name": "PGD", "version": None}),
        account("B", 0.5, suite={"name": "PGD", "version": None}),
        "cannot conclude",
        None,
    ),
    ("names that differ in a sign", account("A", 0.3, suite={"name": "AutoAttack+"}), account("B", 0.5), "cannot conclude", None),
    (
        "rows that differ in a sign, under a suite whose rows compete",
        account("A", 0.3, data={"rows": "-1000:"}, suite={"uneven": True}),
        account("B", 0.5, data={"rows": "1000:"}, suite={"uneven": True}),
        "cannot conclude",
        None,
    ),
    (
        "35 % may be 34.6 %, and 34.9 % is more",
        account("A", kind="certified", figure={"value": "35 %", "denominator": "all rows"}, suite=CROWN),
        account("B", figure={"value": "34.9 %", "denominator": "all rows"}),
        "cannot conclude",
        None,
    ),
    (
        "the draws alone may move 30 % by 4 points",
        account("A", 0.32, kind="certified", suite=CROWN),
        account("B", quantity="expected robust accuracy", figure=NOISY),
        "cannot conclude",
        None,
    ),
    (
        "one model cannot be more robust than itself",
        account("A", 0.6, kind="certified", suite=CROWN, model={"fingerprint": "f"}),
        account("B", 0.5, model={"fingerprint": "f"}),
        "cannot conclude",
        None,
    ),
    (
        "a time that ended the attacks buys more on a faster machine",
        account("A", 0.3, suite={"budget": "10min"}),
        account("B", 0.5, suite={"budget": "10min", "cut": True}),
        "cannot conclude",
        None,
    ),
    (
        "same rows, of which it is not known which stand: [37, 43] and [40, 46] % meet",
        account("A", 0.40),
        account("B", 0.43),
        "cannot conclude",
        None,
    ),
    (
        "a success rate over other rows than were correct",
        account("A", 0.35, kind="certified", suite=CROWN),
        account("B", **RATE, figure={"count": 400, "of": 500, "denominator": OF_CORRECT}, clean={"count": 900, "of": 1000}),
        "cannot conclude",
        None,
    ),
    (
        "other input sizes are other data",
        account("A", 0.35, kind="certified", suite=CROWN, threat={"norm": "l2", "eps": "10"}, dimension=100),
        account("B", 0.2, threat={"eps": "0.1"}, dimension=3072),
        "cannot conclude",
        None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "outcome", "better"), [pair[1:] for pair in WRONG], ids=[pair[0] for pair in WRONG]
)
def test_nothing_false_is_concluded(first: Account, second: Account, outcome: str, better: str | None) -> None:
    """Each of these once led to a false conclusion, or could."""
    for verdict in (compare(first, second), compare(second, first)):
        assert (verdict.outcome, verdict.better) == (outcome, better), verdict


def test_rows_in_error_are_held_against_the_verdict() -> None:
    """B's 10 broken rows decide; were they in error, they might stand."""
    statuses = {"s": "standing", "b": "broken", "e": "error"}
    first = account("A", statuses="s" * 10 + "b" * 10)
    for letter, outcome in (("b", "stands higher"), ("e", "cannot conclude")):
        rows = {f"row {i}": statuses[status] for i, status in enumerate(letter * 10 + "b" * 10)}
        second = Account("B", claim(0.0), rows)
        assert compare(first, second).outcome == outcome
        assert compare(second, first).outcome == outcome


def test_suites_whose_rows_compete_do_not_hold_others() -> None:
    """The larger one gave the attacks that they share to a part of the rows only."""
    large = {"name": "large", "attacks": ["fgsm", "pgd"], "uneven": True}
    small = {"name": "small", "attacks": ["pgd"]}
    verdict = compare(
        account("A", statuses="ssssssssbb", suite=large), account("B", statuses="bbbbbbbbbb", suite=small)
    )
    assert verdict.outcome == "cannot conclude"


def test_certified_on_more_rows_is_not_called_robust() -> None:
    verdict = compare(
        account("A", statuses="ccccccccss", kind="certified", suite=CROWN | {"version": "1"}),
        account("B", statuses="ssssssssss", kind="certified", suite=CROWN | {"version": "1"}),
    )
    assert verdict.better == "A"
    assert verdict.sentence == "A is certified on more rows by the same method; which is more robust is open"
    assert claim(0.1, kind="certified", **RATE).line().startswith("certified attack success rate, at most")


def test_clean_rows_bound_a_subset() -> None:
    """B is wrong on all of A's rows before any attack."""
    few = account("A", statuses="cccccccccc", kind="certified", suite=CROWN)
    clean = {"count": 10, "of": 20, "denominator": "all rows"}
    many = account("B", statuses="m" * 10 + "s" * 10, threat={"eps": "1"}, clean=clean)
    assert (compare(few, many).outcome, compare(few, many).better) == ("more robust", "A")


def test_groups_hold_one_set_of_rows_of_one_data_set() -> None:
    accounts = [
        account("a", 0.3),
        account("b", 0.3, data={"name": "ImageNet"}),
        account("c", 0.3, data={"rows": "test set 1000:2000"}),
        account("d", 0.3, data={"name": None}),
    ]
    assert [len(group.accounts) for group in grouped(accounts)] == [1, 1, 1, 1]


def test_unstated_conditions_are_named_in_the_verdict() -> None:
    bare = {"low": None, "high": None, "goal": None}
    better = account("A", figure={"value": 0.35}, kind="certified", suite=CROWN, threat=bare, data={"rows": None})
    verdict = compare(better, account("B", figure={"value": 0.3}, threat=bare, data={"rows": None}))
    assert verdict.outcome == "more robust"
    assert len(verdict.assumed) == 4, verdict.assumed
    assert all(condition in verdict.sentence for condition in verdict.assumed)


def test_figures_without_counts_are_not_ranked() -> None:
    """59.5 % and 53.4 %, both "AutoAttack" on a leaderboard that states no count."""
    one, other = (
        account("A", figure={"value": 0.595, "denominator": "all rows"}),
        account("B", figure={"value": 0.534, "denominator": "all rows"}),
    )
    verdict = compare(one, other)
    assert (verdict.outcome, verdict.unstated) == ("cannot conclude", ("count",))
    need = next(reason for reason in verdict.reasons if "rows each" in reason)
    rows = int(need.split("about ")[1].split(" rows")[0].replace(",", ""))
    low, _ = unpaired_difference(0.595 * rows, rows, 0.534 * rows, rows)
    before, _ = unpaired_difference(0.595 * rows / 1.2, round(rows / 1.2), 0.534 * rows / 1.2, round(rows / 1.2))
    assert before < 0 < low


@pytest.mark.parametrize(
    ("outer", "inner", "dimension", "holds"),
    [
        (("linf", "0.1"), ("linf", "0.1"), None, True),
        (("linf", "8/255"), ("linf", "0.03137254901960784"), None, True),
        (("linf", "0.1"), ("l2", "0.1"), None, True),
        (("linf", "0.1"), ("l1", "0.1"), None, True),
        (("l2", "0.1"), ("l1", "0.1"), None, True),
        (("l2", "0.1"), ("linf", "0.01"), 100, True),
        (("l2", "0.1"), ("linf", "0.0101"), 100, False),
        (("l1", "0.1"), ("linf", "0.001"), 100, True),
        (("l1", "0.1"), ("linf", "0.0011"), 100, False),
        (("l1", "0.1"), ("l2", "0.01"), 100, True),
        (("l1", "0.1"), ("l2", "0.011"), 100, False),
        (("l1", "0.1"), ("l2", "0.0001"), None, False),
        (("l1", "0.1"), ("l2", "0"), None, True),
        (("l0", "3"), ("l2", "0.1"), 100, False),
    ],
)  # fmt: skip
def test_balls_within_balls(outer: tuple[str, str], inner: tuple[str, str], dimension: int | None, holds: bool) -> None:
    threats = [ThreatModel(norm=norm, eps=eps, **BOX) for norm, eps in (outer, inner)]  # type: ignore[arg-type]
    assert holds_within(*threats, dimension) is holds


def test_rates_become_robust_accuracy_where_that_follows() -> None:
    correct = {"count": 480, "of": 800, "denominator": "initially correct rows"}
    clean = {"count": 800, "of": 1000, "denominator": "all rows"}
    figure, _ = robust_accuracy(claim(quantity="attack success rate", figure=correct, clean=clean))
    assert figure is not None
    assert (figure.count, figure.of) == (320, 1000)
    figure, _ = robust_accuracy(claim(quantity="attack success rate", figure={"value": 0.6, "denominator": "all rows"}))
    assert figure is not None
    assert figure.share == pytest.approx(0.4)
    for unclear in ({"value": 0.6}, correct):
        figure, why = robust_accuracy(claim(quantity="attack success rate", figure=unclear))
        assert figure is None
        assert "unstated" in why
    assert [bound.share for bound in bounds_of(claim(0.5, clean=clean))] == [0.5, 0.8]


def test_groups_never_rank_across_conditions() -> None:
    accounts = [account("a", 0.3), account("b", 0.5), account("c", 0.9, threat={"eps": "4/255"}), account("d", 0.4)]
    groups = grouped(accounts)
    assert [[member.name for member in group.accounts] for group in groups] == [["b", "d", "a"], ["c"]]
    assert [verdict.outcome for verdict in groups[0].against_first] == ["stands higher", "stands higher"]


# statistics


def test_paired_test_by_hand() -> None:
    """2 (1 + 5) / 2^5 = 0.375 for 4 against 1; 2 / 2^5 for 5 against 0."""
    assert mcnemar(4, 1) == pytest.approx(0.375)
    assert mcnemar(0, 5) == pytest.approx(1 / 16)
    assert mcnemar(0, 0) == 1


@pytest.mark.parametrize(("b", "c", "n"), [(8, 2, 50), (0, 5, 30), (3, 3, 40), (0, 0, 20), (30, 10, 1000), (12, 0, 12)])
def test_paired_interval_is_where_the_score_test_turns(b: int, c: int, n: int) -> None:
    """At an end, the likelihood maximised under that difference leaves a score of exactly 1.96 (or the end is ±1)."""
    ends = paired_difference(b, c, n)
    assert ends[0] <= (b - c) / n <= ends[1]
    for d in ends:
        if abs(d) == 1:
            continue

        def unlikely(q: float, d: float = d) -> float:
            p12, p21, rest = q + d, q, 1 - 2 * q - d
            terms = ((b, p12), (c, p21), (n - b - c, rest))
            return -sum(count * math.log(max(p, 1e-300)) for count, p in terms if count)

        bounds = (max(0.0, -d) + 1e-12, (1 - d) / 2 - 1e-12)
        q = minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
        score = (b - c - n * d) / math.sqrt(n * (2 * q + d * (1 - d)))
        assert abs(score) == pytest.approx(norm.ppf(0.975), abs=2e-3)


def test_paired_interval_without_any_difference() -> None:
    """b = c = 0: the end is where n d² = z² d (1 - d), so d = z² / (n + z²)."""
    z = norm.ppf(0.975)
    assert paired_difference(0, 0, 20) == pytest.approx((-z * z / (20 + z * z), z * z / (20 + z * z)))


def test_unpaired_interval_by_newcombe() -> None:
    """Newcombe 1998, table II, example (a), 56/70 - 48/80: 0.0524 to 0.3339 by method 10."""
    assert unpaired_difference(56, 70, 48, 80) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert wilson(0, 10)[0] == pytest.approx(0)


# claims in files


def test_a_claim_names_what_it_leaves_out() -> None:
    bare = claim_from({"figure": {"value": "48 %"}}, "test")
    assert bare.line().startswith("robust accuracy, at most 48.0 % | data unstated")
    assert bare.line().endswith(f"underspecified: {', '.join(bare.missing())}")
    assert {"count", "denominator", "eps", "norm", "suite", "seeds", "access", "bounds of the inputs"} <= set(
        bare.missing()
    )
    answered = [question.answer for question in questions(bare)]
    assert answered == [None] * len(answered)


def test_a_run_s_claim_leaves_out_nothing_that_a_caption_needs(tmp_path: Path) -> None:
    result = small_runs.small_result(tmp_path / "run")
    said = account_of(result.reading, "run").claim
    assert said.missing() == []
    assert "underspecified" not in result.claim
    written_down = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))["claim_fields"]
    assert claim_from(written_down, "result.json") == said


def test_claims_read_back_as_they_were_written(tmp_path: Path) -> None:
    whole = claim(0.5, clean={"count": 800, "of": 1000, "denominator": "all rows"}, made_by="a paper")
    (tmp_path / "claim.toml").write_text(written(whole), "utf-8")
    assert read_claim(tmp_path / "claim.toml") == whole
    (tmp_path / "claim.json").write_text(whole.model_dump_json(), "utf-8")
    assert read_claim(tmp_path / "claim.json") == whole


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({"figure": {"value": 48}}, "'48 %'"),
        ({"figure": {"count": 5, "of": 4}}, "5 of 4 is more than all"),
        ({"figure": {"count": 480, "of": 1000, "value": 0.5}}, "0.5 is not 480/1000"),
        ({"figure": {"value": 0.5}, "threat": {"eps": "eight"}}, "is not a radius"),
        ({"figure": {"value": 0.5}, "eps": "8/255"}, "eps"),
        ({"figure": {"value": 0.5}, "threat": {"eps": True}}, "is not a radius"),
        ({"figure": {"value": True}}, "no shares"),
        ({"figure": {"value": float("nan")}}, "finite"),
        ({"figure": {"count": 1200, "of": 1000, "undecided": -300}}, "greater than or equal to 0"),
        ({"figure": {"value": 0.5, "of": 10**400}}, "figure.of"),
        ({"figure": {"value": 0.5}, "threat": {"low": 1, "high": 0}}, "is empty"),
        ({"figure": {"value": 0.5}, "suite": {"budget": "much"}}, "is no budget"),
        ({}, "figure"),
    ],
)
def test_bad_claims_are_refused(table: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadInput) as refused:
        claim_from(table, "test")
    assert fault in refused.value.got


def test_schema_has_every_field_of_a_claim() -> None:
    assert set(schema()["properties"]) == set(Claim.model_fields)
    assert schema()["additionalProperties"] is False


def test_weak_attacks_and_odd_scales_are_named() -> None:
    weak = claim(0.5, suite=PGD_10, threat={"eps": "8"}, model={"training_attack": "PGD-10, Linf 8/255"})
    told = " ".join(not_concluded(weak))
    assert "10 steps with 1 restart is short" in told
    assert "it was trained with PGD-10" in told
    assert "8/255" in told
    assert "is short" not in " ".join(not_concluded(claim(0.5)))
    other = not_concluded(claim(0.5, errors=600, suite={"name": "FGSM", "version": None}, threat={"goal": "targeted"}))
    for part in ("600 rows in error", "1 step with 1 restart is short", "only chosen ones"):
        assert part in " ".join(other)
    assert "next to nothing" in " ".join(not_concluded(claim(0.5, threat={"low": 0, "high": 255})))


def test_flipped_rows_are_counted_where_they_can_be() -> None:
    """800 correct, 500 stand, 20 in error: 280 flipped."""
    clean = {"count": 800, "of": 1000, "denominator": "all rows"}
    answers = {question.asks: question.answer for question in questions(claim(0.5, clean=clean, errors=20))}
    assert answers["How many rows did the attack flip?"] == "280"
    assert answers["Is eps absolute, or relative to the input?"] is None


# the leaderboard


@pytest.fixture
def leaderboard(tmp_path: Path) -> Path:
    entries = {
        "cifar10/Linf/Sound2020": {"autoattack_acc": "50.10", "unreliable": False, "reported": "50.2"},
        "cifar10/Linf/Flagged2021": {
            "autoattack_acc": "60.00",
            "external": "57.5",
            "unreliable": True,
            "reported": "70",
        },
        "cifar10/corruptions/Other2020": {"corruptions_acc": "80"},
    }
    for name, info in entries.items():
        path = tmp_path / "model_info" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        common = {
            "dataset": "cifar10",
            "eps": "8/255",
            "clean_acc": "85.00",
            "architecture": "ResNet-18",
            "additional_data": False,
        }
        path.write_text(json.dumps({**common, **info}), "utf-8")
    return tmp_path


def test_entries_of_the_leaderboard_are_claims(leaderboard: Path) -> None:
    sound = account_from("robustbench:cifar10/Linf/Sound2020", leaderboard).claim
    assert (sound.figure.value, sound.threat.eps, sound.threat.norm, sound.unsaid) == (0.501, "8/255", "linf", ())
    assert sound.clean is not None
    assert sound.clean.share == 0.85
    assert {"count", "rows", "seeds", "cost"} <= set(sound.missing())
    flagged = account_from("robustbench:cifar10/Linf/Flagged2021", leaderboard).claim
    assert (flagged.figure.value, flagged.suite.name) == (0.575, "best known attack")
    assert len(flagged.unsaid) == 3
    verdict = compare(
        *(account_from(f"robustbench:cifar10/Linf/{name}", leaderboard) for name in ("Sound2020", "Flagged2021"))
    )
    assert verdict.differs == ("suite",)


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("robustbench:cifar10/Linf/Sound2021", "Did you mean cifar10/Linf/Sound2020"),
        ("robustbench:../../etc/passwd", "There are 3 entries"),
        ("robustbench:cifar10/corruptions/Other2020", "no bound"),
    ],
)
def test_what_is_no_entry_is_refused(leaderboard: Path, source: str, remedy: str) -> None:
    with pytest.raises(BadInput) as refused:
        account_from(source, leaderboard)
    assert remedy in refused.value.remedy


def test_without_a_folder_of_the_leaderboard(monkeypatch: pytest.MonkeyPatch, leaderboard: Path) -> None:
    monkeypatch.delenv("BRINELL_ROBUSTBENCH", raising=False)
    with pytest.raises(BadInput, match="--robustbench"):
        account_from("robustbench:cifar10/Linf/Sound2020", None)
    monkeypatch.setenv("BRINELL_ROBUSTBENCH", str(leaderboard / "model_info"))
    assert account_from("robustbench:cifar10/Linf/Sound2020", None).claim.model.name == "Sound2020 (ResNet-18)"


# for other people's tables


def test_a_run_as_an_entry_reads_back_as_its_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under a suite that is not AutoAttack the figure stands as ``external``: AutoAttack's is not known."""
    result = small_runs.small_result(tmp_path / "run", threat=Threat("linf", "8/255"))
    assert main(["report", str(tmp_path / "run"), "--format", "robustbench"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["eps"], said["autoattack_acc"]) == ("8/255", None)
    assert float(said["external"]) == pytest.approx(100 * result.robust_accuracy.value, abs=5e-3)
    assert float(said["clean_acc"]) == pytest.approx(100 * result.clean_accuracy.value, abs=5e-3)
    assert said["footnote"] == result.claim


def test_a_run_as_a_model_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = small_runs.small_result(tmp_path / "run")
    assert main(["report", str(tmp_path / "run"), "--format", "model-card"]) == 0
    card = capsys.readouterr().out
    assert card.startswith("---\nmodel-index:\n- name: ")
    assert f"      value: {100 * result.robust_accuracy.value:.2f}\n      name: {json.dumps(result.claim)}" in card


# the command


def test_compare_runs_row_by_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same model twice cannot be told apart; the paired counts are those of the rows."""
    one = small_runs.small_result(tmp_path / "one")
    other = small_runs.small_result(tmp_path / "other", threat=Threat("linf", 0.03))
    assert main(["compare", str(tmp_path / "one"), str(tmp_path / "other"), "--json"]) == 6
    said = json.loads(capsys.readouterr().out)
    assert said["differs"] == ["eps"]
    again = small_runs.small_result(tmp_path / "again", seed=1)
    assert main(["compare", str(tmp_path / "one"), str(tmp_path / "again"), "--json"]) == 6
    paired = json.loads(capsys.readouterr().out)["paired"]
    stands = [{row.row for row in result.rows if row.status == "standing"} for result in (one, again)]
    assert (paired["rows"], paired["only_first"]) == (60, len(stands[0] - stands[1]))
    assert main(["compare", *(str(tmp_path / name) for name in ("one", "other", "again"))]) == 6
    told = capsys.readouterr().out
    assert "2 groups" in told
    assert "eps 0.03" in told
    assert other.figures.rows == 60


def test_check_asks_and_says_whether_all_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "claim.toml").write_text(written(claim(0.5)), "utf-8")
    assert main(["check", str(tmp_path / "claim.toml")]) == 6
    told = capsys.readouterr().out
    assert "questions are open" in told
    assert "What cannot be concluded" in told
    assert main(["check", str(tmp_path / "claim.toml"), "--json"]) == 6
    said = json.loads(capsys.readouterr().out)
    assert {question["answer"] for question in said["questions"] if question["asks"] == "Which norm?"} == {"linf"}


@pytest.mark.parametrize(
    "arguments", [["compare"], ["compare", "a.toml"], ["compare", "a", "a"], ["check"], ["check", "no/such/thing"]]
)
def test_bad_sources(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "remedy" in capsys.readouterr().err
