"""A defended pipeline as one model: preprocessing, classifier and detector are attacked together, none is skipped.

Idea        whatever stands between the attacker's input and the decision is part of the model. Stages are run in order, the
            classifier on what they leave; a detector adds one logit, that of a rejection, above all others if and only if
            it rejects.
Source      the defence is all that runs at inference: Tramèr et al. 2020 (arXiv 2002.08347), section 3; rejection as a
            class of its own: Carlini & Wagner 2017 (arXiv 1705.07263), section 3.
Departures  the rejection's logit is the highest class's plus the scaled excess of the score, where theirs is a product, so
            that it can be read off the logits how far a point is from acceptance.
"""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from brinell.adaptive.backward import BPDA
from brinell.adaptive.callables import Step, as_module, modes_as_parts, name_of
from brinell.adaptive.detector import Calibration, Detector, one_a_row, scale_by, threshold_at
from brinell.draws import Draws
from brinell.errors import BadInput
from brinell.models.outputs import Outputs, as_logits, unwrapped
from brinell.shapes import Columns, Inputs, Logits, PerRow

Rejection = Literal["credited", "failure"]
"""``credited``: a perturbed point that is rejected is no error. ``failure``: it is one, as where service must be given."""
BATCH = 256
"""Rows in a batch while a detector is calibrated."""
MEASURED = 64
"""Rows on which the scale of a detector is measured."""


class Pipeline(nn.Module):
    """Stages, a classifier, and where there is one a detector, as one model for ``brinell.evaluate``.

    Maps ``(row, *feature)`` to logits ``(row, classes)``; with a detector to ``(row, classes + 1)``, the last of which is
    above all others if and only if the row is rejected.
    """

    def __init__(
        self,
        *steps: Step,
        detector: Detector | None = None,
        rejection: Rejection = "credited",
        draws: int | Draws | None = None,
        outputs: Outputs = "logits",
    ) -> None:
        """The last of the ``steps`` is the classifier.

        Parameters
        ----------
        steps
            Modules or functions of one tensor, in the order in which they run.
        detector
            Rejects rows; calibrated here if it says so.
        rejection
            Whether a rejected point under attack is right or wrong; a rejected clean row is always wrong.
        draws
            For a randomised pipeline: how many draws each of an attack's gradients is the mean of, or all four ``Draws``.
        outputs
            What the classifier returns.

        Raises
        ------
        BadInput
            If a part cannot be used, or a detector cannot be calibrated.
        """
        super().__init__()
        _check_choices(steps, detector, rejection, draws)
        modules = [as_module(step, f"pipeline, step {place + 1}") for place, step in enumerate(steps)]
        self.stages = nn.Sequential(*modules[:-1])
        modes_as_parts(self.stages)
        self.classifier = modules[-1]
        self.classifier_returns: Outputs = outputs
        self.rejection: Rejection = rejection
        self.draws = Draws(attack=draws) if isinstance(draws, int) else draws
        self.score = None if detector is None else as_module(detector.score, "detector's score")
        self.detector = detector
        modes_as_parts(self)
        self.threshold, self.scale = 0.0, 1.0
        if detector is not None:
            self.threshold, self.scale = self._calibrated(detector)

    @property
    def outputs(self) -> Outputs:
        """What the pipeline returns, as ``brinell.evaluate`` takes it."""
        return "logits-and-reject" if self.detector is not None and self.rejection == "credited" else "logits"

    def forward(self, x: Tensor) -> Columns:
        """Logits, and with a detector the rejection's last."""
        seen = self.stages(x)
        logits = self._classified(seen)
        if self.detector is None:
            return logits
        return with_rejection(logits, self.scale * (self._scored(x, seen, logits) - self.threshold))

    def _classified(self, seen: Inputs) -> Logits:
        return as_logits(unwrapped(self.classifier(seen))[0], self.classifier_returns)

    def _scored(self, x: Inputs, seen: Inputs, logits: Logits) -> PerRow:
        assert self.score is not None and self.detector is not None
        read = {"input": x, "preprocessed": seen, "logits": logits}[self.detector.reads]
        return one_a_row(self.score(read), len(x))

    def _both(self, x: Inputs) -> tuple[Logits, PerRow]:
        """Logits and scores of one batch."""
        seen = self.stages(x)
        logits = self._classified(seen)
        return logits, self._scored(x, seen, logits)

    def _calibrated(self, detector: Detector) -> tuple[float, float]:
        """Threshold and scale, measured where they are not stated."""
        if not isinstance(detector.threshold, Calibration):
            return float(detector.threshold), detector.scale or 1.0
        if any(module.training for module in self.modules()):
            raise BadInput(
                "pipeline",
                got="modules in train mode",
                expected="evaluation mode, as the detector is calibrated now",
                remedy="Call eval() on the parts before they are put together.",
            )
        x = detector.threshold.x
        with torch.no_grad():
            scores = torch.cat([self._both(x[start : start + BATCH])[1] for start in range(0, len(x), BATCH)])
        threshold = threshold_at(scores, detector.threshold.false_rejection)
        return threshold, detector.scale or self._measured_scale(x[:MEASURED])

    def _measured_scale(self, x: Inputs) -> float:
        """The median ratio of the size (L1) of the margin's gradient to that of the score's."""
        with torch.enable_grad():
            leaf = x.detach().clone().requires_grad_(True)
            logits, scores = self._both(leaf)
            highest = logits.topk(2, dim=1).values
            sizes = [_size_of_gradient(of, leaf) for of in (highest[:, 0] - highest[:, 1], scores)]
        return scale_by(*sizes)

    def describe(self) -> list[str]:
        """What is inside the attack, a sentence each, and what is not."""
        return list(self._sentences())

    def _sentences(self) -> Iterator[str]:
        names = [_with_backward(stage) for stage in self.stages]
        inside = f"{', then '.join(names)}, then " if names else ""
        yield f"pipeline: attacked as one model are {inside}the classifier {_with_backward(self.classifier)}"
        if self.detector is not None and self.score is not None:
            yield (
                f"detector {_with_backward(self.score)} on {self.detector.reads}, attacked with the classifier: rejects "
                f"above {self.threshold:.6g} ({_where_from(self.detector)}); one unit of score weighs {self.scale:.3g} logits"
            )
            yield (
                "a perturbed point that is rejected counts as right, a clean row that is rejected as misclassified"
                if self.rejection == "credited"
                else "a rejected point counts as an error, perturbed or clean"
            )
        if self.draws is not None:
            yield f"gradients are the mean of {self.draws.attack} draws of the whole pipeline (expectation over transformation)"
        yield "not inside the attack: whatever is done to inputs before they enter the pipeline"

    def extra_repr(self) -> str:
        """What of the pipeline is in no parameter, so that the fingerprint knows it."""
        parts = [f"classifier_returns={self.classifier_returns}"]
        if self.detector is not None:
            parts += [f"reads={self.detector.reads}", f"threshold={self.threshold!r}", f"scale={self.scale!r}"]
            parts += [f"rejection={self.rejection}"]
        return ", ".join(parts)


def with_rejection(logits: Logits, excess: PerRow) -> Columns:
    """The logits and one more: the highest of them plus the excess, above it if the excess is above 0, else below it.

    No excess is lost to rounding, and there are no ties.
    """
    highest = logits.amax(dim=1)
    reject = highest + excess.to(logits.dtype)
    over = torch.full_like(highest, torch.inf)
    least, most = torch.nextafter(highest, over).detach(), torch.nextafter(highest, -over).detach()
    held = torch.where(excess > 0, torch.maximum(reject.detach(), least), torch.minimum(reject.detach(), most))
    return torch.cat([logits, (reject + (held - reject).detach())[:, None]], dim=1)


def _size_of_gradient(of: PerRow, leaf: Inputs) -> PerRow:
    nothing = leaf.new_zeros(len(leaf))
    if not of.requires_grad:
        return nothing
    grad = torch.autograd.grad(of.sum(), leaf, allow_unused=True, retain_graph=True)[0]
    return nothing if grad is None else grad.flatten(1).abs().sum(dim=1)


def _with_backward(module: nn.Module) -> str:
    """A step's name, and whose backward it has where that is stated: its own, or that of a part."""
    if isinstance(module, BPDA):
        return f"{name_of(module.wrapped)} (backward of {name_of(module.stand_in)})"
    inner = [part.describe() for part in module.modules() if isinstance(part, BPDA)]
    return name_of(module) + (f" (in it: {'; '.join(inner)})" if inner else "")


def _where_from(detector: Detector) -> str:
    if not isinstance(detector.threshold, Calibration):
        return "as stated"
    return f"at most {100 * detector.threshold.false_rejection:g} % of {len(detector.threshold.x)} clean rows"


def _check_choices(steps: tuple[object, ...], detector: object, rejection: object, draws: object) -> None:
    """Refuse what no pipeline can be made of."""
    if not steps:
        raise BadInput("pipeline", got="no step", expected="at least a classifier", remedy="Give one.")
    if detector is not None and not isinstance(detector, Detector):
        raise BadInput(
            "detector",
            got=type(detector).__name__,
            expected="a brinell.adaptive.Detector",
            remedy="Wrap the score: Detector(score, threshold=…).",
        )
    if rejection not in ("credited", "failure"):
        raise BadInput("rejection", got=repr(rejection), expected="credited or failure", remedy="Choose one.")
    if draws is not None and detector is not None and rejection == "credited":
        raise BadInput(
            "pipeline",
            got="a detector whose rejections are credited, and draws",
            expected="one of them: what a rejection in some of the draws is worth is nowhere defined",
            remedy="Take rejection='failure', or fix the randomness.",
        )
