"""Where accounts come from: the folder of a run, a claim's file, an entry of the leaderboard."""

import math
from pathlib import Path

from brinell.claims.account import Account
from brinell.claims.files import read_claim
from brinell.claims.leaderboard import entry, is_entry
from brinell.errors import BadInput
from brinell.result import Reading, read_run


def account_from(source: str, leaderboard: Path | None = None) -> Account:
    """What a source says: ``runs/mine``, ``claim.toml``, ``robustbench:cifar10/Linf/Carmon2019Unlabeled``.

    Raises
    ------
    BadInput
        If it is none of these, or cannot be read.
    """
    if is_entry(source):
        return Account(source, entry(source, leaderboard))
    path = Path(source)
    if path.is_dir():
        return account_of(read_run(path), source)
    if path.suffix in (".toml", ".json"):
        return Account(source, read_claim(path))
    raise BadInput(
        f"source {source}",
        got="no folder" if not path.exists() else "a file of another kind",
        expected="the folder of a run, a claim (.toml or .json), or robustbench:DATASET/THREAT/MODEL",
        remedy="Check the path.",
    )


def account_of(reading: Reading, name: str) -> Account:
    """What a run says, with the status of each row where the model is deterministic."""
    statuses: dict[str, str] = {}
    twins: dict[str, int] = {}
    for row in reading.rows:
        twin = twins[row.digest] = twins.get(row.digest, -1) + 1  # the same example may be in the data twice
        statuses[f"{row.digest} {twin}"] = row.status
    return Account(
        name,
        reading.claim,
        statuses if reading.randomised is None else None,
        math.prod(reading.manifest.data["shape"]),
    )
