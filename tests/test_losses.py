"""Losses against arithmetic by hand, their gradients, and what replaces them where classes are few."""

import math

import pytest
import torch
from torch import Tensor

from brinell.errors import BadInput
from brinell.losses import (
    CROSS_ENTROPY,
    DLR,
    LOSSES,
    MARGIN,
    TARGETED_CROSS_ENTROPY,
    TARGETED_DLR,
    TARGETED_MARGIN,
    Loss,
    TargetedLoss,
    decision,
    defined_for,
    loss_named,
    margin_of,
)


def logits(*rows: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(rows, dtype=dtype)


def classes(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def close(got: Tensor, *expected: float) -> bool:
    return torch.allclose(got, torch.tensor(expected, dtype=got.dtype), rtol=1e-12, atol=1e-12)


def test_margin_is_positive_exactly_where_the_row_is_correct():
    # 3 - max(1, 0) = 2;  1 - max(3, 0) = -2;  0 - max(3, 1) = -3
    z = logits([3, 1, 0], [3, 1, 0], [3, 1, 0])
    assert close(margin_of(z, classes(0, 1, 2)), 2, -2, -3)


def test_a_tie_is_an_error():
    assert margin_of(logits([2, 2, 1], [2, 2, 1]), classes(0, 1)).tolist() == [0, 0]


def test_the_decision_agrees_with_the_margin():
    """The true class where its margin is above 0; in a tie, the other."""
    z = logits([3, 1, 0], [1, 3, 3], [2, 2, 1], [2, 2, 1])
    assert decision(z, classes(0, 0, 0, 1)).tolist() == [0, 1, 1, 0]


def test_margin_of_two_classes_and_of_no_rows():
    assert close(margin_of(logits([1.5, -0.5]), classes(1)), -2)
    assert margin_of(torch.zeros(0, 3), classes()).shape == (0,)


def test_a_nan_in_the_logits_is_no_margin():
    margin = margin_of(logits([math.nan, 1, 0], [0, math.nan, 1]), classes(0, 0))
    assert margin.isnan().all()
    assert not (margin <= 0).any()


def test_untargeted_values():
    z = logits([3, 1, 0], [3, 1, 0])
    y = classes(0, 1)
    # y = 0: log(1 + e^-2 + e^-3);  y = 1: log(e^2 + 1 + e^-1)
    ce = (math.log(1 + math.exp(-2) + math.exp(-3)), math.log(math.exp(2) + 1 + math.exp(-1)))
    assert close(CROSS_ENTROPY.climb(z, y), *ce)
    assert close(MARGIN.climb(z, y), -2, 2)
    # z_(1) - z_(3) = 3: -(3 - 1) / 3 and -(1 - 3) / 3
    assert close(DLR.climb(z, y), -2 / 3, 2 / 3)


def test_targeted_values():
    z = logits([4, 3, 1, -1], [4, 3, 1, -1])
    y, target = classes(0, 1), classes(2, 3)
    total = math.log(math.exp(4) + math.exp(3) + math.exp(1) + math.exp(-1))
    assert close(TARGETED_CROSS_ENTROPY.climb(z, y, target), 1 - total, -1 - total)
    assert close(TARGETED_MARGIN.climb(z, y, target), -3, -4)
    # z_(1) - (z_(3) + z_(4)) / 2 = 4 - (1 - 1) / 2 = 4: -(4 - 1) / 4 and -(3 + 1) / 4
    assert close(TARGETED_DLR.climb(z, y, target), -3 / 4, -1)


def test_dlr_sees_neither_shift_nor_scale():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(20, 6, dtype=torch.float64, generator=generator)
    y, target = z.argmax(1), z.argmin(1)
    for loss in (lambda z: DLR.climb(z, y), lambda z: TARGETED_DLR.climb(z, y, target)):
        assert torch.allclose(loss(1000 * z + 7), loss(z), rtol=1e-9)
        assert loss(z).std() > 0.01


def test_cross_entropy_holds_for_huge_logits():
    z = logits([1e4, 0, -1e4], dtype=torch.float32)
    assert CROSS_ENTROPY.climb(z, classes(2)).item() == 2e4
    assert TARGETED_CROSS_ENTROPY.climb(z, classes(0), classes(1)).item() == -1e4


def test_gradients_by_hand():
    z = logits([3, 1, 0]).requires_grad_(True)
    y, target = classes(0), classes(2)

    def grad(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss.sum(), z)[0]

    # softmax minus one-hot
    total = math.exp(3) + math.exp(1) + 1
    assert close(grad(CROSS_ENTROPY.climb(z, y))[0], math.exp(3) / total - 1, math.exp(1) / total, 1 / total)
    assert close(grad(MARGIN.climb(z, y))[0], -1, 1, 0)
    assert close(grad(TARGETED_MARGIN.climb(z, y, target))[0], -1, 0, 1)
    assert close(
        grad(TARGETED_CROSS_ENTROPY.climb(z, y, target))[0], -math.exp(3) / total, -math.exp(1) / total, 1 - 1 / total
    )
    # -(a - b) / (a - c) at (3, 1, 0): by a: (c - b) / (a - c)^2 = -1/9; by b: 1/3; by c: -(a - b) / (a - c)^2 = -2/9
    assert close(grad(DLR.climb(z, y))[0], -1 / 9, 1 / 3, -2 / 9)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=repr)
def test_gradients_against_finite_differences(loss):
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(5, 6, dtype=torch.float64, generator=generator, requires_grad=True)
    y, target = classes(0, 1, 2, 3, 4), classes(1, 2, 3, 4, 5)
    extra = (target,) if isinstance(loss, TargetedLoss) else ()
    assert torch.autograd.gradcheck(lambda z: loss.climb(z, y, *extra), z)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_logits_give_finite_numbers(loss, dtype):
    z = torch.full((2, 5), 3.0, dtype=dtype, requires_grad=True)
    extra = (classes(1, 2),) if isinstance(loss, TargetedLoss) else ()
    climbed = loss.climb(z, classes(0, 1), *extra)
    (grad,) = torch.autograd.grad(climbed.sum(), z)
    assert climbed.isfinite().all()
    assert grad.isfinite().all()


@pytest.mark.parametrize("loss", LOSSES.values(), ids=repr)
def test_climbing_leads_out_of_the_true_class(loss):
    """A small step along the loss's gradient lowers the margin (to the target, if there is one).

    The target is the runner-up: towards a class below the mean of the third and fourth, the targeted DLR loss of the
    paper gains more by stretching its denominator than by lowering the true class.
    """
    generator = torch.Generator().manual_seed(2)
    z = torch.randn(40, 5, dtype=torch.float64, generator=generator)
    y = z.argmax(1)
    target = z.topk(2, dim=1).indices[:, 1]
    z.requires_grad_(True)
    targeted = isinstance(loss, TargetedLoss)
    (grad,) = torch.autograd.grad(loss.climb(z, y, *([target] if targeted else [])).sum(), z)
    moved = z.detach() + 1e-4 * grad / grad.norm(dim=1, keepdim=True)
    if targeted:
        before, after = (-TARGETED_MARGIN.climb(points, y, target) for points in (z.detach(), moved))
    else:
        before, after = margin_of(z.detach(), y), margin_of(moved, y)
    assert (after < before - 1e-6).all()


@pytest.mark.parametrize(
    ("loss", "few", "many", "instead"),
    [
        (CROSS_ENTROPY, [], [2, 3, 10], None),
        (MARGIN, [], [2, 3, 10], None),
        (DLR, [2], [3, 4, 10], MARGIN),
        (TARGETED_CROSS_ENTROPY, [], [2, 3], None),
        (TARGETED_MARGIN, [], [2, 3], None),
        (TARGETED_DLR, [2, 3], [4, 5, 10], TARGETED_MARGIN),
    ],
)
def test_what_replaces_a_loss_where_classes_are_few(loss, few, many, instead):
    for number in few:
        assert defined_for(loss, number) is instead
    for number in many:
        assert defined_for(loss, number) is loss
    y, target = classes(0), classes(1)
    for number in [*few, *many]:
        used = defined_for(loss, number)
        extra = (target,) if isinstance(used, TargetedLoss) else ()
        assert used.climb(torch.arange(number, dtype=torch.float64)[None], y, *extra).isfinite().all()


def test_every_loss_is_found_by_its_name():
    untargeted = {"ce", "margin", "probability-margin", "dlr"}
    assert set(LOSSES) == {*untargeted, "targeted-ce", "targeted-margin", "targeted-dlr"}
    for name, loss in LOSSES.items():
        assert loss_named(name) is loss
        assert isinstance(loss, TargetedLoss if name.startswith("targeted") else Loss)
        assert repr(loss) == name


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(BadInput, match="'hinge'") as refused:
        loss_named("hinge")
    assert "targeted-dlr" in refused.value.expected
