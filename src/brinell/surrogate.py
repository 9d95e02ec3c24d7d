"""Another model, whose gradients are followed in place of the attacked one's own."""

from dataclasses import dataclass
from typing import Literal

from brinell.adaptive.pipeline import Pipeline
from brinell.models.torch_model import TorchModel

Kind = Literal["declared", "base"]
"""``declared``: named by the user. ``base``: a pipeline's classifier without what stands around it."""


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A model on which points are made that are then proposed to the attacked one."""

    source: str
    """How the record calls it."""
    model: TorchModel
    kind: Kind

    def table(self) -> dict[str, str]:
        """What the manifest keeps of it."""
        return {
            "source": self.source,
            "kind": self.kind,
            "fingerprint": self.model.fingerprint(),
            "outputs": self.model.outputs,
        }


def base_of(model: TorchModel) -> Surrogate | None:
    """A pipeline's classifier alone, where something stands around it that might hide its gradients; None for any other."""
    pipeline = model.module
    if not isinstance(pipeline, Pipeline) or not (len(pipeline.stages) or pipeline.detector is not None):
        return None
    classifier = TorchModel(pipeline.classifier, pipeline.classifier_returns)
    return Surrogate("the pipeline's classifier alone", classifier, "base")
