"""The attack that climbs how likely a randomised model errs, on models that know it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from brinell import Threat
from brinell.attacks.chance import NARROWING, WIDTHS, Chance
from brinell.evaluation import Result
from brinell.geometry import NORMS, Norm
from brinell.losses import CHANCE, MAGNITUDE, margin_of
from brinell.queries import Gradient
from brinell.suites.suite import Suite, suite_from
from models_with_known_radius import worst_margin
from noisy_models import BOX, DRAWS, EPS, SIGMAS, carried_out, chosen, data, noisy
from trials import by_hand


def suite_of_one(**attack: Any) -> Suite:
    return suite_from({"name": "t", "version": "1", "attacks": [attack], "draws": {**DRAWS, "attack": 10}}, "tests")


class TwoKinds(nn.Module):
    """Four of ten draws err where the first value is above 0.9; the others never do, and hold the mean back.

    Margins are ``0.01 (0.9 - x)`` and ``0.01 (20 + 10 x)``: the mean falls towards lower values, to no error at all.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Two logits."""
        first = x.flatten(1)[:, 0]
        margin = 0.01 * torch.where(torch.rand_like(first) < 0.4, 0.9 - first, 20 + 10 * first)
        return torch.stack([margin, torch.zeros_like(margin)], dim=1)


def two_kinds(folder: Path, **attack: Any) -> Result:
    x = torch.zeros(12, 3, dtype=torch.float64)
    y = torch.zeros(12, dtype=torch.int64)
    return carried_out(folder, TwoKinds().eval(), (x, y), threat=Threat("linf", 1, *BOX), suite=suite_of_one(**attack))


def test_draws_that_differ_in_kind(tmp_path: Path) -> None:
    """The model is right in six of ten draws at the worst point; climbing a mean loss leads away from it."""
    found = two_kinds(tmp_path / "chance", attack="chance", steps=20, restarts=3).randomised
    assert found is not None
    error = (0.6 * 0.4 / (12 * DRAWS["score"])) ** 0.5
    assert found.expected.value == pytest.approx(0.6, abs=SIGMAS * error)
    for loss in ("ce", "margin"):
        misled = two_kinds(tmp_path / loss, attack="pgd", steps=20, loss=loss).randomised
        assert misled is not None
        assert misled.expected.value is not None
        assert misled.expected.value > 0.9


@pytest.mark.parametrize("norm", NORMS)
def test_gaussian_noise(tmp_path: Path, norm: Norm) -> None:
    """With normal noise on a linear model the least probability is known, and is found but for chance."""
    model, (x, y) = noisy(), data()
    threat = Threat(norm, EPS[norm], *BOX)
    result = carried_out(
        tmp_path / "run", model, (x, y), threat=threat, suite=suite_of_one(attack="chance", steps=20, restarts=1)
    )
    true = model.right(chosen(result), y)
    least = model.right_at(worst_margin(model, x, y, norm, EPS[norm], BOX))
    assert bool((true >= least - 1e-9).all())
    assert float(true.mean()) <= float(least.mean()) + 0.01


def test_the_losses() -> None:
    logits, y = torch.tensor([[3.0, 1.0], [0.0, 0.5], [1.0, 1.0]]), torch.zeros(3, dtype=torch.int64)
    width = torch.tensor([2.0, 0.5, 1.0])
    assert CHANCE.climb(logits, y, width).tolist() == pytest.approx([1 / (1 + 2.718281828), 0.7310585786, 0.5])
    assert MAGNITUDE.climb(logits, y).tolist() == [2.0, 0.5, 0.0]


def test_widths() -> None:
    """The first query measures the margins; each restart begins half as wide as the one before, six in turn."""
    model = noisy(sigma=0.0)
    x, y = data()
    x, y = x[1:5], y[1:5]  # right at first
    attack = Chance(steps=4, restarts=WIDTHS + 1)
    queries = [query for query, _ in by_hand(model, Threat("linf", 1e-9, *BOX), attack, (x, y))]
    gradients = [query for query in queries if isinstance(query, Gradient)]
    assert len(queries) == attack.cost().forwards and len(gradients) == attack.cost().backwards
    size = margin_of(model(x), y).abs().detach()
    for restart in range(WIDTHS + 1):
        first, *steps = gradients[restart * 5 : restart * 5 + 5]
        assert first.loss is MAGNITUDE
        for k, query in enumerate(steps):
            assert query.target is not None
            expected = 0.5 * 0.5 ** (restart % WIDTHS) * NARROWING ** (k / 4) * size
            torch.testing.assert_close(query.target, expected, rtol=1e-6, atol=0)
