"""Suite files: which attacks in which norm, and how often a randomised model is asked."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brinell.attacks.catalogue import settings
from brinell.cli import main
from brinell.draws import Draws
from brinell.errors import BadInput
from brinell.geometry import NORMS
from brinell.queries import Cost
from brinell.suites.suite import load_suite, suite_from
from noisy_models import DRAWS, carried_out, data, noisy, suite


def table(**changes: Any) -> dict[str, Any]:
    return {"name": "t", "version": "1", "attacks": [{"attack": "apgd", "steps": 3}], **changes}


@pytest.mark.parametrize(
    ("draws", "got"),
    [
        ({"looks": 5}, "looks = 5"),
        ({"attack": 0}, "attack = 0"),
        ({"kept": -1}, "kept = -1"),
        ({"kept": True}, "kept = True"),
        ({"score": 19}, "score = 19"),
        ({"select": 2.0}, "select = 2.0"),
        ({"attack": "20"}, "attack = '20'"),
        ({"attack": 0, "score": 0}, "attack = 0, score = 0"),
        (20, "20"),
        ([], "[]"),
    ],
)
def test_draws_that_are_none(draws: object, got: str) -> None:
    with pytest.raises(BadInput) as error:
        suite_from(table(draws=draws), "file.toml")
    assert error.value.subject == "suite file.toml, draws"
    assert error.value.got.endswith(got)
    assert error.value.expected.startswith("attack, kept, score, select, whole numbers above 0")


def test_draws_that_are_some() -> None:
    assert suite_from(table(), "t").draws is None
    assert suite_from(table(), "t").looks == 1
    assert suite_from(table(draws={}), "t").draws == Draws(attack=20, kept=4, select=100, score=100)
    least = suite_from(table(draws={"attack": 1, "kept": 1, "select": 1, "score": 20}), "t")
    assert (least.draws, least.looks) == (Draws(1, 1, 1, 20), 1)
    assert suite_from(least.table(), "again") == replace(least, summary="")
    assert least.digest() != suite_from(table(), "t").digest()


def test_too_few_draws_in_python(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        carried_out(tmp_path / "run", noisy(), data(3), suite=replace(suite(steps=2), draws=Draws(2, 2, 5, 5)))


def test_the_default_for_randomised_models() -> None:
    """Six climbs of how likely an error is, then one against each of four classes; 20 draws a query, in all norms."""
    whole = load_suite("brinell-rand")
    assert whole.norms() == list(NORMS)
    for norm in NORMS:
        inside = whole.within(norm)
        assert [attack.name for attack in inside.attacks] == ["chance", "pgd"]
        assert inside.attempts() == 6 + 4
        inside.check(norm)


def test_the_suite_that_ships() -> None:
    """APGD on cross-entropy and DLR, 100 steps, 20 draws a query; in L1 the last point of each ball is scored."""
    whole = load_suite("autoattack-rand")
    assert whole.norms() == list(NORMS)
    assert whole.draws == Draws(attack=20, kept=4, select=100, score=100)
    for norm in NORMS:
        inside = whole.within(norm)
        assert [attack.name for attack in inside.attacks] == ["apgd-l1" if norm == "l1" else "apgd"] * 2
        assert [str(settings(attack)["loss"]) for attack in inside.attacks] == ["ce", "dlr"]
        assert inside.cost() == Cost(2 * (103 if norm == "l1" else 101) * 20, 2 * 100 * 20)
        assert inside.attempts() == 2
        assert inside.rules == ()
        inside.check(norm)


def test_norms_of_attacks() -> None:
    """AutoAttack is another programme in L1; the larger one has none."""
    whole = load_suite("autoattack")
    names = {norm: [attack.name for attack in whole.within(norm).attacks] for norm in NORMS}
    assert names["linf"] == names["l2"] == ["apgd", "apgd", "fab-t", "square"]
    assert names["l1"] == ["apgd-l1", "apgd-l1", "fab-t", "square"]
    assert whole.within("linf").digest() == whole.within("l2").digest() != whole.within("l1").digest()
    assert whole.within("l1").within("l1") == whole.within("l1")
    plus = load_suite("autoattack-plus")
    assert plus.norms() == ["linf", "l2"]
    with pytest.raises(BadInput) as error:
        plus.check("l1")
    assert error.value.subject == "suite autoattack-plus"
    assert error.value.got == "the norm l1 for apgd"
    assert error.value.expected == "one of linf, l2"


def test_norms_in_a_file() -> None:
    mixed = suite_from(
        table(
            attacks=[
                {"attack": "apgd", "norms": ["l2", "linf"]},
                {"attack": "apgd-l1", "norms": ["l1"]},
                {"attack": "square"},
            ]
        ),
        "t",
    )
    assert [rule.norms for rule in mixed.rules] == [("linf", "l2"), ("l1",), NORMS]
    assert [attack.name for attack in mixed.within("l1").attacks] == ["apgd-l1", "square"]
    assert [attack.name for attack in mixed.within("l2").attacks] == ["apgd", "square"]
    assert mixed.table()["attacks"][0]["norms"] == ["linf", "l2"]
    assert "norms" not in mixed.table()["attacks"][2]
    assert suite_from(mixed.table(), "again").digest() == mixed.digest()
    assert mixed.digest() != mixed.within("l2").digest()


@pytest.mark.parametrize(
    "norms",
    [
        [],
        ["l3"],
        "l2",
        2,
        [["l2"]],
    ],
)
def test_norms_that_are_none(norms: object) -> None:
    with pytest.raises(BadInput, match="suite t, norms"):
        suite_from(table(attacks=[{"attack": "apgd", "norms": norms}]), "t")


def test_a_norm_that_no_attack_is_meant_for() -> None:
    narrow = suite_from(table(attacks=[{"attack": "apgd", "norms": ["linf"]}]), "t")
    assert narrow.norms() == ["linf"]
    with pytest.raises(BadInput, match="expected one of linf"):
        narrow.check("l2")


def test_the_same_attack_in_two_places_by_norm() -> None:
    """In each norm there is one of them."""
    attacks = [{"attack": "apgd", "norms": ["linf"]}, {"attack": "square"}, {"attack": "apgd", "norms": ["l2"]}]
    suite_from(table(attacks=attacks), "t").check("linf")


def test_list_of_suites_says_what_a_run_costs(capsys: pytest.CaptureFixture[str]) -> None:
    """In each norm what its own attacks cost."""
    whole = load_suite("autoattack")
    assert main(["suites"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("autoattack v")]
    for norm in NORMS:
        passes = whole.within(norm).passes()
        (line,) = (line for line in lines if norm in re.split(r"\s{2,}", line)[1].split(", "))
        assert f"{passes.forwards:,} + {passes.backwards:,}" in line


def test_the_manifest_keeps_the_suite_of_the_norm(tmp_path: Path) -> None:
    recorded = carried_out(tmp_path / "run", noisy(), data(2), suite=suite(steps=2, score=20)).reading.manifest.suite
    inside = suite(steps=2, score=20).within("linf").fit(2)
    assert recorded["digest"] == inside.digest()
    assert recorded["draws"] == {**DRAWS, "score": 20}
    assert [entry["attack"] for entry in recorded["attacks"]] == ["apgd", "apgd"]
    assert all("norms" not in entry for entry in recorded["attacks"])
