"""Whether certificates can be had again."""

from collections.abc import Iterator

import numpy as np
import torch

from brinell.certify.chain import certify
from brinell.certify.graph import network_of
from brinell.certify.steps import STEPS, Step
from brinell.checks.finding import Finding
from brinell.claim import threat_of
from brinell.models.torch_model import TorchModel
from brinell.result import Reading
from brinell.rows import Rows

STEP: dict[str, Step] = {step: step for step in STEPS}
CHECK = "certificates proved again"


def proofs(reading: Reading, model: TorchModel, rows: Rows, seconds: float | None) -> Iterator[Finding]:
    """Each certified row is certified by the same steps again, within so many seconds; no search finds an error there.

    A row whose time is up is left open. Without ``seconds`` nothing is proved, and the finding says so.
    """
    if reading.manifest.certified is None:
        return
    certified = [record for record in reading.certificates if record.outcome == "certified"]
    if seconds is None:
        yield Finding(CHECK, None, f"none of {len(certified)}: say with --seconds how long a row may take")
        return
    places, labels = ({row.row: getattr(row, name) for row in reading.rows} for name in ("place", "label"))
    threat = threat_of(reading.manifest)
    network = network_of(model.module, tuple(reading.manifest.data["shape"]))
    outcomes: dict[int, str] = {}
    for record in certified:
        place = places[record.row]
        x, y = torch.from_numpy(np.array(rows.x[place : place + 1])), torch.tensor([labels[record.row]])
        steps = certify(model.module, x, y, threat, seconds=seconds, last=STEP[record.method], network=network)
        outcomes[record.row] = next(steps).outcome
    refuted = [row for row, outcome in outcomes.items() if outcome == "violated"]
    again = sum(outcome == "certified" for outcome in outcomes.values())
    holds = False if refuted else True if again == len(certified) else None
    against = f"; the model errs within the threat model of rows {refuted[:5]}" if refuted else ""
    yield Finding(CHECK, holds, f"{again} of {len(certified)}{against}")
