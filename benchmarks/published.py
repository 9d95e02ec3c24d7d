"""Published models that nobody here made, read from a folder that the user names; not part of the package."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import nn


def trades_mnist(folder: Path) -> tuple[nn.Module, NDArray[np.float32], NDArray[np.int64]]:
    """The TRADES MNIST net (Zhang et al. 2019; trained for Linf 0.3) and all 10,000 test rows in [0, 1]."""
    extractor = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
    )  # fmt: skip
    classifier = nn.Sequential(nn.Linear(1024, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))
    weights = load_file(folder / "models" / "trades_mnist_smallcnn.safetensors")
    layers = [layer for layer in (*extractor, *classifier) if isinstance(layer, nn.Conv2d | nn.Linear)]
    names = [*(f"feature_extractor.conv{i}" for i in (1, 2, 3, 4)), *(f"classifier.fc{i}" for i in (1, 2, 3))]
    for layer, name in zip(layers, names, strict=True):
        layer.load_state_dict({"weight": weights[f"{name}.weight"], "bias": weights[f"{name}.bias"]})
    arrays = np.load(folder / "mnist_test.npz")
    x = arrays["x"].reshape(-1, 1, 28, 28).astype(np.float32) / np.float32(255)
    return nn.Sequential(extractor, nn.Flatten(), classifier).eval(), x, arrays["y"].astype(np.int64)
