"""The engine: what counts as a claim, what a pass costs, and what becomes of rows, models and attacks that fail."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from brinell.attacks.fgsm import FGSM
from brinell.attacks.pgd import PGD
from brinell.engine import Engine
from brinell.errors import EXIT_MODEL_FAILED, ModelFailed
from brinell.flight import Clean
from brinell.geometry import NORMS, Norm
from brinell.losses import CROSS_ENTROPY, DLR, MARGIN, TARGETED_MARGIN
from brinell.models.torch_model import TorchModel
from brinell.oracle import Oracle, is_out_of_memory
from brinell.queries import Cost, Given, Gradient, Scores, Search
from brinell.random import Noise
from brinell.suites.programme import Assignment
from brinell.threat import Ball, Threat
from trials import Counting, Trial, on, trial

Walk = Callable[[Given, Ball], Search]


@dataclass(frozen=True, kw_only=True)
class Toy:
    """An attack that does what the test tells it."""

    name: ClassVar[str] = "toy"
    summary: ClassVar[str] = "for tests"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    walk: Walk

    def fit(self, classes: int) -> "Toy":
        return self

    def attempts(self) -> int:
        return 1

    def cost(self) -> Cost:
        return Cost(0, 0)

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        return self.walk(given, ball)


class Threshold(nn.Module):
    """Two classes in one feature, the first: ``z = (0, 20 (x_0 - 1/2))``, so that class 1 begins above 1/2."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(20.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        score = self.weight * (x[:, 0] - 0.5)
        return torch.stack([torch.zeros_like(score), score], dim=1)


def zeros(count: int, *, first: float = 0.45) -> tuple[Tensor, Tensor]:
    """Rows of class 0 of ``Threshold``, with the row's own index in hundredths as second feature."""
    x = torch.zeros(count, 3, dtype=torch.float64)
    x[:, 0], x[:, 1] = first, torch.arange(count) / 100
    return x, torch.zeros(count, dtype=torch.int64)


def row_of(x: Tensor) -> list[int]:
    """Which rows points belong to, for attacks that leave the second feature alone."""
    return (x[:, 1] * 100).round().long().tolist()


def moved(x: Tensor, by: float | Tensor) -> Tensor:
    """Points of which the first feature is moved."""
    x = x.clone()
    x[:, 0] += by
    return x


LINF = Threat("linf", 0.1)


def only(*points: Callable[[Tensor], Tensor]) -> Toy:
    """Asks for the scores of these points, in order, and ends."""

    def walk(given: Given, ball: Ball) -> Search:
        for point in points:
            yield Scores(point(given.x))

    return Toy(walk=walk)


# --- an attack cannot lie


def test_a_witness_in_the_middle_of_the_path_is_claimed():
    """The attack wanders off it and ends on a point that is classified correctly."""
    run = trial(
        Threshold(), LINF, only(lambda x: x, lambda x: moved(x, 0.08), lambda x: x, lambda x: moved(x, -0.05)), zeros(3)
    )
    assert run.fell == {0, 1, 2}
    x, _ = zeros(3)
    for row, claim in run.claims.items():
        assert torch.equal(claim.point, moved(x, 0.08)[row])
        assert claim.prediction == 1
        assert claim.margin == pytest.approx(-20 * 0.03)
    # two passes, and none after the fall
    assert [(record.outcome, record.forwards, record.backwards) for record in run.attempted] == [("fell", 2, 0)] * 3


def test_a_witness_found_by_asking_for_a_gradient_is_claimed():
    def walk(given: Given, ball: Ball) -> Search:
        yield Gradient(moved(given.x, 0.08), CROSS_ENTROPY)

    run = trial(Threshold(), LINF, Toy(walk=walk), zeros(2))
    assert run.fell == {0, 1}
    assert [(record.forwards, record.backwards) for record in run.attempted] == [(1, 1)] * 2


def test_a_tie_counts_as_an_error():
    run = trial(Threshold(), Threat("linf", 0.25), only(lambda x: moved(x, 0.25)), zeros(1, first=0.25))
    assert run.claims[0].margin == 0
    assert run.outcomes == {0: "fell"}


@pytest.mark.parametrize("norm", NORMS)
def test_points_outside_the_ball_prove_nothing(norm):
    """Outside by one part in ten thousand, in a feature that the model reads; then in the sum over features."""
    threat = Threat(norm, 0.1)
    outside = only(lambda x: moved(x, 0.1 * 1.0001), lambda x: moved(x, 0.5), lambda x: x)
    run = trial(Threshold(), threat, outside, zeros(4))
    assert run.outcomes == dict.fromkeys(range(4), "stood")
    # what was met outside is no margin either
    assert run.best_margins == {row: pytest.approx(20 * 0.05) for row in range(4)}

    def diagonal(x: Tensor) -> Tensor:
        x = moved(x, 0.09)
        x[:, 2] += 0.09
        return x

    assert bool(trial(Threshold(), threat, only(diagonal), zeros(4)).fell) == (norm == "linf")


def test_points_outside_the_box_prove_nothing():
    threat = Threat("linf", 0.3, low=0.0, high=0.5)
    run = trial(Threshold(), threat, only(lambda x: moved(x, 0.06)), zeros(2))
    assert run.outcomes == {0: "stood", 1: "stood"}
    assert run.best_margins == {0: None, 1: None}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_points_that_are_no_numbers_prove_nothing(value):
    run = trial(Threshold(), LINF, only(lambda x: torch.full_like(x, value)), zeros(2))
    assert run.fell == set()
    assert all(record.best_margin is None for record in run.attempted)


def test_a_later_change_of_the_points_does_not_reach_the_claim():
    def walk(given: Given, ball: Ball) -> Search:
        point = moved(given.x, torch.tensor([0.08, -0.1, -0.1, -0.1], dtype=torch.float64))
        yield Scores(point)
        point.fill_(7.0)
        yield Scores(given.x)

    run = trial(Threshold(), LINF, Toy(walk=walk), zeros(4))
    assert run.fell == {0}
    assert torch.equal(run.claims[0].point, moved(zeros(4)[0], 0.08)[0])


def test_an_attack_cannot_move_the_centre_of_its_ball():
    """Adding to ``given.x`` in place, as a careless attack does, must not carry the threat set along."""

    def walk(given: Given, ball: Ball) -> Search:
        given.x.add_(0.3)
        ball.lower.fill_(0)
        ball.upper.fill_(1)
        yield Scores(given.x.clone())

    data = zeros(4)
    run = trial(Threshold(), LINF, Toy(walk=walk), data)
    assert run.fell == set()
    assert set(run.best_margins.values()) == {None}
    assert torch.equal(data[0], zeros(4)[0])


def test_an_attack_cannot_change_the_class_of_a_row():
    def walk(given: Given, ball: Ball) -> Search:
        given.y.fill_(1)
        yield Scores(given.x.clone())

    assert trial(Threshold(), LINF, Toy(walk=walk), zeros(4)).fell == set()


def test_an_attack_cannot_fell_a_row_by_its_mask():
    seen = []

    def walk(given: Given, ball: Ball) -> Search:
        answer = yield Scores(given.x)
        answer.standing.fill_(False)
        answer = yield Scores(given.x)
        seen.append(answer.standing.tolist())

    run = trial(Threshold(), LINF, Toy(walk=walk), zeros(2))
    assert run.outcomes == {0: "stood", 1: "stood"}
    assert [record.forwards for record in run.attempted] == [2, 2]
    assert seen == [[True, True]]


def test_the_best_margin_is_the_least_one_inside():
    path = only(lambda x: moved(x, 0.02), lambda x: moved(x, 0.04), lambda x: moved(x, -0.1), lambda x: moved(x, 0.2))
    run = trial(Threshold(), LINF, path, zeros(2))
    assert run.best_margins == {0: pytest.approx(0.2), 1: pytest.approx(0.2)}  # 20 (0.5 - 0.49)


# --- counting, and full batches


def staircase(stairs: int, *, gradient: bool) -> Toy:
    """Climbs the first feature by 0.01 a stair from 0.1 below: each row falls on a stair of its own."""

    def walk(given: Given, ball: Ball) -> Search:
        for stair in range(stairs):
            points = moved(given.x, -0.1 + 0.01 * stair)
            yield Gradient(points, MARGIN) if gradient else Scores(points)

    return Toy(walk=walk)


def steps_data(falls: list[int]) -> tuple[Tensor, Tensor]:
    """Rows that fall on the given stair of the staircase, counted from 1."""
    x, y = zeros(len(falls))
    # at stair s the first feature is x_0 - 0.1 + 0.01 (s - 1); half a stair above 1/2 when it falls
    x[:, 0] = 0.505 + 0.1 - 0.01 * (torch.tensor(falls, dtype=torch.float64) - 1)
    return x, y


STAIRS = 12
FALLS = [3, 99, 1, 7, 12, 2, 99, 5, 5, 99, 4, 1, 11, 99, 6, 2, 9, 99, 3, 8, 10, 99, 1, 12, 99, 2, 7]


@pytest.mark.parametrize("batch_size", [1, 4, 10, 64])
@pytest.mark.parametrize("gradient", [False, True])
def test_a_row_is_charged_for_the_passes_made_for_it_and_for_no_other(batch_size, gradient):
    falls = [min(stair, 20) for stair in FALLS]  # stair 20 is beyond the last: those stand
    counting = Counting(Threshold())
    run = trial(
        counting, Threat("linf", 0.25), staircase(STAIRS, gradient=gradient), steps_data(falls), batch_size=batch_size
    )
    assert sorted(record.row for record in run.attempted) == list(range(len(falls)))
    for record in run.attempted:
        stair = falls[record.row]
        assert record.outcome == ("fell" if stair <= STAIRS else "stood")
        assert record.forwards == min(stair, STAIRS)
        assert record.backwards == (record.forwards if gradient else 0)
        assert record.reason is None
    expected = sum(min(stair, STAIRS) for stair in falls)
    assert sum(step.forwards for step in run.steps) == expected
    assert sum(step.backwards for step in run.steps) == (expected if gradient else 0)
    clean = len(falls)
    assert counting.forwards - clean == expected
    assert counting.backwards == (expected if gradient else 0)


def test_no_fallen_row_is_seen_again():
    """By what the model is shown: row ``i`` is shown exactly as often as it takes to fall."""
    falls = [min(stair, 20) for stair in FALLS]
    shown: list[int] = []

    class Showing(Threshold):
        def forward(self, x: Tensor) -> Tensor:
            shown.extend(row_of(x))
            return super().forward(x)

    trial(Showing(), Threat("linf", 0.25), staircase(STAIRS, gradient=False), steps_data(falls), batch_size=4)
    del shown[: len(falls)]  # the clean scores
    assert {row: shown.count(row) for row in range(len(falls))} == {
        i: min(stair, STAIRS) for i, stair in enumerate(falls)
    }


@pytest.mark.parametrize("batch_size", [4, 7])
def test_batches_are_full_while_rows_wait(batch_size):
    counting = Counting(Threshold())
    falls = ([min(stair, 20) for stair in FALLS] * 3)[:70]
    trial(counting, Threat("linf", 0.25), staircase(STAIRS, gradient=False), steps_data(falls), batch_size=batch_size)
    batches = counting.batches[1:]
    assert max(batches) == batch_size
    # only when no row waits to be let in can a batch have empty places, and then twice the batch is in flight
    full = next(i for i, size in enumerate(batches) if size < batch_size)
    tail = sum(batches[full:])
    assert tail <= 2 * batch_size * STAIRS
    assert len(batches) <= math.ceil(sum(batches) / batch_size) + STAIRS


def test_batches_are_full_when_queries_of_two_kinds_mix():
    """FGSM asks for a gradient, then for scores: 70 rows in batches of 7 take two batches more than full ones would."""
    counting = Counting(Threshold())
    run = trial(counting, Threat("linf", 0.01), FGSM(), zeros(70, first=0.3), batch_size=7)
    assert set(run.outcomes.values()) == {"stood"}
    assert len(counting.batches) - 1 <= 2 * 70 / 7 + 2


def test_rows_are_fetched_as_they_are_let_in():
    """At most three batches of rows are in memory before the first pass, and all are fetched once."""
    fetched: list[int] = []
    x, y = zeros(40)
    model = TorchModel(Threshold())
    clean = Clean(x, y, model.scores(x))

    def fetch(rows):
        fetched.extend(rows)
        index = torch.tensor(list(rows))
        return Clean(clean.x[index], clean.y[index], clean.logits[index])

    engine = Engine(Oracle(model, 2, 0, 4), LINF)
    steps = engine.run(Assignment(0, 0, only(lambda x: x, lambda x: x), 0, list(range(40))), fetch)
    next(steps)
    assert len(fetched) <= 12
    for _ in steps:
        pass
    assert sorted(fetched) == list(range(40))


def test_no_rows_no_steps():
    run = trial(Threshold(), LINF, only(lambda x: x), zeros(3), rows=[])
    assert run == Trial({}, [], [])


def test_an_attack_that_asks_nothing_costs_nothing():
    run = trial(Threshold(), LINF, only(), zeros(9), batch_size=2)
    assert sorted(run.outcomes) == list(range(9))
    assert {(r.outcome, r.best_margin, r.forwards, r.backwards) for r in run.attempted} == {("stood", None, 0, 0)}


def test_rows_keep_the_names_that_they_have_in_the_data_set():
    run = trial(Threshold(), LINF, only(lambda x: moved(x, 0.08)), zeros(30), rows=[17, 3, 29], batch_size=2)
    assert run.fell == {17, 3, 29}
    x, _ = zeros(30)
    assert all(torch.equal(claim.point, moved(x, 0.08)[row]) for row, claim in run.claims.items())


@dataclass(frozen=True, kw_only=True)
class Starts:
    """Asks for one random start an attempt."""

    name: ClassVar[str] = "starts"
    summary: ClassVar[str] = "for tests"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    setting: int = 0

    def fit(self, classes: int) -> "Starts":
        return self

    def attempts(self) -> int:
        return 3

    def cost(self) -> Cost:
        return Cost(1, 0).times(3)

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        yield Scores(ball.random_start(noise))


def test_random_numbers_are_keyed_by_seed_attack_attempt_and_row():
    """12 points of 4 rows in 3 attempts: all differ, and come back with the same seed and attack in any order."""

    def points(*, seed: int = 0, setting: int = 0, order: list[int] | None = None) -> list[tuple[float, ...]]:
        seen: list[tuple[float, ...]] = []

        class Watching(Threshold):
            def forward(self, x: Tensor) -> Tensor:
                seen.extend(tuple(point) for point in x.tolist())
                return super().forward(x)

        x = torch.full((4, 3), 0.25, dtype=torch.float64)
        data = (x, torch.zeros(4, dtype=torch.int64))
        trial(Watching(), LINF, Starts(setting=setting), data, seed=seed, rows=order, batch_size=3)
        return seen[4:]  # after the clean scores

    first = points()
    assert len(set(first)) == 12
    assert points() == first
    assert sorted(points(order=[2, 0, 3, 1])) == sorted(first)
    for other in (points(seed=1), points(setting=1)):
        assert not set(other) & set(first)


# --- what an attack is told


def test_answers_carry_each_rows_own_numbers():
    """Loss, gradient and logits of each row as if alone, for three queries in batches that cut across groups."""
    told: dict[int, list[tuple[float, ...]]] = {}

    def walk(given: Given, ball: Ball) -> Search:
        rows = row_of(given.x)
        target = torch.ones_like(given.y)
        for query in (
            Gradient(moved(given.x, 0.01), CROSS_ENTROPY),
            Gradient(moved(given.x, 0.02), TARGETED_MARGIN, target),
            Scores(moved(given.x, 0.03)),
        ):
            answer = yield query
            for place, row in enumerate(rows):
                numbers = (answer.logits[place, 1], answer.loss[place], answer.grad[place, 0])
                told.setdefault(row, []).append(tuple(map(float, numbers)))

    x, y = zeros(10)
    x[:, 0] = 0.3 + 0.01 * torch.arange(10, dtype=torch.float64)
    trial(Threshold(), LINF, Toy(walk=walk), (x, y), batch_size=4)
    for row in range(10):
        z = [20 * (0.3 + 0.01 * row + step - 0.5) for step in (0.01, 0.02, 0.03)]
        sigmoid = 1 / (1 + math.exp(-z[0]))
        expected = [(z[0], math.log1p(math.exp(z[0])), 20 * sigmoid), (z[1], z[1], 20.0), (z[2], 0.0, 0.0)]
        assert [pytest.approx(line, abs=1e-9) for line in expected] == told[row]


def test_an_answer_does_not_change_once_given():
    """Later answers come in piece by piece; an attack that keeps an old one must find it as it was."""
    altered = []

    def walk(given: Given, ball: Ball) -> Search:
        kept = []
        for stair in range(STAIRS):
            answer = yield Gradient(moved(given.x, -0.1 + 0.01 * stair), MARGIN)
            kept.append(
                (answer, [tensor.clone() for tensor in (answer.logits, answer.loss, answer.grad, answer.standing)])
            )
        for answer, copies in kept:
            now = (answer.logits, answer.loss, answer.grad, answer.standing)
            altered.append(not all(map(torch.equal, now, copies)))

    falls = [min(stair, 20) for stair in FALLS]
    trial(Threshold(), Threat("linf", 0.25), Toy(walk=walk), steps_data(falls), batch_size=4)
    assert len(altered) > STAIRS
    assert not any(altered)


def test_the_attack_is_told_who_still_stands():
    told = []

    def walk(given: Given, ball: Ball) -> Search:
        for stair in range(3):
            answer = yield Scores(moved(given.x, -0.1 + 0.01 * stair))
            told.append(answer.standing.tolist())

    trial(Threshold(), Threat("linf", 0.25), Toy(walk=walk), steps_data([20, 1, 3, 2]))
    assert told == [[True, False, True, True], [True, False, True, False], [True, False, False, False]]


def test_a_search_whose_rows_have_all_fallen_is_closed():
    ended = []

    def walk(given: Given, ball: Ball) -> Search:
        try:
            yield Scores(moved(given.x, 0.08))
            ended.append("went on")
        finally:
            ended.append("closed")

    trial(Threshold(), LINF, Toy(walk=walk), zeros(6), batch_size=3)
    assert ended == ["closed", "closed"]


def test_gradients_are_not_recorded_through_the_attack():
    """Nothing that an attack computes builds a graph, and nothing that it is given carries one."""
    states = []

    def walk(given: Given, ball: Ball) -> Search:
        answer = yield Gradient(given.x, MARGIN)
        states.append((torch.is_grad_enabled(), answer.logits.requires_grad, answer.grad.requires_grad))

    trial(Threshold(), LINF, Toy(walk=walk), zeros(2))
    assert states == [(False, False, False)]


def test_pulled_in_gradients_are_taken_inside_the_box_and_claimed_where_they_were_taken():
    seen: list[Tensor] = []

    class Watching(Threshold):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x.detach().clone())
            return super().forward(x)

    def walk(given: Given, ball: Ball) -> Search:
        yield Gradient(moved(given.x, 0.01), MARGIN)
        yield Scores(moved(given.x, 0.01))

    x, y = zeros(2)  # the third feature is 0, on a face
    trial(Watching(), LINF, Toy(walk=walk), (x, y), pull_in=0.01)
    _, gradient, scores = seen
    assert gradient.min() == 0.01 and scores.min() == 0.0
    run = trial(Watching(), Threat("linf", 0.1), only(), (x, y), pull_in=0.01)
    assert run.fell == set()

    def climb(given: Given, ball: Ball) -> Search:
        yield Gradient(moved(given.x, 0.08), MARGIN)

    inside = trial(Threshold(), LINF, Toy(walk=climb), (x, y), pull_in=0.01)
    assert inside.fell == {0, 1}
    assert inside.claims[0].point[2] == 0.01
    # where the pull itself would leave the ball there is no claim
    assert trial(Threshold(), Threat("l1", 0.085), Toy(walk=climb), (x, y), pull_in=0.01).fell == set()


# --- what cannot be judged


class Breaking(Threshold):
    """Gives something unusable wherever the first feature is above a value."""

    def __init__(self, *, above: float, logits: list[float] | None = None, gradient: float | None = None) -> None:
        super().__init__()
        self.above, self.replaced, self.gradient = above, logits, gradient

    def forward(self, x: Tensor) -> Tensor:
        bad = (x[:, 0] > self.above)[:, None]
        z = super().forward(x)
        if self.replaced is not None:
            z = torch.where(bad, torch.tensor(self.replaced, dtype=z.dtype) + 0 * z, z)
        if self.gradient is not None and z.requires_grad:
            z.register_hook(lambda grad: torch.where(bad, self.gradient, grad))
        return z


def two_and_two() -> tuple[Tensor, Tensor]:
    """Rows 0 and 1 cross 0.45 when they are moved by 0.05, rows 2 and 3 do not; none is misclassified there."""
    x, y = zeros(4)
    x[:, 0] = torch.tensor([0.44, 0.42, 0.3, 0.2])
    return x, y


@pytest.mark.parametrize("logits", [[math.nan, math.nan], [0.0, math.inf], [0.0, math.nan], [-math.inf, 0.0]])
@pytest.mark.parametrize("gradient", [False, True])
def test_logits_that_are_no_numbers_are_errors_and_never_claims(logits, gradient):
    def walk(given: Given, ball: Ball) -> Search:
        for by in (0.0, 0.05, 0.06):
            yield Gradient(moved(given.x, by), MARGIN) if gradient else Scores(moved(given.x, by))

    run = trial(Breaking(above=0.45, logits=logits), LINF, Toy(walk=walk), two_and_two())
    assert run.claims == {}
    assert run.outcomes == {0: "error", 1: "error", 2: "stood", 3: "stood"}
    for record in run.attempted:
        assert record.reason == ("non-finite logits" if record.outcome == "error" else None)
        assert record.forwards == (2 if record.outcome == "error" else 3)
        assert record.best_margin is not None and math.isfinite(record.best_margin)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_gradients_that_are_no_numbers_are_errors(value):
    def walk(given: Given, ball: Ball) -> Search:
        yield Gradient(given.x, MARGIN)
        yield Gradient(moved(given.x, 0.05), MARGIN)
        yield Scores(moved(given.x, 0.05))

    run = trial(Breaking(above=0.45, gradient=value), LINF, Toy(walk=walk), two_and_two())
    assert run.outcomes == {0: "error", 1: "error", 2: "stood", 3: "stood"}
    assert {record.reason for record in run.attempted} == {"non-finite gradient", None}
    assert [record.forwards for record in sorted(run.attempted)] == [2, 2, 3, 3]


def test_a_witness_needs_no_gradient():
    """Where the logits can be read and are wrong, the row has fallen, whatever its gradient."""

    def walk(given: Given, ball: Ball) -> Search:
        yield Gradient(moved(given.x, 0.08), MARGIN)

    assert trial(Breaking(above=0.5, gradient=math.nan), LINF, Toy(walk=walk), zeros(2)).fell == {0, 1}


# --- models that raise


class Raising(Threshold):
    """Raises where a batch holds one of some rows, or more rows than it can take."""

    def __init__(
        self,
        *rows: int,
        error: type[Exception] = ValueError,
        most: int = 1_000,
        calls: int | None = None,
        clean: int = 1,
    ) -> None:
        super().__init__()
        self.rows, self.error, self.most, self.clean = set(rows), error, most, clean
        self.sizes: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.clean -= 1
        if self.clean >= 0:  # the clean scores, taken before the attack
            return super().forward(x)
        self.sizes.append(len(x))
        if len(x) > self.most:
            raise torch.OutOfMemoryError(f"{len(x)} rows")
        if self.rows & set(row_of(x)):
            raise self.error("not this one")
        return super().forward(x)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("bad", [0, 5, 8])
def test_a_row_on_which_the_model_raises_is_alone_in_its_error(bad, gradient):
    falls = [20, 2, 1, 20, 3, 20, 20, 4, 20]
    attack, threat = staircase(6, gradient=gradient), Threat("linf", 0.25)
    run = trial(Raising(bad), threat, attack, steps_data(falls), batch_size=5)
    well = trial(Threshold(), threat, attack, steps_data(falls), batch_size=5)
    assert run.outcomes == well.outcomes | {bad: "error"}
    errors = [record for record in run.attempted if record.outcome == "error"]
    assert [(record.row, record.forwards, record.reason) for record in errors] == [
        (bad, 1, "model raised ValueError: not this one")
    ]
    others = {record for record in run.attempted if record.row != bad}
    assert others == {record for record in well.attempted if record.row != bad}


def test_a_model_that_raises_on_everything_stops_the_run():
    with pytest.raises(ModelFailed, match="ValueError on all of 4 rows: not this one") as failed:
        trial(Raising(*range(9)), LINF, only(lambda x: x), zeros(9), batch_size=4)
    assert failed.value.exit_code == EXIT_MODEL_FAILED
    assert isinstance(failed.value.__cause__, ValueError)


def test_two_rows_that_meet_in_a_batch_of_their_own_do_not_stop_the_run():
    """The model has answered for others: it cannot take these two, and resuming would bring them together again."""
    run = trial(Raising(2, 3), LINF, only(lambda x: x), zeros(6), batch_size=2)
    assert run.outcomes == {0: "stood", 1: "stood", 2: "error", 3: "error", 4: "stood", 5: "stood"}


@pytest.mark.parametrize("most", [1, 2, 3, 5])
@pytest.mark.parametrize("gradient", [False, True])
def test_running_out_of_memory_halves_the_batch_and_changes_nothing_else(most, gradient):
    falls = [min(stair, 20) for stair in FALLS]
    attack, threat = staircase(STAIRS, gradient=gradient), Threat("linf", 0.25)
    small = Raising(most=most)
    x, y = steps_data(falls)
    model = TorchModel(small)
    clean = Clean(x, y, model.scores(x))
    engine = Engine(Oracle(model, 2, 0, 8), threat)
    run = on(engine, attack, clean)
    well = trial(Threshold(), threat, attack, (x, y), batch_size=8)
    assert {record.row: record for record in run.attempted} == {record.row: record for record in well.attempted}
    assert run.claims.keys() == well.claims.keys()
    assert all(torch.equal(claim.point, well.claims[row].point) for row, claim in run.claims.items())
    # 8, then 4, 2, 1 as need be
    assert engine.oracle.batch_size == {1: 1, 2: 2, 3: 2, 5: 4}[most]
    # the batch that ran out is halved down to what fits; no later one is too large
    assert sum(size > most for size in small.sizes) <= 7
    assert max(small.sizes[16:]) <= engine.oracle.batch_size


def test_running_out_of_memory_on_one_row_stops_the_run():
    with pytest.raises(ModelFailed, match="OutOfMemoryError on one row"):
        trial(Raising(most=0), LINF, only(lambda x: x), zeros(3), batch_size=3)


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("memory"), False),
    ],
)
def test_what_running_out_of_memory_looks_like(error, is_one):
    assert is_out_of_memory(error) is is_one


def test_scores_outside_an_attack_are_batched_and_survive_failures():
    counting = Counting(Raising(3, clean=0))
    oracle = Oracle(TorchModel(counting), 2, 0, 4)
    x, _ = zeros(10)
    scores = oracle.scores(x)
    assert scores.shape == (10, 2)
    assert scores.isnan().any(dim=1).tolist() == [row == 3 for row in range(10)]
    good = torch.arange(10) != 3
    assert torch.equal(scores[good], Threshold()(x).detach()[good])
    assert max(counting.batches) == 4
    assert oracle.scores(x[:0]).shape == (0, 2)


def test_scores_run_out_of_memory_too():
    small = Raising(most=2, clean=0)
    oracle = Oracle(TorchModel(small), 2, 0, 8)
    x, _ = zeros(10)
    assert torch.equal(oracle.scores(x), Threshold()(x).detach())
    assert oracle.batch_size == 2


# --- attacks that fail


def test_an_attack_that_crashes_costs_its_rows_and_says_why():
    """Rows that fell before are claimed, other groups go on."""

    def walk(given: Given, ball: Ball) -> Search:
        yield Scores(moved(given.x, 0.08 * (given.x[:, 1:2] == 0.0).double().squeeze(1)))
        if row_of(given.x)[0] == 0:
            raise ZeroDivisionError("of course")
        yield Scores(given.x)

    run = trial(Threshold(), LINF, Toy(walk=walk), zeros(8), batch_size=4)
    assert run.fell == {0}
    assert run.outcomes == {0: "fell", **dict.fromkeys([1, 2, 3], "error"), **dict.fromkeys([4, 5, 6, 7], "stood")}
    reasons = {record.reason for record in run.attempted if record.outcome == "error"}
    assert reasons == {"attack crashed: ZeroDivisionError: of course"}
    assert all(record.forwards == 1 for record in run.attempted if record.outcome == "error")


def test_an_attack_that_crashes_at_once():
    def walk(given: Given, ball: Ball) -> Search:
        raise RuntimeError("before the first query")
        yield Scores(given.x)

    run = trial(Threshold(), LINF, Toy(walk=walk), zeros(5), batch_size=2)
    assert run.outcomes == dict.fromkeys(range(5), "error")
    assert {(record.forwards, record.reason) for record in run.attempted} == {
        (0, "attack crashed: RuntimeError: before the first query")
    }


@pytest.mark.parametrize("shape", [(4, 2), (3, 3), (4,), (4, 3, 1)])
def test_points_of_another_shape_are_the_attacks_error(shape):
    run = trial(Threshold(), LINF, only(lambda x: torch.full(shape, 0.9, dtype=x.dtype)), zeros(4))
    assert run.outcomes == dict.fromkeys(range(4), "error")
    assert all("attack crashed" in str(record.reason) for record in run.attempted)
    assert run.fell == set()


def test_a_loss_that_raises_is_the_attacks_error_and_not_the_models():
    """DLR needs three classes; an attack that was not fitted to two must not be taken for a model that fails."""

    def walk(given: Given, ball: Ball) -> Search:
        yield Gradient(given.x, DLR)

    run = trial(Threshold(), LINF, Toy(walk=walk), zeros(4))
    assert run.outcomes == dict.fromkeys(range(4), "error")
    assert all("model raised" not in str(record.reason) for record in run.attempted)


# --- a model is left as it was


class Everything(nn.Module):
    """Dropout, batch norm, a buffer that is changed in place, one that is replaced, and a frozen parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(3, 2)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("replaced", torch.zeros(2))
        self.autocast: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.replaced = self.replaced + 1
        self.autocast.append(torch.is_autocast_enabled("cpu"))
        return self.head(self.drop(self.norm(x * self.frozen)))


def state(module: Everything) -> dict[str, object]:
    return {
        "training": {name: part.training for name, part in module.named_modules()},
        "values": {name: tensor.clone() for name, tensor in module.state_dict().items()},
        "wanted": {name: parameter.requires_grad for name, parameter in module.named_parameters()},
        "grads": {name: None if p.grad is None else p.grad.clone() for name, p in module.named_parameters()},
        "random": torch.random.get_rng_state(),
        "grad enabled": torch.is_grad_enabled(),
    }


def assert_same(before: object, after: object) -> None:
    if isinstance(before, dict):
        assert isinstance(after, dict) and before.keys() == after.keys()
        for key in before:
            assert_same(before[key], after[key])
    elif isinstance(before, Tensor):
        assert isinstance(after, Tensor) and torch.equal(before, after)
    else:
        assert before == after


@pytest.fixture
def lived_in() -> Everything:
    """A module in the middle of training: mixed modes, gradients that wait for a step."""
    torch.manual_seed(0)
    module = Everything().train()
    module.drop.eval()
    module(torch.rand(4, 3)).sum().backward()
    module.autocast.clear()
    return module


def disturb(model: TorchModel) -> None:
    """What evaluating does to a module, and what a careless adapter would do."""
    x = torch.rand(4, 3)
    model.module.eval()
    for part in model.module.modules():
        part.train()
    model.scores(x)
    model.gradient(x, lambda logits: logits[:, 0])


@pytest.mark.parametrize("part", ["training", "values", "wanted", "grads", "random", "grad enabled"])
@pytest.mark.parametrize("raises", [False, True])
def test_a_model_is_as_it_was_after_it_was_evaluated(lived_in, part, raises):
    model = TorchModel(lived_in)
    before = state(lived_in)
    try:
        with model.undisturbed():
            disturb(model)
            if raises:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert raises
    assert_same(before[part], state(lived_in)[part])


def test_the_disturbance_is_one(lived_in):
    """Without the guard the same evaluation changes modes, buffers and the random state."""
    before = state(lived_in)
    disturb(TorchModel(lived_in))
    after = state(lived_in)
    for part in ("training", "values", "random"):
        with pytest.raises(AssertionError):
            assert_same(before[part], after[part])


def test_parameters_take_no_gradients_inside(lived_in):
    model = TorchModel(lived_in)
    with model.undisturbed():
        assert not any(parameter.requires_grad for parameter in lived_in.parameters())
        climbed = model.gradient(torch.rand(4, 3), lambda logits: logits[:, 0])
        assert climbed.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "ask", [lambda model, x: model.scores(x), lambda model, x: model.gradient(x, lambda z: z[:, 0])]
)
def test_autocast_is_off_inside(ask):
    module = Everything().eval()
    model = TorchModel(module)
    x = torch.rand(4, 3)
    plain = model.scores(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert module.head(x).dtype == torch.bfloat16
        module.autocast.clear()
        answer = ask(model, x)
        assert torch.is_autocast_enabled("cpu")
    assert module.autocast == [False]
    logits = answer if isinstance(answer, Tensor) else answer.logits
    assert logits.dtype == torch.float32
    assert torch.equal(logits, plain)


def test_a_model_that_writes_on_its_input_does_not_change_the_points():
    """``x -= mean`` in a forward pass: points are data, and a witness is the point that was asked about."""

    class InPlace(Threshold):
        def forward(self, x: Tensor) -> Tensor:
            x -= 0.25
            x *= 2
            return super().forward(x)

    x = torch.full((2, 3), 0.45, dtype=torch.float64)  # read as 0.4; the class changes at 0.5
    points = x.clone()
    assert TorchModel(InPlace()).scores(points)[:, 1].tolist() == [pytest.approx(-2.0)] * 2
    assert torch.equal(points, x)
    y = torch.zeros(2, dtype=torch.int64)
    run = trial(InPlace(), LINF, PGD(steps=4, step_size=0.5), (x, y))
    assert run.fell == {0, 1}
    assert all(LINF.contains(x[:1], claim.point[None]).all() for claim in run.claims.values())


def test_the_run_stops_where_its_consumer_does():
    """Steps come one by one: what was found is handed over before the next pass is made."""
    counting = Counting(Threshold())
    x, y = zeros(12)
    model = TorchModel(counting)
    clean = Clean(x, y, model.scores(x))
    engine = Engine(Oracle(model, 2, 0, 4), LINF)
    steps: Iterator[object] = engine.run(
        Assignment(0, 0, only(lambda x: moved(x, 0.08)), 0, list(range(12))),
        lambda rows: Clean(clean.x[list(rows)], clean.y[list(rows)], clean.logits[list(rows)]),
    )
    assert counting.batches == [12]
    first = next(steps)
    assert counting.batches == [12, 4]
    assert len(first.claims) == 4
