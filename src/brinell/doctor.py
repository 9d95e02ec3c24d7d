"""What is wrong with a pipeline, before any attack: the checks before an attack, each said whether it is raised or not."""

from brinell.diagnose.checks import CHECKS
from brinell.diagnose.diagnosis import Diagnosis, explained, name_of
from brinell.errors import BadInput
from brinell.preflight import preflight
from brinell.proving import provable
from brinell.readiness import Readiness
from brinell.subject import Subject

BEFORE = ("input-spread", "wrong-gradients", "short-sighted-gradients", "zero-gradients", "noisy-gradients")
"""Checks over a run's record that are made before the attack."""


def examined(subject: Subject) -> tuple[Diagnosis, ...]:
    """All checks before an attack on one subject; no attack is made."""
    asked = subject.suite.within(subject.threat.norm)
    try:
        if subject.certify is not None:
            provable(subject)
        ready = preflight(subject.model, subject.rows, subject.threat, asked.draws, batch_size=subject.batch_size or 64)
    except BadInput as error:
        refused = f"{error.subject}: got {error.got}; expected {error.expected}"
        means = "An attack on it would measure something else than the model: no run is begun."
        return (Diagnosis("refused", "invalid", True, refused, means, error.remedy),)
    return (_accepted(ready), *_found(ready), *_told(ready))


def _accepted(ready: Readiness) -> Diagnosis:
    said = (
        f"inputs, box, eps, mode, outputs, labels, repeatability and gradients were tried ({ready.forwards:,} passes)"
    )
    return Diagnosis("refused", "invalid", False, said, "", "")


def _found(ready: Readiness) -> list[Diagnosis]:
    found = []
    for weight, check in CHECKS:
        name, says = name_of(check), explained(check)
        if name in BEFORE:
            said = ready.findings.get(name)
            found.append(Diagnosis(name, weight, *_said(ready, name, said), says.means, says.advice))
        elif name in ("misleading-gradients", "saturated-cross-entropy"):
            margin, saturated = (ready.findings.get(f"misleading-gradients of {loss}") for loss in ("margin", "ce"))
            said = margin if name == "misleading-gradients" else saturated if margin is None else None
            found.append(Diagnosis(name, weight, *_said(ready, name, said), says.means, says.advice))
    return found


def _said(ready: Readiness, check: str, said: str | None) -> tuple[bool | None, str]:
    if said is None and check in ready.unmade:
        return None, ready.unmade[check]
    return said is not None, said or "not raised"


def _told(ready: Readiness) -> list[Diagnosis]:
    """What was adapted, or is worth knowing."""
    known = {*ready.findings.values(), *(why for name, why in ready.unmade.items() if name != "clamped-inputs")}
    means = "It was taken into account, or is worth knowing."
    return [
        Diagnosis("noted", "information", True, note, means, "Nothing, if it is as meant.")
        for note in ready.notes
        if note not in known
    ]
