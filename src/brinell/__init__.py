"""Brinell measures how far a classifier's accuracy falls under attack, and keeps the record that proves it.

``brinell.evaluate(model, x, y, threat=brinell.Threat("linf", eps="8/255"))`` attacks arrays at hand; the command ``brinell``
does the same from a spec. Names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brinell import adaptive
    from brinell.adaptive.pipeline import Pipeline
    from brinell.evaluation import Result, evaluate, open_run, resume
    from brinell.imports.interface import import_points
    from brinell.threat import Threat

__version__ = version("brinell")
__all__ = [
    "Pipeline",
    "Result",
    "Threat",
    "__version__",
    "adaptive",
    "evaluate",
    "import_points",
    "open_run",
    "resume",
]

_HOMES = {
    "Pipeline": "brinell.adaptive.pipeline",
    "Result": "brinell.evaluation",
    "Threat": "brinell.threat",
    "evaluate": "brinell.evaluation",
    "import_points": "brinell.imports.interface",
    "open_run": "brinell.evaluation",
    "resume": "brinell.evaluation",
}


def __getattr__(name: str) -> object:
    if name == "adaptive":
        return import_module("brinell.adaptive")
    if name not in _HOMES:
        raise AttributeError(f"module 'brinell' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
