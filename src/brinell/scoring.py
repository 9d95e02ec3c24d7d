"""Which rows are wrong before any attack, and which witnesses hold when they are scored again."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch

from brinell.errors import BadInput
from brinell.losses import decision, margin_of
from brinell.oracle import Oracle
from brinell.recording import Recording

Item = TypeVar("Item")


def score_clean_rows(oracle: Oracle, recording: Recording) -> None:
    """Find the rows that are wrong before any attack."""
    ledger = recording.ledger
    todo = [record.row for record in ledger.rows() if record.clean_prediction is None]
    unusable: list[int] = []
    for chunk in chunks(todo, oracle.batch_size):
        x, y = recording.examples(chunk)
        logits = oracle.scores(x)
        margin, decided, readable = margin_of(logits, y), decision(logits, y), logits.isfinite().all(dim=1)
        unusable += [row for row, good in zip(chunk, readable.tolist(), strict=True) if not good]
        with ledger.transaction():
            ledger.count_passes(recording.session, clean_forwards=len(chunk))
            for i, row in enumerate(chunk):
                recording.clean_logits.write(recording.places[row], logits[i].cpu().numpy())
                if bool(readable[i]):
                    ledger.update_row(
                        row,
                        clean_prediction=int(decided[i]),
                        clean_margin=float(margin[i]),
                        status="pending" if float(margin[i]) > 0 else "misclassified",
                    )
    refuse_unreadable(unusable)


def referee(oracle: Oracle, recording: Recording) -> None:
    """Score each new witness once more, as stored, in a pass with other neighbours; refuse what does not hold."""
    ledger, threat = recording.ledger, recording.subject.threat
    claimed = ledger.claimed()[::-1]
    for chunk in chunks(claimed, oracle.batch_size):
        x, y = recording.examples([record.row for record in chunk])
        stored = np.stack([recording.witnesses.read(record.place) for record in chunk])
        points = torch.from_numpy(stored).to(x.device, x.dtype)
        logits = oracle.credited(oracle.scores(points), y)
        holds = logits.isfinite().all(dim=1) & (margin_of(logits, y) <= 0) & threat.contains(x, points)
        with ledger.transaction():
            ledger.count_passes(recording.session, referee_forwards=len(chunk))
            for record, held in zip(chunk, holds.tolist(), strict=True):
                if held:
                    ledger.update_row(record.row, status="broken", confirmed=1)
                else:
                    ledger.refuse_witness(record.row)


def refuse_unreadable(rows: Sequence[int]) -> None:
    """Refuse a model that gave non-finite logits on some clean rows."""
    if rows:
        raise BadInput(
            "model",
            got=f"no finite logits on {len(rows)} clean rows ({', '.join(map(str, rows[:5]))}"
            + (", …)" if len(rows) > 5 else ")"),
            expected="finite logits on every clean row",
            remedy="Find what overflows or raises there; a row cannot be left out of the denominator for it.",
        )


def chunks(items: Sequence[Item], length: int) -> Iterator[Sequence[Item]]:
    """The items in order, so many at a time."""
    return (items[start : start + length] for start in range(0, len(items), length))
