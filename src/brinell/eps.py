"""The radius of a ball as the user wrote it: 8/255 is kept and printed as 8/255."""

import math
from fractions import Fraction
from typing import Self

from brinell.errors import BadInput

SHORT_DECIMAL = 6  # characters; beyond this a float that equals k/255 was meant as k/255


class Eps(float):
    """A radius in input units that remembers how it was written.

    ``Eps("8/255")`` and ``Eps(8 / 255)`` are the same number and both print as ``8/255``; ``Eps(0.3)``
    prints as ``0.3``.

    Raises
    ------
    BadInput
        If the text is neither a decimal nor a fraction, or the number is negative or not finite.
    """

    text: str

    def __new__(cls, written: float | str) -> Self:
        """Read a number or a text."""
        if isinstance(written, Eps):
            value, text = float(written), written.text
        elif isinstance(written, str):
            value, text = _value_of(written), written.strip().replace(" ", "")
        else:
            value = float(written)
            text = _shortest_text(value)
        if not math.isfinite(value) or value < 0:
            raise _unreadable(written)
        eps = super().__new__(cls, value)
        eps.text = text
        return eps

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Eps({self.text!r})"

    def __format__(self, spec: str) -> str:
        return self.text if spec == "" else float(self).__format__(spec)

    def __reduce__(self) -> tuple[type["Eps"], tuple[str]]:
        return Eps, (self.text,)


def _value_of(text: str) -> float:
    """The number that a text stands for: ``8/255`` gives the float 8 / 255, as Python would."""
    numerator, slash, denominator = text.partition("/")
    try:
        if slash:
            return float(numerator) / float(denominator)
        return float(text)
    except (ValueError, ZeroDivisionError):
        raise _unreadable(text) from None


def _shortest_text(value: float) -> str:
    plain = f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if len(plain) <= SHORT_DECIMAL or not 0 < value < 1:
        return plain
    k = Fraction(value * 255).limit_denominator(4)
    if k.denominator == 1 and k.numerator / 255 == value:
        return f"{k.numerator}/255"
    return plain


def _unreadable(written: object) -> BadInput:
    return BadInput(
        "eps",
        got=repr(written),
        expected="a radius that is finite and not negative, as a decimal or a fraction",
        remedy="Write it in input units, for example 0.03 or 8/255.",
    )
