"""Whether points that were made on a surrogate are had from it again."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from brinell.attacks.catalogue import identity
from brinell.attacks.transfer import Transfer
from brinell.checks.finding import Finding, equal
from brinell.claim import threat_of
from brinell.losses import margin_of
from brinell.models.torch_model import TorchModel
from brinell.queries import Given
from brinell.random import Noise, stream_key
from brinell.records import RowRecord
from brinell.rejection import credited
from brinell.result import Reading
from brinell.rows import Rows
from brinell.shapes import PerRow
from brinell.suites.suite import suite_of
from brinell.surrogate import Surrogate, base_of

MOST = 64
"""Rows whose points are made again."""


def remade(reading: Reading, model: TorchModel, rows: Rows, surrogate: Surrogate | None) -> Iterator[Finding]:
    """The surrogate is the one that was named, and the model errs on points that are made on it again."""
    about = reading.manifest.surrogate
    if about is None:
        return
    surrogate = base_of(model) if about["kind"] == "base" else surrogate
    if surrogate is None:
        yield Finding("surrogate", None, f"{about['source']} is not at hand: points were not made again")
        return
    yield equal("surrogate fingerprint", surrogate.model.fingerprint(), about["fingerprint"])
    legs = {i: leg for i, leg in enumerate(suite_of(reading.manifest.suite).attacks) if isinstance(leg, Transfer)}
    fell: dict[tuple[int, int], list[RowRecord]] = {}
    for row in [row for row in reading.rows if row.status == "broken" and row.stage in legs][:MOST]:
        assert row.stage is not None and row.attempt is not None
        fell.setdefault((row.stage, row.attempt), []).append(row)
    missed = []
    for (stage, attempt), records in fell.items():
        leg = replace(legs[stage], held=surrogate.model)
        least = _least(reading, model, rows, leg, attempt, records)
        missed += [row.row for row, margin in zip(records, least.tolist(), strict=True) if not margin <= 0]
    count = sum(map(len, fell.values()))
    said = f"the model errs again on {count - len(missed)} of {count} made again" + (
        f"; not on rows {missed[:5]}" if missed else ""
    )
    yield Finding("points of the surrogate", not missed, said)


def _least(
    reading: Reading, model: TorchModel, rows: Rows, leg: Transfer, attempt: int, records: list[RowRecord]
) -> PerRow:
    """The least margin of the model at the points of one attempt, made again."""
    places = [row.place for row in records]
    x = torch.from_numpy(rows.x[places]).to(model.device, model.dtype)
    y = torch.tensor([row.label for row in records], device=model.device)
    noise = Noise.of(
        seed=reading.manifest.seed,
        stream=stream_key(identity(leg)),
        attempt=attempt,
        rows=torch.tensor([row.row for row in records], dtype=torch.int64, device=model.device),
    )

    def judged(points: torch.Tensor) -> torch.Tensor:
        logits = model.scores(points)
        return credited(logits, y) if model.rejects else logits

    given = Given(x, y, judged(x), attempt)
    ball = threat_of(reading.manifest).around(x)
    return torch.stack([margin_of(judged(query.points), y) for query in leg.search(given, ball, noise)]).amin(dim=0)
