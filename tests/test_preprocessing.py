"""A model that is better on other inputs than it was given is no model in use: said, and never of a healthy one."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import small_net
from brinell import zoo
from brinell.before.preprocessing import VARIANTS, check_preprocessing
from brinell.models.torch_model import TorchModel
from brinell.readiness import Readiness
from small_runs import small_result

X, Y = small_net.rows()
MEAN, SPREAD = X.mean(), X.std()


class On(nn.Module):
    """A model that wants its inputs changed first, which nobody has done."""

    def __init__(self, wanted: Callable[[Tensor], Tensor], inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.wanted = inner, wanted

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.inner(self.wanted(x))
        return z


def looked_at(model: nn.Module, x: Tensor, y: Tensor) -> Readiness:
    ready, adapter = Readiness(), TorchModel(model.eval())
    points = x.to(adapter.dtype)
    check_preprocessing(adapter, points, y, adapter.scores(points), ready)
    return ready


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (lambda x: x / 255, "multiplied by 255"),
        (lambda x: x * SPREAD + MEAN, "normalised by their own"),
    ],
    ids=["pixels", "normalised"],
)
def test_inputs_on_another_scale_make_a_figure_suspect(
    wanted: Callable[[Tensor], Tensor], said: str, tmp_path: Path
) -> None:
    result = small_result(tmp_path / "run", model=On(wanted, small_net.load()).eval())
    found = {one.check: one for one in result.reading.diagnoses}
    assert found["other-preprocessing"].open and said in found["other-preprocessing"].said
    assert "other-preprocessing" in result.claim


def test_a_model_that_was_trained_on_other_channels() -> None:
    generator = torch.Generator().manual_seed(3)
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 4)).double()
    for parameter in net.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    x = torch.rand(60, 3, 4, 4, generator=generator, dtype=torch.float64)
    y = net(x.flip(1)).argmax(1)
    ready = looked_at(net, x, y)
    assert "channels reversed" in ready.findings["other-preprocessing"]
    assert ready.forwards <= len(VARIANTS) * len(x)


@pytest.mark.parametrize("name", ["fmnist-standard", "fmnist-at", "fmnist-masked"])
def test_healthy_models_are_not_suspected(name: str) -> None:
    rows, labels = zoo.load_rows()
    x, y = torch.from_numpy(rows), torch.from_numpy(labels).long()
    for start in range(0, 512, 64):
        ready = looked_at(zoo.load_model(name), x[start : start + 64], y[start : start + 64])
        assert not ready.findings
        assert ready.forwards <= 320


def test_nothing_is_asked_where_too_few_rows_are_wrong() -> None:
    assert looked_at(small_net.load(), X, Y).forwards == 0  # 6 of 60


def test_chance_alone_is_not_said() -> None:
    """Labels by lot: no preparation is better than another, whatever the draw."""
    for seed in range(20):
        y = torch.randint(4, (60,), generator=torch.Generator().manual_seed(seed))
        assert not looked_at(small_net.load(), X, y).findings


def test_a_model_that_takes_no_other_inputs_is_left_in_peace() -> None:
    def strict(x: Tensor) -> Tensor:
        if float(x.min()) < 0 or float(x.max()) > 1:
            raise ValueError("outside [0, 1]")
        return 1 - x

    ready = looked_at(On(strict, small_net.load()), X, Y)
    assert not ready.findings
