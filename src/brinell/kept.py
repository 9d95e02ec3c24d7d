"""Which of the points that an attempt asked about are worth another look, where the model is randomised."""

from dataclasses import dataclass

import torch

from brinell.geometry import per_row
from brinell.shapes import Candidates, Indices, Inputs, Mask, PerCandidate, PerRow


@dataclass(eq=False)
class Kept:
    """Of each stretch of an attempt's queries, the point at which the model was right least often.

    Compared are shares of right decisions among the query's own draws, then mean margins. A stretch in which no point
    lay in the threat set keeps NaN.
    """

    points: Candidates
    """A point for each stretch."""
    right: PerCandidate
    """Share of draws in which the model was right; infinite where no point was kept."""
    margin: PerCandidate
    """Mean margin over these draws."""

    @classmethod
    def around(cls, x: Inputs, stretches: int) -> "Kept":
        """Nothing kept yet of any of so many stretches."""
        points = x.new_full((len(x), stretches, *x.shape[1:]), torch.nan)
        nothing = x.new_full((len(x), stretches), torch.inf)
        return cls(points, nothing, nothing.clone())

    def offer(self, rows: Indices, stretch: int, points: Inputs, right: PerRow, margin: PerRow, allowed: Mask) -> None:
        """Keep the points of some rows that are better than what their stretch has; NaN is never better."""
        before, margin_before = self.right[rows, stretch], self.margin[rows, stretch]
        better = allowed & ((right < before) | ((right == before) & (margin < margin_before)))
        self.right[rows, stretch] = torch.where(better, right, before)
        self.margin[rows, stretch] = torch.where(better, margin, margin_before)
        self.points[rows, stretch] = torch.where(per_row(better, points), points, self.points[rows, stretch])
