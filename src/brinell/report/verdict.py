"""The answer to a property of the verification competition, on the screen."""

import json
import math
from pathlib import Path

from brinell.certify.decide import Verdict
from brinell.report.show import write_new


def verdict_as_text(verdict: Verdict, out: Path | None) -> None:
    """The answer in one line, and the witness in the competition's format beneath it, or in a new file."""
    print(verdict.answer)
    if verdict.text and out is not None:
        write_new(out, verdict.text.rstrip())
    elif verdict.text:
        print(verdict.text, end="")


def verdict_as_json(verdict: Verdict, out: Path | None) -> None:
    """The answer with how it was come by; what was not found is null."""
    if verdict.text and out is not None:
        write_new(out, verdict.text.rstrip())
    said = {
        "answer": verdict.answer,
        "method": verdict.method,
        "margin": verdict.margin if math.isfinite(verdict.margin) else None,
        "seconds": verdict.seconds,
        "witness": None if verdict.witness is None else verdict.witness[0].tolist(),
        "counterexample": verdict.text or None,
    }
    print(json.dumps(said, indent=2))
