"""A share of rows, as somebody states it."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from brinell.claims.form import MOST, Count, Part, Share
from brinell.metrics import Proportion

ROUNDING = 5e-4
"""How far a share may lie from its count over its whole: papers print a tenth of a percent."""


class Figure(Part):
    """A share of rows, with its count as far as it is known."""

    value: Share | None = None
    """The share, from 0 to 1, or as a text ``"48.2 %"``; None where rows are undecided."""
    count: Annotated[float, Field(ge=0, le=MOST)] | None = None
    """Rows counted; of a randomised model the sum of their shares."""
    of: Count | None = None
    """The whole."""
    denominator: Literal["all rows", "initially correct rows"] | None = None
    """What the whole is."""
    undecided: Count = 0
    """Rows of the whole that may still come to be counted."""
    noise: Annotated[float, Field(ge=0)] | None = None
    """Of a randomised model: the standard error of the share by its draws alone."""
    text: str | None = None
    """The figure as its maker writes it, where that says more."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.count is not None and self.of is not None:
            if self.count + self.undecided > self.of:
                raise ValueError(f"{self.count:g} of {self.of} is more than all")
            if self.value is not None and self.of and abs(self.value - self.count / self.of) > ROUNDING:
                raise ValueError(f"{self.value:g} is not {self.count:g}/{self.of} = {self.count / self.of:.4f}")
        return self

    @property
    def share(self) -> float | None:
        """The share by its count, or as given; None while rows are undecided."""
        if self.undecided:
            return None
        if self.count is not None and self.of:
            return self.count / self.of
        return self.value

    @property
    def rounding(self) -> float:
        """How far the true share may lie from one that is stated without its count: half its last digit."""
        if self.value is None or (self.count is not None and self.of):
            return 0.0
        digits = f"{100 * self.value:.6f}".rstrip("0").partition(".")[2]
        return float(0.005 * 10.0 ** -len(digits))

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        counted = self.count is not None and self.of is not None and float(self.count).is_integer()
        if counted and (self.undecided or self.share is not None or not self.of):
            assert self.count is not None
            assert self.of is not None
            whole = self.denominator or "rows of unstated kind"
            return str(Proportion(int(self.count), self.of, whole, undecided=self.undecided))
        if self.share is None:
            return "unstated"
        return f"{100 * self.share:.1f} %" + (f" of {self.denominator}" if self.denominator else "")
