"""How long a row may take."""

import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]
"""The time in seconds; ``time.process_time`` for what the processor spent, on a machine that is shared."""


@dataclass(frozen=True)
class Deadline:
    """When a row's time is over."""

    until: float
    clock: Clock = time.monotonic

    def left(self) -> float:
        """Seconds that remain."""
        return self.until - self.clock()

    def share(self, fraction: float) -> "Deadline":
        """The end of this share of what remains."""
        return Deadline(self.until - (1 - fraction) * self.left(), self.clock)
