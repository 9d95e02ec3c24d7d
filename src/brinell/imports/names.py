"""What the users of each tool call things in their files, and what a file holds by these names."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from brinell.arrays import number
from brinell.errors import BadInput
from brinell.threat import Threat

Tool = Literal["arrays", "foolbox", "art", "autoattack", "torchattacks"]
TOOLS: tuple[Tool, ...] = get_args(Tool)
SAME = 1e-6
"""Relative difference up to which two radii are one."""


@dataclass(frozen=True)
class Names:
    """The names by which a thing goes; of several the first that the file holds is read."""

    points: tuple[str, ...]
    x: tuple[str, ...] = ("x",)
    y: tuple[str, ...] = ("y",)
    raw: tuple[str, ...] = ()
    """Points before they were clipped to the ball."""
    success: tuple[str, ...] = ("success",)
    predictions: tuple[str, ...] = ("predictions",)
    epsilons: tuple[str, ...] = ("eps", "epsilons")

    def all(self) -> set[str]:
        """Every name that is read."""
        groups = (self.points, self.x, self.y, self.raw, self.success, self.predictions, self.epsilons)
        return {name for group in groups for name in group} | set(NUMBERS)


NAMES: dict[Tool, Names] = {
    "arrays": Names(points=("x_adv",)),
    "foolbox": Names(points=("clipped",), raw=("raw",), epsilons=("epsilons", "eps")),
    "art": Names(points=("x_adv",)),
    "autoattack": Names(
        points=("adv_complete", "x_adv"), x=("x", "x_test"), y=("y", "y_test"), predictions=("y_adv", "predictions")
    ),
    "torchattacks": Names(
        points=("adv_inputs", "x_adv"), x=("clean_inputs", "x"), y=("labels", "y"), predictions=("preds", "predictions")
    ),
}
NUMBERS = {
    "success_rate": ("success rate", 1.0),
    "robust_accuracy": ("robust accuracy", 1.0),
    "rob_acc": ("robust accuracy", 0.01),
    "empirical_robustness": ("empirical robustness", 1.0),
    "mean_distance": ("mean distance", 1.0),
    "l2": ("mean distance", 1.0),
}
"""Names of single numbers: which figure each is, and its unit (torchattacks' ``rob_acc`` is in percent)."""


@dataclass(frozen=True, eq=False)
class Handed:
    """What the files hold, row by row, in the order of the files."""

    tool: Tool
    x_adv: NDArray[Any]
    """The points: of Foolbox the clipped ones, or the raw ones where there are no others."""
    saved: str
    """Precision in which the points were saved."""
    x: NDArray[Any] | None = None
    """Clean inputs."""
    y: NDArray[Any] | None = None
    """Labels, as they were written."""
    raw: NDArray[Any] | None = None
    """Points before they were clipped."""
    clipped: bool = True
    """Whether the points are clipped ones, where the tool has both."""
    success: NDArray[np.bool_] | None = None
    """On which rows the tool says that it succeeded."""
    predictions: NDArray[np.int64] | None = None
    """Classes that the tool says the model gives the points."""
    told: Mapping[str, float] = field(default_factory=dict)
    """Their numbers, by figure."""
    unread: tuple[str, ...] = ()
    """Names in the files that are not read."""

    def __len__(self) -> int:
        return len(self.x_adv)

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The labels as class indices."""
        return _classes(self.y)

    @property
    def one_hot(self) -> bool:
        """Whether labels are rows of one value a class."""
        return self.y is not None and self.y.ndim == 2 and self.y.shape[1] > 1

    def at(self, rows: NDArray[np.int64]) -> "Handed":
        """Some of the rows."""

        def cut(array: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if array is None else array[rows]

        return replace(
            self,
            x_adv=self.x_adv[rows],
            x=cut(self.x),
            y=cut(self.y),
            raw=cut(self.raw),
            success=cut(self.success),
            predictions=cut(self.predictions),
        )


PARTS = ("x_adv", "x", "y", "raw", "success", "predictions")
"""What of it has a place for each row."""


def handed_over(tool: Tool, arrays: Mapping[str, NDArray[Any]], threat: Threat) -> Handed:
    """What some named arrays are by the names of a tool, at the radius of the threat model.

    Raises
    ------
    BadInput
        If what is needed is missing, does not fit together, or is of other radii.
    """
    names = NAMES[tool]

    def named(of: tuple[str, ...]) -> NDArray[Any] | None:
        return next((arrays[name] for name in of if name in arrays), None)

    points, raw = named(names.points), named(names.raw)
    if points is None and raw is None:
        raise _missing(tool, names.points + names.raw, arrays)
    x, success, epsilons = named(names.x), named(names.success), named(names.epsilons)
    chosen = _chosen(epsilons, threat)
    stacks = _Stacks(tool, chosen, None if epsilons is None else epsilons.size, x, success)
    points, raw = (None if array is None else stacks.points(array) for array in (points, raw))
    if success is not None and success.ndim == 2:
        success = stacks.one(success)
    x_adv = points if points is not None else raw
    assert x_adv is not None
    handed = Handed(
        tool=tool,
        x_adv=x_adv,
        saved=str(x_adv.dtype),
        x=x,
        y=named(names.y),
        raw=raw if points is not None else None,
        clipped=points is not None,
        success=None if success is None else success.reshape(len(success)).astype(bool),
        predictions=_classes(named(names.predictions)),
        told=_numbers(arrays),
        unread=tuple(sorted(set(arrays) - names.all())),
    )
    _refuse_misfits(handed)
    return handed


@dataclass(frozen=True, eq=False)
class _Stacks:
    """How results at several radii, stacked on the first axis, become those at one."""

    tool: Tool
    chosen: int
    """Which of the radii."""
    count: int | None
    """How many radii the file names; None where it names none."""
    x: NDArray[Any] | None
    success: NDArray[Any] | None

    def points(self, array: NDArray[Any]) -> NDArray[Any]:
        """The points at one radius, from a stack or alone."""
        if self.x is not None:
            return self.one(array) if array.ndim == self.x.ndim + 1 else array
        return self.one(array) if self.success is not None and self.success.ndim == 2 else array

    def one(self, stack: NDArray[Any]) -> NDArray[Any]:
        """One of a stack of arrays."""
        if self.count is None or len(stack) != self.count:
            raise BadInput(
                f"{self.tool} file",
                got=f"a stack of {len(stack)} results, and {self.count or 'no'} radii",
                expected="an array `epsilons` with one radius for each",
                remedy="Save the list that you gave the attack as `epsilons`.",
            )
        taken: NDArray[Any] = stack[self.chosen]
        return taken


def _chosen(epsilons: NDArray[Any] | None, threat: Threat) -> int:
    """Which of the file's radii is the threat model's."""
    if epsilons is None:
        return 0
    radii = np.atleast_1d(epsilons).reshape(-1).astype(np.float64)
    same = np.abs(radii - float(threat.eps)) <= SAME * float(threat.eps)
    if not same.any():
        raise BadInput(
            "eps",
            got=threat.eps_text,
            expected=f"one of the radii in the file: {', '.join(f'{radius:.6g}' for radius in radii)}",
            remedy="Give one of these with --eps.",
        )
    return int(same.argmax())


def _classes(array: NDArray[Any] | None) -> NDArray[np.int64] | None:
    """Class indices, of one-hot rows or scores the highest's."""
    if array is None:
        return None
    flat = array.argmax(axis=1) if array.ndim == 2 and array.shape[1] > 1 else array.reshape(len(array))
    return flat.astype(np.int64)


def _numbers(arrays: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    told = {}
    for name, (figure, unit) in NUMBERS.items():
        value = number(arrays[name]) if name in arrays else None
        if value is not None:
            told[figure] = value * unit
    return told


def _missing(tool: Tool, names: tuple[str, ...], arrays: Mapping[str, NDArray[Any]]) -> BadInput:
    return BadInput(
        f"{tool} file",
        got=f"the names {', '.join(sorted(arrays)) or 'of nothing'}",
        expected=f"points named {' or '.join(names)}",
        remedy=f"Save them under that name; a file by {tool} may also hold {', '.join(sorted(NAMES[tool].all()))}.",
    )


def _refuse_misfits(handed: Handed) -> None:
    """Refuse arrays that are not of one length, inputs that are not of one shape, and what are no numbers."""
    parts = {name: getattr(handed, name) for name in PARTS}
    held = {name: array for name, array in parts.items() if array is not None}
    alike = {held[name].shape for name in ("x_adv", "x", "raw") if name in held}
    if len(alike) > 1 or len({len(array) for array in held.values()}) > 1 or handed.x_adv.ndim < 2:
        raise BadInput(
            f"{handed.tool} file",
            got=", ".join(f"{name} of shape {array.shape}" for name, array in held.items()),
            expected="points shaped like their inputs, (row, *feature), and one of everything else for each row",
            remedy="Save them for the same rows in the same order; results at several radii need `epsilons`.",
        )
    for name in ("x_adv", "x", "raw"):
        if name in held and held[name].dtype.kind not in "fiu":
            raise BadInput(
                f"{handed.tool} file", got=f"{name} of {held[name].dtype}", expected="numbers", remedy="Save them so."
            )
