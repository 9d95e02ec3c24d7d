"""What a suite is given beyond its own attacks, because of what is known of the model that it is run on.

The further attacks come last, on all rows that stand: they cost nothing where nothing stands, and a row that falls to one
of them fell to none of the suite's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from brinell.adaptive.bypass import described
from brinell.attacks.catalogue import identity
from brinell.attacks.pgd import PGD
from brinell.attacks.transfer import Transfer
from brinell.losses import CROSS_ENTROPY, MARGIN, TARGETED_MARGIN, Loss, TargetedLoss
from brinell.queries import Attack
from brinell.suites.rules import Rule
from brinell.suites.suite import Suite
from brinell.surrogate import Surrogate

CLIMBED: tuple[Loss | TargetedLoss, ...] = (CROSS_ENTROPY, MARGIN, TARGETED_MARGIN)
"""Losses that are climbed on a surrogate, and past what hides the gradient."""


def further(suite: Suite, bypassed: Mapping[str, str], surrogate: Surrogate | None, classes: int) -> Suite:
    """The suite, fitted to its classes already, with what is added; as it was where nothing is, or it has no attack.

    ``bypassed`` are the parts of the model that hide its gradient. A suite that was read from a record has these attacks
    already, and is given the surrogate itself.
    """
    if not suite.attacks:
        return suite
    if bypassed:
        past = [
            PGD(loss=loss, slope="identity", schedule="cosine", step_size=2.0, steps=40, restarts=restarts).fit(classes)
            for loss, restarts in zip(CLIMBED, (2, 2, 1), strict=True)
        ]
        suite = _with(suite, past, f"BPDA by identity on {described(bypassed)}")
    if surrogate is not None:
        made = surrogate.model.fingerprint()
        legs = [Transfer(surrogate=made, loss=loss, held=surrogate.model).fit(classes) for loss in CLIMBED]
        suite = _with(suite, legs, f"transfer from {surrogate.source}")
    return suite


def _with(suite: Suite, legs: Sequence[Attack], why: str) -> Suite:
    """The suite with further attacks at its end, and with a name that says so."""
    by_identity = {identity(leg): leg for leg in legs}
    own = [by_identity.get(identity(attack), attack) for attack in suite.attacks]
    there = {identity(attack) for attack in own}
    new = [leg for key, leg in by_identity.items() if key not in there]
    if not new:
        return replace(suite, attacks=tuple(own))
    rules = (*suite.rules, *(Rule() for _ in new)) if suite.rules else ()
    return replace(suite, name=f"{suite.name} + {why}", attacks=(*own, *new), rules=rules)
