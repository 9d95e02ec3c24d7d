"""The answer to a property of the verification competition, on the screen."""

import json
import math
from pathlib import Path

from brinell.certify.decide import Verdict
from brinell.errors import BadInput
from brinell.report.show import write_new


def verdict_as_text(verdict: Verdict, out: Path | None) -> None:
    """The answer in one line, and the witness in the competition's format beneath it, or in a new file."""
    print(verdict.answer)
    if verdict.text and out is not None:
        _write(verdict.text, out)
    elif verdict.text:
        print(verdict.text, end="")


def reason(verdict: Verdict) -> str:
    """How the answer was come by, in one line: ``holds (unsat): by crown, margin 0.31 above the slack 0.0001, in 0.4 s``."""
    spent = f"in {verdict.seconds:.1f} s"
    if verdict.answer == "violated":
        return f"violated (sat): a witness by {verdict.method}, {spent}"
    if verdict.answer == "holds":
        found = f"margin {verdict.margin:.3g} above the slack {verdict.slack:.3g}"
        return f"holds (unsat): by {verdict.method}, {found}, {spent}"
    if not math.isfinite(verdict.margin):
        return f"unknown: no witness, and no bound by {verdict.method}, {spent}"
    within = "is within" if verdict.margin > 0 else "is not above"
    return f"unknown: no witness; by {verdict.method}, bound {verdict.margin:.3g} {within} the slack {verdict.slack:.3g}, {spent}"


def _write(witness: str, out: Path) -> None:
    """The witness to a new file, and to the screen where that fails: what was found is not lost."""
    try:
        write_new(out, witness.rstrip())
    except BadInput:
        print(witness, end="")
        raise


def verdict_as_json(verdict: Verdict, out: Path | None) -> None:
    """The answer with how it was come by; what was not found is null."""
    said = {
        "answer": verdict.answer,
        "method": verdict.method,
        "margin": verdict.margin if math.isfinite(verdict.margin) else None,
        "slack": verdict.slack,
        "seconds": verdict.seconds,
        "witness": None if verdict.witness is None else verdict.witness[0].tolist(),
        "counterexample": verdict.text or None,
    }
    print(json.dumps(said, indent=2))
    if verdict.text and out is not None:
        write_new(out, verdict.text.rstrip())
