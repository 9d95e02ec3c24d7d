"""VNN-LIB files that ask for something else than they seem to, or for nothing."""

from pathlib import Path

import pytest

from brinell.certify import vnnlib
from brinell.certify.decide import decide
from brinell.errors import BadInput
from test_certify_files import BOX, difference


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (BOX + "(assert (<= Y_0 1_0))", "1_0 where a number"),
        (BOX + "(assert (<= Y_0 \N{ARABIC-INDIC DIGIT ONE}))", "where a number"),
        (BOX + "(assert (<= Y_0 infinity))", "infinity where a number"),
        (BOX + "(assert (<= Y_0 0)) (assert (<= X_00 0.7))", "X_00 where a number"),
        (BOX + "(assert (<= (+ Y_0 (* 3 Y_00)) 0))", "Y_00 where a number"),
        (BOX + "(assert (<= X_\N{ARABIC-INDIC DIGIT ONE} 0))", "where a number"),
        (BOX + "(declare-const Y_02 Real) (assert (<= Y_0 0))", r"declare-const Y_02 Real"),
        (BOX + "(assert (<= Y_5 0))", "Y_5, which is not declared"),
        (BOX + "(assert (<= (* 0 Y_5) Y_0))", "Y_5, which is not declared"),
        (BOX + "(assert (<= Y_0 0)) (assert (<= X_7 0))", "X_7, which is not declared"),
        (BOX + "(assert (<= Y_2 0)) (declare-const Y_2 Real)", "Y_2, which is not declared"),
        (BOX + "(assert (<= Y_0 0)) (assert (>= X_0 2))", "every case is empty"),
        (BOX + "(assert (<= Y_0 0)) (assert (or (<= X_0 0.4) (>= X_1 0.3)))", "every case is empty"),
        (BOX + "(assert (<= Y_0 0)) (assert (<= 1 0))", "every case is empty"),
        (BOX + "(assert (or))", "every case is empty"),
        (BOX + "(assert (<= (+ (* 1e308 Y_0) (* 1e308 Y_0)) 0))", "too large together"),
        (BOX + "(assert (<= Y_0 0)) (assert (<= (* 1e-308 X_0) -1e308))", "too large together"),
        (BOX + "(assert " + "(and " * 100_000 + ")" * 100_001, "too deep"),
    ],
)
def test_what_would_be_read_as_something_else_is_refused(text: str, got: str, tmp_path: Path) -> None:
    (tmp_path / "asked.vnnlib").write_text(text, "utf-8")
    with pytest.raises(BadInput, match=got) as raised:
        vnnlib.read(tmp_path / "asked.vnnlib")
    assert raised.value.subject == f"VNN-LIB file {tmp_path / 'asked.vnnlib'}"
    assert raised.value.expected.startswith("VNN-LIB 1.0")
    assert raised.value.remedy


def test_of_several_bounds_the_tightest_counts() -> None:
    """Written either way round, negated or scaled."""
    asked = vnnlib.parse(
        BOX
        + "(assert (<= Y_0 0)) (assert (<= X_0 0.9)) (assert (<= X_0 2)) (assert (<= 0.6 X_0)) (assert (>= 0.8 X_0))"
        "(assert (<= (- X_1) -0.125)) (assert (>= (* -2 X_1) -0.375))"
    )
    (case,) = asked.cases
    assert (case.lower.tolist(), case.upper.tolist()) == ([0.6, 0.125], [0.8, 0.1875])


@pytest.mark.parametrize(("number", "value"), [("1", 1), ("-.5", -0.5), ("+2.", 2), ("1e-2", 0.01), ("-1.5E+1", -15)])
def test_numbers_are_read(number: str, value: float) -> None:
    (case,) = vnnlib.parse(BOX + f"(assert (<= Y_0 {number}))").cases
    assert case.constant.tolist() == [-value]


def test_a_property_of_no_case_is_no_property(tmp_path: Path) -> None:
    """It would hold of every net, by an infinite margin."""
    with pytest.raises(BadInput, match="no case"):
        decide(difference(tmp_path), vnnlib.Property(2, 2, ()), seconds=1)
