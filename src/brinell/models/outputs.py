"""From what a module returns to logits: containers unwrapped, probabilities and single logits declared, not guessed."""

from typing import Literal, get_args

import torch
from torch import Tensor

from brinell.errors import BadInput
from brinell.shapes import Logits

Outputs = Literal["logits", "probabilities", "binary-logit", "logits-and-reject"]
"""``logits-and-reject``: a column for each class, and last the score of a rejection, whose row rejects where it is highest."""
OUTPUTS: tuple[Outputs, ...] = get_args(Outputs)
SUM_TOLERANCE = 1e-3  # sums of probabilities in float32; half precision is looser
HALF_SUM_TOLERANCE = 1e-2
FEWEST_WITH_REJECTION = 3


def unwrapped(output: object) -> tuple[Tensor, str | None]:
    """The tensor of scores inside a module's output, and a note where it had to be taken out of something.

    Raises
    ------
    BadInput
        If there is no tensor to be found.
    """
    if isinstance(output, Tensor):
        return output, None
    scores = getattr(output, "logits", None)
    if isinstance(scores, Tensor):
        return scores, f"logits taken from the field `logits` of the model's {type(output).__name__}"
    if isinstance(output, dict):
        for key in ("logits", "scores", "output", "out"):
            if isinstance(output.get(key), Tensor):
                return output[key], f"logits taken from the key {key!r} of the model's dict"
        tensors = [key for key, value in output.items() if isinstance(value, Tensor)]
        if len(tensors) == 1:
            return output[tensors[0]], f"logits taken from the only tensor of the model's dict, {tensors[0]!r}"
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        return output[0], f"logits taken from the first item of the model's {type(output).__name__}"
    raise BadInput(
        "model output",
        got=type(output).__name__ + (f" with keys {sorted(map(str, output))}" if isinstance(output, dict) else ""),
        expected="a tensor of logits (row, class), or a dict, tuple or object with `logits` that holds one",
        remedy="Wrap the model so that it returns its logits.",
    )


def as_logits(scores: Tensor, declared: Outputs) -> Logits:
    """Logits (row, class) from what the model is declared to give; half precision is widened to float32."""
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    if declared == "binary-logit":
        positive = scores.reshape(len(scores))
        return torch.stack([torch.zeros_like(positive), positive], dim=1)
    if declared == "probabilities":
        return scores.clamp_min(torch.finfo(scores.dtype).tiny).log()
    return scores


def classes_of(columns: int, declared: Outputs) -> int:
    """How many classes a model has that returns so many columns."""
    return {"binary-logit": 2, "logits-and-reject": columns - 1}.get(declared, columns)


def check_scores(scores: Tensor, rows: int, declared: Outputs) -> None:
    """Refuse scores whose shape or values contradict what is declared.

    Raises
    ------
    BadInput
        For a wrong shape, for one score a row, for probabilities where logits are declared, and the reverse.
    """
    single = scores.dim() == 1 or (scores.dim() == 2 and scores.shape[1] == 1)
    if scores.dim() not in (1, 2) or scores.shape[0] != rows or not scores.is_floating_point():
        raise BadInput(
            "model output",
            got=f"shape {tuple(scores.shape)}, {scores.dtype} for {rows} rows",
            expected=f"floating-point logits of shape ({rows}, classes)",
            remedy="Return one score for each class and row.",
        )
    if single != (declared == "binary-logit"):
        raise BadInput(
            "model output",
            got=f"{'one score' if single else f'{scores.shape[1]} scores'} a row, declared as {declared}",
            expected="one score a row for binary-logit, else a score for each class",
            remedy="Declare `outputs` as binary-logit." if single else "Declare `outputs` as logits or probabilities.",
        )
    if single:
        return
    if declared == "logits-and-reject":
        if scores.shape[1] < FEWEST_WITH_REJECTION:
            raise BadInput(
                "model output",
                got=f"{scores.shape[1]} scores a row, declared as {declared}",
                expected="a score for each of at least two classes, and one for the rejection",
                remedy="Return the rejection's score as the last column, or declare `outputs` as logits.",
            )
        return
    tolerance = SUM_TOLERANCE if scores.dtype in (torch.float32, torch.float64) else HALF_SUM_TOLERANCE
    values = scores.double()
    inside = bool(((values >= -tolerance) & (values <= 1 + tolerance)).all())
    summing = inside and bool(((values.sum(dim=1) - 1).abs() <= tolerance).all())
    if summing != (declared == "probabilities"):
        raise BadInput(
            "model output",
            got="values in [0, 1] that sum to 1 in every row" if summing else "values that are not probabilities",
            expected=declared,
            remedy="Return the scores before softmax, or declare `outputs` as probabilities."
            if summing
            else "Declare `outputs` as logits.",
        )
