"""Bounds that no point undercuts, exact where the truth can be worked out, and never given for what is not understood."""

import math

import pytest
import torch
from torch import Tensor, nn

from brinell.certify import branch, chain, crown, interval
from brinell.certify.ascent import Climb
from brinell.certify.branch import Tree
from brinell.certify.chain import certify, margins
from brinell.certify.deadline import Deadline
from brinell.certify.graph import Network, network_of
from brinell.certify.operators import Dense
from brinell.certify.region import Region
from brinell.certify.search import Search
from brinell.certify.task import Task
from brinell.errors import BadInput
from brinell.geometry import NORMS, Norm
from brinell.losses import margin_of
from brinell.threat import RELATIVE_TOLERANCE, Threat
from brinell.zoo.architecture import SmallCNN
from models_with_known_radius import random_linear
from six_relus import least_by_patterns, tiny

CLASSES = 3
NEVER = Deadline(math.inf)


class Residual(nn.Module):
    """A block with a way round it, on pixels that it centres itself."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.6]).view(1, 2, 1, 1))
        self.into, self.norm = nn.Conv2d(2, 3, 3, stride=2, padding=1), nn.BatchNorm2d(3)
        self.block = nn.Sequential(nn.ReLU(), nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.ReLU())
        self.out = nn.Linear(3, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm(self.into((x - self.mean) / 0.3))
        z = nn.functional.relu(self.block(z) + z)
        return self.out(z.mean((2, 3), keepdim=True).flatten(1))


def nets() -> dict[str, nn.Sequential]:
    """One of each kind; the input has shape (2, 5, 5)."""
    return {
        "dense": nn.Sequential(nn.Flatten(), nn.Linear(50, 12), nn.ReLU(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, CLASSES)),
        "strided": nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1, dilation=1), nn.ReLU(), nn.Conv2d(4, 4, 2, groups=2), nn.ReLU(),
            nn.Flatten(), nn.Linear(16, CLASSES),
        ),
        "pooled": nn.Sequential(
            nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.MaxPool2d(2, stride=1, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
            nn.Linear(12, 6), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(6, CLASSES),
        ),
        "smooth": nn.Sequential(
            nn.Flatten(), nn.Linear(50, 8), nn.Tanh(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 8),
            nn.ReLU(), nn.Linear(8, CLASSES),
        ),
        "residual": nn.Sequential(Residual()),
    }  # fmt: skip


def drawn(name: str, seed: int) -> tuple[nn.Module, Tensor, Tensor]:
    """A net with random weights and statistics in float64, two rows, and its own decisions as labels."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        net = nets()[name].double().eval()
    for key, value in net.state_dict().items():
        if value.is_floating_point() and "mean" not in key:
            draw = torch.rand(value.shape, generator=generator, dtype=value.dtype)
            value.copy_(0.5 + draw if "var" in key else 2 * (draw - 0.5))
    x = torch.rand(2, 2, 5, 5, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        return net, x, net(x).argmax(1)


def within(threat: Threat, x: Tensor, seed: int, count: int = 200) -> Tensor:
    """Points of each row's threat set, many of them on its faces; shape (count, row, *feature)."""
    generator = torch.Generator().manual_seed(seed)
    d = torch.randn(count, *x.shape, generator=generator, dtype=x.dtype)
    d[: count // 3] = torch.where(
        torch.rand(d[: count // 3].shape, generator=generator) < 0.1, 50 * d[: count // 3], 0.0
    )
    points = [threat.around(x).project(x + 3 * threat.eps * part) for part in d]
    return torch.stack([x, *points])


def lower_bounds(network: Network, region: Region, specs: Tensor) -> dict[str, Tensor]:
    """By each method, for the same functions."""
    with torch.no_grad():
        layers = crown.layers_of(network, region)
        found = {
            "interval": interval.bound(network, region, specs),
            "crown": crown.bound(network, region, layers, specs),
        }
        last = len(network.nodes) - 1
        found["through"] = crown.plainly(network, region, layers, last, specs)
    climb = Climb(network, region, 8, torch.inf)
    found["slopes"] = climb.bound(layers, last, specs)[0]
    found["layers"] = climb.bound(crown.layers_of(network, region, climb.ask), last, specs)[0]
    return found


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", nets())
def test_no_point_undercuts_a_bound(name: str, norm: Norm, without_shape_checks: None) -> None:
    for seed, share in enumerate((0.0, 0.02, 0.1, 0.4)):
        net, x, y = drawn(name, seed)
        threat = Threat(norm, share * {"linf": 1, "l2": 4, "l1": 12}[norm])
        specs = margins(y, CLASSES)
        network = network_of(net, (2, 5, 5))
        points = within(threat, x, seed)
        with torch.no_grad():
            scores = torch.stack([net(some) for some in points])
        least = torch.einsum("rsc,nrc->nrs", specs, scores).amin(0)
        found = lower_bounds(network, Region.of(threat, x), specs)
        for method, bound in found.items():
            assert (bound <= least + 1e-9).all(), (seed, method, bound, least)
            if share == 0:
                torch.testing.assert_close(bound, least, atol=1e-9, rtol=0)
        assert (found["slopes"] >= found["through"] - 1e-4).all()
        if norm == "linf" and share:
            assert (found["crown"] >= found["interval"] - 1e-9).all()
            assert (found["crown"] > found["interval"]).any()


@pytest.mark.parametrize("norm", NORMS)
def test_bounds_of_a_linear_model_are_its_worst_margins(norm: Norm) -> None:
    """``m - eps ‖w_y - w_j‖_dual`` where the box does not cut the ball, ``eps`` as far as membership reaches."""
    model, x = random_linear(4, 10, seed=1), torch.full((3, 10), 0.5, dtype=torch.float64)
    y, eps = torch.tensor([0, 1, 3]), 0.25
    region, specs, network = Region.of(Threat(norm, eps), x), margins(y, 4), network_of(model, (10,))
    gaps = torch.einsum("rsc,cf->rsf", specs, model.weight.detach())
    clean = torch.einsum("rsc,rc->rs", specs, model(x).detach())
    order = {"linf": 1.0, "l2": 2.0, "l1": torch.inf}[norm]
    expected = clean - eps * (1 + RELATIVE_TOLERANCE) * torch.linalg.vector_norm(gaps, ord=order, dim=2)
    torch.testing.assert_close(crown.bound(network, region, crown.layers_of(network, region), specs), expected)


def test_margins_are_of_the_own_class_over_each_other() -> None:
    scores = torch.tensor([[5.0, 1.0, 2.0]], dtype=torch.float64)
    assert (margins(torch.tensor([2]), 3) @ scores[0]).tolist() == [[-3.0, 1.0]]


def tree_of(net: nn.Module, y: Tensor, region: Region, enough: float) -> tuple[Tree, branch.Bounded]:
    network, specs = network_of(net, tuple(region.lower.shape[1:])), margins(y, 2)
    with torch.no_grad():
        layers = crown.layers_of(network, region)
    slopes = Climb(network, region, 4, torch.inf).bound(layers, len(network.nodes) - 1, specs)[1]
    tree = Tree(network, region, layers, specs, enough)
    return tree, tree.roots(torch.tensor([0]), slopes)


def nobody(points: Tensor) -> None:
    """Finds no error anywhere."""


@pytest.mark.parametrize("seed", range(6))
def test_branch_and_bound_ends_at_the_least_margin(seed: int) -> None:
    """If no bound is ever enough, all six ReLUs are decided everywhere and what is left is exact, both ways."""
    net, _, y, region = tiny(seed)
    truth = least_by_patterns(net, y, region)
    tree, roots = tree_of(net, y, region, torch.inf)
    assert roots.questions[0].bound <= truth + 1e-9
    assert Search(tree, roots, nobody).run(NEVER).margin == pytest.approx(truth, abs=1e-5)
    assert Search(*tree_of(net, y, region, truth - 1e-3), nobody).run(NEVER).margin > truth - 1e-3
    assert Search(*tree_of(net, y, region, truth + 1e-3), nobody).run(NEVER).margin <= truth + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_the_judge_is_shown_the_point_of_the_least_margin(seed: int) -> None:
    """Where every ReLU is decided the minimiser is known, so that a net that errs anywhere is found to err."""
    net, _, y, region = tiny(seed)
    shown: list[Tensor] = []
    Search(*tree_of(net, y, region, torch.inf), shown.append).run(NEVER)
    points = torch.cat(shown)
    assert ((points >= region.lower) & (points <= region.upper)).all()
    with torch.no_grad():
        least = float(margin_of(net(points), y.expand(len(points))).min())
    assert least == pytest.approx(least_by_patterns(net, y, region), abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_a_search_that_is_interrupted_goes_on_where_it_was(seed: int) -> None:
    """With no time at all, round by round: the bound never falls, and nothing is asked twice."""
    net, _, y, region = tiny(seed)
    whole = Search(*tree_of(net, y, region, torch.inf), nobody).run(NEVER)
    search = Search(*tree_of(net, y, region, torch.inf), nobody)
    found = [search.run(Deadline(-math.inf))]
    while search.agenda.open:
        search.run(Deadline(0.0, iter([-1.0, 1.0]).__next__))
        found.append(search.run(Deadline(-math.inf)))
    assert len(found) > 2
    assert [one.margin for one in found] == sorted(one.margin for one in found)
    assert (found[-1].margin, found[-1].questions) == (whole.margin, whole.questions)


def test_a_share_of_the_time_is_of_what_is_left() -> None:
    now = [10.0]
    deadline = Deadline(30.0, lambda: now[0])
    assert deadline.share(0.1).until == 12.0
    now[0] = 20.0
    assert deadline.share(0.1).until == 21.0


def test_halves_are_no_harder_than_the_whole() -> None:
    net, _, y, region = tiny(0)
    tree, roots = tree_of(net, y, region, torch.inf)
    whole = roots.questions
    for _ in range(3):
        halves = tree.halved(whole).questions
        for i, question in enumerate(whole):
            assert min(halves[i].bound, halves[i + len(whole)].bound) >= question.bound
        assert all((half.sign != 0).sum() > (whole[0].sign != 0).sum() for half in halves)
        whole = [half for half in halves if len(half.candidates)]
    assert whole


@pytest.mark.parametrize("name", ["dense", "pooled", "smooth"])  # nothing of the last one can be broken
@pytest.mark.parametrize("norm", NORMS)
def test_a_row_is_certified_or_broken_but_not_both(norm: Norm, name: str) -> None:
    """Over radii from none to all of the box; what is broken has a witness, what is certified withstands 500 points."""
    net, x, y = drawn(name, 3)
    seen = set()
    for share in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0):
        threat = Threat(norm, share * {"linf": 0.3, "l2": 2, "l1": 20}[norm])
        for i, one in enumerate(certify(net, x, y, threat, seconds=0.3)):
            row, label = x[i : i + 1], y[i : i + 1]
            seen.add((one.outcome, one.method))
            assert (one.witness is not None) == (one.outcome == "violated")
            assert (one.margin > one.tolerance) == (one.outcome == "certified")
            if one.witness is not None:
                assert threat.contains(row, one.witness).all()
                assert margin_of(net(one.witness), label) <= 0
            else:
                points = within(threat, row, i, 500).flatten(0, 1)
                assert margin_of(net(points), label.expand(len(points))).min() >= one.margin - 1e-9
    assert {outcome for outcome, _ in seen} >= {"certified", "unknown" if name == "smooth" else "violated"}
    assert {method for _, method in seen} >= {"interval", "branch"}


def test_a_row_that_is_wrong_is_its_own_witness() -> None:
    net, x, y = drawn("dense", 3)
    one, *_ = certify(net, x, (y + 1) % CLASSES, Threat("linf", 0.0))
    assert one.outcome == "violated"
    assert torch.equal(one.witness, x[:1])


def test_time_that_is_over_leaves_a_row_unknown() -> None:
    net, x, y, _ = tiny(0)
    cut = Task(
        network_of(net, (3,)), Region(x - 0.6, x + 0.6), margins(y, 2), torch.arange(1), 1e9, nobody
    )  # fmt: skip
    proof = chain.prove(cut, torch.full((1, 1), -torch.inf, dtype=torch.float64), Deadline(0.0))
    assert proof.margin <= least_by_patterns(net, y, cut.region)
    assert proof.questions == 1


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_certify_nothing(value: float) -> None:
    layers = [nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)]
    net = nn.Sequential(*layers).eval()
    network = network_of(net, (3,))
    dense = network.nodes[1].operator
    assert isinstance(dense, Dense)
    dense.weight[0, 0] = value
    (one,) = certify(net, torch.rand(1, 3), torch.tensor([0]), Threat("linf", 0.01), seconds=1, network=network)
    assert one.outcome != "certified"
    points = Region.of(Threat("linf", 0.01), torch.tensor([[0.5, torch.nan, 0.5]]))
    assert points.empty().all()


def test_bounds_that_contradict_each_other_are_none() -> None:
    region = Region(torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64))
    net, *_ = tiny(0)

    def liar(known: crown.Layers, place: int, a: Tensor) -> Tensor:
        return torch.tensor([[0.0], [1e6]], dtype=torch.float64).expand(a.shape[:2])

    network = network_of(net, (3,))
    bound = crown.bound(network, region, crown.layers_of(network, region, liar), margins(torch.tensor([0, 0]), 2))
    assert not bound[0].isnan().any()
    assert bound[1].isnan().all()


class _Forgetful(nn.Module):
    """Gives something else each time."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class _Chooses(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class _Mixes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0, keepdim=True)


class _Squares(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x


@pytest.mark.parametrize(
    ("module", "named"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Softplus()), r"softplus in 1 \(Softplus\)"),
        (nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU()), "leaky_relu in 1"),
        (nn.Sequential(nn.Dropout(), nn.Linear(4, 4)).train(), r"dropout in training mode .* in 0 \(Dropout\)"),
        (nn.BatchNorm1d(4).train(), "own mean"),
        (_Forgetful(), "outputs are not those"),
        (_Chooses(), "cannot be traced"),
        (_Mixes(), "mean, whose value is not one for each row"),
        (_Squares(), "operation mul"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(module: nn.Module, named: str) -> None:
    with pytest.raises(BadInput, match=named):
        network_of(module, (4,))


def test_a_network_says_what_its_module_says() -> None:
    """In the module's own precision, away from the inputs on which it was checked."""
    for name in nets():
        net, *_ = drawn(name, 9)
        x = 5 * torch.randn(7, 2, 5, 5, generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(network_of(net, (2, 5, 5)).forward(x.double()), net(x.double()))
        torch.testing.assert_close(
            network_of(net.float(), (2, 5, 5)).forward(x.double()).float(), net(x), atol=1e-4, rtol=1e-4
        )


def test_the_built_in_model_is_understood() -> None:
    network = network_of(SmallCNN().eval(), (1, 28, 28))
    assert network.nodes[-1].shape == (10,)
