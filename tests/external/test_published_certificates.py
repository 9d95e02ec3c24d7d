"""Published nets: bounds that another implementation found, and answers that the verification competition agrees on.

The files and where they come from are described in ``shared/data/README.md`` beside the repository.
"""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from brinell.certify import crown, interval, onnx_net
from brinell.certify.chain import certify, margins
from brinell.certify.decide import decide
from brinell.certify.graph import Network, network_of
from brinell.certify.region import Region
from brinell.certify.vnnlib import Case, Property
from brinell.threat import Threat

pytest.importorskip("onnx")

HERE = Path(__file__).parents[2].parent / "shared" / "data"
DATA = Path(os.environ.get("BRINELL_EXTERNAL", HERE)) / "vnn"

pytestmark = pytest.mark.skipif(
    not (DATA / "boxes.npz").is_file(),
    reason=f"no published nets in {DATA}: set BRINELL_EXTERNAL to the folder that holds vnn/",
)


def instances(*ids: str) -> dict[str, dict[str, str]]:
    with (DATA / "instances.csv").open(encoding="utf-8") as file:
        return {one["id"]: one for one in csv.DictReader(file) if one["id"] in ids}


def box_of(one: dict[str, str], boxes: np.lib.npyio.NpzFile) -> tuple[np.ndarray, np.ndarray]:
    """In the net's input units, as the competition printed it."""
    row = int(one["box_row"])
    return tuple(boxes[f"{one['dataset']}_{end}"][row].astype(np.float64) for end in ("lower", "upper"))


def network(name: str) -> tuple[onnx_net.OnnxNet, Network]:
    net = onnx_net.read(DATA / f"{name}.onnx")
    return net, network_of(net.module, net.shape)


REFERENCE = [
    # interval, CROWN, and another implementation's CROWN with climbed slopes (auto_LiRPA 0.7.1, 20 steps)
    ("21-resnet_2b-35", None, -1.17595),
    ("21-cifar_base_kw-02", None, -0.155625),
    ("21-cifar_deep_kw-01", -69.338, -0.30605),
    ("21-mnist-net_256x2-01", None, -1.91834),
    ("21-mnist-net_256x4-00", -407.302, -2.12688),
    ("21-mnist-net_256x6-00", -53862.6, -1604.23),
]


@pytest.mark.parametrize(("name", "by_intervals", "by_crown"), REFERENCE)
def test_bounds_are_those_of_another_implementation(name: str, by_intervals: float | None, by_crown: float) -> None:
    """To the digits that were recorded, on the box that the competition printed in single precision."""
    one = instances(name)[name]
    _, net = network(one["net"])
    with np.load(DATA / "boxes.npz") as boxes:
        lower, upper = (torch.from_numpy(end).view(1, *net.nodes[0].shape) for end in box_of(one, boxes))
    region, specs = Region(lower, upper), margins(torch.tensor([int(one["label"])]), 10)
    with torch.no_grad():
        bound = crown.bound(net, region, crown.layers_of(net, region), specs).min().item()
        assert bound == pytest.approx(by_crown, rel=1e-4)
        if by_intervals is not None:
            assert interval.bound(net, region, specs).min().item() == pytest.approx(by_intervals, rel=1e-3)


ANSWERED = {
    "21-mnist-net_256x2-01": ("holds", "branch"),
    "21-mnist-net_256x2-05": ("holds", "branch"),
    "21-mnist-net_256x2-15": ("violated", "descent"),
    "21-cifar_base_kw-03": ("violated", "descent"),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_properties_are_answered_as_the_competition_answered_them(name: str, without_shape_checks: None) -> None:
    one = instances(name)[name]
    assert {"holds": "unsat", "violated": "sat"}[ANSWERED[name][0]] == one["expected"]
    net, read = network(one["net"])
    with np.load(DATA / "boxes.npz") as boxes:
        lower, upper = (end.ravel() for end in box_of(one, boxes))
    label = int(one["label"])
    gaps = np.eye(10)[label] - np.eye(10)
    cases = tuple(Case(lower, upper, gaps[j : j + 1], np.zeros(1)) for j in range(10) if j != label)
    verdict = decide(net, Property(lower.size, 10, cases), seconds=30, network=read)
    assert (verdict.answer, verdict.method) == ANSWERED[name]


def test_a_net_trained_for_intervals_is_certified_by_them() -> None:
    """189 of its first 200 rows at Linf 0.3 by intervals, and no row twice: certified ones withstand the attack elsewhere."""
    from safetensors.torch import load_file
    from torch import nn

    net = nn.Sequential(
        *(nn.Conv2d(1, 8, 4, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 4, stride=2, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)),
    )
    net.load_state_dict(load_file(DATA.parent / "models" / "mnist_cnn_small.safetensors"))
    with np.load(DATA.parent / "mnist_test.npz") as arrays:
        x = torch.from_numpy(arrays["x"][:200, None].astype(np.float32) / np.float32(255))
        y = torch.from_numpy(arrays["y"][:200].astype(np.int64))
    found = list(certify(net.eval(), x, y, Threat("linf", 0.3), seconds=1))
    assert sum(one.method == "interval" for one in found) == pytest.approx(189, abs=1)
    wrong = (net(x).argmax(1) != y).nonzero().squeeze(1).tolist()
    assert wrong
    assert all(found[row].outcome == "violated" for row in wrong)
