"""Random numbers keyed by (seed, attack, attempt, row, draw): what a row sees depends on nothing else.

Counter-based: number ``i`` of a stream is a hash of (key, i). The hash is the output function of SplitMix64 (Steele,
Lea & Flood, OOPSLA 2014, figure 17), which needs only 64-bit integer arithmetic, so that all devices give the same bits.
"""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from brinell.shapes import Indices


def _signed(constant: int) -> int:
    return constant - (1 << 64) if constant >= 1 << 63 else constant


_GAMMA = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def _shift(bits: Tensor, by: int) -> Tensor:
    """Logical right shift of int64 (torch's own keeps the sign)."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _mix(bits: Tensor) -> Tensor:
    bits = (bits ^ _shift(bits, 30)) * _MIX_1
    bits = (bits ^ _shift(bits, 27)) * _MIX_2
    return bits ^ _shift(bits, 31)


def _absorb(key: Tensor, value: Tensor | int) -> Tensor:
    return _mix((key ^ _mix(torch.as_tensor(value, dtype=torch.int64, device=key.device) + _GAMMA)) + _GAMMA)


def stream_key(text: str) -> int:
    """A 63-bit key for a stream that is named by text (an attack's settings, a purpose)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True, eq=False)
class Noise:
    """The random numbers of some rows in one attempt of one attack."""

    keys: Indices
    """One stream for each row."""

    @classmethod
    def of(cls, *, seed: int, stream: int, attempt: int, rows: Indices) -> "Noise":
        """The streams of ``rows`` (their indices in the data set) for one attempt."""
        key = torch.zeros((), dtype=torch.int64, device=rows.device)
        for value in (seed, stream, attempt):
            key = _absorb(key, value)
        return cls(_absorb(key.expand(len(rows)), rows))

    def _bits(self, shape: tuple[int, ...], draw: int) -> Tensor:
        count = 1
        for side in shape:
            count *= side
        counters = torch.arange(1, count + 1, dtype=torch.int64, device=self.keys.device) * _GAMMA
        return _mix(_absorb(self.keys, draw)[:, None] + counters).view(len(self.keys), *shape)

    def uniform(self, shape: tuple[int, ...], *, draw: int, dtype: torch.dtype) -> Tensor:
        """Uniform in [0, 1), of shape ``(row, *shape)``; the same ``draw`` gives the same numbers."""
        digits = 53 if dtype == torch.float64 else 24
        return _shift(self._bits(shape, draw), 64 - digits).to(dtype) * 2.0**-digits

    def normal(self, shape: tuple[int, ...], *, draw: int, dtype: torch.dtype) -> Tensor:
        """Standard normal, of shape ``(row, *shape)``, by the inverse of its distribution function."""
        centred = (_shift(self._bits(shape, draw), 12).double() + 0.5) * 2.0**-52  # inside (0, 1)
        quantile: Tensor = torch.special.ndtri(centred)
        return quantile.to(dtype)

    def integers(self, high: int, shape: tuple[int, ...], *, draw: int) -> Tensor:
        """Uniform in 0, 1, …, ``high - 1`` as int64, of shape ``(row, *shape)``."""
        return (self.uniform(shape, draw=draw, dtype=torch.float64) * high).long()
