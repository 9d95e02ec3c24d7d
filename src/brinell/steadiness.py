"""Whether a model gives the same input the same answer: again, beside other rows, and on its own."""

import torch

from brinell.draws import Draws
from brinell.errors import BadInput
from brinell.models.torch_model import TorchModel
from brinell.random import Noise, stream_key
from brinell.readiness import Readiness
from brinell.shapes import Inputs, Logits
from brinell.threat import Threat

ALONE = 4
"""Rows that are also scored one by one."""
NOISY = 1e-4
"""Relative difference of logits between two passes (float32) above which it is noted."""
RANDOM = 1e-2
"""Relative difference of logits between two passes above which the model is randomised, whatever it decides."""
TWIN_PASSES = 16
TOGETHER = 0.1
"""Correlation between the same inputs in one pass above which rows are taken to share draws."""


def check_repeatable(model: TorchModel, x: Inputs, threat: Threat, draws: Draws | None, ready: Readiness) -> float:
    """Refuse a model whose decisions differ between passes on the same batch, unless it is taken for randomised.

    So is one whose logits differ by more than rounding can explain: its decisions may differ where nobody has looked.
    Asked are the clean inputs and as many points of their balls; the largest relative difference is returned.
    """
    buffers = [buffer.detach().clone() for buffer in model.module.buffers()]
    rows = torch.arange(len(x), device=x.device)
    noise = Noise.of(seed=0, stream=stream_key("preflight: repeatable"), attempt=0, rows=rows)
    differs, change = 0, 0.0
    for points in (x, threat.around(x).random_start(noise)):
        try:
            first, *others = (model.scores(points) for _ in range(3))
        except Exception:
            if points is x:
                raise
            break  # a model need not take points that are made up here; if it does not, the attacks will say so
        ready.forwards += 3 * len(x)
        for again in others:
            differs = max(differs, int((again.argmax(1) != first.argmax(1)).sum()))
            change = max(change, _relative_change(again, first))
    if draws is not None:
        if change == 0:
            ready.notes.append(
                "the model gave the same logits three times: if it is deterministic, a suite for deterministic models says "
                "more for fewer passes"
            )
    elif differs or change > RANDOM:
        found = f"other decisions on {differs} of {len(x)} rows" if differs else f"logits that differ by {change:.0%}"
        raise BadInput(
            "model",
            got=f"{found} when the same rows are asked again",
            expected="a deterministic model",
            remedy="If it is randomised, choose a suite that measures how often it is right: --suite brinell-rand. "
            "Else switch its randomness off.",
        )
    elif change > NOISY:
        ready.notes.append(
            f"logits of the same batch differ by up to {change:.1e} between two passes; decisions do not"
        )
    if any(not torch.equal(a, b) for a, b in zip(buffers, model.module.buffers(), strict=True)):
        ready.notes.append("the model changes its own buffers when it is evaluated; they are restored at the end")
    return change


def check_shared_draws(model: TorchModel, x: Inputs, ready: Readiness) -> None:
    """Note a model that draws, in whole or in part, once for a whole pass.

    The same inputs twice in one batch then move together from pass to pass: their logits' deviations from the mean over
    ``TWIN_PASSES`` passes correlate, whose standard error is about ``1 / sqrt(rows (TWIN_PASSES - 1))``.
    """
    passes = torch.stack([model.scores(torch.cat([x, x])) for _ in range(TWIN_PASSES)])
    ready.forwards += 2 * len(x) * TWIN_PASSES
    moved = (passes - passes.mean(dim=0)).nan_to_num(0.0)
    one, other = moved[:, : len(x)].flatten(), moved[:, len(x) :].flatten()
    together = float(torch.nn.functional.cosine_similarity(one, other, dim=0))
    if together > TOGETHER:
        ready.shared_draws = True
        ready.notes.append(
            f"the model draws for a whole pass at once (the same inputs twice in a batch move together: {together:.2f}): to "
            "keep the rows' draws apart, each is scored in passes of its own"
        )


def check_batch_independence(model: TorchModel, x: Inputs, logits: Logits, ready: Readiness) -> None:
    """Refuse a model whose decision on a row depends on the other rows of the batch; note logits that do."""
    alone = torch.cat([model.scores(x[i : i + 1]) for i in range(min(ALONE, len(x)))])
    flipped = model.scores(x.flip(0)).flip(0)
    ready.forwards += len(alone) + len(x)
    differs = int((flipped.argmax(1) != logits.argmax(1)).sum()) + int(
        (alone.argmax(1) != logits[: len(alone)].argmax(1)).sum()
    )
    if differs and max(_relative_change(flipped, logits), _relative_change(alone, logits[: len(alone)])) > NOISY:
        raise BadInput(
            "model",
            got=f"other decisions on {differs} rows when they are scored alone or in another order",
            expected="a decision that depends on the row alone",
            remedy="Look for statistics over the batch: normalisation in train mode, adaptation at test time.",
        )


def _relative_change(a: Logits, b: Logits) -> float:
    change = (a - b).norm(dim=1) / b.norm(dim=1).clamp_min(1e-12)
    return float(change.nan_to_num(0.0).max())
