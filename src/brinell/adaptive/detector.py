"""A detector: a score for each row, and the threshold above which a row is rejected.

Idea        a detector is attacked together with the classifier, so that its score must be comparable with logits: what it
            exceeds its threshold by is multiplied by a scale at which a step moves both about as far.
Source      reject option: Tramèr 2022 (arXiv 2107.11630), section 2; a threshold at a rate of clean rows rejected: Carlini
            & Wagner 2017 (arXiv 1705.07263), section 2; balancing two constraints by their gradients' size: Bryniarski et
            al. 2021 (arXiv 2106.15023), section 3, who project one gradient off the other instead.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from brinell.adaptive.callables import Step
from brinell.errors import BadInput
from brinell.shapes import Inputs, PerRow

Reads = Literal["input", "preprocessed", "logits"]
"""What a detector looks at: what enters the pipeline, what enters the classifier, or what leaves it."""
READS: tuple[Reads, ...] = ("input", "preprocessed", "logits")


@dataclass(frozen=True, eq=False)
class Calibration:
    """A threshold that is found on clean rows: the least at which no more than a stated share of them is rejected."""

    x: Inputs
    """Clean rows, best others than those that will be attacked."""
    false_rejection: float
    """Share of them that may be rejected; 0.05 of 1,000 rows are 50."""


@dataclass(frozen=True, eq=False)
class Detector:
    """Rejects a row if and only if its score is above a threshold; a score at the threshold is accepted."""

    score: Step
    """Maps ``(row, …)`` to one number a row; larger is more suspicious."""
    threshold: float | Calibration
    """In the score's units, or the rows that it is calibrated on."""
    reads: Reads = "input"
    scale: float | None = None
    """Logits for one unit of score; None: by the gradients on the rows of a calibration, 1 where there are none."""

    def __post_init__(self) -> None:
        """Refuse a detector that cannot be used.

        Raises
        ------
        BadInput
            If a field is out of its range, or a calibration has no rows.
        """
        if self.reads not in READS:
            raise BadInput("detector, reads", got=repr(self.reads), expected=", ".join(READS), remedy="Choose one.")
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise BadInput(
                "detector, scale", got=str(self.scale), expected="above 0", remedy="Leave it out to have it measured."
            )
        if isinstance(self.threshold, Calibration):
            if not 0 <= self.threshold.false_rejection < 1:
                raise BadInput(
                    "detector, false rejection",
                    got=str(self.threshold.false_rejection),
                    expected="a share of the clean rows, 0 or more and below 1",
                    remedy="Write 0.05 for 5 %.",
                )
            if not len(self.threshold.x):
                raise BadInput("detector", got="no clean rows", expected="at least one", remedy="Give some.")
        elif not abs(self.threshold) < float("inf"):
            raise BadInput(
                "detector, threshold", got=str(self.threshold), expected="a finite number", remedy="State another."
            )


def one_a_row(scores: Tensor, rows: int) -> PerRow:
    """A detector's scores as one number a row.

    Raises
    ------
    BadInput
        If they are not.
    """
    if not isinstance(scores, Tensor) or scores.numel() != rows or not scores.is_floating_point():
        got = f"{scores.dtype}, shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
        raise BadInput(
            "detector's score",
            got=f"{got} for {rows} rows",
            expected="one floating-point number a row",
            remedy="Return a real score, not a decision; give what has no gradient a backward with brinell.adaptive.bpda.",
        )
    return scores.reshape(rows)


def threshold_at(scores: PerRow, false_rejection: float) -> float:
    """The least of the scores above which no more than that share of them lies.

    Raises
    ------
    BadInput
        If a score is not finite.
    """
    if not bool(scores.isfinite().all()):
        raise BadInput(
            "detector's score",
            got=f"no finite number on {int((~scores.isfinite()).sum())} clean rows",
            expected="finite numbers",
            remedy="Find what overflows there.",
        )
    may_go = int(false_rejection * len(scores) + 1e-9)  # 0.05 of 20 rows is 1
    return float(scores.sort().values[len(scores) - 1 - may_go])


def scale_by(margin_size: Tensor, score_size: Tensor) -> float:
    """How many logits make up for one unit of score, by the sizes of both gradients; 1 where that cannot be said."""
    usable = (margin_size > 0) & (score_size > 0) & margin_size.isfinite() & score_size.isfinite()
    if not bool(usable.any()):
        return 1.0
    return float(torch.median(margin_size[usable] / score_size[usable]))
