"""Whether certificates can be had again, and whether their numbers are possible at all."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from brinell.certify.chain import Certificate, certify
from brinell.certify.graph import Network, network_of
from brinell.certify.region import Region
from brinell.certify.slack import TOLERANCE, slack_of
from brinell.certify.steps import STEPS, Step
from brinell.checks.finding import Finding
from brinell.claim import threat_of
from brinell.losses import margin_of
from brinell.models.torch_model import TorchModel
from brinell.records import CertificateRecord
from brinell.result import Reading
from brinell.rows import Rows

STEP: dict[str, Step] = {step: step for step in STEPS}
CHECK = "certificates proved again"
NUMBERS = "certificates' numbers by the model"
EXACT = frozenset({"interval", "crown"})
"""Steps that neither time nor a search has a part in: their bounds are the same again."""
SAME = 1e-6
"""Relative difference, of two sums of one kind in float64, that order and library explain."""
DRIFT = 1e-4
"""By how much of it the largest logit of the deployed model may differ between machines."""
TWICE = 2.0
"""Factor by which a slack may differ between machines where it is the rounding that was seen."""


def numbers(reading: Reading, model: TorchModel, rows: Rows) -> Iterator[Finding]:
    """Each slack is that of the model, and no margin is proved above the one on the clean input, which lies in the set."""
    if reading.manifest.certified is None:
        return
    network = network_of(model.module, tuple(reading.manifest.data["shape"]))
    threat = threat_of(reading.manifest)
    places = {row.row: row.place for row in reading.rows}
    off: list[int] = []
    for record in reading.certificates:
        x, y = _examples(rows, [places[record.row]])
        clean = _margin(network, x, y)
        slack = slack_of(model.module, network, x, Region.of(threat, x))
        least = TOLERANCE * max(1.0, float(slack.scores.abs().max()))
        enough = float(slack.enough[0])
        above = record.margin is not None and not record.margin <= clean + SAME * max(enough, abs(clean))
        if above or not max(least * (1 - DRIFT), enough / TWICE) <= record.slack <= enough * TWICE:
            off.append(record.row)
    detail = f"slack, and a margin not above that of the clean input, on {len(reading.certificates) - len(off)} of "
    detail += f"{len(reading.certificates)} rows"
    yield Finding(NUMBERS, not off, detail + (f"; not on {off[:5]}" if off else ""))


def proofs(reading: Reading, model: TorchModel, rows: Rows, seconds: float | None) -> Iterator[Finding]:
    """Each certified row is certified by the same steps again, within so many seconds; no search finds an error there.

    Bounds of intervals and of CROWN must be the recorded ones. A row whose time is up is left open. Without ``seconds``
    nothing is proved, and the finding says so.
    """
    if reading.manifest.certified is None:
        return
    certified = [record for record in reading.certificates if record.outcome == "certified"]
    if seconds is None:
        yield Finding(CHECK, None, f"none of {len(certified)}: say with --seconds how long a row may take")
        return
    places = {row.row: row.place for row in reading.rows}
    threat = threat_of(reading.manifest)
    network = network_of(model.module, tuple(reading.manifest.data["shape"]))
    again, refuted, other = 0, list[int](), list[int]()
    for record in certified:
        x, y = _examples(rows, [places[record.row]])
        found = next(certify(model.module, x, y, threat, seconds=seconds, last=STEP[record.method], network=network))
        again += found.outcome == "certified"
        if found.outcome == "violated":
            refuted.append(record.row)
        elif not _as_recorded(record, found):
            other.append(record.row)
    holds = False if refuted or other else True if again == len(certified) else None
    against = f"; the model errs within the threat model of rows {refuted[:5]}" if refuted else ""
    against += f"; by another step or with another margin on rows {other[:5]}" if other else ""
    yield Finding(CHECK, holds, f"{again} of {len(certified)}{against}")


def _as_recorded(record: CertificateRecord, found: Certificate) -> bool:
    """Whether step and margin are the recorded ones, where the one or the other step is exact."""
    if not {record.step, found.method if found.outcome == "certified" else None} & EXACT:
        return True
    same = record.margin is not None and math.isclose(record.margin, found.margin, rel_tol=SAME)
    return same and record.step == found.method


def _examples(rows: Rows, places: list[int]) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(np.array(rows.x[places])), torch.from_numpy(np.array(rows.y[places]))


def _margin(network: Network, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float(margin_of(network.forward(x.double()), y))
