"""Square: what it asks about, pixel by pixel, and how near it comes to optima that are known exactly."""

import pytest
import torch
from torch import Tensor, nn

from brinell.attacks.square import INSIDE, TOGETHER, Square
from brinell.geometry import NORMS, size
from brinell.losses import margin_of
from brinell.queries import Answer, Given, Scores
from brinell.random import Noise, stream_key
from brinell.threat import Threat
from models_with_known_radius import random_linear, worst_margin
from trials import by_hand, trial

SHAPES = [(1, 2, 24), (3, 24, 2), (3, 4, 4), (1, 28, 28), (1, 3, 5), (2, 1, 1), (7,), (1,), (2, 5), (2, 3, 2, 2)]
HALF = {"linf": 0.1, "l2": 0.5, "l1": 2.0}


def rows_in(shape: tuple[int, ...], count: int, *, seed: int = 0) -> Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Indifferent(nn.Module):
    """Class 0 everywhere; its margin falls with every call, so that every point is better than the last."""

    def __init__(self) -> None:
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return torch.stack([x.new_full((len(x),), 1 + 1 / self.calls), x.new_zeros(len(x))], dim=1)


class Content(Indifferent):
    """Class 0 everywhere; its margin rises with every call, so that no point is better than the first."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return torch.stack([x.new_full((len(x),), 1.0 + self.calls), x.new_zeros(len(x))], dim=1)


def asked(model: nn.Module, attack: Square, threat: Threat, x: Tensor, *, seed: int = 0) -> Tensor:
    """Every point asked about, of shape (query, row, *feature)."""
    y = torch.zeros(len(x), dtype=torch.int64)
    return torch.stack([query.points for query, _ in by_hand(model, threat, attack, (x, y), seed=seed)])


def test_the_schedule():
    """In the paper's 10,000 steps p halves after steps 10, 50, 200, 500, 1,000, 2,000, 4,000, 6,000 and 8,000."""
    square = Square()
    ends = [10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000]
    for i, end in enumerate(ends):
        assert square.share(end) == 0.8 / 2**i
        assert square.share(end + 1) == 0.4 / 2**i
    assert square.share(0) == 0.8
    assert square.share(9999) == 0.8 / 512
    # squeezed into 5,000: step 5 is step 10 of the paper's, step 6 is step 12
    squeezed = Square(horizon=5000)
    assert [squeezed.share(step) for step in (5, 6, 25, 26, 4000, 4001)] == pytest.approx(
        [0.8, 0.4, 0.4, 0.2, 0.8 / 256, 0.8 / 512]
    )
    # stretched: each of the paper's steps lasts ten
    assert [Square(horizon=100_000, p_init=0.5).share(step) for step in (109, 110)] == [0.5, 0.25]


def test_cost_and_settings():
    assert Square().cost() == (5000, 0)
    assert Square(queries=7, restarts=3).cost() == (21, 0)
    assert Square(queries=7, restarts=3).attempts() == 3
    assert Square().fit(2) == Square()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("model", [Indifferent, Content])
def test_every_point_lies_in_the_set_whatever_the_shape(norm, shape, model):
    x = rows_in(shape, 4).mul(1.2).sub(0.1).clamp(0, 1)
    for dtype in (torch.float64, torch.float32):
        points = asked(model().to(dtype), Square(queries=110), Threat(norm, HALF[norm]), x.to(dtype))
        assert points.shape == (110, *x.shape)
        assert points.dtype == dtype
        assert all(Threat(norm, HALF[norm]).contains(x.to(dtype), point).all() for point in points)
        assert (points != x.to(dtype)).flatten(2).any(dim=2).any(dim=0).all()


def test_linf_goes_to_the_ends_of_every_interval():
    x = rows_in((3, 6, 6), 5).mul(1.2).sub(0.1).clamp(0, 1)
    ball = Threat("linf", 0.1).around(x)
    points = asked(Indifferent(), Square(queries=60), Threat("linf", 0.1), x)
    assert ((points == ball.lower) | (points == ball.upper)).all()
    # the first point: stripes, each column of each channel at one end
    up = points[0] == ball.upper
    assert (up == up[:, :, :1]).all()
    assert 0.2 < float(up[:, :, 0].double().mean()) < 0.8


@pytest.mark.parametrize(("shape", "side"), [((3, 8, 8), 7), ((1, 28, 28), 25)])
def test_a_step_changes_one_square_window(shape, side):
    """0.8 of 64 pixels are a square of 7, of 784 one of 25, anywhere in the image; each channel has one sign in it."""
    x = torch.full((40, *shape), 0.5, dtype=torch.float64)
    points = asked(Content(), Square(queries=8), Threat("linf", 0.25), x)
    places = set()
    for later in points[1:]:
        for before, after in zip(points[0], later, strict=True):
            changed = (before != after).any(dim=0)
            if changed.any():
                lines, columns = changed.any(dim=1).nonzero(), changed.any(dim=0).nonzero()
                assert int(lines.max() - lines.min()) < side
                assert int(columns.max() - columns.min()) < side
            # where the window can be: everywhere else nothing changed, within it each channel is constant
            for top in range(shape[1] - side + 1):
                for left in range(shape[2] - side + 1):
                    window = after[:, top : top + side, left : left + side].flatten(1)
                    outside = changed.clone()
                    outside[top : top + side, left : left + side] = False
                    if not outside.any() and (window == window[:, :1]).all():
                        places.add((top, left))
    assert places == {(top, left) for top in range(shape[1] - side + 1) for left in range(shape[2] - side + 1)}


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 12, 12), (3, 5, 24)], ids=str)
def test_all_of_the_radius_is_used_where_the_box_is_far(norm, shape):
    """But for the rare step whose pattern is the very opposite of what the window held: the two cancel."""
    x = torch.full((6, *shape), 0.5, dtype=torch.float64)
    points = asked(Indifferent(), Square(queries=200), Threat(norm, 0.2), x)
    sizes = size((points - x).flatten(0, 1), norm)
    assert (sizes <= 0.2 * INSIDE * (1 + 1e-12)).all()
    assert float((sizes >= 0.2 * INSIDE * (1 - 1e-9)).double().mean()) > 0.99


def test_what_the_box_cut_is_spent_elsewhere():
    """Rows at a face: half of the first pattern is cut off; after some steps most of the radius is in use."""
    x = torch.zeros(6, 1, 12, 12, dtype=torch.float64)
    points = asked(Indifferent(), Square(queries=100), Threat("l2", 0.2), x)
    used = size((points - x).flatten(0, 1), "l2").view(100, 6) / 0.2
    assert (used[0] < 0.8).all()
    assert float(used[50:].mean()) > 0.85


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_a_step_leaves_all_but_two_windows_alone(norm):
    """One channel, box far: all pixels outside of the two windows keep what they had."""
    x = torch.full((10, 1, 12, 12), 0.5, dtype=torch.float64)
    points = asked(Content(), Square(queries=40, p_init=0.08), Threat(norm, 0.2), x)
    before = points[0] - x
    for later in points[1:]:
        changed = ((later - x - before).abs() > 1e-12).squeeze(1)
        assert (changed.flatten(1).sum(1) <= 18).all()  # 0.08 of 144 pixels and less: squares of 3
        assert changed.flatten(1).any(dim=1).all()


@pytest.mark.parametrize("shape", [(1, 4, 4), (2, 3, 3), (12,), (3, 2, 2)], ids=str)
def test_on_a_linear_model_it_reaches_the_exact_linf_optimum(shape):
    """Flipping single pixels, once they are tried one at a time, leads to the best corner of ball and box."""
    features = int(torch.tensor(shape).prod())
    model = random_linear(3, features, seed=1)
    x = rows_in(shape, 8, seed=2).mul(1.2).sub(0.1).clamp(0, 1)
    y = model(x).argmax(1)
    threat = Threat("linf", 0.05)
    said = by_hand(model, threat, Square(queries=600, horizon=600), (x, y))
    margins = torch.stack([margin_of(answer.logits, y) for _, answer in said])
    exact = worst_margin(model, x, y, "linf", 0.05, (0.0, 1.0))
    assert (margins >= exact - 1e-9).all()
    two_class = random_linear(2, features, seed=3)
    y = two_class(x).argmax(1)
    said = by_hand(two_class, threat, Square(queries=600, horizon=600), (x, y))
    least = torch.stack([margin_of(answer.logits, y) for _, answer in said]).amin(dim=0)
    exact = worst_margin(two_class, x, y, "linf", 0.05, (0.0, 1.0))
    assert torch.allclose(least, exact, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("norm", "eps"), [("l2", 0.2), ("l1", 0.5)])
def test_on_a_linear_model_it_gains_in_l2_and_l1_but_never_more_than_the_optimum(norm, eps):
    """Pyramids do not make every direction: on a gradient of white noise, about half of what the best point gains."""
    model = random_linear(2, 48, seed=4)
    x = 0.3 + 0.4 * rows_in((3, 4, 4), 8, seed=5)
    y = model(x).argmax(1)
    said = by_hand(model, Threat(norm, eps), Square(queries=800, horizon=800), (x, y))
    least = torch.stack([margin_of(answer.logits, y) for _, answer in said]).amin(dim=0)
    clean, exact = margin_of(model(x), y).detach(), worst_margin(model, x, y, norm, eps, (0.0, 1.0))
    share = (clean - least) / (clean - exact)
    assert (share <= 1 + 1e-9).all()
    assert float(share.mean()) > 0.45


@pytest.mark.parametrize("norm", NORMS)
def test_only_what_lowers_the_margin_is_kept(norm):
    """Where nothing is better, all points are neighbours of the first one; where all is better, they wander away."""
    x = torch.full((4, 1, 10, 10), 0.5, dtype=torch.float64)
    square = Square(queries=120, p_init=0.1)
    near, wandering = (asked(model(), square, Threat(norm, HALF[norm]), x) for model in (Content, Indifferent))
    assert torch.equal(near[:2], wandering[:2])

    def changed(points: Tensor) -> Tensor:
        return ((points[-1] - points[0]).abs() > 1e-12).flatten(1).sum(1)

    assert (changed(near) <= 25).all()
    assert (changed(wandering) > 25).all()


@pytest.mark.parametrize("norm", NORMS)
def test_rows_that_fell_are_let_go_and_the_others_do_not_notice(norm):
    """Half of the rows fall at once: the points of the others are as before, those of the fallen the clean ones."""
    x = rows_in((1, 6, 6), 6)
    y = torch.zeros(6, dtype=torch.int64)
    threat, model = Threat(norm, HALF[norm]), Indifferent()
    search = Square(queries=2 * TOGETHER + 10)
    said = by_hand(model, threat, search, (x, y))
    noise = Noise.of(seed=0, stream=stream_key("by hand"), attempt=0, rows=torch.arange(6))  # as ``by_hand`` draws it
    standing = torch.tensor([True, False] * 3)
    running = search.search(Given(x, y, said[0][1].logits, 0), threat.around(x), noise)
    query = next(running)
    for number, (expected, answer) in enumerate(said):
        assert isinstance(query, Scores)
        assert torch.equal(query.points[standing], expected.points[standing])
        if number > TOGETHER:
            assert torch.equal(query.points[~standing], x[~standing])
        if number + 1 < len(said):
            query = running.send(Answer(answer.logits, answer.loss, answer.grad, standing))


def test_scores_are_all_that_it_asks_for():
    x = rows_in((1, 4, 4), 3)
    y = torch.zeros(3, dtype=torch.int64)
    run = trial(Indifferent(), Threat("linf", 0.1), Square(queries=30), (x, y))
    assert sum(step.backwards for step in run.steps) == 0
    assert {record.forwards for record in run.attempted} == {30}
