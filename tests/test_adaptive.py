"""Defences opened to the attacks: the forward is the defence's own, the figure is the truth, and never below it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import brinell
from brinell import Pipeline, Threat
from brinell.adaptive import Calibration, Detector, bpda, identity
from brinell.adaptive.pipeline import with_rejection
from brinell.draws import Draws
from brinell.errors import BadInput
from brinell.evaluation import Result
from brinell.losses import LOSSES, Loss, margin_of
from brinell.models.torch_model import TorchModel
from brinell.rejection import credited, rejected, slack
from brinell.rows import rows_of
from brinell.suites.suite import Suite, load_suite, suite_from
from brinell.verify import verify_files, verify_with_model
from defended_models import (
    FEATURES,
    bare,
    evaded,
    quantised,
    robust_behind_levels,
    rows,
    wrong_and_confident,
    wrong_in_slab,
)
from models_with_known_radius import worst_margin
from trials import Counting

EPS = 0.08


def short() -> Suite:
    """The suite that ships, with one restart of each attack in few steps, and few queries of Square."""
    table = load_suite("adaptive").table()
    less: dict[str, dict[str, int]] = {"pgd": {"restarts": 1, "steps": 15}, "square": {"queries": 40}}
    attacks = [{**attack, **less.get(attack["attack"], {"steps": 15})} for attack in table["attacks"]]
    return suite_from({**table, "attacks": attacks}, "tests")


def attacked(model: nn.Module, x: Tensor, y: Tensor, **changes: object) -> Result:
    arguments = {"threat": Threat("linf", EPS), "suite": short(), "batch_size": 256, **changes}
    return brinell.evaluate(model, x, y, **arguments)  # type: ignore[arg-type]


def standing(result: Result) -> list[bool]:
    return [record.status == "standing" for record in result.rows]


# BPDA


class Halves(nn.Module):
    """Noise of its own on half of the rows' coordinates."""

    def forward(self, x: Tensor) -> Tensor:
        return (x + torch.rand_like(x)).round()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("module", [quantised(5), torch.nn.Hardshrink(0.3), Halves()], ids=["numpy", "module", "noisy"])
def test_forward_to_the_bit_backward_of_the_stand_in(module: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    """Out: the module's own, with gradients and without. Back: 3 sigmoid'(z) where 3 comes in."""
    x = torch.rand(7, 4, dtype=dtype, generator=torch.Generator().manual_seed(0))
    opened = bpda(module, backward=torch.sigmoid)
    inner = nn.Sequential(nn.Identity(), opened)
    torch.manual_seed(5)
    own = module(x)
    leaf = x.clone().requires_grad_(True)
    torch.manual_seed(5)
    climbed = inner(leaf)
    torch.manual_seed(5)
    with torch.no_grad():
        scored = inner(x)
    assert torch.equal(climbed, own) and torch.equal(scored, own) and climbed.dtype == dtype
    (grad,) = torch.autograd.grad((3 * climbed).sum(), leaf)
    torch.testing.assert_close(grad, 3 * torch.sigmoid(x) * (1 - torch.sigmoid(x)))
    assert opened.check(x).same


def test_a_module_that_writes_on_its_input_leaves_it_alone() -> None:
    x = torch.full((2, 3), 0.4)
    leaf = x.clone().requires_grad_(True)
    out = bpda(lambda t: t.round_())(leaf)
    assert out.tolist() == [[0.0] * 3] * 2
    assert torch.equal(leaf, x)


def test_what_a_check_reports() -> None:
    """To halves: 0.2, 0.3 and 0.45 go to 0, 0.5 and 0.5, by 0.2, 0.2 and 0.05."""
    fit = bpda(lambda x: (2 * x).round() / 2).check(torch.tensor([[0.2, 0.5], [0.3, 0.5], [0.45, 0.5]]))
    assert fit.rows == 3 and fit.same and fit.flat == 0
    assert fit.largest == pytest.approx(0.2) and fit.median == pytest.approx(0.2)
    relu = bpda(torch.round, backward=torch.relu).check(torch.tensor([[-1.0], [2.0]]))
    assert relu.flat == 1


def two_faced(x: Tensor) -> Tensor:
    return x if torch.is_grad_enabled() else x.round()


class Forgetful(nn.Module):
    """Draws from a generator of its own, which no seed reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(x.shape, generator=self.generator)


X = torch.rand(6, 4, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("module", "backward", "says"),
    [
        (two_faced, identity, "another forward with gradients on"),
        (torch.round, torch.round, "a gradient that is 0 on every row"),
        (torch.round, lambda x: x.detach() * 1.0, "cut off from its input"),
        (torch.round, lambda x: torch.sqrt(x - x), "not finite"),
        (lambda x: x[:, :2], identity, r"shape \(6, 4\) from the stand-in"),
        (lambda x: x.long(), identity, "torch.int64"),
        ("no function", identity, "str"),
        (torch.round, nn.Sigmoid, "Sigmoid, a class"),
    ],
)
def test_what_cannot_be_opened_is_refused(module: object, backward: object, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        bpda(module, backward=backward, x=X)  # type: ignore[arg-type]


def test_draws_that_no_seed_fixes_are_said_not_to_be_compared() -> None:
    assert bpda(Forgetful()).check(X).same is None


def test_a_check_leaves_the_callers_random_numbers() -> None:
    torch.manual_seed(3)
    bpda(Halves(), x=X)
    after = torch.rand(3)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(3), after)


def test_evaluate_checks_and_notes_every_stated_backward_wherever_it_stands() -> None:
    model = bare()
    x, y = rows(model)
    inside = nn.Sequential(nn.Sequential(bpda(quantised(9))), model).eval()
    assert any(
        "`0.0`" in note and "quantise, backward of identity" in note for note in notes_of(attacked(inside, x, y))
    )
    with pytest.raises(BadInput, match="another forward"):
        attacked(nn.Sequential(bpda(two_faced), model).eval(), x, y)


def notes_of(result: Result) -> list[str]:
    return result.reading.manifest.notes


class Rank(nn.Module):
    """Scores by rank: the decision is the inner model's, the gradient gone (Z05); or gone by a backward of zeros (Z09)."""

    def forward(self, z: Tensor) -> Tensor:
        return z.argsort(dim=1).argsort(dim=1).to(z.dtype)


class Zeros(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, z: Tensor) -> Tensor:
        return z.clone()

    @staticmethod
    def backward(ctx: object, *grads: Tensor) -> Tensor:
        return torch.zeros_like(grads[0])


def killed(z: Tensor) -> Tensor:
    out: Tensor = Zeros.apply(z)
    return out


@pytest.mark.parametrize("defence", [Rank().eval(), killed], ids=["Z05", "Z09"])
def test_scores_without_gradient_are_attacked_to_the_truth(defence: Callable[[Tensor], Tensor]) -> None:
    model = bare()
    x, y = rows(model)
    truth = [bool(v) for v in worst_margin(model, x, y, "linf", EPS, (0.0, 1.0)) > 0]
    assert 0 < sum(truth) < len(truth)
    plain = attacked(nn.Sequential(model, bpda(defence, backward=lambda z: z * 0 + z)).eval(), x, y, suite="pgd")
    opened = attacked(Pipeline(nn.Sequential(model, bpda(defence)).eval()), x, y)
    assert standing(opened) == truth
    assert plain.robust_accuracy.count >= sum(truth)


def test_without_its_backward_the_same_defence_looks_robust() -> None:
    """So that the test above is one of BPDA: the gradient attacks alone break nothing then, until the run steps over it."""
    model = bare()
    x, y = rows(model)
    closed = attacked(nn.Sequential(model, brinell.adaptive.pipeline.as_module(killed, "z")).eval(), x, y, suite="pgd")
    left = len(x) - closed.figures.stages[0].broke
    assert left > len(x) // 2
    assert left > int((worst_margin(model, x, y, "linf", EPS, (0.0, 1.0)) > 0).sum())
    assert closed.reading.manifest.bypassed


@pytest.mark.parametrize("levels", [4, 8, 16])
def test_quantised_input_is_attacked_to_the_truth(levels: int) -> None:
    """Z16: with steps of half a level and more, the identity's gradient reaches every level that there is."""
    model = bare()
    whole = nn.Sequential(brinell.adaptive.pipeline.as_module(quantised(levels), "x"), model)
    x, y = rows(whole)
    truth = robust_behind_levels(model, levels, x, y, EPS)
    opened = attacked(Pipeline(bpda(quantised(levels)), model), x, y)
    assert standing(opened) == truth
    if levels == 8:
        assert 0 < sum(truth) < len(truth)


# Reject option: what the logits say


def test_credit_is_given_to_the_true_class_alone() -> None:
    """Class 1 is highest by 2; the rejection is above it by 3, or below by 1; the margin of label 0 is max(m, a)."""
    logits = torch.tensor([[1.0, 3.0, 0.0, 6.0], [1.0, 3.0, 0.0, 2.0], [4.0, 3.0, 0.0, 9.0], [4.0, 3.0, 0.0, 1.0]])
    y = torch.zeros(4, dtype=torch.int64)
    assert slack(logits).tolist() == [3.0, -1.0, 5.0, -3.0]
    assert rejected(logits).tolist() == [True, False, True, False]
    assert margin_of(credited(logits, y, room=0.0), y).tolist() == [3.0, -1.0, 5.0, 1.0]
    assert margin_of(logits, y).tolist() == [-5.0, -2.0, -5.0, 1.0]  # a clean row must be accepted


@pytest.mark.parametrize("seed", range(4))
def test_margin_is_above_zero_if_and_only_if_right_or_rejected(seed: int) -> None:
    """On small whole numbers, so that ties are many: a tie of classes is an error, one with the rejection an acceptance."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, 4, (400, 4), generator=generator).double()
    y = torch.randint(0, 3, (400,), generator=generator)
    classes, reject = logits[:, :3], logits[:, 3]
    right = margin_of(classes, y) > 0
    away = reject > classes.amax(1)
    assert torch.equal(margin_of(credited(logits, y, room=0.0), y) > 0, right | away)
    assert torch.equal(rejected(logits), away)


def test_room_keeps_a_witness_from_the_threshold() -> None:
    """Wrong, and accepted by a millionth of the largest logit (8): that is no witness; by a thousandth it is one."""
    y = torch.tensor([0, 0])
    logits = torch.tensor([[1.0, 8.0, 8.0 - 8e-6], [1.0, 8.0, 8.0 - 8e-3]], dtype=torch.float64)
    assert (margin_of(credited(logits, y), y) > 0).tolist() == [True, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_excess_is_lost_to_rounding(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1e4, -3.0]], dtype=dtype).expand(5, 2)
    excess = torch.tensor([1e-30, 0.0, -1e-30, 2.5, -2.5], dtype=torch.float64)
    out = with_rejection(logits, excess)
    assert rejected(out).tolist() == [True, False, False, True, False]
    assert (margin_of(out, torch.zeros(5, dtype=torch.int64)) > 0).tolist() == [False, True, True, False, True]
    assert slack(out)[3:].tolist() == [2.5, -2.5]


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_climbs_towards_wrong_or_towards_accepted(name: str) -> None:
    """Label 0, four classes. Wrong but rejected: z_0 is of no use, the rejection must fall. Right: z_0 must, the other way."""
    climb = LOSSES[name].climb
    y = torch.zeros(1, dtype=torch.int64)
    arguments = [y] if isinstance(LOSSES[name], Loss) else [y, torch.ones(1, dtype=torch.int64)]
    for logits, falls in (([[1.0, 3.0, 0.0, -1.0, 4.0]], 4), ([[3.0, 2.0, 0.0, -1.0, 1.0]], 0)):
        leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
        (grad,) = torch.autograd.grad(climb(credited(leaf, y), *arguments).sum(), leaf)
        assert float(grad[0, falls]) < 0
        assert float(grad[0, 4 - falls]) == 0  # the other of the two bounds is not what binds


# Detectors


def unsure(z: Tensor) -> Tensor:
    """Z25: the less, the farther the highest logit is from the next."""
    highest = z.topk(2, dim=1).values
    return highest[:, 1] - highest[:, 0]


V = torch.randn(FEATURES, generator=torch.Generator().manual_seed(8), dtype=torch.float64)


def off_slab(x: Tensor) -> Tensor:
    """Z26: how far a row is from the middle in one direction."""
    return ((x - 0.5) @ V).abs()


def hard(x: Tensor) -> Tensor:
    """Z27: one number for all that are rejected, another for all that are not."""
    return (off_slab(x) > 0.6).to(x.dtype)


def guarded(detector: Detector) -> Pipeline:
    return Pipeline(bare(), detector=detector)


def truth_and_run(name: str) -> tuple[list[bool], Result]:
    """Which clean-right rows can be evaded, and what a run says."""
    model = bare()
    x, y = rows(model)
    calibration = Calibration(x, 0.1)
    if name == "Z25":
        pipeline = guarded(Detector(unsure, calibration, reads="logits"))
        can = evaded(x, y, EPS, lambda own, j: wrong_and_confident(model, own, j, -pipeline.threshold))
    elif name == "Z26":
        pipeline = guarded(Detector(off_slab, calibration))
        can = evaded(x, y, EPS, lambda own, j: wrong_in_slab(model, own, j, V, pipeline.threshold))
    else:
        pipeline = guarded(Detector(bpda(hard, backward=off_slab), 0.5))
        can = evaded(x, y, EPS, lambda own, j: wrong_in_slab(model, own, j, V, 0.6))
    with torch.no_grad():
        away = rejected(pipeline(x)).tolist()
    result = attacked(pipeline, x, y)
    for record, gone in zip(result.rows, away, strict=True):
        assert (record.status == "misclassified") == gone
    return [False if gone else not found for gone, found in zip(away, can, strict=True)], result


@pytest.mark.parametrize("name", ["Z25", "Z26", "Z27"])
def test_detectors_are_evaded_wherever_they_can_be_and_nowhere_else(name: str) -> None:
    truth, result = truth_and_run(name)
    assert standing(result) == truth
    assert 0 < sum(truth) < len(truth)


def test_an_attack_that_stops_at_the_first_error_evades_nothing() -> None:
    """Z25 by its nature: the first wrong point is on the boundary, where the detector rejects; the run goes on from there."""
    model = bare()
    x, y = rows(model)
    pipeline = guarded(Detector(unsure, Calibration(x, 0.1), reads="logits"))
    few = suite_from({"name": "s", "version": "1", "attacks": [{"attack": "fab-t", "steps": 10}]}, "tests")
    blind = attacked(model, x, y, suite=few)
    points = torch.stack([torch.from_numpy(blind.witness(r.row)) for r in blind.rows if r.status == "broken"])  # type: ignore[arg-type]
    with torch.no_grad():
        assert float(rejected(pipeline(points)).double().mean()) > 0.9
    assert attacked(pipeline, x, y).attack_success_rate.count > 0


def test_calibration_rejects_no_more_than_its_rate() -> None:
    """20 rows with scores 0 to 19: at 10 % two may go, so that the threshold is 17; at 0 none, so that it is 19."""
    x = torch.zeros(20, FEATURES, dtype=torch.float64)
    x[:, 0] = torch.arange(20) / 20
    for rate, threshold in ((0.1, 17), (0.149, 17), (0.15, 16), (0.0, 19)):
        pipeline = guarded(Detector(lambda x: 20 * x[:, 0], Calibration(x[torch.randperm(20)], rate)))
        assert pipeline.threshold == pytest.approx(threshold)
        with torch.no_grad():
            assert int(rejected(pipeline(x)).sum()) == 19 - threshold


def test_scale_makes_both_gradients_of_a_size() -> None:
    """The score is a hundredth of a coordinate sum: L1 size 0.12; the margin's is that of the two highest classes."""
    model = bare(2)
    x, _ = rows(model)
    pipeline = Pipeline(model, detector=Detector(lambda x: 0.01 * x.sum(1), Calibration(x, 0.1)))
    assert pipeline.scale == pytest.approx(float((model.weight[0] - model.weight[1]).detach().abs().sum()) / 0.12)
    assert guarded(Detector(hard, Calibration(x, 0.1))).scale == 1.0


def test_false_rejections_are_counted_and_said() -> None:
    model = bare()
    x, y = rows(model)
    pipeline = guarded(Detector(off_slab, Calibration(x, 0.1)))
    result = attacked(pipeline, x, y, suite="fgsm")
    assert result.false_rejections is not None
    assert (result.false_rejections.count, result.false_rejections.of) == (4, 48)
    assert result.clean_accuracy.count == 44
    assert sum("false rejections (clean rows that are rejected): 4/48" in note for note in notes_of(result)) == 1
    assert "rejections under attack count as right" in result.claim
    assert attacked(model, x, y, suite="fgsm").false_rejections is None


def test_where_a_rejection_is_a_failure_it_is_an_error() -> None:
    """The exact truth: the row leaves its class or the slab, each a linear programme over the ball by itself."""
    model = bare()
    x, y = rows(model)
    pipeline = Pipeline(model, detector=Detector(off_slab, 1.0), rejection="failure")
    reach = sum((V.abs() * side).sum() for side in [torch.tensor(EPS)])
    inside = (worst_margin(model, x, y, "linf", EPS, (0.0, 1.0)) > 0).tolist()
    far = [max(reaches(row, V), reaches(row, -V)) for row in x]
    result = attacked(pipeline, x, y)
    assert standing(result) == [own and d <= 1.0 for own, d in zip(inside, far, strict=True)]
    assert float(reach) > 0 and result.false_rejections is None


def reaches(x: Tensor, v: Tensor) -> float:
    """``max v . (x' - 1/2)`` over the ball cut by the box: each coordinate by itself."""
    ends = torch.stack([(x - EPS).clamp(0, 1), (x + EPS).clamp(0, 1)])
    return float((v * (ends - 0.5)).amax(0).sum())


# The record


def test_a_run_with_a_detector_is_verified_and_a_rejected_point_is_no_witness(tmp_path: Path) -> None:
    model = bare()
    x, y = rows(model)
    pipeline = guarded(Detector(off_slab, Calibration(x, 0.1)))
    result = attacked(pipeline, x, y, out=tmp_path / "run")
    adapter, subject = TorchModel(pipeline), rows_of(x, y, selection="all", layout="as-is")
    assert result.attack_success_rate.count > 0
    assert all(finding.holds for finding in verify_files(result.folder))
    assert all(finding.holds for finding in verify_with_model(result.folder, adapter, subject))
    stricter = TorchModel(guarded(Detector(off_slab, 0.0)))  # which rejects every witness
    said = {f.check: f.holds for f in verify_with_model(result.folder, stricter, subject)}
    assert said["witnesses by the model"] is False and said["model fingerprint"] is False


def test_resume_takes_the_pipeline_as_it_was(tmp_path: Path) -> None:
    model = bare()
    x, y = rows(model)
    pipeline = guarded(Detector(off_slab, Calibration(x, 0.1)))
    result = attacked(pipeline, x, y, suite="pgd", out=tmp_path / "run")
    assert brinell.resume(result.folder, pipeline, x, y).robust_accuracy == result.robust_accuracy


def test_any_model_may_declare_a_rejection() -> None:
    """A pipeline is one way to make such a model; its columns given by hand are judged alike."""
    model = bare()
    x, y = rows(model)
    pipeline = guarded(Detector(off_slab, 0.7))
    plain = nn.Sequential(pipeline).eval()
    declared = attacked(plain, x, y, outputs="logits-and-reject")
    assert standing(declared) == standing(attacked(pipeline, x, y))
    with pytest.raises(BadInput, match="rejection"):
        attacked(bare(2), *rows(bare(2)), outputs="logits-and-reject")


# Pipelines


def test_every_stage_is_attacked() -> None:
    """A stage that doubles what moves: the truth is that of the model behind it."""
    model = bare()
    x, y = rows(model)
    doubled = nn.Linear(FEATURES, FEATURES, dtype=torch.float64).requires_grad_(False).eval()
    doubled.weight.copy_(2 * torch.eye(FEATURES))
    doubled.bias.fill_(-0.5)
    through = bare()
    with torch.no_grad():
        through.bias.copy_(model.bias - 0.5 * model.weight.sum(1))
        through.weight.copy_(2 * model.weight)
        y = through(x).argmax(1)
    counting = Counting(model)
    result = attacked(Pipeline(doubled, counting.eval()), x, y)
    assert standing(result) == [bool(v) for v in worst_margin(through, x, y, "linf", EPS, (0.0, 1.0)) > 0]
    assert any(
        note == "pipeline: attacked as one model are Linear, then the classifier Counting" for note in notes_of(result)
    )


def test_a_stage_that_hides_what_stands_before_it_is_named() -> None:
    model = bare()
    x, y = rows(model)
    hidden = attacked(Pipeline(torch.tanh, torch.round, model), x, y, suite="fgsm")
    said = [note for note in notes_of(hidden) if "lets no gradient through" in note]
    assert len(said) == 1 and said[0].startswith("`stages.1` (round)")


def test_draws_choose_the_protocol_for_randomised_models() -> None:
    model = bare()
    x, y = rows(model)
    noisy = Pipeline(lambda x: x + 0.1 * torch.randn_like(x), model, draws=Draws(2, 1, 20, 20))
    suite = suite_from({"name": "s", "version": "1", "attacks": [{"attack": "pgd", "steps": 3}]}, "tests")
    result = attacked(noisy, x, y, suite=suite)
    assert result.randomised is not None and result.reading.manifest.suite["name"] == "s over 2 draws"
    assert any("median cosine" in note for note in notes_of(result))
    with pytest.raises(BadInput, match="every attack on all rows"):
        attacked(noisy, x, y, suite="brinell")
    with pytest.raises(BadInput, match="draws"):
        Pipeline(model, detector=Detector(off_slab, 0.5), draws=2)
    with pytest.raises(BadInput, match="draws"):
        attacked(guarded(Detector(off_slab, 0.5)), x, y, suite="autoattack-rand")


def test_a_detector_without_a_gradient_is_noted() -> None:
    model = bare()
    x, y = rows(model)
    result = attacked(guarded(Detector(hard, 0.5)), x, y, suite="fgsm")
    assert any("detector's score is exactly zero on 48 of 48" in note for note in notes_of(result))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Pipeline(), "no step"),
        (lambda: Pipeline(bare(), detector=off_slab), "expected a brinell.adaptive.Detector"),
        (lambda: Pipeline(bare(), rejection="maybe"), "credited or failure"),
        (lambda: Pipeline(nn.Dropout(), bare(), detector=Detector(off_slab, Calibration(X, 0.1))), "train mode"),
        (lambda: Pipeline(bare(), detector=Detector(lambda x: x, Calibration(rows(bare())[0], 0.1))), "one floating"),
        (lambda: Detector(off_slab, Calibration(X, 1.5)), "a share of the clean rows"),
        (lambda: Detector(off_slab, Calibration(X[:0], 0.1)), "no clean rows"),
        (lambda: Detector(off_slab, float("nan")), "a finite number"),
        (lambda: Detector(off_slab, 0.1, reads="pixels"), "preprocessed"),
        (lambda: Detector(off_slab, 0.1, scale=-1.0), "above 0"),
    ],
)
def test_what_is_no_pipeline_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        make()


def test_wrappers_have_no_mode_of_their_own() -> None:
    """An evaluated part makes an evaluated whole, and one that was left in train mode is found."""
    assert not any(module.training for module in Pipeline(bpda(torch.round), bare()).modules())
    with pytest.raises(BadInput, match="train mode"):
        attacked(Pipeline(nn.Dropout(0.1), bare()), *rows(bare()))


def test_the_fingerprint_knows_threshold_and_stand_in() -> None:
    prints = {
        TorchModel(pipeline).fingerprint()
        for pipeline in (
            guarded(Detector(off_slab, 0.5)),
            guarded(Detector(off_slab, 0.25)),
            Pipeline(bpda(torch.round), bare()),
            Pipeline(bpda(torch.round, backward=torch.sigmoid), bare()),
            Pipeline(bare(), detector=Detector(off_slab, 0.5), rejection="failure"),
        )
    }
    assert len(prints) == 5
