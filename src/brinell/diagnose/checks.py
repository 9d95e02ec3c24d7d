"""The list of all checks over a run's record. Each is one function, whose docstring says when it is raised, what that
means, and what to do."""

from collections.abc import Callable

from brinell.diagnose import before, between, planned, recorded, spent, traced
from brinell.diagnose.diagnosis import NO_ATTACK, SETTLED, Diagnosis, Found, Weight, explained, name_of
from brinell.diagnose.evidence import Evidence

CHECKS: tuple[tuple[Weight, Callable[[Evidence], Found]], ...] = (
    ("invalid", recorded.incomplete),
    ("invalid", recorded.clean_accuracy_as_declared),
    ("invalid", recorded.certified_and_broken),
    ("suspect", recorded.errors_in_rows),
    ("suspect", recorded.witnesses_refused),
    ("suspect", before.input_spread),
    ("suspect", before.other_preprocessing),
    ("suspect", before.wrong_gradients),
    ("suspect", before.short_sighted_gradients),
    ("suspect", before.misleading_gradients),
    ("suspect", before.noisy_gradients),
    ("suspect", between.black_box_finds_more),
    ("suspect", between.bypass_finds_more),
    ("suspect", between.transfer_finds_more),
    ("suspect", before.few_targets),
    ("suspect", planned.weak_suite),
    ("suspect", spent.still_breaking),
    ("suspect", spent.restarts_still_gain),
    ("suspect", spent.passed_over),
    ("suspect", traced.flat_gradients),
    ("suspect", traced.no_ascent),
    ("suspect", traced.wandering),
    ("suspect", traced.short_of_the_top),
    ("suspect", traced.still_climbing),
    ("suspect", planned.attacked_as_trained),
    ("information", between.plateau),
    ("information", between.a_loss_gets_further),
    ("information", spent.near_misses),
    ("information", traced.idle_attacks),
    ("information", before.zero_gradients),
    ("information", before.saturated_cross_entropy),
    ("information", before.clamped_inputs),
)
"""Every check with its weight, in the order in which they are told."""
OF_ANY_RUN = (
    recorded.incomplete,
    recorded.clean_accuracy_as_declared,
    recorded.certified_and_broken,
    before.input_spread,
    before.other_preprocessing,
    recorded.errors_in_rows,
    recorded.witnesses_refused,
)
"""Checks that mean something where no attack was made, or every row is wrong, broken or certified: no attack has to be
trusted then."""


def diagnosed(run: Evidence) -> tuple[Diagnosis, ...]:
    """All checks on one run."""
    return tuple(_diagnosis(weight, check, run) for weight, check in CHECKS)


def _diagnosis(weight: Weight, check: Callable[[Evidence], Found], run: Evidence) -> Diagnosis:
    says = explained(check)
    if not run.manifest.suite["attacks"] and check not in OF_ANY_RUN:
        found = Found(None, NO_ATTACK)
    elif run.settled and weight == "suspect" and check not in OF_ANY_RUN:
        found = Found(None, SETTLED)
    else:
        found = check(run)
    return Diagnosis(name_of(check), weight, found.raised, found.said, says.means, says.advice)
