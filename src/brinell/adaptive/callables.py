"""A function as a module, so that it can stand in a pipeline and be named in the record."""

from collections.abc import Callable

from torch import Tensor, nn

from brinell.errors import BadInput

Step = nn.Module | Callable[[Tensor], Tensor]
"""What maps points to points, or to scores: a module, or a function of one tensor."""


class Called(nn.Module):
    """Calls a function. What the function is made of is no part of a model's fingerprint; its name is."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.training = False

    def forward(self, x: Tensor) -> Tensor:
        """What the function returns."""
        return self.function(x)

    def extra_repr(self) -> str:
        """The function's name, for ``repr`` and so for the fingerprint."""
        return _name_of(self.function)


def as_module(step: object, subject: str) -> nn.Module:
    """The step itself, or a module that calls it.

    Raises
    ------
    BadInput
        If it can be no step.
    """
    if isinstance(step, nn.Module):
        return step
    if callable(step) and not isinstance(step, type):
        return Called(step)
    raise BadInput(
        subject,
        got=step.__name__ + ", a class" if isinstance(step, type) else type(step).__name__,
        expected="a torch.nn.Module or a function of one tensor",
        remedy="Give an instance.",
    )


def name_of(module: nn.Module) -> str:
    """How a step is called in the record: its class, or the name of the function."""
    return _name_of(module.function) if isinstance(module, Called) else type(module).__name__


def _name_of(function: Callable[[Tensor], Tensor]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def modes_as_parts(whole: nn.Module) -> None:
    """Put a wrapper into train mode if and only if one of its parts is: it has no mode of its own."""
    whole.training = any(part.training for part in whole.children())
