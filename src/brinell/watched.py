"""Which rows the engine takes down every point of: a few, drawn by the run's seed."""

from collections.abc import Iterable

import torch

from brinell.random import Noise, stream_key

MOST = 16
"""Rows that are watched: enough to look at, too few to cost anything."""


def drawn_rows(rows: Iterable[int], seed: int) -> list[int]:
    """Up to ``MOST`` of the rows, each subset of that size as likely as any other; ascending.

    Each row gets a number from (seed, row) alone and the least numbers are taken, so that neither the order of the rows
    nor a resume changes the choice. No row gives none.
    """
    indices = torch.tensor(sorted(rows), dtype=torch.int64)
    noise = Noise.of(seed=seed, stream=stream_key("watched rows"), attempt=0, rows=indices)
    numbers = noise.uniform((), draw=0, dtype=torch.float64)
    return sorted(indices[numbers.argsort(stable=True)[:MOST]].tolist())
