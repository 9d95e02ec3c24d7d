"""Questions in the language of the verification competition (VNN-LIB 1.0), and answers in its form.

A file declares inputs ``X_i`` and outputs ``Y_i`` and asserts what a counterexample is: every input between two numbers, and
linear inequalities of the outputs, with ``and`` and ``or``. It is read into a list of cases, any of which is a counterexample.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from brinell.errors import BadInput

Expression = object
"""A word or a list of expressions, nested as the brackets are."""
Vector = NDArray[np.float64]
_TOKEN = re.compile(r"[()]|[^\s()]+")
_VARIABLE = re.compile(r"[XY]_(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Linear(NamedTuple):
    """``sum coefficient variable + constant``, by the variables' names."""

    coefficients: dict[str, float]
    constant: float


@dataclass(frozen=True, eq=False)
class Case:
    """``lower <= x <= upper`` and ``weight y + constant <= 0``, row by row: a point with all of it is a counterexample."""

    lower: Vector
    upper: Vector
    weight: Vector
    """Shape (inequality, output)."""
    constant: Vector


@dataclass(frozen=True, eq=False)
class Property:
    """What must not be: the property holds where no case has a point."""

    inputs: int
    outputs: int
    cases: tuple[Case, ...]


@dataclass
class _Draft:
    """A case in the making."""

    lower: dict[int, float] = field(default_factory=dict)
    upper: dict[int, float] = field(default_factory=dict)
    outputs: list[Linear] = field(default_factory=list)


def read(path: Path) -> Property:
    """The property in a VNN-LIB 1.0 file.

    Raises
    ------
    BadInput
        If the file is not of this form, bounds an input on one side only, or asks nothing.
    """
    try:
        return parse(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(f"a file that cannot be read: {error}") from error
    except BadInput as error:
        raise BadInput(f"VNN-LIB file {path}", got=error.got, expected=error.expected, remedy=error.remedy) from error


def parse(text: str) -> Property:
    """The property in a file's text; ``Raises`` as ``read`` does."""
    declared: list[str] = []
    asserted: list[list[list[Linear]]] = []
    try:
        for expression in _expressions(text):
            match expression:
                case ["declare-const", str(name), "Real"] if _VARIABLE.fullmatch(name):
                    declared.append(name)
                case ["assert", said]:
                    _check_declared(said, set(declared))
                    asserted.append(_alternatives(said))
                case _:
                    raise _refused(f"the statement {_written(expression)}")
    except RecursionError as error:
        raise _refused("brackets within brackets, too deep to be read") from error
    inputs, outputs = (sum(name.startswith(letter) for name in declared) for letter in "XY")
    if sorted(declared) != sorted([f"X_{i}" for i in range(inputs)] + [f"Y_{i}" for i in range(outputs)]):
        raise _refused("variables that are not X_0, X_1, … and Y_0, Y_1, …, each declared once")
    drafts = [_case([one for part in parts for one in part], inputs, outputs) for parts in product(*asserted)]
    cases = tuple(case for case in drafts if case is not None)
    if not cases:
        raise _refused(
            "a property whose every case is empty, so that nothing is asked",
            remedy="Mend the lower bound above an upper one, or the condition without variables that is false.",
        )
    return Property(inputs, outputs, cases)


def _check_declared(said: Expression, declared: set[str]) -> None:
    """Refuse variables that were not declared before, wherever they stand."""
    for part in said if isinstance(said, list) else [said]:
        if isinstance(part, list):
            _check_declared(part, declared)
        elif isinstance(part, str) and _VARIABLE.fullmatch(part) and part not in declared:
            raise _refused(f"{part}, which is not declared", remedy="Declare each variable, once, before it is used.")


def _expressions(text: str) -> Iterator[Expression]:
    """The nested lists of a file; what follows a semicolon is a comment."""
    stack: list[list[object]] = [[]]
    for token in _TOKEN.findall(re.sub(r";[^\n]*", "", text)):
        if token == "(":
            stack.append([])
        elif token == ")" and len(stack) > 1:
            done = stack.pop()
            stack[-1].append(done)
        elif token == ")":
            raise _refused("a bracket that closes nothing")
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise _refused("a bracket that is not closed")
    yield from stack[0]


def _alternatives(said: Expression) -> list[list[Linear]]:
    """A statement as a choice of lists of expressions that must all be at most 0."""
    match said:
        case ["or", *parts]:
            return [one for part in parts for one in _alternatives(part)]
        case ["and", *parts]:
            return [[one for some in parts_ for one in some] for parts_ in product(*map(_alternatives, parts))]
        case ["<=", left, right]:
            return [[_difference(_linear(left), _linear(right))]]
        case [">=", left, right]:
            return [[_difference(_linear(right), _linear(left))]]
    raise _refused(f"the condition {_written(said)}")


def _linear(said: Expression) -> Linear:
    match said:
        case str(name) if _VARIABLE.fullmatch(name):
            return Linear({name: 1.0}, 0.0)
        case str(number):
            return Linear({}, _number(number))
        case ["+", first, *rest]:
            total = _linear(first)
            for part in rest:
                total = _difference(total, _scaled(_linear(part), -1.0))
            return total
        case ["-", only]:
            return _scaled(_linear(only), -1.0)
        case ["-", left, right]:
            return _difference(_linear(left), _linear(right))
        case ["*", str(number), other] if not _VARIABLE.fullmatch(number):
            return _scaled(_linear(other), _number(number))
        case ["*", other, str(number)] if not _VARIABLE.fullmatch(number):
            return _scaled(_linear(other), _number(number))
    raise _refused(f"the expression {_written(said)}")


def _number(said: str) -> float:
    value = float(said) if _NUMBER.fullmatch(said) else math.nan
    if not math.isfinite(value):
        raise _refused(f"{said} where a number should be")
    return value


def _scaled(one: Linear, factor: float) -> Linear:
    return Linear({name: factor * held for name, held in one.coefficients.items()}, factor * one.constant)


def _difference(left: Linear, right: Linear) -> Linear:
    names = left.coefficients.keys() | right.coefficients.keys()
    held = {name: left.coefficients.get(name, 0.0) - right.coefficients.get(name, 0.0) for name in sorted(names)}
    return Linear({name: value for name, value in held.items() if value}, left.constant - right.constant)


def _case(said: list[Linear], inputs: int, outputs: int) -> Case | None:
    """The conditions of one case together; ``None`` where no point can have them."""
    draft = _Draft()
    for one in said:
        letters = {name[0] for name in one.coefficients}
        if letters == {"Y"}:
            draft.outputs.append(one)
        elif letters == {"X"} and len(one.coefficients) == 1:
            _bound(draft, one)
        elif letters:
            raise _refused("a condition on several inputs, or on inputs and outputs together")
        elif one.constant > 0:
            return None
    if set(draft.lower) != set(range(inputs)) or set(draft.upper) != set(range(inputs)):
        raise _refused("an input without a lower and an upper bound")
    if not draft.outputs:
        raise _refused("a case without a condition on the outputs")
    if not all(map(math.isfinite, _numbers(draft))):
        raise _refused("numbers that are too large together")
    weight = np.zeros((len(draft.outputs), outputs))
    for i, one in enumerate(draft.outputs):
        for name, value in one.coefficients.items():
            weight[i, int(name[2:])] = value
    lower, upper = (np.array([ends[i] for i in range(inputs)]) for ends in (draft.lower, draft.upper))
    return (
        Case(lower, upper, weight, np.array([one.constant for one in draft.outputs]))
        if (lower <= upper).all()
        else None
    )


def _numbers(draft: _Draft) -> Iterator[float]:
    yield from (*draft.lower.values(), *draft.upper.values())
    for one in draft.outputs:
        yield from (*one.coefficients.values(), one.constant)


def _bound(draft: _Draft, one: Linear) -> None:
    """``a x + b <= 0``, as an end of the input's interval."""
    ((name, factor),) = one.coefficients.items()
    place, end = int(name[2:]), -one.constant / factor
    if factor > 0:
        draft.upper[place] = min(end, draft.upper.get(place, math.inf))
    else:
        draft.lower[place] = max(end, draft.lower.get(place, -math.inf))


def _written(said: Expression) -> str:
    text = f"({' '.join(_written(part) for part in said)})" if isinstance(said, list) else str(said)
    return text if len(text) < 80 else f"{text[:77]}…"


def _refused(
    got: str, remedy: str = "Each input needs a lower and an upper bound; conditions of outputs are linear."
) -> BadInput:
    return BadInput(
        "VNN-LIB file",
        got=got,
        expected="VNN-LIB 1.0: declare-const of X_i and Y_i, and assertions of <=, >=, and, or on linear expressions",
        remedy=remedy,
    )


def counterexample(x: Vector, y: Vector) -> str:
    """A point and its outputs as the competition's tools write them."""
    lines = [f"(X_{i} {value!r})" for i, value in enumerate(x.tolist())]
    lines += [f"(Y_{i} {value!r})" for i, value in enumerate(y.tolist())]
    return "(" + "\n".join(lines) + ")\n"
