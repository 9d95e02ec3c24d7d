"""What a field of a claim may hold, and how it may be written."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from brinell.budget import Budget
from brinell.eps import Eps
from brinell.errors import BadInput

MOST = 10**12
"""Beyond any number of rows, passes or queries."""


class Part(BaseModel):
    """A part of a claim: what it does not know is None, what it cannot hold is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _share(value: object) -> object:
    """``"48.2 %"`` is read as 0.482."""
    if isinstance(value, bool):
        raise ValueError("true and false are no shares")
    if isinstance(value, str) and value.strip().endswith("%"):
        return round(float(value.strip().removesuffix("%")) / 100, 12)
    if isinstance(value, int | float) and 1 < value < MOST:
        raise ValueError(f"{value} is no share; write it as {value / 100:g} or as '{value:g} %'")
    return value


def _spending(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return Budget(value).text
    except BadInput as error:
        raise ValueError(f"{value!r} is no budget; write {error.expected}") from None


def _radius(value: object) -> str:
    try:
        if isinstance(value, bool) or "_" in str(value):
            raise TypeError
        return str(Eps(value))  # type: ignore[arg-type]  # whatever cannot be read is refused there
    except (BadInput, TypeError, OverflowError):
        raise ValueError(f"{value!r} is not a radius; write it as 0.03 or 8/255") from None


Share = Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Radius = Annotated[str, BeforeValidator(_radius)]
Spending = Annotated[str, BeforeValidator(_spending)]
