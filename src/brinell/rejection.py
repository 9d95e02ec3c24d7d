"""When a model may decline to decide: a perturbed point is an error only if the model is wrong there and accepts it.

Idea        the model has one column more than classes: the score of a rejection. It rejects where that is above all others.
            On a clean row this is a class like any other, which no row has, so that a rejected clean row is wrong. For a
            perturbed point its true class gets the credit of a rejection, so that every loss and every attack goes on with
            as many logits as there are classes, and ``margin <= 0`` still says that the row has fallen.
Source      robust accuracy with detection: Tramèr 2022 (arXiv 2107.11630), section 2; climbing the lesser of "wrong" and
            "accepted": the joint objective of Carlini & Wagner 2017 (arXiv 1705.07263), section 3, as a minimum.
Departures  the slack of acceptance enters the logits themselves, so that no attack needs a loss of its own.

With slack ``a = z_reject - max_j z_j`` (above 0: rejected) and margin ``m = z_y - max_{j != y} z_j``, the credited logits
have ``z_y' = max(z_y, max_{j != y} z_j + a)``, whence their margin is ``max(m, a)``.
"""

import torch

from brinell.shapes import Columns, Labels, Logits, Mask, PerRow

ROOM = 1e-5
"""How far acceptance must be from its threshold for a witness, as a share of the row's largest logit: whether a point is
accepted must not hang on rounding, which changes with a row's neighbours in the batch."""


def slack(logits: Columns) -> PerRow:
    """How far the rejection lies above the highest class, in logit units; above 0 if and only if the row is rejected."""
    return logits[:, -1] - logits[:, :-1].amax(dim=1)


def rejected(logits: Columns) -> Mask:
    """Which rows are rejected; a tie between rejection and a class is an acceptance."""
    return slack(logits) > 0


def credited(logits: Columns, y: Labels, room: float = ROOM) -> Logits:
    """Logits ``(row, classes)`` whose margin is above 0 if and only if the row is right or rejected.

    With ``room`` a wrong row counts as right also where it is accepted by less than that share of its largest logit.
    """
    classes = logits[:, :-1]
    spare = room * logits.detach().abs().amax(dim=1)
    wrong = classes.scatter(1, y[:, None], -torch.inf).amax(dim=1)
    own = classes.gather(1, y[:, None]).squeeze(1)
    return classes.scatter(1, y[:, None], torch.maximum(own, wrong + slack(logits) + spare)[:, None])
