"""Published models that nobody here made, read from a folder that the user names; not part of the package."""

from pathlib import Path

import numpy as np
import torch
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


def mnist_net(folder: Path, name: str) -> tuple[nn.Module, NDArray[np.float32], NDArray[np.int64]]:
    """A small MNIST net of auto_LiRPA's examples (``NETS``) and all 10,000 test rows in [0, 1]."""
    net = NETS[name]()
    net.load_state_dict(load_file(folder / "models" / f"{name}.safetensors"))
    arrays = np.load(folder / "mnist_test.npz")
    x = arrays["x"].reshape(-1, 1, 28, 28).astype(np.float32) / np.float32(255)
    return net.eval(), x, arrays["y"].astype(np.int64)


def mnist_a_adv(folder: Path) -> tuple[nn.Module, NDArray[np.float32], NDArray[np.int64]]:
    """auto_LiRPA's adversarially trained MNIST net and all 10,000 test rows in [0, 1]."""
    return mnist_net(folder, "mnist_a_adv")


def _two_convolutions(first: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, first, 4, 2, 1), nn.ReLU(), nn.Conv2d(first, 2 * first, 4, 2, 1), nn.ReLU(), nn.Flatten(),
        nn.Linear(98 * first, hidden), nn.ReLU(), nn.Linear(hidden, 10),
    )  # fmt: skip


def _three_layers() -> nn.Sequential:
    layers = (nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    return nn.Sequential(nn.Flatten(), *layers)


NETS = {
    "mnist_a_adv": lambda: _two_convolutions(16, 100),
    "kw_mnist": lambda: _two_convolutions(16, 100),
    "mnist_cnn_small": lambda: _two_convolutions(8, 256),
    "mnist_fc_3layer": _three_layers,
}


class Graph(nn.Module):
    """An ONNX graph of the few operations that the published nets are made of, on pixels in [0, 1]."""

    def __init__(self, path: Path, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        import onnx  # needed for these nets alone
        from onnx import numpy_helper

        graph = onnx.load(path).graph
        self.steps = [
            (node.op_type, list(node.input), node.output[0], {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute})
            for node in graph.node
        ]  # fmt: skip
        self.names = {held.name: f"held_{i}" for i, held in enumerate(graph.initializer)}
        for held in graph.initializer:
            self.register_buffer(self.names[held.name], torch.from_numpy(numpy_helper.to_array(held).copy()))
        self.given = next(put.name for put in graph.input if put.name not in self.names)
        self.result = graph.output[0].name
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = {self.given: (x - self.mean) / self.std}
        found |= {name: getattr(self, held) for name, held in self.names.items()}
        for kind, wanted, result, more in self.steps:
            values = [found[name] for name in wanted if name]
            match kind:
                case "Conv":
                    top, left, bottom, right = more.get("pads", (0, 0, 0, 0))
                    assert (top, left) == (bottom, right)
                    assert more.get("group", 1) == 1
                    assert set(more.get("dilations", (1,))) == {1}
                    found[result] = nn.functional.conv2d(*values, stride=more["strides"], padding=(top, left))
                case "Gemm":
                    assert more.get("alpha", 1) == more.get("beta", 1) == 1
                    assert not more.get("transA", 0)
                    a, b, c = values
                    found[result] = a @ (b.T if more.get("transB", 0) else b) + c
                case "Relu":
                    found[result] = values[0].relu()
                case "Add":
                    found[result] = values[0] + values[1]
                case "Flatten" | "Reshape":
                    found[result] = values[0].flatten(1)
                case _:
                    raise NotImplementedError(kind)
        return found[self.result]


CIFAR_SCALING = {
    "resnet": ((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)),
    "cifar": ((0.485, 0.456, 0.406), (0.225, 0.225, 0.225)),
}


def cifar_net(folder: Path, name: str) -> tuple[nn.Module, NDArray[np.float32], NDArray[np.int64]]:
    """A CIFAR-10 net of VNN-COMP 2021 (``resnet_2b``, ``resnet_4b``, ``cifar_wide_kw``, …) and 1,000 JPEG test rows."""
    net = Graph(folder / "vnn" / f"{name}.onnx", *CIFAR_SCALING[name.partition("_")[0]])
    arrays = np.load(folder / "cifar10_test_1000_jpeg.npz")
    return net.eval(), arrays["x"].astype(np.float32) / np.float32(255), arrays["y"].astype(np.int64)
