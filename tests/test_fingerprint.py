"""Two models that answer otherwise have another fingerprint, wherever the difference is held; one model has one."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from brinell.models.torch_model import TorchModel


class Holding(nn.Module):
    """Something in a plain attribute, of the module or of a part."""

    def __init__(self, value: Any, *, within: bool = False) -> None:
        super().__init__()
        self.part = nn.Identity()
        (self.part if within else self).held = value

    def forward(self, x: Tensor) -> Tensor:
        return x


def print_of(module: nn.Module) -> str:
    return TorchModel(module).fingerprint()


def linear(weight: float) -> nn.Module:
    layer = nn.Linear(2, 2)
    for parameter in layer.parameters():
        parameter.data.fill_(weight)
    return layer


VALUES: list[tuple[Any, Any]] = [
    (torch.tensor([0.0, 0.0]), torch.tensor([0.5, 0.0])),
    (torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
    (torch.zeros(2, 1), torch.zeros(1, 2)),
    (torch.zeros(2).to_sparse(), torch.ones(2).to_sparse()),
    (np.zeros(2), np.array([0.0, 1e-9])),
    (np.float32(0.5), np.float32(0.25)),
    (0.1, 0.1 + 1e-17 + 1e-16),
    (1, True),
    (2, 2.0),
    ("mean", "median"),
    (b"mean", "mean"),
    (0.5, None),
    ((0.4, 0.5), (0.5, 0.4)),
    ([0.1, 0.2], (0.1, 0.2)),
    ([[0.1], 0.2], [[0.1, 0.2]]),
    (["a", "bc"], ["ab", "c"]),
    ([torch.zeros(2), 1], [torch.ones(2), 1]),
    ({"mean": 0.4}, {"mean": 0.5}),
    ({"mean": 0.4}, {"std": 0.4}),
    ([linear(0.5)], [linear(0.25)]),
    ([Holding(0.5)], [Holding(0.25)]),
    (torch.float32, torch.float64),
]


@pytest.mark.parametrize(("first", "second"), VALUES)
@pytest.mark.parametrize("within", [False, True])
def test_it_knows_what_a_module_holds_outside_its_weights(first: Any, second: Any, within: bool) -> None:
    prints = [print_of(Holding(copy.deepcopy(value), within=within)) for value in (first, first, second)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize(("first", "second"), [(1, 2), ([1, 2], [1, 2, 3]), ([], [(3, (1, 2), None)]), (None, 7)])
def test_counts_of_a_module_of_ones_own_are_left_aside(first: Any, second: Any) -> None:
    """They may be of its passes. In torch's own modules a whole number is a setting."""
    assert print_of(Holding(first)) == print_of(Holding(second))
    assert print_of(Holding(first, within=True)) != print_of(Holding(second, within=True))


def test_it_knows_which_attribute_of_which_part_holds_it() -> None:
    moved = Holding(0.5)
    moved.__dict__["beheld"] = moved.__dict__.pop("held")
    assert len({print_of(moved), print_of(Holding(0.5)), print_of(Holding(0.5, within=True))}) == 3


def test_a_stride_makes_another_model_even_where_the_text_does_not_say_it() -> None:
    changed = nn.Linear(2, 2)
    assert "stride" not in repr(changed)
    before = print_of(changed)
    changed.stride = 2
    assert print_of(changed) != before


def test_order_of_setting_and_mode_make_no_difference() -> None:
    first, second = nn.Identity(), nn.Identity()
    first.a, first.b = 1, {"x": 1, "y": 2}
    second.b, second.a = {"y": 2, "x": 1}, 1
    assert print_of(first) == print_of(second) == print_of(second.train(not second.training))


class Counting(nn.Module):
    """Keeps a count and its last activation, as many models do."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.last = x
        return x


def test_passes_made_here_leave_it_as_it_was() -> None:
    """It is written down after the first passes, and asked again before any when a run is resumed or verified."""
    model = TorchModel(Counting())
    before = model.fingerprint()
    model.scores(torch.rand(2, 3))
    assert model.fingerprint() == before == print_of(Counting())


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("wrap", [nn.utils.weight_norm, nn.utils.spectral_norm])
def test_what_is_computed_from_weights_at_each_pass_is_not_held(wrap: Callable[[nn.Module], nn.Module]) -> None:
    """What stands there before the first pass belongs to the weights that a module was made with, not to those loaded."""
    state = wrap(nn.Linear(2, 2)).state_dict()
    prints = set()
    for _ in range(2):
        fresh = wrap(nn.Linear(2, 2))
        fresh.load_state_dict(state)
        prints.add(print_of(fresh.eval()))
    assert len(prints) == 1


def test_what_holds_itself_has_an_end() -> None:
    module, loop = Holding(1), []
    loop.append(loop)
    module.loop, module.back = loop, [module]
    assert print_of(module) == print_of(module)


def test_other_objects_count_by_their_class() -> None:
    assert print_of(Holding(object())) == print_of(Holding(object())) != print_of(Holding(torch.Generator()))
    assert print_of(Holding(np.array([object()]))) == print_of(Holding(np.array([object()])))
