"""Three small Fashion-MNIST classifiers and 1,000 test rows, to try an evaluation on.

`fmnist-standard` has no defence, `fmnist-at` is adversarially trained, and `fmnist-masked` only looks
robust: its gradients vanish. Everything lies in the package, and nothing is downloaded.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from brinell.errors import BadInput

if TYPE_CHECKING:  # torch takes seconds to import, and names and cards do without it
    import torch

__all__ = ["Card", "card", "load_model", "load_rows", "names"]


@dataclass(frozen=True, slots=True)
class Card:
    """What is known about one model. All counts are measured by `brinell.zoo.train`.

    The images have pixels in [0, 1], and every eps is in those units.
    """

    name: str
    description: str
    architecture: str
    training: str
    clean_correct: int
    """Shipped rows classified correctly, of `clean_rows`."""
    clean_rows: int
    norm: str
    """Norm of the threat to evaluate by default."""
    eps: float
    """Radius of the threat to evaluate by default."""
    trained_norm: str
    """Norm of the threat the model was trained against, "none" if against none."""
    trained_eps: float
    """Radius of the threat the model was trained against, 0 if against none."""
    seed: int
    minutes: float
    """Training time on one CPU thread, in minutes."""
    test_correct: int
    """Rows of the whole test set classified correctly, of `test_rows`."""
    test_rows: int
    pgd_ce_correct: int
    """Shipped rows that stand against PGD-50 on the cross-entropy at `norm`, `eps`, of `clean_rows`."""
    pgd_margin_correct: int
    """Shipped rows that stand against PGD-50 on the logit margin at `norm`, `eps`, of `clean_rows`."""


@cache
def _cards() -> dict[str, Card]:
    text = (files(__name__) / "cards.toml").read_text(encoding="utf-8")
    return {name: Card(name=name, **table) for name, table in tomllib.loads(text).items()}


def names() -> tuple[str, ...]:
    """The names of the models."""
    return tuple(_cards())


def card(name: str) -> Card:
    """The card of one model. Raises BadInput, naming the models there are, for an unknown name."""
    try:
        return _cards()[name]
    except KeyError:
        raise BadInput(
            "model of the zoo",
            got=repr(name),
            expected=f"one of {', '.join(names())}",
            remedy="Pass one of these names.",
        ) from None


def load_model(name: str) -> "torch.nn.Module":
    """One model: float32, on the CPU, in evaluation mode.

    It maps images, float32 (rows, 1, 28, 28) in [0, 1], to logits, float32 (rows, 10). Each call makes a
    new module. Raises BadInput for an unknown name.
    """
    weights = files(__name__) / f"{card(name).name}.safetensors"

    import torch
    from safetensors.torch import load

    from brinell.zoo.architecture import SmallCNN

    # On the meta device no initial weights are drawn, so the caller's random state stays as it was.
    with torch.device("meta"):
        model = SmallCNN()
    model.load_state_dict(load(weights.read_bytes()), assign=True)
    return model.eval()


def load_rows() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The first 1,000 test rows of Fashion-MNIST, in the order of the test set.

    Returns images, float32 (1000, 1, 28, 28) in [0, 1] (the bytes over 255), and labels, int64 (1000,)
    in 0..9.
    """
    with (files(__name__) / "fmnist_test_1000.npz").open("rb") as file, np.load(file) as arrays:
        x: NDArray[np.uint8] = arrays["x"]
        y: NDArray[np.int64] = arrays["y"]
    return x[:, None].astype(np.float32) / np.float32(255), y
