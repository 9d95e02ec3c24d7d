"""What is evaluated, and how: everything that a run needs, loaded."""

from dataclasses import dataclass

from brinell.adaptive.pipeline import Pipeline
from brinell.budget import Budget
from brinell.imports.account import Imported
from brinell.models.torch_model import TorchModel
from brinell.rows import Rows
from brinell.spec import CertifySpec, Spec
from brinell.suites.suite import Suite
from brinell.surrogate import Surrogate
from brinell.threat import Threat


@dataclass(frozen=True, eq=False)
class Subject:
    """What is evaluated, and how."""

    model: TorchModel
    model_source: str
    rows: Rows
    threat: Threat
    suite: Suite
    seed: int
    batch_size: int | None
    budget: Budget | None = None
    """What may be spent; None: all that the suite asks for."""
    certify: CertifySpec | None = None
    """How certificates are sought before the attacks; None: they are not."""
    surrogate: Surrogate | None = None
    """Another model, on which points are made that are proposed to this one."""
    spec: Spec | None = None
    """What was asked for, where it was written down."""
    imported: Imported | None = None
    """What is said of the points where they were made elsewhere."""


def named(source: str, model: TorchModel) -> str:
    """How the model is called in the record; with a reject option the name says what a rejection counts as."""
    return f"{source}, rejections under attack count as right" if model.rejects else source


def suite_for(model: TorchModel, suite: Suite) -> Suite:
    """The suite as it is run on the model: over a pipeline's own draws, where it has some and the suite has none.

    Raises
    ------
    BadInput
        If the suite cannot be run over draws.
    """
    draws = model.module.draws if isinstance(model.module, Pipeline) else None
    return suite if draws is None or suite.draws is not None else suite.over(draws)
