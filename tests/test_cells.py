"""Cells: no bound above the truth, the truth itself where every ReLU is decided, and nothing proved of what is violated."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from brinell.certify import cells, chain, crown
from brinell.certify.cells import Cell, Cells
from brinell.certify.chain import margins
from brinell.certify.deadline import Deadline
from brinell.certify.graph import network_of
from brinell.certify.region import Region
from brinell.certify.task import Task
from brinell.certify.widening import Influence, OfPlaces, widening
from brinell.geometry import NORMS, Norm
from brinell.losses import margin_of
from brinell.threat import Threat
from six_relus import least_by_patterns, tiny

NEVER = Deadline(math.inf)
MANY = (0, 3, 4, 5, 7, 13, 19)
"""Seeds of networks with cells in both layers."""


def nobody(points: Tensor) -> None:
    """Finds no error anywhere."""


def task_of(net: nn.Module, y: Tensor, region: Region, enough: float, classes: int = 2) -> Task:
    network = network_of(net, tuple(region.lower.shape[1:]))
    return Task(network, region, margins(y, classes), torch.arange(classes - 1), enough, nobody)


def cells_of(task: Task) -> Cells:
    """The whole region, as the chain begins."""
    with torch.no_grad():
        layers = crown.layers_of(task.network, task.region)
        return Cells(task, layers, crown.bound(task.network, task.region, layers, task.specs))


@pytest.mark.parametrize("seed", MANY)
def test_cells_end_at_the_least_margin(seed: int) -> None:
    """If no bound is ever enough, every ReLU is decided everywhere and what is left is exact, both ways."""
    net, _, y, region = tiny(seed)
    truth = least_by_patterns(net, y, region)
    assert cells_of(task_of(net, y, region, math.inf)).run(NEVER).margin == pytest.approx(truth, abs=1e-6)
    assert truth - 1e-3 < cells_of(task_of(net, y, region, truth - 1e-3)).run(NEVER).margin <= truth + 1e-9
    assert cells_of(task_of(net, y, region, truth + 1e-3)).run(NEVER).margin <= truth + 1e-9


@pytest.mark.parametrize("seed", MANY)
def test_the_judge_is_shown_the_point_of_the_least_margin(seed: int) -> None:
    net, _, y, region = tiny(seed)
    shown: list[Tensor] = []
    cells_of(replace(task_of(net, y, region, math.inf), judge=shown.append)).run(NEVER)
    points = torch.cat(shown)
    with torch.no_grad():
        least = float(margin_of(net(points), y.expand(len(points))).min())
    assert least == pytest.approx(least_by_patterns(net, y, region), abs=1e-6)


@pytest.mark.parametrize("seed", MANY)
def test_every_open_cell_bounds_its_own_points(seed: int) -> None:
    """Round by round: a point of the box lies in a cell that is open, or its margin is above what closed the others."""
    net, _, y, region = tiny(seed)
    task = task_of(net, y, region, 0.3 + least_by_patterns(net, y, region))
    mine = cells_of(task)
    generator = torch.Generator().manual_seed(seed)
    x = region.lower + (region.upper - region.lower) * torch.rand(20000, 3, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        first = net[0](x)
        second = net[2](first.relu())
        values = torch.cat([first, second], dim=1)
        margin = torch.einsum("sc,nc->ns", task.specs[0], net(x))[:, 0]
    index = torch.cat([layer.places.index + 3 * n for n, layer in enumerate(mine.layers.values())])
    z, rounds = values[:, index], 0
    while mine.open:
        covered = margin > task.enough
        for cell in mine.open:
            inside = ((z * cell.sign) >= 0).all(1)
            assert (z[inside] >= cell.lower - 1e-9).all()
            assert (z[inside] <= cell.upper + 1e-9).all()
            assert (margin[inside] >= cell.bounds[0] - 1e-9).all()
            covered |= inside
        assert (covered | (margin > mine.least - 1e-9)).all()
        mine.run(Deadline(0.0, iter([-1.0, -1.0, -1.0, -1.0, *[1.0] * 9]).__next__))
        rounds += 1
    assert rounds > 2


def test_a_cell_without_a_point_is_closed_and_one_that_rounding_crosses_is_not() -> None:
    """Bounds may say so only by more than float64's rounding, and only if they are numbers."""
    lower = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [0.0, torch.inf], [torch.nan, 0.0], [-1.0, -1.0]])
    upper = torch.tensor([[1.0, 1.1], [1.0, 1.0 - 1e-9], [1.0, 1.9], [1.0, 1.0], [-9.0, 1.0], [1.0, 1.0]])
    cell = Cell(torch.zeros(6, 2, dtype=torch.int8), lower.double(), upper.double(), torch.zeros(6, 1))
    assert cell.empty().tolist() == [False, False, True, False, False, False]


def test_contradicting_signs_leave_nothing_open() -> None:
    """``x - 2`` and ``-x - 2`` are never positive together: the ReLUs before them decided so have no point."""
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2)).double().eval()
    values = [[[1.0], [-1.0]], [-0.5, -0.5], [[1.0, 1.0]], [-0.1], [[1.0], [0.0]], [0.0, 0.0]]
    for parameter, value in zip(net.parameters(), values, strict=True):
        parameter.data = torch.tensor(value, dtype=torch.float64)
    region = Region(torch.full((1, 1), -1.0, dtype=torch.float64), torch.full((1, 1), 1.0, dtype=torch.float64))
    mine = cells_of(task_of(net, torch.tensor([0]), region, math.inf))
    whole = mine.open.pop()
    assert len(whole.sign) == 3
    # off and off: what is before the third is -0.1 everywhere, so that it cannot be on
    off = whole.halves(0)[1].halves(1)[1]
    assert not Cell.together([off]).empty().any()
    mine.open = [off.halves(2)[0]]
    found = mine.run(NEVER)
    assert (mine.open, mine.least, found.questions) == ([], math.inf, 1)
    # the rest was never asked about, and without it this would be a region without a point
    assert found.margin == -math.inf


@pytest.mark.parametrize("norm", NORMS)
def test_other_functions_stay_relaxed(norm: Norm) -> None:
    """Tanh and sigmoid, and balls: the bound rises with time and stays below every point's margin."""
    generator = torch.Generator().manual_seed(5)
    with torch.random.fork_rng(devices=[]):
        net = nn.Sequential(
            nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.Sigmoid(),
            nn.Linear(6, 3),
        ).double().eval()  # fmt: skip
    for value in net.parameters():
        value.data = torch.randn(value.shape, generator=generator, dtype=torch.float64)
    x = torch.rand(1, 4, generator=generator, dtype=torch.float64)
    threat = Threat(norm, {"linf": 0.4, "l2": 0.6, "l1": 0.9}[norm])
    y = net(x).argmax(1)
    task = task_of(net, y, Region.of(threat, x), math.inf, classes=3)
    mine = cells_of(task)
    before = task.margin(mine.open[0].bounds[None])
    draws = torch.randn(4000, 1, 4, generator=generator, dtype=torch.float64)
    points = torch.cat([threat.around(x).project(x + draw) for draw in draws])
    with torch.no_grad():
        least = float((net(points) @ task.specs[0].T).min())
    found = mine.run(NEVER)
    assert before < found.margin <= least + 1e-9


@pytest.mark.parametrize("seed", MANY)
def test_what_is_violated_is_never_proved(seed: int) -> None:
    """The margin's least value is below what is asked, by a little."""
    net, _, y, region = tiny(seed)
    truth = least_by_patterns(net, y, region)
    task = task_of(net, y, region, truth + 1e-4)
    assert cells_of(task).run(NEVER).margin <= truth + 1e-9


@pytest.mark.parametrize("seed", [0, 3, 4, 5, 13])
def test_points_where_bounds_are_attained_are_judged(seed: int) -> None:
    net, _, y, region = tiny(seed)
    truth = least_by_patterns(net, y, region)
    task = task_of(net, y, region, truth + 1e-4)

    def judge(points: Tensor) -> Tensor | None:
        with torch.no_grad():
            low = (net(points) @ task.specs[0].T)[:, 0] <= truth + 0.5
        return points[low][:1] if low.any() else None

    seen = cells_of(Task(task.network, region, task.specs, task.groups, task.enough, judge)).run(NEVER)
    assert seen.witness is not None
    assert (seen.witness >= region.lower).all()
    assert (seen.witness <= region.upper).all()


def test_time_that_is_over_stops_before_the_next_cells() -> None:
    net, _, y, region = tiny(7)
    mine = cells_of(task_of(net, y, region, math.inf))
    known = float(mine.open[0].bounds)
    found = mine.run(Deadline(-math.inf))
    assert (found.margin, found.questions) == (known, 0)
    # 1 second for a cell: 3 are left, then 1, then none
    mine.pace, now = 1.0, [0.0]
    for _ in range(3):
        mine.run(Deadline(0.0, iter([-1.0, -1.0, -1.0, -1.0, *[1.0] * 9]).__next__))
        mine.pace = 1.0
    assert len(mine.open) > 3
    assert [len(mine._taken(Deadline(left, lambda: now[0]))) for left in (3.5, 0.5)] == [3, 1]


def test_numbers_that_are_none_prove_nothing() -> None:
    """Infinite bounds before a layer and weights that are no numbers leave a cell open or unproved, and end."""
    for value in (math.nan, math.inf):
        net, _, y, region = tiny(2)
        task = task_of(net, y, region, 0.0)
        task.network.nodes[3].operator.weight[0, 0] = value
        with torch.no_grad():
            layers = crown.layers_of(task.network, region)
        nothing = torch.full((1, 1), -torch.inf, dtype=torch.float64)
        assert not Cells(task, layers, nothing).run(NEVER).margin > 0


def test_widening_is_the_derivative_of_the_bounds() -> None:
    """One ReLU of coefficient -2 on [-1, 3], whose bounds depend on an earlier one on [-1, 1], by hand.

    The later chord is 3/4 high and costs 2 · 3/4. Its height falls by (3/4)² for each unit of l and by (1/4)² for u. The
    earlier ReLU enters l with -0.5 and -u with -1, and its chord is 1/2 high: 2 · (9/16 · 0.5 + 1/16 · 1) · 1/2 = 11/32.
    """
    lower = torch.tensor([[-1.0, -1.0, 1.0]], dtype=torch.float64)
    upper = torch.tensor([[1.0, 3.0, 2.0]], dtype=torch.float64)
    spots = {2: torch.tensor([0]), 4: torch.tensor([1, 2])}
    margin = Influence({4: torch.tensor([[[-2.0, -9.0]]])}, torch.ones(1, 1))
    later = Influence({2: torch.tensor([[[-0.5], [-1.0]]])}, OfPlaces(torch.tensor([1])))
    influences = [Influence({i: a.double() for i, a in one.of.items()}, one.counting) for one in (later, margin)]
    costs = widening(lower, upper, spots, influences)
    torch.testing.assert_close(costs, torch.tensor([[11 / 32, 3 / 2, -1.0]], dtype=torch.float64))


def test_the_chain_turns_to_cells_where_halves_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time for the tree and cells for next to nothing, a row is proved by cells; where they are dear, by the tree."""
    net, _, y, region = tiny(7)
    truth = least_by_patterns(net, y, region)
    task = task_of(net, y, region, truth - 1e-3)
    nothing = torch.full((1, 1), -torch.inf, dtype=torch.float64)
    monkeypatch.setattr(chain, "TREE_SHARE", 0.0)
    monkeypatch.setattr(chain, "MANY_CELLS", 0)
    proof = chain.prove(task, nothing, Deadline(1e9, lambda: 0.0))
    assert proof.method == "cells"
    assert truth - 1e-3 < proof.margin <= truth + 1e-9
    monkeypatch.setattr(chain, "MANY_CELLS", math.inf)
    assert chain.prove(task, nothing, Deadline(1e9, lambda: 0.0)).method == "branch"
    alone = chain.prove(task, nothing, Deadline(1e9, lambda: 0.0), "cells")
    assert (alone.method, alone.margin > truth - 1e-3) == ("cells", True)


def test_climbs_for_layers_are_no_looser_than_crown(monkeypatch: pytest.MonkeyPatch) -> None:
    """More steps, nowhere a wider bound; and some is tighter."""
    net, _, y, region = tiny(0)
    task, found = task_of(net, y, region, math.inf), []
    for steps in (0, 20):
        monkeypatch.setattr(cells, "LAYER_STEPS", steps)
        mine = cells_of(task)
        batch = Cell.together(mine.open[0].halves(0))
        mine._layers_bounded(batch)
        found.append(batch)
    assert (found[1].lower >= found[0].lower - 1e-6).all()
    assert (found[1].upper <= found[0].upper + 1e-6).all()
    assert (found[1].upper - found[1].lower).sum() < (found[0].upper - found[0].lower).sum()
