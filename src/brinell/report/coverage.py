"""What a claim does not cover: follows from the threat model, the rows and the data alone."""

import math
from typing import Any, NamedTuple

from brinell.claim import threat_of
from brinell.manifest import Manifest

NORMS = {"linf": "the largest change of a value", "l2": "the length of a change", "l1": "the sum of all changes"}
"""What each norm limits."""


class Gap(NamedTuple):
    """One thing that the claim says nothing of."""

    what: str
    why: str


def not_covered(manifest: Manifest, *, settled: bool = False) -> list[Gap]:
    """What a reader might take the claim to cover, and it does not; the nearest first. ``settled``: each row is known."""
    gaps = [*(_rounding(manifest) if settled else _attacks(manifest)), *_rows(manifest.data), *_changes(manifest)]
    return [*gaps, *_worlds(manifest.data)]


def _rounding(manifest: Manifest) -> list[Gap]:
    """Where every row has a witness or a proof, no stronger attack is left out."""
    if manifest.certified is None:
        return []
    return [
        Gap(
            "Rounding in the deployed model",
            "Certified rows are proved for the network in real numbers, with a slack for rounding: no attack can break "
            "them but by the rounding of the arithmetic that the model happens to run in.",
        )
    ]


def _attacks(manifest: Manifest) -> list[Gap]:
    suite = manifest.suite
    if not suite["attacks"]:
        unresolved = "A row that is neither certified nor broken may be robust or not: no attack was made."
        return [Gap("Rows that are unresolved", unresolved)]
    gaps = [
        Gap(
            "Stronger attacks",
            f"The figure is an upper bound by suite {suite['name']} v{suite['version']}. A row that stands is not proved "
            "robust: another attack, more passes or another seed may break it.",
        )
    ]
    if "draws" not in suite:
        gaps.append(
            Gap(
                "Randomised versions of the model", "The model was taken to give the same input the same answer always."
            )
        )
    else:
        gaps.append(
            Gap(
                "An attacker who knows the model's draws",
                "Every point was scored in draws that the attack did not see.",
            )
        )
    if manifest.cut is not None:
        gaps.append(
            Gap("The rest of the suite", f"The budget of {manifest.budget} ended the attacks before it was through.")
        )
    return gaps


def _rows(data: dict[str, Any]) -> list[Gap]:
    rows, total = data["rows"], data["total"]
    beyond = f"The {total - rows:,} other rows of {data['source']} were not evaluated. " if rows < total else ""
    return [
        Gap(
            "Other rows" if rows < total else "Rows outside the data set",
            f"{beyond}The interval speaks of a population only if the {rows:,} rows were drawn from it at random.",
        ),
    ]


def _changes(manifest: Manifest) -> list[Gap]:
    threat, attacked = threat_of(manifest), bool(manifest.suite["attacks"])
    others = [norm for norm in NORMS if norm != threat.norm]
    radii = " and ".join(_reach(norm, threat.norm, threat.eps, manifest.data["shape"]) for norm in others)
    gaps = [
        Gap(
            f"Other norms than {threat.norm.capitalize()}",
            f"The threat model limits {NORMS[threat.norm]}. The figure bounds the accuracy under another norm only where "
            f"that norm's ball contains this one: from radius {radii} on.",
        ),
        Gap(
            f"Changes larger than eps {threat.eps}",
            "The figure stays an upper bound there and may lie far above the truth.",
        ),
        Gap(
            f"Changes smaller than eps {threat.eps}",
            f"{'The attacks' if attacked else 'The search for a proof'} sought points anywhere in the ball, not the nearest "
            "ones: at a smaller eps there are only the witnesses that happen to lie within it.",
        ),
        Gap(
            f"Inputs outside [{threat.low:g}, {threat.high:g}]",
            "No point outside this box was tried.",
        ),
    ]
    if not attacked:
        return gaps
    return [
        *gaps,
        Gap(
            "Attackers with less access, or with one target",
            "The attacks saw scores and gradients and were content with any wrong class. How many rows an attacker breaks "
            "who only has decisions, or who needs a certain class, was not measured; it is no more than with all of it.",
        ),
    ]


def _reach(norm: str, around: str, eps: float, shape: list[int]) -> str:
    """The smallest ball of one norm around a ball of another, for inputs of so many values, the box left aside."""
    values = math.prod(shape)
    grow = {("l2", "linf"): values**0.5, ("l1", "l2"): values**0.5, ("l1", "linf"): values}
    return f"{eps * grow.get((norm, around), 1):.3g} in {norm.capitalize()}"


def _worlds(data: dict[str, Any]) -> list[Gap]:
    shape = data["shape"]
    gaps = []
    if pictures(shape):
        gaps += [
            Gap("Patches and stickers", "A few values changed without limit leave this ball."),
            Gap(
                "Rotations, shifts, crops and changes of colour",
                "They are small to the eye and large in this norm; none was tried.",
            ),
            Gap(
                "Physical attacks", "Objects, prints and cameras, seen from several sides, are no points of this ball."
            ),
        ]
    gaps += [
        Gap("Corruptions", "Noise, blur, weather, compression and failing sensors were not tried."),
        Gap("Distribution shift", "Inputs from another source, time or population than these rows were not tried."),
        Gap(
            "What stands around the model",
            "Decoding, resizing, detectors and people in the loop count only where they are part of the model attacked.",
        ),
        Gap("Poisoned training data and backdoors", "Only inputs were changed, never the training or the weights."),
        Gap(
            "Prompt injection",
            "This is a classifier of inputs; systems that read text or call tools are attacked in other ways.",
        ),
        Gap("Privacy, theft of the model, fairness, calibration", "Nothing of these was measured."),
    ]
    return gaps


def pictures(shape: list[int]) -> bool:
    """Whether rows of such a shape can be shown as pictures: channels first, grey or colour, 4 × 4 at least."""
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) >= 4
