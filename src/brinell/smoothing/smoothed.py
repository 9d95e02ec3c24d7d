"""The smoothed classifier g, asked as the paper asks it: CERTIFY and PREDICT.

Problem     ``g(x) = argmax_c P(f(x + e) = c)``, ``e ~ N(0, sigma² I)``; f is the base classifier.
Source      Cohen, Rosenfeld & Kolter 2019 (arXiv 1902.02918), section 3.2, "pseudocode for certification and prediction".
Departures  a copy on which f ties, or whose logits are not finite, counts for no class.
Cost        CERTIFY n0 + n forwards a row, PREDICT n.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from brinell.oracle import Oracle
from brinell.random import Noise, stream_key
from brinell.shapes import Inputs, Logits
from brinell.smoothing.setting import Setting
from brinell.statistics import even_odds

Purpose = Literal["choose", "certify", "attack", "predict"]
"""What noisy copies are drawn for: each purpose has random numbers of its own."""
Row = Float[Tensor, "1 *feature"]
"""One point, as a batch of one."""
CLOSE = 1e-4
"""Part of the largest logit by which the two highest must differ for rounding not to matter."""


class Votes(NamedTuple):
    """How often f gave noisy copies of a point each class."""

    counts: tuple[int, ...]
    """Copies of each class."""
    undecided: int
    """Copies that got none: logits tied at the top, or not finite."""
    close: int
    """Copies whose two highest logits are so near that rounding might turn them, those undecided by a tie included."""


class Certificate(NamedTuple):
    """What CERTIFY returned for a row."""

    top: int
    """The class most frequent among the first n0 copies."""
    k0: int
    """How many of them had it."""
    k: int
    """How many of the n other copies had it."""
    undecided: int
    """How many of the n got no class."""
    close: int
    """How many of the n rounding might turn."""
    lower: float
    """``pA``."""
    radius: float | None
    """In input units, L2; None: abstained."""


class Prediction(NamedTuple):
    """What PREDICT returned for a point."""

    first: int
    """The class most frequent among the n copies."""
    second: int
    """The next."""
    count_first: int
    """How many copies had the one."""
    count_second: int
    """How many had the other."""
    close: int
    """How many of the n rounding might turn."""
    answer: int | None
    """The first, if the two differ by more than chance at alpha; None: abstained."""


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The smoothed classifier g of a base classifier f."""

    oracle: Oracle
    """f, as it is asked."""
    setting: Setting
    """The noise and the counts."""
    seed: int
    """Of all noise."""

    def copies(self, x: Row, row: int, purpose: Purpose, start: int, count: int) -> Inputs:
        """Copies number ``start`` … ``start + count - 1`` of a point: it plus Gaussian noise, not clipped."""
        numbers = torch.arange(start, start + count, device=x.device)  # a stream for each copy of the row
        noise = Noise.of(seed=self.seed, stream=stream_key(f"smoothing: {purpose}"), attempt=row, rows=numbers)
        return x + self.setting.sigma * noise.normal(tuple(x.shape[1:]), draw=0, dtype=x.dtype)

    def votes(self, x: Row, row: int, purpose: Purpose, count: int) -> Votes:
        """What f says of the first ``count`` copies for a purpose."""
        total = torch.zeros(self.oracle.classes, dtype=torch.int64, device=x.device)
        undecided = close = 0
        for start, length in _stretches(count, self.oracle.batch_size):
            logits = self.oracle.scores(self.copies(x, row, purpose, start, length))
            best, gap = _decided(logits)
            clear = gap > 0
            total += torch.bincount(best[clear], minlength=self.oracle.classes)
            undecided += int((~clear).sum())
            close += int((gap <= CLOSE * logits.abs().amax(1)).sum())
        return Votes(tuple(total.tolist()), undecided, close)

    def certify(self, x: Row, row: int) -> Certificate:
        """CERTIFY: a class chosen on n0 copies, then a lower bound of its probability from n others."""
        chosen = self.votes(x, row, "choose", self.setting.n0)
        top = max(range(self.oracle.classes), key=chosen.counts.__getitem__)
        found = self.votes(x, row, "certify", self.setting.n)
        k = found.counts[top]
        return Certificate(
            top,
            chosen.counts[top],
            k,
            found.undecided,
            found.close,
            self.setting.lower(k),
            self.setting.radius(k),
        )

    def predict(self, x: Row, row: int) -> Prediction:
        """PREDICT: the most frequent class of n copies, or none where chance at alpha may have put it first."""
        found = self.votes(x, row, "predict", self.setting.n)
        first, second = sorted(range(self.oracle.classes), key=found.counts.__getitem__, reverse=True)[:2]
        counts = found.counts[first], found.counts[second]
        return Prediction(first, second, *counts, found.close, answer(first, *counts, self.setting.alpha))


def answer(first: int, count_first: int, count_second: int, alpha: float) -> int | None:
    """What PREDICT returns from its two counts: the first class, or None where an even chance explains them at alpha."""
    return first if even_odds(count_first, count_second) <= alpha else None


def class_of(logits: Logits) -> int | None:
    """The class of a single row; None where it is tied or its logits are not finite."""
    best, lead = _decided(logits)
    return int(best[0]) if bool(lead[0] > 0) else None


def _decided(logits: Logits) -> tuple[Tensor, Tensor]:
    """The highest class of each copy, and by how much it leads; not above 0, or NaN, where none does."""
    highest, where = logits.topk(2, dim=1)
    lead = highest[:, 0] - highest[:, 1]
    return where[:, 0], lead.where(logits.isfinite().all(1), torch.nan)


def _stretches(count: int, length: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, length):
        yield start, min(length, count - start)
