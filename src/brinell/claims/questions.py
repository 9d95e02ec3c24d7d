"""What a reader must ask of a claim: each question answered by it, or not; and what cannot be concluded from it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from brinell.claims.account import plain
from brinell.claims.bounds import robust_accuracy
from brinell.claims.claim import Claim

FEW_STEPS = 50
FEW_RESTARTS = 5
"""Of one attack with one loss; below it, and with fewer restarts, an attack counts as short."""


@dataclass(frozen=True)
class Question:
    """One question, with the claim's answer."""

    asks: str
    answer: str | None
    """None where the claim leaves it out."""
    why: str
    """What goes wrong where it is left out."""


def questions(claim: Claim) -> list[Question]:
    """All questions, in the order in which a reader would put them."""
    return [*_of_rows(claim), *_of_threat(claim), *_of_attack(claim), *_of_model(claim)]


def _of_rows(claim: Claim) -> Iterator[Question]:
    figure, data = claim.figure, claim.data
    whole = None if figure.of is None else f"{figure.of:,}"
    yield Question("How many rows were evaluated?", whole, "Without the count no interval can be computed.")
    counted = None if figure.count is None else f"{figure.count:,g}"
    yield Question(
        "How many of them does the figure count?", counted, "A share rounded to a percent hides ties and losses."
    )
    yield Question(
        "How many rows did the attack flip?",
        _flipped(claim),
        "A mean perturbation, or a success rate, is over these alone.",
    )
    yield Question(
        "Are rows that were wrong before any attack in the denominator?",
        {"all rows": "yes: over all rows", "initially correct rows": "no: over the initially correct rows", None: None}[
            figure.denominator
        ],
        "Over correct rows alone a model that is mostly wrong can look robust.",
    )
    clean = None if claim.clean is None or claim.clean.share is None else str(claim.clean)
    yield Question(
        "What is the clean accuracy on the same rows?", clean, "It bounds the robust accuracy, and turns rates into it."
    )
    yield Question("Which data?", data.known_as or data.name, "Figures on different data are not comparable.")
    yield Question(
        "Which of its rows, by which rule were they chosen?",
        data.rows,
        "A subset chosen after the fact can show anything.",
    )
    yield Question(
        "What is done to an input before the model, and did the attack go through it?",
        data.preprocessing,
        "A step that the attack did not go through hides gradients rather than making a model robust.",
    )


def _flipped(claim: Claim) -> str | None:
    figure, clean = claim.figure, claim.clean
    if claim.kind == "certified":
        return "none: it is no attack"
    if claim.quantity == "attack success rate" and figure.count is not None:
        return f"{figure.count:,g}"
    if figure.count is None or clean is None or clean.count is None or figure.denominator != "all rows":
        return None
    if claim.quantity != "robust accuracy" or (figure.undecided and not claim.suite.empty):
        return None
    fell = clean.count - figure.count - claim.errors - figure.undecided
    return f"none: no attack was made; the search for a proof broke {fell:,g}" if claim.suite.empty else f"{fell:,g}"


def _of_threat(claim: Claim) -> Iterator[Question]:
    threat = claim.threat
    yield Question("Which norm?", threat.norm, "The same eps is another ball in another norm.")
    yield Question("Which eps?", threat.eps, "An accuracy without its eps means nothing.")
    yield Question(
        "Is eps absolute, or relative to the input?",
        threat.eps_is,
        "A share of the input's norm is another ball for each row.",
    )
    box = None if threat.low is None or threat.high is None else f"[{threat.low:g}, {threat.high:g}]"
    yield Question(
        "In which range are inputs?",
        box,
        "8/255 in [0, 1] is 8 in [0, 255] and 0.03 after normalisation something else.",
    )
    yield Question(
        "Any wrong class, or a chosen one?", threat.goal, "A targeted attack that fails says little of the others."
    )
    attacked = claim.kind == "empirical" and not claim.suite.empty
    access = threat.access if attacked else "a certificate holds against any access"
    yield Question(
        "What could the attacker see?", access, "Without gradients an attack finds less, and the figure is higher."
    )


def _of_attack(claim: Claim) -> Iterator[Question]:
    suite = claim.suite
    if claim.kind == "certified":
        yield Question("By which method?", suite.name, "A certificate holds under the assumptions of its method.")
        return
    why, spent = "A figure is an upper bound by the attack that made it.", _spent(claim)
    if suite.empty:
        yield Question("Which attack or suite?", f"{suite.name}: no attack was made", why)
        yield Question("At what cost?", spent, "A search that was given little time leaves rows open.")
        return
    yield Question("Which attack or suite?", suite.name, why)
    known = suite.version or (f"{suite.steps} steps" if suite.steps else None)
    yield Question(
        "In which version, with which settings?", known, "One attack at 10 steps and at 1,000 are two attacks."
    )
    yield Question(
        "With how many restarts?", _restarts(claim), "Success over restarts counts a row once any of them broke it."
    )
    yield Question(
        "With which seeds, or over how many?", suite.seeds, "A best or a mean of several runs is another figure."
    )
    yield Question("At what cost?", spent, "A weak attack is often one that was given little.")


def _spent(claim: Claim) -> str | None:
    cost = claim.cost
    return None if cost.forwards is None and cost.queries is None else cost.describe()


def _restarts(claim: Claim) -> str | None:
    suite = claim.suite
    if suite.restarts is not None:
        return str(suite.restarts)
    return "as the suite's digest says" if suite.digest is not None else None


def _of_model(claim: Claim) -> Iterator[Question]:
    model = claim.model
    name = None if model.name is None else model.name + (f" ({model.fingerprint[:12]})" if model.fingerprint else "")
    yield Question("Which model, which weights?", name, "Names are given to several checkpoints.")
    yield Question(
        "Which attack was it trained with?",
        model.training_attack,
        "Tested with the attack of its training, or a weaker one, a model shows what it has learnt, not what it withstands.",
    )
    yield Question("What was it trained on?", model.training_data, "Extra data, or the test rows, move the figure.")


def not_concluded(claim: Claim) -> list[str]:
    """What does not follow from the claim, a sentence each."""
    return list(_not_concluded(claim))


def _not_concluded(claim: Claim) -> Iterator[str]:
    figure, how = robust_accuracy(claim)
    if figure is None:
        yield f"No robust accuracy follows: {how}."
    if claim.state or claim.figure.undecided:
        yield f"The evaluation is not complete ({claim.state or 'rows undecided'}): the figure can still move."
    if claim.figure.count is None or not claim.figure.of:
        yield "How far chance goes: without count and denominator there is no interval."
    if claim.errors:
        yield f"What the {claim.errors:,} rows in error would do: they count as not robust, whatever they are."
    if claim.kind == "empirical":
        if claim.settled:
            yield "That rounding breaks no row: certificates are of the network in real numbers, with a stated slack."
        elif claim.suite.empty:
            yield "That the rows without a certificate are robust: no attack was made on them."
        else:
            yield "That the model is as robust as the figure: an attack bounds robust accuracy from above only."
            yield from _weak(claim)
    yield from _of_ball(claim)
    yield from claim.unsaid


def _of_ball(claim: Claim) -> Iterator[str]:
    threat = claim.threat
    if threat.norm is None or threat.eps is None:
        yield "Within which ball the figure holds: norm or eps is unstated."
        return
    ball = f"{threat.norm.capitalize()} {threat.eps}"
    beyond = "smaller eps" if claim.kind == "empirical" else "larger eps"
    yield f"Anything at a {beyond} than {ball}, or in another norm but for what one ball inside another carries."
    width = None if threat.box is None else threat.box[1] - threat.box[0]
    if (threat.radius or 0) >= 1 and width in (None, 1.0):
        yield f"That eps is {threat.eps} in inputs from 0 to 1: it looks like a pixel value, {threat.eps}/255."
    if threat.norm == "linf" and width is not None and width > 10 and 0 < (threat.radius or 0) < 0.5:
        yield f"That eps is {threat.eps} in inputs {width:g} wide: it looks like a share of the range, and is next to nothing."
    if threat.goal == "targeted":
        yield "That no other wrong class is nearer: only chosen ones were aimed at."
    if claim.suite.confidence is not None:
        yield f"That every certificate holds: each may fail with probability {1 - claim.suite.confidence:g}."


def _weak(claim: Claim) -> Iterator[str]:
    suite, training = claim.suite, claim.model.training_attack
    one_step = suite.name is not None and _family(suite.name) in ("fgsm", "rfgsm", "fgm")
    steps, restarts = 1 if one_step and suite.steps is None else suite.steps, suite.restarts or 1
    if steps is not None and steps < FEW_STEPS and restarts < FEW_RESTARTS:
        told = f"{steps} step{'s' * (steps > 1)} with {restarts} restart{'s' * (restarts > 1)}"
        yield f"That a longer attack would find no more: {told} is short."
    if training is not None and suite.name is not None and _family(suite.name) == _family(training):
        yield f"That it withstands an attack that it was not trained with: it was trained with {training}."
    if claim.threat.access is not None and "white" not in claim.threat.access.lower():
        yield f"That it withstands an attacker with gradients: the access was {claim.threat.access}."
    if suite.cut:
        yield f"That the suite would find no more: its budget of {suite.budget} ended it."


def _family(name: str) -> str:
    """``PGD`` of ``PGD-7, Linf 8/255``."""
    found = re.match(r"[a-z]+", plain(name))
    return found.group() if found else name
