"""A run for other people's tables: RobustBench's entries and Hugging Face's model cards."""

import json
from typing import Any

from brinell.claims.leaderboard import as_entry
from brinell.errors import BadInput
from brinell.result import Reading


def as_robustbench(reading: Reading) -> None:
    """The run in the shape of an entry of RobustBench's leaderboard; null is for its authors to fill in.

    Raises
    ------
    BadInput
        If no attack was made: the leaderboard ranks what attacks have left.
    """
    if not reading.attacked:
        raise BadInput(
            f"--format robustbench of {reading.folder}",
            got="certificates alone",
            expected="a run with attacks, which is what the leaderboard ranks",
            remedy="Attack the model with `brinell run`, or print another format.",
        )
    print(json.dumps(as_entry(reading.claim), indent=2))


def as_model_card(reading: Reading) -> None:
    """The run as the ``model-index`` block of a Hugging Face model card."""
    print(model_card(reading), end="")


def model_card(reading: Reading) -> str:
    """The block in YAML, between the dashes that open a card; figures that are not known yet are left out.

    ``model-index`` has no field for an upper bound, a count or a threat model: all of them stand in the metric's name.
    """
    claim, shape = reading.claim, reading.manifest.data["shape"]
    task = "image-classification" if len(shape) == 3 else "tabular-classification"
    metrics: list[tuple[str, float, str]] = []
    if claim.clean is not None and claim.clean.share is not None:
        metrics.append(("accuracy", claim.clean.share, f"Clean accuracy {claim.clean}"))
    proved = claim.certified
    if proved is not None and proved.share is not None and claim.outcome != "invalid":
        metrics.append(("certified_accuracy", proved.share, claim.line()))
    if claim.figure.share is not None and claim.outcome != "invalid":
        metrics.append(("robust_accuracy", claim.figure.share, claim.line()))
    lines = [
        "---",
        "model-index:",
        f"- name: {_text(claim.model.name)}",
        "  results:",
        "  - task:",
        f"      type: {task}",
        "    dataset:",
        f"      name: {_text(claim.data.known_as or claim.data.name)}",
        f"      type: {_text(claim.data.name)}",
        "    metrics:",
    ]
    for kind, share, name in metrics:
        lines += [f"    - type: {kind}", f"      value: {100 * share:.2f}", f"      name: {_text(name)}"]
        lines += [
            "      args:",
            f"        made_by: {_text(claim.made_by)}",
            f"        digest: {reading.manifest.seal}",
        ]
    return "\n".join([*lines, "---", ""])


def _text(value: Any) -> str:
    """A text as YAML reads it, whatever it holds: JSON's strings are YAML's."""
    return json.dumps(str(value), ensure_ascii=False)
