"""Models that know the truth about themselves: how far the worst point of a threat set pulls each row, exactly.

All truths are computed in float64 and share no code with the package. A row is robust if and only if its worst margin
is above 0; its robust radius is the largest radius of which that is true.

Letters: ``x`` (row, *feature), ``y`` (row), gaps ``w_y - w_j`` (row, cls, feature).
"""

import torch
from torch import Tensor, nn

DUAL_ORDER = {"linf": 1.0, "l2": 2.0, "l1": float("inf")}


class Linear(nn.Module):
    """``z_j(x) = w_j . x + b_j`` on flattened inputs."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weight.T + self.bias


def random_linear(classes: int, features: int, *, seed: int, centre: float = 0.5) -> Linear:
    """A linear model in float64 whose classes are about equally common around the point with ``centre`` everywhere."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, features, generator=generator, dtype=torch.float64)
    return Linear(weight, -centre * weight.sum(dim=1))


def duel(classes: int, features: int, *, seed: int, centre: float = 0.5) -> Linear:
    """Two classes contend; the others score 5 below the mean of the two.

    With margin ``m`` between the two, ``z_j - z_y = -m/2 - 5`` for every other class ``j``: cross-entropy is
    ``log(1 + e^-m + (K - 2) e^(-m/2 - 5))``, the DLR loss ``-m / (m/2 + 5)``, and the targeted DLR loss the same. All
    of them fall as ``m`` grows and depend on nothing else, so that an attack that climbs any of them is exact where it
    is exact on the margin of two classes.
    """
    two = random_linear(2, features, seed=seed, centre=centre)
    mean_weight, mean_bias = two.weight.detach().mean(dim=0), two.bias.detach().mean()
    weight = torch.cat([two.weight.detach(), mean_weight.expand(classes - 2, features)])
    bias = torch.cat([two.bias.detach(), (mean_bias - 5).expand(classes - 2)])
    return Linear(weight, bias)


def _gaps(model: Linear, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """``z_y - z_j`` (row, cls; infinite where ``j = y``) and ``w_y - w_j`` (row, cls, feature)."""
    weight, bias = model.weight.detach().double(), model.bias.detach().double()
    z = x.double().flatten(1) @ weight.T + bias
    margins = z.gather(1, y[:, None]) - z
    return margins.scatter(1, y[:, None], torch.inf), weight[y][:, None, :] - weight


def radius(model: Linear, x: Tensor, y: Tensor, norm: str) -> Tensor:
    """``min_j (z_y - z_j) / ‖w_y - w_j‖_dual``: the exact robust radius where the box is too far to matter."""
    margins, gaps = _gaps(model, x, y)
    dual = torch.linalg.vector_norm(gaps, ord=DUAL_ORDER[norm], dim=2)
    return (margins / dual.clamp_min(1e-300)).amin(dim=1)


def greatest_gain(g: Tensor, lower: Tensor, upper: Tensor, norm: str, eps: float) -> Tensor:
    """``max <g, p>`` subject to ``‖p‖ <= eps`` and ``lower <= p <= upper``, over the last dimension, in float64.

    Linf  each coordinate goes to one end of its interval.
    L1    the steepest coordinates are filled first, each up to the room that the box leaves.
    L2    ``p = clip(t g)`` with the ``t`` at which ``‖p‖ = eps``.
    """
    g, lower, upper = torch.broadcast_tensors(g.double(), lower.double(), upper.double())
    room = torch.where(g > 0, upper, -lower)
    if norm == "linf":
        return (g.abs() * room.clamp_max(eps)).sum(-1)
    if norm == "l1":
        steepness, order = g.abs().sort(dim=-1, descending=True)
        room = room.gather(-1, order)
        before = room.cumsum(-1) - room
        return (steepness * torch.minimum(room, (eps - before).clamp_min(0))).sum(-1)
    # as t grows, the coordinates meet their bounds in the order of room / |g|
    reach, order = torch.where(g != 0, room / g.abs().clamp_min(1e-300), torch.inf).sort(dim=-1)
    steepness, room = g.abs().gather(-1, order), room.gather(-1, order).where(reach.isfinite(), 0.0)
    squares = room.square()
    met = squares.cumsum(-1) - squares  # before each meets its bound
    unmet = steepness.square().flip(-1).cumsum(-1).flip(-1)
    over = met + reach.square().where(reach.isfinite(), 0.0) * unmet > eps * eps
    first = over.int().argmax(-1, keepdim=True)
    t = ((eps * eps - met.gather(-1, first)).clamp_min(0) / unmet.gather(-1, first).clamp_min(1e-300)).sqrt()
    t = torch.where(over.any(-1, keepdim=True), t, torch.inf)
    return (steepness * torch.where(reach <= t, room, t * steepness).where(steepness > 0, 0.0)).sum(-1)


def worst_margin(model: Linear, x: Tensor, y: Tensor, norm: str, eps: float, box: tuple[float, float]) -> Tensor:
    """The least margin over ball and box, per row: the least over ``j`` of a linear (for L2: cone) programme."""
    margins, gaps = _gaps(model, x, y)
    lower, upper = (side - x.double().flatten(1)[:, None, :] for side in box)
    return (margins - greatest_gain(-gaps, lower, upper, norm, eps)).amin(dim=1)


def rows_at_radius(
    model: Linear,
    norm: str,
    eps: float,
    box: tuple[float, float],
    *,
    shape: tuple[int, ...],
    count: int,
    active: bool,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Rows whose exact robust radius is ``eps``, with their classes.

    Each lies on a segment from a robust point to a point of another class, where the worst margin crosses 0. With
    ``active`` half of the coordinates lie on a face of the box or within ``eps`` of one; else all stay away from them.
    """
    generator = torch.Generator().manual_seed(seed)
    low, high = box

    def uniform(start: float, end: float) -> Tensor:
        return start + (end - start) * torch.rand(count, *shape, generator=generator, dtype=torch.float64)

    def choice() -> Tensor:
        return torch.rand(count, *shape, generator=generator, dtype=torch.float64) < 0.5

    weight = model.weight.detach().double()
    towards = (weight - weight.mean(dim=0)).sign().view(-1, *shape)
    quarter = (high - low) / 4
    starts, ends, labels = [], [], []
    for _ in range(100):
        wanted = torch.randint(len(weight), (count,), generator=generator)
        corner = (low + high) / 2 + towards[wanted] * quarter
        start, end = 0.8 * corner + 0.2 * uniform(low + quarter, high - quarter), uniform(low + quarter, high - quarter)
        if active:
            depth = torch.where(choice(), 0.0, uniform(0.0, min(eps, quarter)))
            near_face, close = torch.where(choice(), low + depth, high - depth), choice()
            start, end = torch.where(close, near_face, start), torch.where(close, near_face, end)
        with torch.no_grad():
            y, other = model(start).argmax(1), model(end).argmax(1)
        good = (y != other) & (worst_margin(model, start, y, norm, eps, box) > 0)
        starts.append(start[good])
        ends.append(end[good])
        labels.append(y[good])
        if sum(map(len, labels)) >= count:
            break
    else:
        raise AssertionError(f"too few rows of this model are robust at {eps} in {norm}")
    start, end, y = torch.cat(starts)[:count], torch.cat(ends)[:count], torch.cat(labels)[:count]
    share = [torch.zeros(count, *[1] * len(shape), dtype=torch.float64) for _ in range(2)]
    share[1] += 1.0
    for _ in range(45):
        middle = (share[0] + share[1]) / 2
        robust = worst_margin(model, start + middle * (end - start), y, norm, eps, box) > 0
        robust = robust.view(-1, *[1] * len(shape))
        share = [torch.where(robust, middle, share[0]), torch.where(robust, share[1], middle)]
    return start + share[0] * (end - start), y


class Additive(nn.Module):
    """``z_j(x) = sum_d g_jd(x_d)``, each ``g_jd`` piecewise linear over equally spaced knots in [0, 1]."""

    def __init__(self, heights: Tensor) -> None:
        super().__init__()
        self.heights = nn.Parameter(heights)
        """(cls, feature, knot)"""

    def forward(self, x: Tensor) -> Tensor:
        last = self.heights.shape[2] - 1
        place = x.flatten(1).clamp(0, 1) * last
        left = place.detach().floor().clamp_max(last - 1)
        share = (place - left)[:, None, :]
        index = left.long()[:, None, :, None].expand(-1, self.heights.shape[0], -1, 1)
        heights = self.heights.expand(len(x), -1, -1, -1)
        at_left, at_right = heights.gather(3, index).squeeze(3), heights.gather(3, index + 1).squeeze(3)
        return (at_left + share * (at_right - at_left)).sum(2)


def additive_worst_margin(model: Additive, x: Tensor, y: Tensor, eps: float) -> Tensor:
    """The least margin over the Linf ball cut by [0, 1], per row: each coordinate by itself, at an end or at a knot."""
    heights = model.heights.detach().double()
    classes, _, knots = heights.shape
    low, high = (x.double().flatten(1) - eps).clamp_min(0), (x.double().flatten(1) + eps).clamp_max(1)
    grid = torch.linspace(0, 1, knots, dtype=torch.float64).expand(*low.shape, knots)
    places = torch.cat([low[..., None], high[..., None], grid.clamp(low[..., None], high[..., None])], dim=2)
    left = (places * (knots - 1)).floor().clamp(0, knots - 2)
    share = places * (knots - 1) - left
    index = left.long()[:, None].expand(-1, classes, -1, -1)
    table = heights.expand(len(x), -1, -1, -1)
    values = table.gather(3, index) * (1 - share[:, None]) + table.gather(3, index + 1) * share[:, None]
    own = values.gather(1, y[:, None, None, None].expand(-1, 1, *values.shape[2:]))
    margins = (own - values).amin(dim=3).sum(dim=2)
    return margins.scatter(1, y[:, None], torch.inf).amin(dim=1)
