"""In which batches a model is fastest."""

import time

from brinell.losses import cross_entropy_of
from brinell.models.torch_model import TorchModel
from brinell.readiness import Readiness
from brinell.shapes import Inputs, Labels

BATCH_SIZES = (64, 128, 256, 512)
TRIAL_SECONDS = 1.5


def fastest_batch_size(model: TorchModel, x: Inputs, y: Labels, rows: int, ready: Readiness) -> int:
    """The smallest size within a twentieth of the best measured throughput of gradients."""
    speeds: dict[int, float] = {}
    began = time.perf_counter()
    for size in BATCH_SIZES:
        repeats = -(-size // len(x))
        points, labels = x.repeat(repeats, *[1] * (x.dim() - 1))[:size], y.repeat(repeats)[:size]
        try:
            for _ in range(2):  # the first pass of a size pays for set-up
                start = time.perf_counter()
                float(model.gradient(points, cross_entropy_of(labels)).loss.sum())
                speeds[size] = size / (time.perf_counter() - start)
                ready.forwards += size
                ready.backwards += size
        except (RuntimeError, MemoryError):
            break  # too large for this machine; smaller ones are known to work
        if size >= rows or time.perf_counter() - began > TRIAL_SECONDS:
            break
    best = max(speeds.values(), default=0.0)
    return min((size for size, speed in speeds.items() if speed >= 0.95 * best), default=1)
