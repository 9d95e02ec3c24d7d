"""Runs of randomised models that are cut off, meet what cannot be judged, are refused, or are checked again."""

import hashlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from brinell import Threat
from brinell.attacks.apgd import APGD
from brinell.concluding import SEALED, conclude
from brinell.errors import BadInput
from brinell.evaluation import Result, open_run, resume
from brinell.finishing import finish
from brinell.geometry import distance
from brinell.manifest import file_digests, read_manifest, write_manifest
from brinell.models.torch_model import TorchModel
from brinell.opening import begin
from brinell.opening import resume as reopened
from brinell.oracle import Looks, Oracle, Purpose
from brinell.plan import plan_of
from brinell.queries import Given, Search
from brinell.random import Noise
from brinell.subject import Subject
from brinell.suites.suite import load_suite
from brinell.tally import Moment
from brinell.threat import Ball
from brinell.verify import verify_files, verify_with_model
from models_with_known_radius import Linear, random_linear
from noisy_models import (
    ATTEMPTS,
    BOX,
    DRAWS,
    FEATURES,
    ROWS,
    SIGMAS,
    Cut,
    Honest,
    Lives,
    Noisy,
    Watched,
    carried_out,
    data,
    finish_or_die,
    frequencies,
    honest_run,
    noisy,
    refuted,
    subject,
    suite,
)
from small_runs import edit
from trials import Counting

pytestmark = pytest.mark.usefixtures("without_shape_checks")  # test_randomised runs the same code with them


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Honest:
    """The one run that most tests look at; nobody changes its folder."""
    return honest_run(tmp_path_factory.mktemp("honest") / "run")


@pytest.fixture
def copied(honest: Honest, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(honest.result.folder, tmp_path / "run"))


# --- cut off


class Stopping:
    """An observer and a ``stop`` that end a run when its work has been called by some name so many times."""

    def __init__(self, label: str, times: int) -> None:
        self.label, self.times = label, times

    def observer(self, moment: Moment) -> None:
        self.times -= moment.label.startswith(self.label)

    def raising(self, moment: Moment) -> None:
        self.observer(moment)
        if self.stop():
            raise KeyboardInterrupt

    def stop(self) -> bool:
        return self.times <= 0


CUT_ROWS = 11
CUT_SUITE = suite(steps=3, select=10, score=20)


def cut_subject(model: nn.Module | None = None) -> Subject:
    """Groups of five rows; the choosing takes one row at a time."""
    return subject(model or noisy(), data(CUT_ROWS), suite=CUT_SUITE, size=5)


def interrupted(folder: Path, label: str, times: int, *, how: str) -> Result:
    """A run that was ended by ``stop`` or by an exception of the observer."""
    run, stopping = begin(cut_subject(), folder), Stopping(label, times)
    if how == "stop":
        finish(run, stopping.observer, stop=stopping.stop)
    else:
        with pytest.raises(KeyboardInterrupt):
            finish(run, stopping.raising)
    return open_run(folder)


def assert_gone_on_with(folder: Path, before: Result) -> None:
    """The run ends; what had been done before stays as it was, and each attempt has been made once."""
    result = resume(folder, noisy(), *data(CUT_ROWS))
    assert result.reading.manifest.state == "complete"
    assert result.figures.complete
    assert result.randomised is not None
    assert result.randomised.expected.value is not None
    assert not (folder / "candidates.npy").exists()
    assert [finding for finding in verify_files(folder) if not finding.holds] == []
    after = frequencies(result)
    assert sorted(after) == list(range(CUT_ROWS))
    assert all(record.draws == 20 for record in after.values())
    for row, record in frequencies(before).items():
        for name, value in vars(record).items():
            assert value is None or getattr(after[row], name) == value, (row, name)
    attempts = [(attempt.stage, attempt.attempt, attempt.row) for attempt in result.reading.attempts]
    right = [row for row in after if after[row].clean_correct > 0]
    assert sorted(attempts) == [(stage, 0, row) for stage in range(ATTEMPTS) for row in right]
    assert set(before.reading.attempts) <= set(result.reading.attempts)
    assert len(result.reading.sessions) == len(before.reading.sessions) + 1


@pytest.mark.parametrize("how", ["stop", "exception"])
@pytest.mark.parametrize(
    ("label", "times"),
    [("clean rows", 2), ("apgd margin", 3), ("choosing", 2), ("choosing", CUT_ROWS - 1), ("scoring", 2)],
)
def test_interrupt(tmp_path: Path, label: str, times: int, how: str) -> None:
    folder = tmp_path / "run"
    before = interrupted(folder, label, times, how=how)
    status, figures = before.figures.status, before.randomised
    assert before.reading.manifest.state == "interrupted"
    assert (folder / "candidates.npy").exists()
    assert sum(status.values()) == CUT_ROWS
    assert status["pending"] > 0
    assert figures is not None
    for figure in (figures.expected, figures.persistent, figures.majority, before.robust_accuracy):
        assert figure.value is None
        assert figure.bounds is not None
        assert figure.bounds[0] < figure.bounds[1]
    scored = [record for record in before.reading.frequencies if record.draws is not None]
    total = sum((record.correct or 0) / 20 for record in scored)
    assert figures.expected.bounds == pytest.approx((total / CUT_ROWS, (total + CUT_ROWS - len(scored)) / CUT_ROWS))
    assert bool(scored) == (label == "scoring")
    assert (figures.clean.value is None) == (label == "clean rows")
    assert f"run incomplete, {status['pending']} rows pending" in before.claim
    assert "between" in before.claim
    assert "at most" not in before.claim
    assert refuted(folder) == []
    assert_gone_on_with(folder, before)


@pytest.mark.parametrize("how", ["stop", "exception"])
def test_interrupt_before_the_first_attempt_has_ended(tmp_path: Path, how: str) -> None:
    """Every clean input has been scored; an attempt of the real suite takes 2,020 passes a row."""
    before = interrupted(tmp_path / "run", "apgd ce", 1, how=how)
    assert len(before.reading.frequencies) == CUT_ROWS
    assert_gone_on_with(tmp_path / "run", before)


@pytest.mark.parametrize("label", ["choosing", "scoring"])
def test_interrupt_at_eps_0(tmp_path: Path, label: str) -> None:
    run = begin(subject(noisy(), data(CUT_ROWS), 0.0, suite=CUT_SUITE, size=5), tmp_path / "run")
    stopping = Stopping(label, 1)
    finish(run, stopping.observer, stop=stopping.stop)
    assert resume(tmp_path / "run", noisy(), *data(CUT_ROWS)).figures.complete


def test_killed_over_and_over(tmp_path: Path) -> None:
    """After every 25 passes, in whatever phase that is: a chunk takes 20, an attempt of all groups 20."""
    lives = Lives(noisy())
    lives.eval()
    folder = tmp_path / "run"
    run = begin(cut_subject(lives), folder)
    kills, seen = 0, set[str]()
    while True:
        lives.left = 25
        try:
            finish_or_die(run)
            break
        except Cut:
            kills += 1
            before = open_run(folder)
            counted = frequencies(before).values()
            seen.add(phase_of(before))
            assert before.reading.manifest.state == "running"
            assert sum(before.figures.status.values()) == CUT_ROWS
            assert refuted(folder) == []
            run = reopened(cut_subject(lives), folder)
        assert kills < 100
    assert seen == {"clean", "attack", "choosing", "scoring"}
    after = open_run(folder)
    counted = frequencies(after).values()
    assert all(record.draws == 20 for record in counted)
    assert [finding for finding in verify_files(folder) if not finding.holds] == []
    passes = after.figures.passes
    right = sum(record.clean_correct > 0 for record in counted)
    assert passes.attack_forwards == right * ATTEMPTS * 4 * DRAWS["attack"]
    assert after.randomised is not None and after.randomised.choosing.rows == right


def phase_of(result: Result) -> str:
    """How far a run has got, by its record."""
    counted = result.reading.frequencies
    if len(counted) < CUT_ROWS:
        return "clean"
    if all(record.candidates is None for record in counted):
        return "attack"
    return "choosing" if any(record.candidates is None for record in counted) else "scoring"


def test_lost_candidates_are_not_taken_for_points(tmp_path: Path) -> None:
    """Refused, or the attempts made again; ``candidates.npy`` is the one file of a cut run that nothing seals."""
    folder = tmp_path / "run"
    interrupted(folder, "choosing", 1, how="stop")
    (folder / "candidates.npy").unlink()
    try:
        result = resume(folder, noisy(), *data(CUT_ROWS))
    except BadInput:
        return
    assert result.figures.status["error"] == 0
    assert refuted(folder) == []


# --- what cannot be judged


class Fragile(Noisy):
    """NaN in half of the passes over a point that has left the grid of fourths, where the last feature is above 5."""

    def forward(self, x: Tensor) -> Tensor:
        fragile = (x[:, -1] > 5) & (4 * x != (4 * x).round()).any(1)
        bad = fragile & (torch.rand(len(x)) < 0.5)
        return super().forward(x).masked_fill(bad[:, None], torch.nan)


def test_rows_on_which_the_model_fails_at_random_count_nothing(tmp_path: Path) -> None:
    """Clean inputs lie on the grid. Every other row is fragile: its attempts meet NaN sooner or later."""
    bare = random_linear(2, FEATURES, seed=5, centre=0.0)
    with torch.no_grad():
        bare.weight[:, -1] = 0
    x, y = data()
    x = (4 * x).round() / 4
    x[:, -1] = torch.arange(ROWS) % 2 * 10
    model = Fragile(bare, 0.5).eval()
    result = carried_out(tmp_path / "run", model, (x, y))
    counted, figures = frequencies(result), result.randomised
    assert figures is not None
    sound = [row for row in range(ROWS) if x[row, -1] < 5]
    total = sum((counted[row].correct or 0) / DRAWS["score"] for row in sound)
    assert figures.expected.value == pytest.approx(total / ROWS)
    assert figures.expected.of == ROWS
    errors = {row.row for row in result.rows if row.status == "error"}
    assert errors
    assert errors.isdisjoint(sound)
    failed = {attempt.row for attempt in result.reading.attempts if attempt.outcome == "error"}
    assert failed == {row for row in range(ROWS) if row not in sound and counted[row].clean_correct > 0}
    assert {attempt.reason for attempt in result.reading.attempts if attempt.outcome == "error"} <= {
        "non-finite logits",
        "non-finite gradient",
    }
    assert result.figures.errors == {"non-finite logits": len(errors)}
    assert result.robust_accuracy.of == ROWS
    assert f"{len(failed)} rows in error counted as not robust" in result.claim
    assert refuted(tmp_path / "run") == []


def test_rows_of_an_attack_that_crashes_count_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attack crashes on the group that holds row 7; what the second one proposes for it is scored all the same."""
    rows = data(14)
    search, marked = APGD.search, rows[0][7]

    def crashing(self: APGD, given: Given, ball: Ball, noise: Noise) -> Search:
        inner = search(self, given, ball, noise)
        answer = yield next(inner)
        if "ce" in repr(self.loss) and bool((given.x == marked).all(1).any()):
            raise ArithmeticError("on purpose")
        try:
            while True:
                answer = yield inner.send(answer)
        except StopIteration:
            return

    monkeypatch.setattr(APGD, "search", crashing)
    result = carried_out(tmp_path / "run", noisy(), rows, batch_size=6, suite=suite(steps=3, score=20, select=10))
    failed = {attempt.row for attempt in result.reading.attempts if attempt.outcome == "error"}
    assert 7 in failed
    assert 1 < len(failed) <= 6
    reasons = {attempt.reason for attempt in result.reading.attempts if attempt.row in failed}
    assert reasons == {"attack crashed: ArithmeticError: on purpose", None}
    figures, counted = result.randomised, frequencies(result)
    assert figures is not None
    sound = [row for row in range(14) if row not in failed]
    assert figures.expected.value == pytest.approx(sum((counted[row].correct or 0) / 20 for row in sound) / 14)
    for row in result.rows:
        if row.row in failed:
            record = counted[row.row]
            assert record.candidates == 1 + DRAWS["kept"]
            assert record.candidate not in (0, 1)
            assert row.status in ("error", "broken", "misclassified")
        else:
            assert row.status != "error"
    assert result.figures.status["error"] > 0
    assert refuted(tmp_path / "run") == []


def test_non_finite_logits_on_clean_rows_are_refused(tmp_path: Path) -> None:
    class Rarely(Noisy):
        """NaN on the third row in one pass of ten."""

        def forward(self, x: Tensor) -> Tensor:
            logits = super().forward(x)
            bad = (x[:, 0] == data()[0][2, 0]) & (torch.rand(len(x)) < 0.1)
            return logits.masked_fill(bad[:, None], torch.nan)

    model = Rarely(random_linear(2, FEATURES, seed=5, centre=0.0), 0.5).eval()
    with pytest.raises(BadInput, match=r"no finite logits on 1 clean rows \(2\)"):
        carried_out(tmp_path / "run", model, data())
    assert not (tmp_path / "run").exists()


def scores_fail_on(monkeypatch: pytest.MonkeyPatch, rows: list[int]) -> None:
    """Logits at the chosen points of some rows are no numbers when they are scored, and never before."""
    looks = Oracle.looks

    def failing(self: Oracle, points: Tensor, y: Tensor, count: int, purpose: Purpose) -> Looks:
        said = looks(self, points, y, count, purpose)
        if purpose == "score":
            said.logits[rows] = torch.nan
        return said

    monkeypatch.setattr(Oracle, "looks", failing)


def test_a_chosen_point_that_cannot_be_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores_fail_on(monkeypatch, [3])
    result = carried_out(tmp_path / "run", noisy(), data())
    assert result.rows[3].status == "error"
    assert result.rows[3].reason == "no finite logits at the chosen point"
    assert frequencies(result)[3].draws is None
    figures = result.randomised
    assert figures is not None
    others = sum((record.correct or 0) / DRAWS["score"] for record in result.reading.frequencies if record.row != 3)
    assert figures.expected.value == pytest.approx(others / ROWS)
    assert result.figures.complete
    assert refuted(tmp_path / "run") == []


def test_a_row_in_error_that_was_wrong_from_the_start_is_not_correct(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 0 has the wrong label; its chosen point cannot be scored."""
    scores_fail_on(monkeypatch, [0])
    result = carried_out(tmp_path / "run", noisy(), data())
    right = sum(2 * record.clean_correct > record.clean_draws for record in result.reading.frequencies)
    assert 2 * frequencies(result)[0].clean_correct <= DRAWS["score"]
    assert result.figures.clean_accuracy.count == right


# --- before the attack


class Blurred(Linear):
    """The logits times a factor that is drawn anew: other logits, by so much, and never another decision."""

    spread: float = 0.0

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 + self.spread * torch.rand((), dtype=x.dtype))


def blurred(spread: float) -> Blurred:
    bare = random_linear(3, FEATURES, seed=5, centre=0.0)
    model = Blurred(bare.weight.detach(), bare.bias.detach()).eval()
    assert isinstance(model, Blurred)
    model.spread = spread
    return model


@pytest.mark.parametrize(
    ("model", "got"),
    [(noisy(), "other decisions on "), (blurred(0.1), "logits that differ by ")],
    ids=["decisions", "logits"],
)
def test_randomised_model_under_a_suite_for_deterministic_ones(tmp_path: Path, model: nn.Module, got: str) -> None:
    with pytest.raises(BadInput) as error:
        carried_out(tmp_path / "run", model, data(), suite="apgd")
    assert error.value.got.startswith(got)
    assert error.value.got.endswith("when the same rows are asked again")
    assert error.value.expected == "a deterministic model"
    assert "--suite brinell-rand" in error.value.remedy
    assert not (tmp_path / "run").exists()
    with pytest.raises(BadInput, match="a deterministic model"):
        plan_of(subject(model, data(), suite=load_suite("apgd")))
    small = suite(steps=2, select=20, score=20)
    assert carried_out(tmp_path / "run", model, data(6), suite=small).figures.complete


def test_logits_that_differ_a_little_are_noted(tmp_path: Path) -> None:
    """By less than one per cent: rounding of some kernels does as much."""
    result = carried_out(tmp_path / "run", blurred(0.005), data(6), suite="fgsm")
    assert any("between two passes; decisions do not" in note for note in result.reading.manifest.notes)


class Stretched(Noisy):
    """Each feature is multiplied by a factor around 1, of its own and new in each pass; so is its gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return Linear.forward(self, x * (1 + self.sigma * self.noise(x)))


@pytest.mark.parametrize(("sigma", "weak"), [(0.001, False), (1000.0, True)])
def test_how_far_gradients_are_noise_is_noted(tmp_path: Path, sigma: float, weak: bool) -> None:
    """Of forty features; with a small spread all draws show the same direction, with a large one none that lasts."""
    bare = random_linear(2, 40, seed=2, centre=0.0)
    x = 0.01 * torch.randn(6, 40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        y = bare(x).argmax(1)
    small = suite(steps=2, select=20, score=20)
    result = carried_out(tmp_path / "run", Stretched(bare, sigma).eval(), (x, y), suite=small)
    (note,) = (note for note in result.reading.manifest.notes if "median cosine" in note)
    assert "averaged over 1 draws and over 1 others" in note
    cosine = float(note.split("median cosine ")[1].split(";")[0])
    assert (cosine < 0.3) == weak
    assert ("raise the suite's draws for attacks" in note) == weak
    if not weak:
        assert cosine == pytest.approx(1.0, abs=0.01)


def test_deterministic_model_that_depends_on_its_batch_is_refused_here_too(tmp_path: Path) -> None:
    class Centred(Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x - x.mean(0))

    bare = random_linear(2, FEATURES, seed=5, centre=0.0)
    model = Centred(bare.weight.detach(), bare.bias.detach()).eval()
    with pytest.raises(BadInput):
        carried_out(tmp_path / "a", model, data(6), suite="fgsm")
    with pytest.raises(BadInput):
        carried_out(tmp_path / "b", model, data(6), suite=suite(steps=2, select=20, score=20))


# --- noise that a whole batch shares, as where a model draws one transformation a pass


class Shared(Noisy):
    def noise(self, x: Tensor) -> Tensor:
        return torch.randn_like(x[:1]).expand_as(x)


class MostlyShared(Noisy):
    """The same with a little noise of each row's own, as where one resizing a pass is followed by Gaussian noise."""

    def noise(self, x: Tensor) -> Tensor:
        return torch.randn_like(x[:1]) + 0.05 * torch.randn_like(x)


def one_sided(count: int) -> tuple[Tensor, Tensor]:
    """Rows of one class, so that the same noise is good or bad for all; the model has no bias."""
    x, y = data(count)
    y[0] = 1 - y[0]
    return torch.where((y == 0)[:, None], -x, x), torch.ones_like(y)


def runs_by_seed(folder: Path, kind: type[Noisy], count: int) -> list[Result]:
    """Six runs at eps 0."""
    model = kind(random_linear(2, FEATURES, seed=5, centre=0.0), 1.0).eval()
    still, small = Threat("linf", 0.0, *BOX), suite(score=20)
    return [
        carried_out(folder / str(seed), model, one_sided(count), threat=still, suite=small, seed=seed)
        for seed in range(6)
    ]


def clean_means(results: list[Result]) -> tuple[Tensor, float]:
    """The clean figure of each run, and the standard error that is stated for it, the mean of all."""
    clean = [result.randomised.clean for result in results if result.randomised is not None]
    means = torch.tensor([figure.value or 0.0 for figure in clean], dtype=torch.float64)
    return means, sum(figure.noise for figure in clean) / len(clean)


def assert_verified(results: list[Result], kind: type[Noisy], count: int) -> None:
    model = TorchModel(kind(random_linear(2, FEATURES, seed=5, centre=0.0), 1.0).eval())
    rows = subject(model.module, one_sided(count)).rows
    findings = [finding for result in results for finding in verify_with_model(result.folder, model, rows)]
    assert [finding.detail for finding in findings if finding.holds is False] == []


SHARING = 10
"""Rows of the runs below; each is scored in passes of its own."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    return runs_by_seed(tmp_path_factory.mktemp("shared"), Shared, SHARING)


def test_shared_noise_is_noted_and_leaves_the_figures_unbiased(shared: list[Result]) -> None:
    means, _ = clean_means(shared)
    x, y = one_sided(SHARING)
    true = Shared(random_linear(2, FEATURES, seed=5, centre=0.0), 1.0).right(x, y)
    error = float((true * (1 - true) / 20).sum().sqrt()) / SHARING
    assert abs(float(means.mean() - true.mean())) <= SIGMAS * error / len(shared) ** 0.5
    for result in shared:
        assert any("the model draws for a whole pass at once" in note for note in result.reading.manifest.notes)


def test_standard_error_where_rows_share_their_noise(shared: list[Result]) -> None:
    """In common passes all rows would be right or wrong together, and the figure far less sure than it says."""
    means, stated = clean_means(shared)
    assert stated > float(means.std()) / 2


def test_honest_runs_verify_where_rows_share_their_noise(shared: list[Result]) -> None:
    assert_verified(shared, Shared, SHARING)


def test_standard_error_where_rows_share_most_of_their_noise(tmp_path: Path) -> None:
    means, stated = clean_means(runs_by_seed(tmp_path, MostlyShared, ROWS))
    assert stated > float(means.std()) / 2


def test_honest_runs_verify_where_rows_share_most_of_their_noise(tmp_path: Path) -> None:
    assert_verified(runs_by_seed(tmp_path, MostlyShared, ROWS), MostlyShared, ROWS)


# --- checked again


def reseal(folder: Path) -> None:
    """Make tables, result and digests anew; where no figure can be made of the counts, the digests at least."""
    with suppress(ValueError):
        conclude(folder, read_manifest(folder))
    write_manifest(folder, read_manifest(folder).model_copy(update={"files": file_digests(folder, SEALED)}))


def findings_by_model(folder: Path, model: nn.Module) -> dict[str, bool | None]:
    rows = subject(model, data()).rows
    return {finding.check: finding.holds for finding in verify_with_model(folder, TorchModel(model), rows)}


def test_honest_run_verifies(honest: Honest, copied: Path) -> None:
    assert [finding for finding in verify_files(copied) if not finding.holds] == []
    assert findings_by_model(copied, honest.counting) == {
        "model fingerprint": True,
        "data": True,
        "labels": True,
        "chosen points by the model": True,
        "clean inputs by the model": True,
    }
    reseal(copied)
    assert [finding for finding in verify_files(copied) if not finding.holds] == []


def row_with(folder: Path, status: str) -> int:
    """Where the clean input is nearly always right and the chosen point is neither always right nor always wrong."""
    result = open_run(folder)
    for row in result.rows:
        record = frequencies(result)[row.row]
        if row.status == status and record.correct not in (0, record.draws) and record.candidate != -1:
            return row.row
    raise AssertionError(f"no such row is {status}")


@pytest.mark.parametrize(
    ("status", "change", "check"),
    [
        ("standing", "correct = draws + 1", "frequencies"),
        ("standing", "correct = -1", "frequencies"),
        ("standing", "draws = draws + 60, correct = correct + 60", "frequencies"),
        ("standing", "clean_draws = 10 * clean_draws, clean_correct = 10 * clean_correct", "frequencies"),
        ("standing", "clean_correct = clean_draws + 1", "frequencies"),
        ("standing", "select_correct = select_draws + 1", "frequencies"),
        ("standing", "control_correct = control_draws + 1", "frequencies"),
        ("standing", "correct = 0", "statuses"),
        ("broken", "correct = draws", "statuses"),
        ("broken", "clean_correct = 0", "statuses"),
        ("standing", "draws = NULL, correct = NULL", "statuses"),
        ("standing", "row = row + 1000", "frequencies"),
    ],
)
def test_changed_count_is_found(copied: Path, status: str, change: str, check: str) -> None:
    """Though tables, result and digests are made anew with it."""
    edit(copied, f"UPDATE frequencies SET {change} WHERE row = ?", row_with(copied, status))
    assert "ledger.sqlite" in refuted(copied)
    reseal(copied)
    assert check in refuted(copied)


def test_frequencies_of_a_row_left_out(copied: Path) -> None:
    edit(copied, "DELETE FROM frequencies WHERE row = ?", row_with(copied, "broken"))
    reseal(copied)
    assert "statuses" in refuted(copied)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("broken", "standing"),
        ("broken", "misclassified"),
        ("standing", "broken"),
        ("broken", "error"),
        ("broken", "pending"),
    ],
)
def test_changed_status_is_found(copied: Path, status: str, said: str) -> None:
    edit(copied, "UPDATE rows SET status = ?, reason = 'none' WHERE row = ?", said, row_with(copied, status))
    reseal(copied)
    assert "statuses" in refuted(copied)


def test_misclassified_row_said_to_stand(copied: Path) -> None:
    edit(copied, "UPDATE rows SET status = 'standing' WHERE status = 'misclassified'")
    reseal(copied)
    assert "statuses" in refuted(copied)


@pytest.mark.parametrize(
    ("move", "found"),
    [
        (
            lambda x, point: point + 1e-3,
            {"witnesses as recorded", "witnesses in the threat model", "sizes as recorded"},
        ),
        (lambda x, point: x + (point - x) / 2, {"witnesses as recorded", "sizes as recorded"}),
    ],
    ids=["outside", "inside"],
)
def test_changed_point_is_found(copied: Path, move: Callable[[Any, Any], Any], found: set[str]) -> None:
    row = row_with(copied, "broken")
    x = data()[0].numpy()[row]
    points = np.load(copied / "witnesses.npy", mmap_mode="r+")
    points[row] = move(x, np.array(points[row]))
    points.flush()
    reseal(copied)
    assert found <= set(refuted(copied))
    # with its digest
    digest = hashlib.sha256(np.ascontiguousarray(points[row]).tobytes()).hexdigest()
    edit(copied, "UPDATE rows SET witness_digest = ? WHERE row = ?", digest, row)
    reseal(copied)
    assert set(refuted(copied)) == found - {"witnesses as recorded"}


def test_points_moved_to_the_far_side_are_found_by_the_model(honest: Honest, copied: Path) -> None:
    """With their digests and distances: the files agree with one another, and the model does not with them."""
    x = data()[0].numpy()
    points = np.load(copied / "witnesses.npy", mmap_mode="r+")
    for row in honest.result.rows:
        points[row.place] = 2 * x[row.place] - points[row.place]
        digest = hashlib.sha256(np.ascontiguousarray(points[row.place]).tobytes()).hexdigest()
        away = float(distance(torch.from_numpy(x[row.place][None]), torch.tensor(points[row.place][None]), "linf")[0])
        edit(copied, "UPDATE rows SET witness_digest = ?, distance = ? WHERE row = ?", digest, away, row.row)
    points.flush()
    reseal(copied)
    assert refuted(copied) == []
    found = findings_by_model(copied, honest.counting)
    assert (found["chosen points by the model"], found["clean inputs by the model"]) == (False, True)


def test_flattered_frequency_is_found_by_the_model(honest: Honest, copied: Path) -> None:
    """Every row that stands is said to have been right in all draws: nothing in the files gainsays it."""
    edit(copied, "UPDATE frequencies SET correct = draws WHERE row IN (SELECT row FROM rows WHERE status = 'standing')")
    reseal(copied)
    assert refuted(copied) == []
    found = findings_by_model(copied, honest.counting)
    assert (found["chosen points by the model"], found["clean inputs by the model"]) == (False, True)


def test_a_single_flattered_row_is_found_by_the_model(honest: Honest, copied: Path) -> None:
    """It is said to stand in all draws. The mean over all rows does not give it away."""
    broken = [row.row for row in honest.result.rows if row.status == "broken"]
    row = min(broken, key=lambda row: frequencies(honest.result)[row].correct or 0)
    edit(copied, "UPDATE frequencies SET correct = draws WHERE row = ?", row)
    edit(copied, "UPDATE rows SET status = 'standing' WHERE row = ?", row)
    reseal(copied)
    assert refuted(copied) == []
    rows = subject(honest.counting, data()).rows
    findings = {finding.check: finding for finding in verify_with_model(copied, TorchModel(honest.counting), rows)}
    assert findings["chosen points by the model"].holds is False
    assert f"not the same on rows [{row}]" in findings["chosen points by the model"].detail


@pytest.mark.parametrize("sigma", [0.05, 3.0])
def test_model_with_other_noise(honest: Honest, sigma: float) -> None:
    """Its weights are the same; the noise that it holds is told by its fingerprint, and by how often it is right."""
    counting = Counting(Watched(noisy(sigma))).eval()
    found = findings_by_model(honest.result.folder, counting)
    assert found["model fingerprint"] is False
    assert found["clean inputs by the model"] is False
    assert found["chosen points by the model"] is False
