"""What was spent on a surrogate, which is on no other account."""

from collections.abc import Iterable

from brinell.attacks.transfer import Transfer
from brinell.manifest import Manifest
from brinell.queries import Cost
from brinell.records import AttemptRecord
from brinell.suites.suite import suite_of


def spent_on_surrogate(manifest: Manifest, attempts: Iterable[AttemptRecord]) -> Cost:
    """Passes on the surrogate in attempts that have ended: each row that was given to one took the same, fallen or not."""
    if manifest.surrogate is None:
        return Cost(0, 0)
    alone = {
        stage: attack.cost_of_surrogate()
        for stage, attack in enumerate(suite_of(manifest.suite).attacks)
        if isinstance(attack, Transfer)
    }
    return sum((alone[attempt.stage] for attempt in attempts if attempt.stage in alone), Cost(0, 0))
