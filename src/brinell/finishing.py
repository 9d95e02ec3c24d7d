"""A run carried to its end, or to where it is stopped, and sealed."""

import shutil
from collections.abc import Callable
from functools import partial

from brinell.concluding import conclude
from brinell.errors import BadInput, ModelFailed
from brinell.oracle import is_out_of_memory
from brinell.randomised import carry_out
from brinell.result import Reading
from brinell.run import Run
from brinell.tally import Observer, ignore


def finish(run: Run, observer: Observer = ignore, *, stop: Callable[[], bool] = lambda: False) -> Reading:
    """Carry a run to its end, or to where ``stop`` says; seal its folder in any case."""
    state, refused = "interrupted", False
    try:
        go = run.go if run.suite.draws is None else partial(carry_out, run)
        if go(observer, stop):
            state = "complete"
    except BadInput:
        refused = True
        raise
    except Exception as error:  # memory may run out anywhere
        if is_out_of_memory(error):
            raise ModelFailed(
                "memory",
                got=f"{type(error).__name__}: {error}",
                expected="room for a batch and the attack's own state",
                remedy="Start again with a smaller --batch-size.",
            ) from error
        raise
    finally:
        try:
            reading = conclude(run.folder, run.close(state))
        finally:
            run.lock.release()
        if refused and not reading.attempts:
            shutil.rmtree(run.folder, ignore_errors=True)  # the clean rows were refused: there is nothing to keep
    return reading
