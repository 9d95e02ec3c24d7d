"""Nets that nobody here made, where they are at hand: their published accuracy holds, and they fall as far as elsewhere.

The files and where they come from are described in ``shared/data/README.md`` beside the repository.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from brinell import Threat
from brinell.evaluation import Result, evaluate
from brinell.suites.suite import Suite, suite_from
from safetensors.torch import load_file
from torch import Tensor, nn

HERE = Path(__file__).parents[2].parent / "shared" / "data"
DATA = Path(os.environ.get("BRINELL_EXTERNAL", HERE))
NET, ROWS = DATA / "models" / "trades_mnist_smallcnn.safetensors", DATA / "mnist_test.npz"

pytestmark = pytest.mark.skipif(
    not (NET.is_file() and ROWS.is_file()),
    reason=f"no published nets in {DATA}: set BRINELL_EXTERNAL to the folder that holds models/ and mnist_test.npz",
)


class Trades(nn.Module):
    """The small CNN of TRADES for MNIST (Zhang et al. 2019), trained against Linf 0.3: pixels in [0, 1], no normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.feature_extractor = nn.ModuleDict(
            {
                "conv1": nn.Conv2d(1, 32, 3),
                "conv2": nn.Conv2d(32, 32, 3),
                "conv3": nn.Conv2d(32, 64, 3),
                "conv4": nn.Conv2d(64, 64, 3),
            }
        )
        self.classifier = nn.ModuleDict(
            {"fc1": nn.Linear(1024, 200), "fc2": nn.Linear(200, 200), "fc3": nn.Linear(200, 10)}
        )

    def forward(self, x: Tensor) -> Tensor:
        conv, fc = self.feature_extractor, self.classifier
        x = conv["conv2"](conv["conv1"](x).relu()).relu()
        x = nn.functional.max_pool2d(x, 2)
        x = conv["conv4"](conv["conv3"](x).relu()).relu()
        x = nn.functional.max_pool2d(x, 2).flatten(1)
        return fc["fc3"](fc["fc2"](fc["fc1"](x).relu()).relu())


@pytest.fixture(scope="module")
def net() -> nn.Module:
    model = Trades()
    model.load_state_dict(load_file(NET))
    return model.eval()


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    with np.load(ROWS) as arrays:
        return arrays["x"][:, None].astype(np.float32) / np.float32(255), arrays["y"]


def test_clean_accuracy_is_the_published_one(net: nn.Module, data: tuple[np.ndarray, np.ndarray]) -> None:
    """99.48 % of 10,000."""
    x, y = data
    with torch.no_grad():
        predicted = torch.cat([net(part).argmax(1) for part in torch.tensor(x).split(500)])
    assert int((predicted.numpy() == y).sum()) == 9948


def attacked(folder: Path, net: nn.Module, data: tuple[np.ndarray, np.ndarray], suite: Suite, rows: str) -> Result:
    return evaluate(net, *data, threat=Threat("linf", 0.3), suite=suite, rows=rows, batch_size=64, out=folder)
