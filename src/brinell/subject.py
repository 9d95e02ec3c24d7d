"""What is evaluated, and how: everything that a run needs, loaded."""

from dataclasses import dataclass

from brinell.budget import Budget
from brinell.imports.account import Imported
from brinell.models.torch_model import TorchModel
from brinell.rows import Rows
from brinell.spec import Spec
from brinell.suites.suite import Suite
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
    spec: Spec | None = None
    """What was asked for, where it was written down."""
    imported: Imported | None = None
    """What is said of the points where they were made elsewhere."""
