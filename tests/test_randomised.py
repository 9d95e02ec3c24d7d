"""Randomised models: their own truth is known, so that figures, choosing and random numbers can be held to it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from brinell import Threat
from brinell.attacks.fab import FAB, FABT
from brinell.draws import Draws
from brinell.engine import Engine
from brinell.errors import BadInput
from brinell.evaluation import Result, open_run
from brinell.flight import Clean
from brinell.frequencies import status_of
from brinell.geometry import NORMS, Norm, distance
from brinell.kept import Kept
from brinell.losses import MARGIN
from brinell.models.torch_model import TorchModel
from brinell.opening import begin
from brinell.opening import resume as reopened
from brinell.oracle import Looks, Oracle, Purpose
from brinell.plan import plan_of
from brinell.queries import Answer, Cost, Given, Gradient, Gradients, Scores, Search
from brinell.random import Noise, stream_key
from brinell.randomised import halved
from brinell.threat import Ball
from brinell.verify import verify_with_model
from models_with_known_radius import Linear, random_linear, worst_margin
from noisy_models import (
    ATTEMPTS,
    BOX,
    CANDIDATES,
    DRAWS,
    EPS,
    FEATURES,
    ROWS,
    SIGMAS,
    STEPS,
    Cut,
    Honest,
    Lives,
    NoiseAlone,
    Noisy,
    Watched,
    carried_out,
    chosen,
    data,
    finish_or_die,
    frequencies,
    honest_run,
    noisy,
    random_state,
    refuted,
    subject,
    suite,
)
from trials import Counting, by_hand, on


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Honest:
    """The one run that most tests look at; nobody changes its folder."""
    return honest_run(tmp_path_factory.mktemp("honest") / "run")


# --- the truth about Gaussian noise


def attacked(folder: Path, norm: Norm) -> Result:
    return carried_out(folder, noisy(), data(), threat=Threat(norm, EPS[norm], *BOX), suite=suite(steps=12))


@pytest.mark.parametrize("norm", NORMS)
def test_gaussian_noise(tmp_path: Path, norm: Norm) -> None:
    """The least of ``Phi(m / …)`` lies where the margin is least, which is known: ``m(x) - eps ‖w_y - w_j‖_dual``.

    The figure is an unbiased estimate of the truth at the chosen points, which nowhere lies below the least there is,
    and not far above it.
    """
    model, (x, y) = noisy(), data()
    result = attacked(tmp_path / "run", norm)
    assert result.randomised is not None
    points = chosen(result)
    assert result.reading.manifest.threat["norm"] == norm
    assert bool(Threat(norm, EPS[norm], *BOX).contains(x, points).all())

    true = model.right(points, y)
    least = model.right_at(worst_margin(model, x, y, norm, EPS[norm], BOX))
    assert bool((true >= least - 1e-9).all())
    error = float((true * (1 - true) / DRAWS["score"]).sum().sqrt()) / ROWS
    expected = result.randomised.expected.value
    assert expected is not None
    assert expected >= float(least.mean()) - SIGMAS * error
    assert abs(expected - float(true.mean())) <= SIGMAS * error
    assert result.randomised.expected.noise == pytest.approx(error, rel=0.2)
    # the attack has found what there is to be found, but for what choosing by chance costs
    assert float(true.mean()) <= float(least.mean()) + 0.03
    assert float(least.mean()) < float(model.right(x, y).mean()) - 0.1


def test_each_row_is_as_often_right_as_its_point_is(honest: Honest) -> None:
    """Row by row, at the clean input and at the chosen point, by the binomial distribution."""
    model, (x, y) = noisy(), data()
    points = chosen(honest.result)
    counted = frequencies(honest.result)
    for at, counts in (
        (x, [counted[row].clean_correct for row in range(ROWS)]),
        (points, [counted[row].correct for row in range(ROWS)]),
    ):
        true = model.right(at, y)
        off = torch.tensor(counts, dtype=torch.float64) / DRAWS["score"] - true
        deviations = off / (true * (1 - true) / DRAWS["score"]).sqrt().clamp_min(1 / DRAWS["score"])
        assert float(deviations.abs().max()) < SIGMAS
        assert float(deviations.square().mean()) < 2


def test_what_is_recorded_of_the_chosen_points(honest: Honest) -> None:
    """Distance, candidate, attempt and status follow from the points and the counts."""
    result, (x, _) = honest.result, data()
    points, counted = chosen(result), frequencies(result)
    distances = distance(x, points, "linf")
    for row in result.rows:
        record = counted[row.row]
        assert row.distance == pytest.approx(float(distances[row.place]), abs=1e-15)
        assert (record.clean_draws, record.draws) == (DRAWS["score"], DRAWS["score"])
        assert record.candidate is not None and record.correct is not None and record.draws is not None
        if record.candidate == -1:
            assert (row.stage, row.attempt, row.distance) == (None, None, 0.0)
        else:  # two candidates of each attempt, of which each attack makes one
            assert (row.stage, row.attempt) == (record.candidate // DRAWS["kept"], 0)
        assert row.status == status_of(record)
    status = result.figures.status
    assert min(status["misclassified"], status["broken"], status["standing"]) > 0
    assert sum(status.values()) == ROWS
    assert any(row.distance == pytest.approx(EPS["linf"]) for row in result.rows)


def test_rows_that_are_never_right_get_no_attack(honest: Honest) -> None:
    never = [record for record in honest.result.reading.frequencies if record.clean_correct == 0]
    rows = {row.row: row for row in honest.result.rows}
    assert never
    for record in never:
        assert (rows[record.row].forwards, record.candidates, record.candidate) == (0, 1, -1)
        assert (record.select_draws, record.control_draws) == (0, 0)
        assert rows[record.row].status == "misclassified"


# --- what choosing makes of noise


def test_choosing_flatters_the_attack_and_fresh_draws_do_not(tmp_path: Path) -> None:
    """Where no point is worse than another, the draws that chose say that one is: as much as in the control."""
    model = NoiseAlone(0.8).eval()
    rows = (data(40)[0], torch.zeros(40, dtype=torch.int64))
    result = carried_out(tmp_path / "run", model, rows)
    figures = result.randomised
    assert figures is not None
    p = float(torch.special.ndtr(torch.tensor(0.8, dtype=torch.float64)))  # 0.788
    error = (p * (1 - p) / (40 * 40)) ** 0.5  # of a mean of 40 draws of 40 rows
    assert figures.expected.value == pytest.approx(p, abs=SIGMAS * error)
    assert figures.clean.value == pytest.approx(p, abs=SIGMAS * error)
    for optimism in (figures.choosing, figures.control):
        assert optimism.rows == 40
        assert optimism.chosen_by is not None
        assert optimism.fresh == pytest.approx(p, abs=SIGMAS * error)
        assert optimism.chosen_by < p - 5 * error
    assert figures.choosing.chosen_by == pytest.approx(figures.control.chosen_by, abs=SIGMAS * error * 2**0.5)
    # nearly every row errs once in 40 looks, though nobody attacks it
    assert figures.one_look.count >= 38


def test_on_a_model_that_can_be_attacked_the_control_parts_from_the_choosing(honest: Honest) -> None:
    """The control's candidates are the clean inputs: what choosing among them costs is small beside what attacks gain."""
    figures = honest.result.randomised
    assert figures is not None
    choosing, control = figures.choosing, figures.control
    assert None not in (choosing.fresh, choosing.chosen_by, control.fresh, control.chosen_by)
    assert choosing.rows == control.rows == ROWS - sum(r.clean_correct == 0 for r in honest.result.reading.frequencies)
    assert choosing.chosen_by < choosing.fresh < control.fresh - 0.1  # type: ignore[operator]
    assert choosing.chosen_by < control.chosen_by < control.fresh  # type: ignore[operator]


# --- eps 0, and models that are not randomised


def test_eps_0_is_the_clean_figure(tmp_path: Path) -> None:
    counting = Counting(noisy()).eval()
    assert isinstance(counting, Counting)
    result = carried_out(tmp_path / "run", counting, data(), threat=Threat("linf", 0.0, *BOX))
    figures, passes = result.randomised, result.figures.passes
    assert figures is not None and figures.clean.value is not None and figures.expected.value is not None
    x, y = data()
    assert torch.equal(chosen(result), x)
    assert figures.expected.value == pytest.approx(
        figures.clean.value, abs=SIGMAS * (figures.clean.noise**2 + figures.expected.noise**2) ** 0.5
    )
    assert figures.clean.value == pytest.approx(float(noisy().right(x, y).mean()), abs=SIGMAS * figures.clean.noise)
    assert (passes.attack_forwards, passes.attack_backwards, passes.select_forwards) == (0, 0, 0)
    assert passes.clean_forwards == passes.score_forwards == ROWS * DRAWS["score"]
    assert result.reading.attempts == ()
    assert figures.choosing.rows == figures.control.rows == 0
    assert {row.status for row in result.rows} <= {"misclassified", "broken", "standing"}
    assert refuted(result.folder) == []


@pytest.mark.usefixtures("without_shape_checks")
def test_deterministic_model(tmp_path: Path) -> None:
    """All draws are equal: each frequency is 0 or 1, and the majority decides as the model does."""
    model, rows = random_linear(2, FEATURES, seed=5, centre=0.0).eval(), data()
    assert isinstance(model, Linear)
    result = carried_out(tmp_path / "rand", model, rows)
    plain = carried_out(tmp_path / "plain", model, rows, suite="apgd")
    assert str(result.figures.clean_accuracy) == str(plain.clean_accuracy)
    assert str(result.figures.robust_accuracy) == str(plain.robust_accuracy)
    assert [row.status for row in result.rows] == [row.status for row in plain.rows]
    stands = worst_margin(model, *rows, "linf", EPS["linf"], BOX) > 0
    assert [row.status == "standing" for row in result.rows] == stands.tolist()
    assert 0 < int(stands.sum()) < ROWS
    figures = result.randomised
    assert figures is not None
    for record, stood in zip(result.reading.frequencies, stands.tolist(), strict=True):
        assert record.clean_correct in (0, record.clean_draws)
        assert record.correct == (DRAWS["score"] if stood else 0)
    for figure in (figures.expected, figures.persistent, figures.majority):
        assert (figure.value, figure.noise) == (int(stands.sum()) / ROWS, 0.0)
    assert figures.clean.value == plain.clean_accuracy.value
    assert any("the model gave the same logits three times" in note for note in result.reading.manifest.notes)


# --- random numbers


def expected_groups(rows: int, right: int, batch_size: int) -> int:
    """Draws of a whole run: for each batch of clean inputs, query, batch of candidates (twice) and chosen points.

    ``right`` rows are right at least once, and all of a phase's rows fit into one batch but for the choosing.
    """
    queries = ATTEMPTS * (STEPS + 1)
    choosing = -(-rows // (batch_size // CANDIDATES)) * DRAWS["select"]
    assert max(rows, right) <= batch_size
    return DRAWS["score"] + queries * DRAWS["attack"] + 2 * choosing + DRAWS["score"]


def test_no_random_number_serves_twice(honest: Honest) -> None:
    """Every look at the model is under a seed of its own; the checks before the attack see the caller's."""
    groups = honest.model.groups()
    right = sum(record.clean_correct > 0 for record in honest.result.reading.frequencies)
    assert len(groups) == 1 + expected_groups(ROWS, right, 64)
    assert len(set(groups)) == len(groups)
    # numpy's and Python's own are seeded with torch's
    begun = [place for place in range(1, len(groups)) if honest.model.seeds[place] != honest.model.seeds[place - 1]]
    assert len({honest.model.numpy[place] for place in begun}) == len(begun)
    assert len({honest.model.python[place] for place in begun}) == len(begun)
    for seed, of_numpy in zip(honest.model.seeds, honest.model.numpy, strict=True):
        if seed != honest.model.seeds[0]:
            assert of_numpy == seed % 2**32


@pytest.mark.usefixtures("without_shape_checks")
def test_another_seed_other_numbers_and_the_same_seed_the_same(tmp_path: Path, honest: Honest) -> None:
    seeds = []
    for number, seed in enumerate((0, 1)):
        watched = Watched(noisy())
        watched.eval()
        result = carried_out(tmp_path / str(number), watched, data(), seed=seed)
        seeds.append(watched.groups()[1:])
        same = result.reading.frequencies == honest.result.reading.frequencies
        assert same == (seed == 0)
    assert seeds[0] == honest.model.groups()[1:]
    assert not set(seeds[0]) & set(seeds[1])


@pytest.mark.usefixtures("without_shape_checks")
def test_no_random_number_of_a_run_comes_back_after_a_resume(tmp_path: Path) -> None:
    """Not in any phase that the run was cut in."""
    watched = Watched(noisy())
    lives = Lives(watched).eval()
    assert isinstance(lives, Lives)
    rows = data(6)
    run = begin(subject(lives, rows), tmp_path / "run")
    lasting = [10, 43, 60, 90, 10**9]  # in the clean phase, in the attack twice, while choosing, to the end
    sessions: list[list[int]] = []
    for left in lasting:
        watched.seeds.clear()
        lives.left = left
        try:
            finish_or_die(run)
        except Cut:
            sessions.append(watched.groups())
            run = reopened(subject(lives, rows), tmp_path / "run")
    sessions.append(watched.groups())
    assert open_run(tmp_path / "run").figures.complete
    assert [len(session) for session in sessions[:-1]] == [10, 43, 60, 90]
    everything = [seed for session in sessions for seed in session]
    assert len(set(everything)) == len(everything)


@pytest.mark.usefixtures("without_shape_checks")  # which toss coins of their own
def test_the_callers_random_numbers_are_left_alone(honest: Honest, tmp_path: Path) -> None:
    """By a whole run, a forecast, a verification and a refusal."""
    torch.manual_seed(99)
    np.random.seed(98)
    random.seed(97)
    before = random_state()
    small = suite(steps=2, select=20, score=20)
    assert carried_out(tmp_path / "run", noisy(), data(4), suite=small).figures.complete
    assert random_state() == before
    plan_of(subject(noisy(), data()))
    verify_with_model(honest.result.folder, TorchModel(noisy()), subject(noisy(), data()).rows)
    with pytest.raises(BadInput):
        carried_out(tmp_path / "refused", noisy(), data(), suite="apgd")
    assert random_state() == before
    assert torch.initial_seed() == 99


def test_random_numbers_of_other_devices_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model on the CPU: nothing puts the accelerators' numbers back, or those that they will begin with."""
    seeded: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    model = TorchModel(noisy())
    with model.undisturbed():
        model.reseed(5)
    assert seeded == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.randn_like(x),
        lambda x: torch.from_numpy(np.random.standard_normal(tuple(x.shape))),
        lambda x: torch.tensor([[random.gauss(0, 1) for _ in row] for row in x.tolist()], dtype=x.dtype),
    ],
    ids=["torch", "numpy", "python"],
)
def test_whatever_a_model_draws_from_comes_back_with_its_seed(draw: Callable[[Tensor], Tensor]) -> None:
    """Two engines of one seed say the same, another purpose, draw or session does not; nothing leaks out."""

    class Own(Noisy):
        def noise(self, x: Tensor) -> Tensor:
            return draw(x)

    x, y = data(8)
    model = TorchModel(Own(random_linear(2, FEATURES, seed=5, centre=0.0), 0.5))
    before = random_state()

    def said(*, session: int = 1, purpose: Purpose = "score", skip: int = 0) -> Tensor:
        oracle = Oracle(model, 2, 7, 64, draws=Draws(), session=session)
        with model.undisturbed():
            for _ in range(skip):
                oracle.looks(x, y, 1, "score")
            return oracle.looks(x, y, 3, purpose).logits

    first = said()
    assert torch.equal(said(), first)
    for other in (said(session=2), said(purpose="select"), said(skip=1)):
        assert not bool((other == first).any())
    assert random_state() == before


# --- passes


def test_passes_are_those_that_the_module_saw(honest: Honest) -> None:
    """Clean, attack, choosing, scoring and the checks before: each forward, each backward, once."""
    passes = honest.result.figures.passes
    assert passes.forwards + passes.preflight_forwards == honest.counting.forwards
    assert passes.backwards + passes.preflight_backwards == honest.counting.backwards
    right = sum(record.clean_correct > 0 for record in honest.result.reading.frequencies)
    assert passes.clean_forwards == passes.score_forwards == ROWS * DRAWS["score"]
    assert passes.referee_forwards == passes.cut_off_forwards == 0
    # APGD: steps + 1 forwards and steps backwards, in each of the draws
    assert passes.attack_forwards == right * ATTEMPTS * (STEPS + 1) * DRAWS["attack"]
    assert passes.attack_backwards == right * ATTEMPTS * STEPS * DRAWS["attack"]
    # five candidates: 10 draws of each, 10 more of three, 20 more of two; once more for the control
    assert passes.select_forwards == right * 2 * (5 * 10 + 3 * 10 + 2 * 20)
    for row in honest.result.rows:
        mine = frequencies(honest.result)[row.row].clean_correct > 0
        assert row.forwards == mine * ATTEMPTS * (STEPS + 1) * DRAWS["attack"]


def test_plan_is_an_upper_bound(honest: Honest) -> None:
    plan = plan_of(subject(noisy(), data()))
    passes = honest.result.figures.passes
    assert plan.most.forwards >= passes.forwards
    assert plan.most.backwards >= passes.backwards
    # and exact but for the rows that are never right
    right = sum(record.clean_correct > 0 for record in honest.result.reading.frequencies)
    spared = (plan.most.forwards - 2 * ROWS * DRAWS["score"]) * (ROWS - right) // ROWS
    assert plan.most.forwards - spared == passes.forwards
    assert [cost.backwards for _, _, cost in plan.attacks] == [STEPS * DRAWS["attack"]] * 2


def test_plan_is_a_lower_bound(tmp_path: Path) -> None:
    """At eps 0 nothing is attacked and nothing is chosen."""
    still = Threat("linf", 0.0, *BOX)
    result = carried_out(tmp_path / "run", noisy(), data(6), threat=still)
    assert plan_of(subject(noisy(), data(6), 0.0)).least_forwards <= result.figures.passes.forwards


def test_rounds_by_hand() -> None:
    """Nine candidates: half goes after 10, 20 and 40 draws; the last two are parted after 100."""
    draws = Draws(attack=20, kept=4, select=100, score=100)
    assert draws.rounds(9) == [(9, 10), (5, 10), (3, 20), (2, 60)]
    assert draws.rounds(2) == [(2, 100)]
    assert draws.rounds(1) == draws.rounds(0) == []
    # the limit cuts off what doubling would reach, and the draws of the first round too
    assert Draws(select=15).rounds(9) == [(9, 10), (5, 5)]
    assert Draws(select=3).rounds(9) == [(9, 3)]
    # 9 × 10 + 5 × 10 + 3 × 20 + 2 × 60 = 320, once more for the control, and 100 draws of two points
    assert draws.besides(2) == 2 * 320 + 2 * 100
    for candidates in range(2, 40):
        for select in (1, 7, 10, 25, 100):
            rounds = Draws(select=select).rounds(candidates)
            assert rounds[0][0] == candidates
            assert sum(more for _, more in rounds) <= select
            assert all(later == (left + 1) // 2 for (left, _), (later, _) in pairwise(rounds))


# --- which points are kept

NAN = float("nan")


def test_kept_points_by_hand() -> None:
    """One row, one stretch: fewer right decisions win, then less margin; NaN and what is not allowed never do."""
    x = torch.zeros(1, 2)

    def after(*offers: tuple[float, float, float, bool]) -> float:
        """The first feature of what is kept after points were offered with (it, right, margin, allowed)."""
        kept = Kept.around(x, 1)
        for feature, right, margin, allowed in offers:
            kept.offer(
                torch.tensor([0]),
                0,
                torch.full((1, 2), feature),
                torch.tensor([right]),
                torch.tensor([margin]),
                torch.tensor([allowed]),
            )
        return float(kept.points[0, 0, 0])

    assert isnan(after())  # nothing
    assert after((1.0, 1.0, 5.0, True)) == 1
    assert after((1.0, 0.5, 1.0, True), (2.0, 0.25, 3.0, True)) == 2
    assert after((1.0, 0.25, 3.0, True), (2.0, 0.5, 1.0, True)) == 1
    assert after((1.0, 0.5, 1.0, True), (2.0, 0.5, 0.5, True), (3.0, 0.5, 0.7, True)) == 2
    assert after((1.0, 0.5, 1.0, True), (2.0, 0.5, 1.0, True)) == 1  # the first of equals
    assert after((1.0, 0.5, 1.0, True), (2.0, 0.0, -9.0, False)) == 1
    assert isnan(after((1.0, 0.0, -9.0, False)))
    assert isnan(after((1.0, NAN, NAN, True)))
    assert after((1.0, 0.5, 1.0, True), (2.0, NAN, -9.0, True), (3.0, 0.5, NAN, True)) == 1


def test_each_stretch_and_each_row_keeps_its_own() -> None:
    x = torch.arange(6.0).view(3, 2)
    kept = Kept.around(x, 2)
    points = torch.full((2, 2), 7.0)
    kept.offer(
        torch.tensor([0, 2]), 1, points, torch.tensor([0.5, 0.5]), torch.tensor([1.0, 1.0]), torch.tensor([True, True])
    )
    assert bool(kept.points[:, 0].isnan().all())
    assert kept.points[:, 1].nan_to_num(0.0).tolist() == [[7.0, 7.0], [0.0, 0.0], [7.0, 7.0]]
    assert kept.right.tolist() == [[torch.inf, 0.5], [torch.inf, torch.inf], [torch.inf, 0.5]]
    assert torch.equal(x, torch.arange(6.0).view(3, 2))


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Asks for the scores of four points: the clean input with its first feature moved by so much."""

    name: ClassVar[str] = "path"
    summary: ClassVar[str] = "for tests"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    moves: tuple[float, ...]
    told: list[Tensor]
    gradient: bool = False

    def fit(self, classes: int) -> "Walk":
        return self

    def attempts(self) -> int:
        return 1

    def cost(self) -> Cost:
        return Cost(len(self.moves), len(self.moves) * self.gradient)

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        for move in self.moves:
            points = given.x.clone()
            points[:, 0] += move
            answer = yield Gradient(points, MARGIN) if self.gradient else Scores(points)
            self.told.extend([answer.logits, answer.loss, answer.grad])


def randomised_engine(module: nn.Module, attack: int = 2, kept: int = 2) -> Engine:
    oracle = Oracle(TorchModel(module), 2, 0, 64, draws=Draws(attack=attack, kept=kept))
    return Engine(oracle, Threat("linf", 0.1, *BOX))


def clean(count: int) -> Clean:
    """Rows whose first feature is what the models below decide by."""
    x = torch.zeros(count, 2, dtype=torch.float64)
    x[:, 1] = torch.arange(count)
    return Clean(x, torch.zeros(count, dtype=torch.int64), torch.zeros(count, 2, dtype=torch.float64))


class First(nn.Module):
    """Margin ``1 - 20 x_0`` for class 0, without noise."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(20.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        margin = 1 - self.weight * x[:, 0]
        return torch.stack([margin, torch.zeros_like(margin)], dim=1)


@pytest.mark.parametrize(
    ("moves", "kept"),
    [
        ((0.02, 0.04, 0.03, 0.01), (0.04, 0.03)),  # the best of the first half of the queries, and of the second
        ((0.02, 0.09, 0.08, 0.06), (0.09, 0.08)),
        ((0.5, 0.04, 0.5, 0.5), (0.04, NAN)),  # none lies inside in the second half
        ((NAN, 0.0, -0.1, -0.05), (0.0, -0.05)),
    ],
)
def test_an_attempt_proposes_the_best_of_each_stretch(moves: tuple[float, ...], kept: tuple[float, float]) -> None:
    class Readable(First):
        """Takes NaN for 0, so that no row ends before its time."""

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.nan_to_num())

    engine = randomised_engine(Readable())
    data = clean(3)
    run = on(engine, Walk(moves=moves, told=[]), data)
    assert run.fell == set()  # nobody falls, though the model errs beyond 0.05
    for record in run.attempted:
        assert (record.outcome, record.forwards, record.backwards) == ("proposed", 8, 0)  # four queries, two draws
        assert record.kept is not None
        assert record.kept[:, 0].tolist() == pytest.approx(kept, nan_ok=True)
        assert record.kept[:, 1].tolist() == pytest.approx(
            [record.row if not isnan(x) else NAN for x in kept], nan_ok=True
        )
    assert run.best_margins[0] == pytest.approx(1 - 20 * max(x for x in kept if not isnan(x)))


def test_stretches_without_a_query_keep_nothing() -> None:
    run = on(randomised_engine(First(), kept=4), Walk(moves=(0.03, 0.04), told=[]), clean(1))
    points = run.attempted[0].kept
    assert points is not None
    assert points[:, 0].tolist() == pytest.approx([0.03, NAN, 0.04, NAN], nan_ok=True)


def test_an_attack_is_told_the_mean_of_its_draws() -> None:
    """Logits, loss and gradient, of three draws; the same numbers again from the seeds that they were made under."""
    watched = Watched(Squared())
    model = TorchModel(watched)
    attack, rows = Walk(moves=(0.02, 0.05), told=[], gradient=True), clean(5)
    run = on(randomised_engine(watched, attack=3), attack, rows)
    assert {(record.forwards, record.backwards) for record in run.attempted} == {(6, 6)}
    seeds = watched.seeds[:]
    assert len(set(seeds)) == len(seeds) == 6
    for query, move in enumerate(attack.moves):
        points = rows.x.clone()
        points[:, 0] += move
        single = []
        for seed in seeds[3 * query : 3 * query + 3]:
            torch.manual_seed(seed)
            single.append(model.gradient(points, lambda logits: MARGIN.climb(logits, rows.y)))
        for told, alone in zip(attack.told[3 * query : 3 * query + 3], zip(*single, strict=True), strict=True):
            stacked = torch.stack(list(alone))
            torch.testing.assert_close(told, stacked.mean(0))
            assert not bool((stacked[0] == stacked[1]).all())


class Squared(First):
    """With a margin that is not linear in the noise, so that its gradient differs from draw to draw."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward((x + 0.1 * torch.randn_like(x)).square())


# --- which candidate is chosen


class Known(Oracle):
    """An oracle whose model is right on a point with the probability that is its first feature.

    The margin of its mean logits is the point's second feature; NaN there stands for logits that are none.
    """

    def __init__(self) -> None:
        super().__init__(TorchModel(First()), 2, 0, 64)
        self.asked: list[tuple[int, int, Purpose]] = []
        self.dice = torch.Generator().manual_seed(1)

    def looks(self, points: Tensor, y: Tensor, count: int, purpose: Purpose) -> Looks:
        self.asked.append((len(points), count, purpose))
        correct = torch.binomial(torch.full((len(points),), float(count)), points[:, 0].float(), generator=self.dice)
        logits = torch.zeros(len(points), 2, dtype=points.dtype)
        logits[:, 0] = points[:, 1]
        return Looks(correct.long(), logits)


def candidates(chances: list[list[float]], margins: list[list[float]] | None = None) -> Tensor:
    """Points of the known oracle, ``(row, candidate, 2)``."""
    p = torch.tensor(chances, dtype=torch.float64)
    return torch.stack([p, torch.zeros_like(p) if margins is None else torch.tensor(margins, dtype=p.dtype)], dim=2)


def choose(
    oracle: Known, points: Tensor, offered: Tensor | None = None, draws: Draws | None = None
) -> tuple[list[int], Any]:
    everything = torch.ones(points.shape[:2], dtype=torch.bool)
    y = torch.zeros(len(points), dtype=torch.int64)
    said = halved(oracle, points, everything if offered is None else offered, y, draws or Draws(), "select")
    return said.place.tolist(), said


def test_the_one_that_is_right_least_often_is_chosen() -> None:
    """Among nine, wherever it stands; ``asked`` is what ``Draws.rounds`` says, each row alike."""
    chances = [[0.9] * 9 for _ in range(9)]
    for row in range(9):
        chances[row][row] = 0.4
        chances[row][(row + 3) % 9] = 0.7
    oracle = Known()
    places, said = choose(oracle, candidates(chances))
    assert places == list(range(9))
    rounds = Draws().rounds(9)
    assert oracle.asked == [(9 * left, more, "select") for left, more in rounds]
    assert said.draws == 100
    assert said.forwards == 9 * sum(left * more for left, more in rounds)
    # right in about 40 of the 100 draws that it was chosen by
    assert all(20 <= int(correct) <= 60 for correct in said.correct)


def test_close_candidates_are_mostly_told_apart() -> None:
    """Of two that are right with 0.5 and 0.7, after 100 draws: the error is Phi(-0.2 / 0.068) = 0.2 %."""
    places, _ = choose(Known(), candidates([[0.7, 0.5]] * 300))
    assert sum(places) >= 295


def test_ties_go_by_the_margin() -> None:
    """Never right, all of them: the least mean margin is the nearest to an error in all draws."""
    margins = [[0.3, 0.1, -0.2, 0.4, 0.0], [-1.0, 0.1, -0.2, 0.4, 0.0], [0.3, 0.1, 0.2, 0.4, -3.0]]
    assert choose(Known(), candidates([[0.0] * 5] * 3, margins))[0] == [2, 0, 4]
    # but the count of right decisions comes first
    assert choose(Known(), candidates([[0.0, 1.0]], [[5.0, -5.0]]))[0] == [0]


def test_what_is_not_offered_is_never_chosen() -> None:
    points = candidates([[0.0, 0.9, 0.5, 0.9], [0.0, 0.0, 0.0, 0.9], [0.2, 0.0, 0.9, 0.9]])
    offered = torch.tensor([[False, True, True, True], [False, False, False, True], [True, False, True, True]])
    oracle = Known()
    assert choose(oracle, points, offered)[0] == [2, 3, 0]


def test_a_single_candidate_costs_nothing() -> None:
    oracle = Known()
    offered = torch.tensor([[False, True], [True, False]])
    places, said = choose(oracle, candidates([[0.0, 0.9], [0.9, 0.0]]), offered)
    assert (places, said.forwards, said.draws, oracle.asked) == ([1, 0], 0, 0, [])
    # nor does one beside rows that have more
    oracle = Known()
    offered = torch.tensor([[False, True], [True, True]])
    places, said = choose(oracle, candidates([[0.0, 0.9], [0.9, 0.0]]), offered)
    assert places == [1, 1]
    assert oracle.asked == [(2, 100, "select")]
    assert said.correct.tolist() == [0, 0]


def test_a_candidate_that_cannot_be_judged_is_not_chosen() -> None:
    """Its logits are no numbers, however seldom the model is right on it, and wherever it stands."""
    for row in ([NAN, 0.0, 0.0], [0.0, NAN, NAN], [NAN, NAN, 0.0], [NAN, 0.0, NAN, NAN, NAN]):
        chances = [0.0 if isnan(value) else 0.9 for value in row]
        places, _ = choose(Known(), candidates([chances], [row]))
        assert chances[places[0]] == 0.9


def test_a_candidate_with_infinite_logits_is_not_chosen() -> None:
    """The docstring: a candidate whose logits are not finite goes at once. In scoring the row would end in an error."""
    inf = float("inf")
    assert choose(Known(), candidates([[0.0, 0.0, 0.9]], [[-inf, 0.5, 0.5]]))[0] == [1]


def test_two_candidates_are_parted_after_all_draws_whatever_their_neighbours_have() -> None:
    """A row with two candidates among rows with nine: half of its candidates is gone after 10 draws, not 100."""
    offered = torch.ones(300, 9, dtype=torch.bool)
    offered[:299, 2:] = False
    points = candidates([[0.7, 0.5] + [0.9] * 7] * 300)
    places, _ = choose(Known(), points, offered)
    assert sum(places[:299]) >= 290  # as above; with 10 draws about 240


# --- several gradients in one query


@pytest.mark.parametrize("norm", NORMS)
def test_fab_asks_for_all_gradients_at_once(norm: Norm) -> None:
    """The same points as with a query for each rival, and one forward pass a step."""
    model, attack = random_linear(5, FEATURES, seed=8), FAB(steps=4, rivals=3)
    x = torch.rand(6, FEATURES, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    y = model(x).argmax(1)
    threat = Threat(norm, 0.3)
    said = by_hand(model, threat, attack, (x, y))
    asked = [query for query, _ in said if isinstance(query, Gradients)]
    assert len(asked) == attack.steps
    assert all(query.targets.shape == (6, 3) for query in asked)

    def towards(query: Gradients, target: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda logits: query.loss.climb(logits, y, target)

    adapter = TorchModel(model)
    noise = Noise.of(seed=0, stream=stream_key("by hand"), attempt=0, rows=torch.arange(6))
    search = attack.search(Given(x, y, adapter.scores(x), 0), threat.around(x), noise)
    standing = torch.ones(6, dtype=torch.bool)
    query = next(search)
    for other, _ in said[1:]:
        if isinstance(query, Gradients):
            alone = [adapter.gradient(query.points, towards(query, target)) for target in query.targets.unbind(1)]
            answer = Answer(
                alone[0].logits,
                torch.stack([piece.loss for piece in alone], dim=1),
                torch.stack([piece.grad for piece in alone], dim=1),
                standing,
            )
        else:
            assert isinstance(query, Scores)
            answer = Answer(adapter.scores(query.points), x.new_zeros(6), torch.zeros_like(x), standing)
        query = search.send(answer)
        torch.testing.assert_close(query.points, other.points, rtol=0, atol=1e-12)


@pytest.mark.parametrize("looks", [1, 3])
def test_fab_costs_one_forward_a_step(looks: int) -> None:
    """And a backward pass for each rival; the same in each draw where the model is randomised."""
    counting = Counting(random_linear(5, FEATURES, seed=8))
    attack = FAB(steps=4, rivals=3)
    x = torch.rand(6, FEATURES, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    with torch.no_grad():
        logits = counting.inner(x)
    draws = None if looks == 1 else Draws(attack=looks, kept=2)
    engine = Engine(Oracle(TorchModel(counting), 5, 0, 64, draws=draws), Threat("linf", 1e-6))
    run = on(engine, attack, Clean(x, logits.argmax(1), logits))
    assert set(run.outcomes.values()) == {"stood" if looks == 1 else "proposed"}
    assert attack.cost() == Cost(4 + 4, 3 * 4)
    assert (counting.forwards, counting.backwards) == (6 * looks * 8, 6 * looks * 12)
    assert {(r.forwards, r.backwards) for r in run.attempted} == {(looks * 8, looks * 12)}


def test_fab_is_an_attack_on_randomised_models_too(tmp_path: Path) -> None:
    """Its points beyond the ball are asked about and never kept."""
    fab = replace(suite(score=20, select=20), attacks=(FAB(steps=5, rivals=1), FABT(steps=4, targets=1)), rules=())
    result = carried_out(tmp_path / "run", noisy(), data(10), suite=fab)
    assert result.figures.status["error"] == 0
    x, _ = data(10)
    assert bool(Threat("linf", EPS["linf"], *BOX).contains(x, chosen(result)).all())
    assert any(record.candidate != -1 for record in result.reading.frequencies)
    assert refuted(tmp_path / "run") == []
