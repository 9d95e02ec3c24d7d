"""Makes the zoo: trains the models, cuts out the test rows and measures what the cards say.

Run as ``python -m brinell.zoo.train [--data DIR] [--only NAME]``. Writes into the folder of this file.
It runs on one CPU thread, because the order of float sums, and with it the weights, depends on the
number of threads.
"""

import argparse
import gzip
import math
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tomli_w
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from brinell.errors import BadInput
from brinell.zoo import load_rows
from brinell.zoo.architecture import SmallCNN

HERE = Path(__file__).resolve().parent
DEBIAN_DATA = Path("/usr/share/datasets/fashion-mnist")
CARDS = HERE / "cards.toml"
ROWS = HERE / "fmnist_test_1000.npz"
N_ROWS = 1000

ARCHITECTURE = (
    "brinell.zoo.architecture.SmallCNN: conv 16 4x4 stride 2, conv 32 4x4 stride 2, linear 100, linear 10, "
    "ReLU between; 1x28x28 in, 10 logits out"
)

# The default threat, and the one that the cards' attack counts are for.
NORM, EPS = "linf", 0.1
CHECK_STEPS, CHECK_STEP_SIZE = 50, 0.01

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Recipe:
    """How one model is trained. Adam; the learning rate falls to 0 along a half cosine."""

    description: str
    seed: int
    epochs: int
    batch: int = 128
    lr: float = 1e-3
    temperature: float = 1.0
    """Logits are divided by it in training, and are not when the model is used."""
    distil: bool = False
    """Train a teacher first, and the model on the teacher's probabilities."""
    eps: float = 0.0
    """Linf radius of the PGD that makes the training images; 0 trains on the clean ones."""
    steps: int = 0
    step_size: float = 0.0
    warmup: int = 0
    """Epochs in which eps and the step size grow linearly from 0."""

    def text(self) -> str:
        """The recipe in words, for the card."""
        parts = [
            "60,000 training rows of Fashion-MNIST",
            f"{self.epochs} epochs",
            f"batches of {self.batch}",
            f"Adam with learning rate {self.lr:g} falling to 0 along a half cosine",
        ]
        if self.eps:
            parts.append(
                f"on PGD-{self.steps} images only (cross-entropy, linf, eps {self.eps:g}, step size "
                f"{self.step_size:g}, uniform random start; eps and step size grow from 0 over the first "
                f"{self.warmup} epochs)"
            )
        if self.temperature != 1.0:
            parts.append(f"cross-entropy at temperature {self.temperature:g}, deployed at temperature 1")
        if self.distil:
            parts.append(
                "defensive distillation (Papernot et al., 2016): a teacher of the same architecture is "
                "trained so on the labels, then the model so on the teacher's probabilities"
            )
        return "; ".join(parts)


RECIPES = {
    "fmnist-standard": Recipe(
        description="Ordinary training, no defence: any working attack breaks it.",
        seed=1,
        epochs=10,
    ),
    "fmnist-at": Recipe(
        description="Adversarial training against linf 0.1: the robust model of the three.",
        seed=2,
        epochs=15,
        eps=0.1,
        steps=7,
        step_size=0.025,
        warmup=3,
    ),
    "fmnist-masked": Recipe(
        description=(
            "Looks robust and is not: the softmax saturates, so the cross-entropy's float32 gradient is 0 "
            "on most rows, while an attack on the logit margin breaks it."
        ),
        seed=3,
        epochs=10,
        lr=4e-3,
        temperature=100.0,
        distil=True,
    ),
}


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The bytes of a gzipped idx file, in the shape its header gives."""
    if not path.is_file():
        raise BadInput(
            "Fashion-MNIST",
            got=f"no file {path}",
            expected="the data set's four .gz files in one folder",
            remedy="Run `apt-get install dataset-fashion-mnist`, or name the folder with --data.",
        )
    data = gzip.decompress(path.read_bytes())
    # The magic number: two zero bytes, 8 for unsigned bytes, the number of dimensions.
    if data[:3] != b"\x00\x00\x08":
        raise BadInput(
            str(path),
            got=f"a file that starts with {data[:4]!r}",
            expected="a gzipped idx file of unsigned bytes",
            remedy="Run `apt-get install dataset-fashion-mnist`, or name another folder with --data.",
        )
    ndim = data[3]
    shape = np.frombuffer(data, dtype=">u4", count=ndim, offset=4)
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * ndim).reshape([int(n) for n in shape])


def read_split(data: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (rows, 28, 28) and labels (rows,) of the split "train" or "t10k"."""
    x = read_idx(data / f"{split}-images-idx3-ubyte.gz")
    y = read_idx(data / f"{split}-labels-idx1-ubyte.gz")
    return x, y.astype(np.int64)


def to_tensors(x: NDArray[np.uint8], y: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Images as float32 (rows, 1, 28, 28) in [0, 1], and the labels."""
    return torch.from_numpy(x[:, None].astype(np.float32) / np.float32(255)), torch.from_numpy(y)


def margin(logits: Tensor, y: Tensor) -> Tensor:
    """The mean over rows of the largest other logit less the true one: a loss for an attack to ascend."""
    others = logits.scatter(1, y[:, None], -math.inf).amax(1)
    return (others - logits.gather(1, y[:, None])[:, 0]).mean()


def pgd(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    loss: Loss,
    eps: float,
    step_size: float,
    steps: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Linf PGD from one uniform random start, ascending `loss` by the sign of its gradient.

    Returns the last images, like x, and a bool (rows,): whether the row was classified correctly at the
    start and after every step but the last, whose outcome the caller can see for itself.
    """
    low, high = (x - eps).clamp(0, 1), (x + eps).clamp(0, 1)
    stands = torch.ones(len(x), dtype=torch.bool)
    adv = low + (high - low) * torch.rand(x.shape, generator=generator)
    for _ in range(steps):
        adv.requires_grad_()
        logits = model(adv)
        (gradient,) = torch.autograd.grad(loss(logits, y), adv)
        stands &= logits.detach().argmax(1) == y
        adv = torch.clamp(adv.detach() + step_size * gradient.sign(), low, high)
    return adv, stands


def fit(recipe: Recipe, x: Tensor, targets: Tensor, generator: torch.Generator) -> SmallCNN:
    """Trains a new model on images x with labels, int64 (rows,), or probabilities, (rows, 10)."""
    with torch.random.fork_rng(devices=[]):  # layers draw their initial weights from the global generator
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        model = SmallCNN()

    def loss(logits: Tensor, wanted: Tensor) -> Tensor:
        return functional.cross_entropy(logits / recipe.temperature, wanted)

    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.lr)
    per_epoch = math.ceil(len(x) / recipe.batch)
    for epoch in range(recipe.epochs):
        total = 0.0
        for i, rows in enumerate(torch.split(torch.randperm(len(x), generator=generator), recipe.batch)):
            progress = epoch + i / per_epoch
            optimiser.param_groups[0]["lr"] = recipe.lr * (1 + math.cos(math.pi * progress / recipe.epochs)) / 2
            batch, wanted = x[rows], targets[rows]
            if recipe.eps:
                scale = min(1.0, progress / recipe.warmup)
                eps, step_size = scale * recipe.eps, scale * recipe.step_size
                batch, _ = pgd(model, batch, wanted, loss, eps, step_size, recipe.steps, generator)
            value = loss(model(batch), wanted)
            optimiser.zero_grad()
            torch.autograd.backward(value)
            optimiser.step()
            total += float(value.detach()) * len(rows)
        print(f"  epoch {epoch + 1}/{recipe.epochs}: loss {total / len(x):.4f}", flush=True)
    return model


def train(recipe: Recipe, x: Tensor, y: Tensor) -> SmallCNN:
    """The model of a recipe, in evaluation mode."""
    generator = torch.Generator().manual_seed(recipe.seed)
    model = fit(recipe, x, y, generator)
    if recipe.distil:
        with torch.no_grad():
            soft = torch.cat([(model(part) / recipe.temperature).softmax(1) for part in torch.split(x, 1000)])
        model = fit(recipe, x, soft, generator)
    model.eval()
    return model


def count_correct(model: nn.Module, x: Tensor, y: Tensor) -> int:
    """The number of rows classified correctly."""
    with torch.no_grad():
        parts = zip(torch.split(x, 1000), torch.split(y, 1000), strict=True)
        return sum((model(images).argmax(1) == labels).sum().item() for images, labels in parts)


def count_standing(model: nn.Module, x: Tensor, y: Tensor, loss: Loss, seed: int) -> int:
    """The number of rows classified correctly as they are and at every point that PGD-50 visits."""
    generator = torch.Generator().manual_seed(seed)
    adv, stands = pgd(model, x, y, loss, EPS, CHECK_STEP_SIZE, CHECK_STEPS, generator)
    with torch.no_grad():
        for images in (x, adv):
            stands &= model(images).argmax(1) == y
    return int(stands.sum())


def write_rows(data: Path) -> None:
    """The first 1,000 test rows: x uint8 (1000, 28, 28), y int64 (1000,)."""
    x, y = read_split(data, "t10k")
    np.savez_compressed(ROWS, x=x[:N_ROWS], y=y[:N_ROWS])


def write_cards(cards: dict[str, dict[str, str | int | float]]) -> None:
    """cards.toml, one table a model, in the order of the recipes."""
    text = tomli_w.dumps({name: cards[name] for name in RECIPES if name in cards})
    head = "# Written by brinell.zoo.train: measured, not to be edited by hand.\n\n"
    CARDS.write_text(head + text, encoding="utf-8")


def make(name: str, data: Path) -> None:
    """Trains one model, and writes its weights and its card."""
    recipe = RECIPES[name]
    print(name, flush=True)
    x, y = to_tensors(*read_split(data, "train"))
    start = time.perf_counter()
    model = train(recipe, x, y)
    minutes = (time.perf_counter() - start) / 60
    (HERE / f"{name}.safetensors").write_bytes(save(model.state_dict()))

    cards = tomllib.loads(CARDS.read_text(encoding="utf-8")) if CARDS.exists() else {}
    cards[name] = {
        "description": recipe.description,
        "architecture": ARCHITECTURE,
        "training": recipe.text(),
        "seed": recipe.seed,
        "minutes": round(minutes, 1),
        "trained_norm": "linf" if recipe.eps else "none",
        "trained_eps": recipe.eps,
        "norm": NORM,
        "eps": EPS,
    }
    test_x, test_y = to_tensors(*read_split(data, "t10k"))
    rows_x, rows_y = (torch.from_numpy(a) for a in load_rows())
    cards[name] |= {
        "test_correct": count_correct(model, test_x, test_y),
        "test_rows": len(test_x),
        "clean_correct": count_correct(model, rows_x, rows_y),
        "clean_rows": len(rows_x),
        "pgd_ce_correct": count_standing(model, rows_x, rows_y, functional.cross_entropy, recipe.seed),
        "pgd_margin_correct": count_standing(model, rows_x, rows_y, margin, recipe.seed),
    }
    write_cards(cards)
    for key, value in cards[name].items():
        print(f"  {key}: {value}", flush=True)


def main() -> None:
    """Reads the command line, and makes the rows and the models asked for."""
    parser = argparse.ArgumentParser(prog="python -m brinell.zoo.train", description=__doc__)
    parser.add_argument("--data", type=Path, default=DEBIAN_DATA, help="folder of the four .gz files")
    parser.add_argument("--only", choices=tuple(RECIPES), help="make this model alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    try:
        write_rows(arguments.data)
        for name in RECIPES if arguments.only is None else (arguments.only,):
            make(name, arguments.data)
    except BadInput as error:
        parser.exit(error.exit_code, f"{error}\n")


if __name__ == "__main__":
    main()
