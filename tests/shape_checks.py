"""The type checker that the tests install in the package: beartype, except where it would check the wrong thing."""

from collections.abc import Callable
from typing import Any, Protocol, Self, get_args

from beartype import BeartypeConf, beartype

AS_WRITTEN = {"Threat.__init__", "Detector.__init__", "Pipeline.__init__", "bpda"}
"""What takes whatever a user writes; the annotations of a field tell what is kept of it."""

_INT_IS_FLOAT = BeartypeConf(is_pep484_tower=True)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with those of its annotations enforced that can be, tensor shapes among them."""
    if function.__qualname__ in AS_WRITTEN:
        return function
    for name, hint in function.__annotations__.items():
        if _uncheckable(hint):
            function.__annotations__[name] = object
    return beartype(conf=_INT_IS_FLOAT)(function)


def _uncheckable(hint: object) -> bool:
    """``Self`` has no class where a method is decorated by itself; most protocols are for the static checker only."""
    if isinstance(hint, type) and issubclass(hint, Protocol):  # type: ignore[arg-type]
        return getattr(hint, "_is_protocol", False) and not getattr(hint, "_is_runtime_protocol", False)
    return hint is Self or any(map(_uncheckable, get_args(hint)))
