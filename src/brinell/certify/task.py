"""What is asked of one row, whoever asks."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from brinell.certify.graph import Network
from brinell.certify.region import Region
from brinell.shapes import Inputs

Judge = Callable[[Inputs], Tensor | None]
"""Is shown points, and gives back one of them, as it is deployed, if the model errs there."""


@dataclass(frozen=True, eq=False)
class Task:
    """Are some linear functions of the scores above a tolerance on a region? One row."""

    network: Network
    region: Region
    specs: Tensor
    """Shape (1, spec, cls)."""
    groups: Tensor
    """For each function the number of its group: of each group one function must be above the tolerance."""
    enough: float
    judge: Judge

    def margin(self, bounds: Tensor) -> float:
        """The least, over the groups, of the best bound of a group; NaN counts as minus infinity."""
        sure = bounds[0].nan_to_num(nan=-math.inf)
        return min(float(sure[self.groups == group].max()) for group in range(self._count()))

    def _count(self) -> int:
        return int(self.groups.max()) + 1

    def open(self, bounds: Tensor) -> Tensor:
        """Of each group that is not proved, the function that is nearest to it."""
        sure = bounds[0].nan_to_num(nan=-math.inf)
        best = [int(torch.where(self.groups == group, sure, -torch.inf).argmax()) for group in range(self._count())]
        return torch.tensor([place for place in best if not sure[place] > self.enough], dtype=torch.long)
