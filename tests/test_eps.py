"""A radius keeps the way it was written."""

import copy
import math
import pickle

import pytest

from brinell.eps import Eps
from brinell.errors import EXIT_BAD_INPUT, BadInput


@pytest.mark.parametrize(
    ("written", "value", "text"),
    [
        ("8/255", 8 / 255, "8/255"),
        (" 8 / 255 ", 8 / 255, "8/255"),
        (8 / 255, 8 / 255, "8/255"),
        (1 / 255, 1 / 255, "1/255"),
        (0.3, 0.3, "0.3"),
        ("0.30", 0.3, "0.30"),
        ("128/255", 128 / 255, "128/255"),
        (0.5, 0.5, "0.5"),
        (3, 3.0, "3"),
        (12.0, 12.0, "12"),
        (0, 0.0, "0"),
        ("1e-3", 0.001, "1e-3"),
        (0.123456789, 0.123456789, "0.123456789"),  # no k/255: kept digit for digit
        (2 * 8 / 255, 16 / 255, "16/255"),
        (2.5 / 255, 2.5 / 255, repr(2.5 / 255)),  # half a grey level is not written as a whole one
    ],
)
def test_value_and_text(written, value, text):
    eps = Eps(written)
    assert float(eps) == value
    assert str(eps) == text
    assert f"{eps}" == text


def test_the_text_stands_for_the_same_number():
    """Reading back what was printed gives the same float, bit for bit, for every k/255 and some awkward floats."""
    for value in [*(k / 255 for k in range(256)), 1 / 3, math.pi, 5e-324, 1e300, 0.1 + 0.2]:
        assert float(Eps(str(Eps(value)))) == value


def test_it_is_a_float():
    assert Eps("8/255") * 255 == pytest.approx(8)
    assert f"{Eps('8/255'):.4f}" == "0.0314"
    assert Eps("8/255") == 8 / 255
    assert hash(Eps("8/255")) == hash(8 / 255)
    assert repr(Eps("8/255")) == "Eps('8/255')"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda eps: pickle.loads(pickle.dumps(eps)), Eps])
def test_a_copy_keeps_the_text(copied):
    eps = copied(Eps("0.30"))
    assert isinstance(eps, Eps)
    assert (float(eps), str(eps)) == (0.3, "0.30")


@pytest.mark.parametrize(
    "written",
    ["", "eight", "8/0", "8/", "/255", "8/255/2", "-0.1", -0.1, "nan", "inf", float("nan"), float("inf"), "1e400"],
)
def test_refusals_say_what_to_do(written):
    with pytest.raises(BadInput) as refused:
        Eps(written)
    assert refused.value.subject == "eps"
    assert repr(written) in str(refused.value)
    assert "8/255" in refused.value.remedy
    assert refused.value.exit_code == EXIT_BAD_INPUT
