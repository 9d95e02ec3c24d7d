"""What the checks of an imported result look at: the file beside the data, the threat model and what the model says."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from brinell.geometry import Norm, distance
from brinell.imports.names import Handed
from brinell.losses import decision
from brinell.models.torch_model import TorchModel
from brinell.threat import RELATIVE_TOLERANCE, Threat

CHUNK = 256
Classes = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Said:
    """The classes that the model decides for, row by row; a tie with the true class is decided against it."""

    clean: Classes
    points: Classes
    raw: Classes | None
    """On the points before they were clipped, where the file has both."""
    forwards: int
    """Passes that it took."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows of the file that the data have, in the order of the file, and what is known of each."""

    handed: Handed
    """What the file says of these rows."""
    threat: Threat
    x: NDArray[Any]
    """Their clean inputs, as the data have them."""
    y: Classes | None
    """Their true classes; None where nobody says them."""
    place: Classes
    """Their places among the data."""
    of: int
    """Rows in the data."""
    strangers: int = 0
    """Rows of the file that the data lack, which are left out."""
    apart: bool = False
    """Whether data were named apart from the file, so that labels and order can be compared."""
    said: Said | None = None
    """What the model says; None without a model."""

    def __len__(self) -> int:
        return len(self.handed)

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """Distance of each point from its clean input in the norm of the threat model, in input units."""
        return distances(self.x, self.handed.x_adv, self.threat.norm)

    @cached_property
    def finite(self) -> Flags:
        """Which points are finite throughout."""
        finite: Flags = np.isfinite(flat(self.handed.x_adv)).all(axis=1)
        return finite

    @property
    def slack(self) -> float:
        """How far beyond eps rounding alone may have put a point, in input units."""
        return max(rounding(self.threat, flat(self.x).shape[1]), RELATIVE_TOLERANCE * float(self.threat.eps))

    @cached_property
    def inside(self) -> Flags:
        """Which points lie in the threat set but for rounding; a point that is not finite does not."""
        points = flat(self.handed.x_adv)
        in_box = ((points >= self.threat.low) & (points <= self.threat.high)).all(axis=1)
        inside: Flags = in_box & (self.sizes <= float(self.threat.eps) + self.slack)
        return inside

    @property
    def judged_by(self) -> Classes | None:
        """The labels that the tool judged by: the file's, or else the true ones."""
        return self.handed.labels if self.handed.y is not None else self.y

    @property
    def wrong_before(self) -> Flags | None:
        """Rows on which the model errs before any attack."""
        if self.said is None or self.y is None:
            return None
        wrong: Flags = self.said.clean != self.y
        return wrong


def flat(array: NDArray[Any]) -> NDArray[Any]:
    """The array with one axis of features."""
    return array.reshape(len(array), -1)


def distances(x: NDArray[Any], x_adv: NDArray[Any], norm: Norm) -> NDArray[np.float64]:
    """The norm of ``x_adv - x`` in float64, a chunk at a time; NaN or infinity where a point is not finite."""
    found = []
    for start in range(0, len(x), CHUNK):
        here = slice(start, start + CHUNK)
        clean, points = (torch.from_numpy(np.array(array[here], np.float64)) for array in (x, x_adv))
        found.append(distance(clean, points, norm))
    whole: NDArray[np.float64] = torch.cat(found).numpy() if found else np.zeros(0)
    return whole


def rounding(threat: Threat, features: int) -> float:
    """How far rounding each value of a point to float32 may move it in the norm, in input units."""
    one = float(np.finfo(np.float32).eps) * max(abs(threat.low), abs(threat.high))
    reach: dict[Norm, float] = {"linf": 1.0, "l2": math.sqrt(features), "l1": float(features)}
    return one * reach[threat.norm]


def asked(model: TorchModel, evidence: Evidence) -> Said:
    """What the model says of clean inputs and points; of a point that is not finite, what it says of the clean input."""
    assert evidence.y is not None
    groups: list[NDArray[Any]] = [evidence.x, evidence.handed.x_adv]
    groups += [evidence.handed.raw] if evidence.handed.raw is not None else []
    with model.undisturbed():
        decided = [_decisions(model, evidence, group) for group in groups]
    raw = decided[2] if len(decided) > 2 else None
    return Said(decided[0], decided[1], raw, forwards=len(groups) * len(evidence))


def _decisions(model: TorchModel, evidence: Evidence, group: NDArray[Any]) -> Classes:
    assert evidence.y is not None
    found = []
    for start in range(0, len(group), CHUNK):
        here = slice(start, start + CHUNK)
        points, clean = (torch.from_numpy(np.array(array[here])).to(model.dtype) for array in (group, evidence.x))
        good = points.flatten(1).isfinite().all(dim=1)
        points[~good] = clean[~good]
        y = torch.from_numpy(evidence.y[here]).to(model.device)
        found.append(decision(model.scores(points.to(model.device)), y).cpu())
    whole: Classes = torch.cat(found).numpy()
    return whole
