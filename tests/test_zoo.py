"""The built-in models and rows: what their cards say is so, and nothing of them is fetched from anywhere."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from brinell import zoo
from brinell.attacks.pgd import PGD
from brinell.errors import BadInput
from brinell.losses import MARGIN
from brinell.models.torch_model import TorchModel
from brinell.threat import Threat
from brinell.zoo.architecture import SmallCNN
from trials import trial

NAMES = ("fmnist-standard", "fmnist-at", "fmnist-masked")
HOME = Path(zoo.__file__).parent


def test_rows() -> None:
    x, y = zoo.load_rows()
    assert x.shape == (1000, 1, 28, 28)
    assert x.dtype == np.float32
    assert (x.min(), x.max()) == (0.0, 1.0)
    pixels = x * 255
    np.testing.assert_allclose(pixels, pixels.round(), atol=1e-4)  # bytes over 255
    assert y.shape == (1000,)
    assert y.dtype == np.int64
    assert np.bincount(y, minlength=10).min() > 80  # ten classes, about alike
    assert y[:10].tolist() == [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]  # Fashion-MNIST's test rows, in their order


def test_names() -> None:
    assert zoo.names() == NAMES
    with pytest.raises(BadInput, match="fmnist-at"):
        zoo.card("fmnist")
    with pytest.raises(BadInput, match="fmnist-at"):
        zoo.load_model("fmnist")


@pytest.mark.parametrize("name", NAMES)
def test_card_counts_the_clean_rows(name: str) -> None:
    card = zoo.card(name)
    x, y = zoo.load_rows()
    with torch.no_grad():
        right = int((zoo.load_model(name)(torch.tensor(x)).argmax(1).numpy() == y).sum())
    assert (right, len(y)) == (card.clean_correct, card.clean_rows)


@pytest.mark.parametrize("name", NAMES)
def test_card_tells_what_falls(name: str) -> None:
    """On the first tenth of the rows, which lies within a few rows of a tenth of the card's count."""
    card = zoo.card(name)
    x, y = (torch.tensor(part[:100]) for part in zoo.load_rows())
    model, threat = zoo.load_model(name), Threat(card.norm, card.eps)
    attack = PGD(steps=20, step_size=0.25, loss=MARGIN)
    standing = 100 - len(trial(model, threat, attack, (x, y), batch_size=100).fell)
    assert standing == pytest.approx(card.pgd_margin_correct / 10, abs=6)


@pytest.mark.parametrize("name", NAMES)
def test_card_is_complete(name: str) -> None:
    card = zoo.card(name)
    assert card.description.endswith(".")
    assert "SmallCNN" in card.architecture
    assert "training rows" in card.training
    assert 0 < card.eps < 1
    assert 0.8 < card.test_correct / card.test_rows < 1
    assert (card.trained_norm == "none") == (card.trained_eps == 0)
    assert card.pgd_margin_correct <= card.pgd_ce_correct <= card.clean_correct


def test_masked_model_looks_robust_and_is_not() -> None:
    """That is what it is for."""
    masked, robust = zoo.card("fmnist-masked"), zoo.card("fmnist-at")
    assert masked.pgd_ce_correct > robust.pgd_ce_correct
    assert masked.pgd_margin_correct < masked.clean_correct / 10


@pytest.mark.parametrize("name", NAMES)
def test_model_is_ready(name: str) -> None:
    before = torch.get_rng_state()
    model = zoo.load_model(name)
    assert torch.equal(torch.get_rng_state(), before)
    assert isinstance(model, SmallCNN)
    assert not any(module.training for module in model.modules())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert sum(parameter.numel() for parameter in model.parameters()) == 166_406
    again = zoo.load_model(name)
    assert again is not model
    assert TorchModel(again).fingerprint() == TorchModel(model).fingerprint()


def test_models_differ() -> None:
    assert len({TorchModel(zoo.load_model(name)).fingerprint() for name in NAMES}) == 3


def test_everything_lies_in_the_package_with_its_licence() -> None:
    assert "MIT" in (HOME / "LICENSE-fashion-mnist.txt").read_text("utf-8")
    assert set(tomllib.loads((HOME / "cards.toml").read_text("utf-8"))) == set(NAMES)
    assert sum(path.stat().st_size for path in HOME.iterdir() if path.is_file()) < 5_000_000
