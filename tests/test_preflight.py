"""Before an attack: what would make the number wrong is refused, with what was found and what to do about it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import small_net
from brinell import Threat, zoo
from brinell.attacks.fgsm import FGSM
from brinell.draws import Draws
from brinell.errors import BadInput, BrinellError, ModelFailed
from brinell.evaluation import Result, evaluate
from brinell.geometry import Norm
from brinell.queries import Attack
from brinell.suites.suite import load_suite, suite_names
from models_with_known_radius import random_linear
from small_runs import SMALL, THREAT, fates, small_result
from trials import trial

X, Y = small_net.rows()


class After(nn.Module):
    """Something done to what ``small_net`` says."""

    def __init__(self, change: Callable[[Tensor], Any], inner: nn.Module | None = None) -> None:
        super().__init__()
        self.inner = small_net.load() if inner is None else inner
        self.change = change

    def forward(self, x: Tensor) -> Any:
        return self.change(self.inner(x))


class Before(After):
    """Something done to what ``small_net`` sees."""

    def forward(self, x: Tensor) -> Any:
        return self.inner(self.change(x))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The model as it is."""
    return small_result(tmp_path_factory.mktemp("bare") / "run")


def refusal(folder: Path, **changes: Any) -> BadInput:
    """What the evaluation is refused with; nothing is left on disk."""
    with pytest.raises(BadInput) as error:
        small_result(folder / "run", **changes)
    assert not (folder / "run").exists()
    assert str(error.value) == (
        f"{error.value.subject}: got {error.value.got}; expected {error.value.expected}. {error.value.remedy}"
    )
    return error.value


def notes(result: Result) -> str:
    return "\n".join(result.reading.manifest.notes)


# The model


def test_train_mode(tmp_path: Path) -> None:
    error = refusal(tmp_path, model=small_net.load().train())
    assert (error.subject, error.expected) == ("model", "evaluation mode")
    assert error.got.startswith("5 modules in train mode (the model itself, ")
    assert "model.eval()" in error.remedy


def test_train_mode_of_a_submodule(tmp_path: Path) -> None:
    model = small_net.load()
    model[2].train()
    assert refusal(tmp_path, model=model).got == "1 modules in train mode (2)"


def test_model_that_does_not_take_the_inputs(tmp_path: Path) -> None:
    error = refusal(tmp_path, x=X[:, :, :2])
    assert error.got.startswith("RuntimeError on 60 rows of shape (1, 2, 4): ")
    assert "channels-last" in error.remedy


def test_probabilities_where_logits_are_declared(tmp_path: Path) -> None:
    error = refusal(tmp_path, model=After(lambda z: z.softmax(1)).eval())
    assert (error.subject, error.expected) == ("model output", "logits")
    assert error.got == "values in [0, 1] that sum to 1 in every row"
    assert "before softmax" in error.remedy
    assert "probabilities" in error.remedy


def test_logits_where_probabilities_are_declared(tmp_path: Path) -> None:
    error = refusal(tmp_path, outputs="probabilities")
    assert (error.got, error.expected) == ("values that are not probabilities", "probabilities")


def test_declared_probabilities_give_the_verdicts_of_the_logits(tmp_path: Path, bare: Result) -> None:
    softmax = small_result(tmp_path / "p", model=After(lambda z: z.softmax(1)).eval(), outputs="probabilities")
    assert [row.status for row in softmax.rows] == [row.status for row in bare.rows]
    assert softmax.figures.status["broken"] > 10
    assert "declared as probabilities" in notes(softmax)


def test_ensemble_of_softmaxes(tmp_path: Path) -> None:
    """auto-attack#102: mean probabilities are detected; declared, they fall like their logarithm handed over as logits."""

    def mean(logarithm: bool) -> nn.Module:
        other = small_net.other()
        member = small_net.load()

        def both(x: Tensor) -> Tensor:
            p = (member(x).softmax(1) + other(x).softmax(1)) / 2
            return p.log() if logarithm else p

        return After(both, nn.Sequential(nn.Identity()).double()).eval()

    model = mean(logarithm=False)
    model.register_buffer("precision", torch.zeros(1, dtype=torch.float64))
    in_logs = mean(logarithm=True)
    in_logs.register_buffer("precision", torch.zeros(1, dtype=torch.float64))
    assert refusal(tmp_path, model=model).expected == "logits"
    declared = small_result(tmp_path / "p", model=model, outputs="probabilities")
    assert [r.status for r in declared.rows] == [r.status for r in small_result(tmp_path / "z", model=in_logs).rows]


def one_logit(flat: bool) -> nn.Module:
    """``z_1 - z_0`` of a two-class linear model."""
    two = random_linear(2, 16, seed=3)
    return After(lambda z: (z[:, 1] - z[:, 0]) if flat else (z[:, 1:] - z[:, :1]), two).eval()


@pytest.mark.parametrize("flat", [True, False])
def test_one_logit_is_refused_then_declared(tmp_path: Path, flat: bool) -> None:
    two = random_linear(2, 16, seed=3).eval()
    with torch.no_grad():
        y = two(X).argmax(1)
    error = refusal(tmp_path, model=one_logit(flat), y=y)
    assert (error.subject, error.got) == ("model output", "one score a row, declared as logits")
    assert "binary-logit" in error.remedy
    declared = small_result(tmp_path / "one", model=one_logit(flat), y=y, outputs="binary-logit")
    wide = small_result(tmp_path / "two", model=two, y=y)
    assert [row.status for row in declared.rows] == [row.status for row in wide.rows]
    assert 0 < declared.figures.status["broken"] < 60
    assert declared.reading.manifest.model["classes"] == 2
    error = refusal(tmp_path, model=two, y=y, outputs="binary-logit")
    assert error.got == "2 scores a row, declared as binary-logit"


@pytest.mark.parametrize(
    ("wrap", "note"),
    [
        (lambda z: {"logits": z, "loss": z.sum()}, "the key 'logits' of the model's dict"),
        (lambda z: {"prediction": z}, "the only tensor of the model's dict, 'prediction'"),
        (lambda z: (z, None), "the first item of the model's tuple"),
        (lambda z: [z], "the first item of the model's list"),
        (lambda z: SimpleNamespace(logits=z, hidden_states=None), "the field `logits` of the model's SimpleNamespace"),
    ],
    ids=["dict", "dict of one", "tuple", "list", "object with logits"],
)
def test_containers_are_unwrapped_with_a_note(
    tmp_path: Path, bare: Result, wrap: Callable[[Tensor], Any], note: str
) -> None:
    wrapped = small_result(tmp_path / "wrapped", model=After(wrap).eval())
    assert note in notes(wrapped)
    assert fates(wrapped.rows) == fates(bare.rows)


@pytest.mark.parametrize(
    ("wrap", "got"),
    [
        (lambda z: None, "NoneType"),
        (lambda z: {"a": z, "b": z}, "dict with keys ['a', 'b']"),
        (lambda z: (), "tuple"),
        (lambda z: z.detach().numpy(), "ndarray"),
        (lambda z: z.argmax(1), "shape (60,), torch.int64 for 60 rows"),
        (lambda z: z[:, :, None], "shape (60, 4, 1), torch.float64 for 60 rows"),
        (lambda z: z[:30], "shape (30, 4), torch.float64 for 60 rows"),
    ],
    ids=["none", "two tensors", "empty", "numpy", "labels", "maps", "too few"],
)
def test_outputs_that_hold_no_logits(tmp_path: Path, wrap: Callable[[Tensor], Any], got: str) -> None:
    error = refusal(tmp_path, model=After(wrap).eval())
    assert (error.subject, error.got) == ("model output", got)


def test_randomised_model(tmp_path: Path) -> None:
    error = refusal(tmp_path, model=Before(lambda x: F.dropout(x, 0.3, training=True)).eval())
    assert (error.subject, error.expected) == ("model", "a deterministic model")
    assert error.got.endswith("of 60 rows when the same rows are asked again")
    assert "--suite brinell-rand" in error.remedy


def test_slight_noise_is_noted_and_every_witness_is_asked_about_again(tmp_path: Path) -> None:
    """auto-attack#74: one number, and the witnesses that did not hold when scored again are counted apart."""
    model = After(lambda z: z + 3e-3 * torch.randn_like(z)).eval()
    result = small_result(tmp_path / "run", model=model)
    assert "between two passes; decisions do not" in notes(result)
    rows = result.rows
    assert result.figures.unconfirmed == sum(row.unconfirmed for row in rows)
    unconfirmed = [attempt for attempt in result.reading.attempts if attempt.outcome == "unconfirmed"]
    assert len(unconfirmed) == result.figures.unconfirmed
    assert all(row.confirmed for row in rows if row.status == "broken")
    assert sum(result.figures.status.values()) == 60


def test_batch_dependent_model(tmp_path: Path) -> None:
    error = refusal(tmp_path, model=After(lambda z: z - z.mean(0)).eval())
    assert error.subject == "model"
    assert error.got.endswith("rows when they are scored alone or in another order")
    assert error.expected == "a decision that depends on the row alone"


@pytest.mark.parametrize(
    "model",
    [
        Before(torch.detach),
        After(torch.detach),
        Before(lambda x: torch.tensor(x.detach().numpy())),
        After(lambda z: torch.ones_like(z).requires_grad_() * torch.arange(4)),
    ],
    ids=["detached input", "detached output", "through numpy", "constant"],
)
def test_gradient_cut_off(tmp_path: Path, model: nn.Module) -> None:
    error = refusal(tmp_path, model=model.eval())
    assert error.subject == "model gradients"
    assert error.expected == "logits that are differentiable by the input"
    assert "detach()" in error.remedy


class Undifferentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return z.clone()


def test_derivative_that_does_not_exist(tmp_path: Path) -> None:
    error = refusal(tmp_path, model=After(Undifferentiable.apply).eval())
    assert error.subject == "model gradients"
    assert "NotImplementedError" in error.got or "RuntimeError" in error.got


def test_model_for_batches_of_one_size_only(tmp_path: Path) -> None:
    error = refusal(tmp_path, model=Before(lambda x: x.view(60, 16)).eval())
    assert error.subject == "model"
    assert "RuntimeError" in error.got


def test_model_that_raises_away_from_the_data_can_be_evaluated(tmp_path: Path) -> None:
    """The points on the faces of the box are made up by preflight; a model that will not look at them is not at fault."""

    def picky(x: Tensor) -> Tensor:
        if bool((x == 0).flatten(1).sum(1).max() > 1):
            raise ValueError("dead pixels")
        return x

    assert small_result(tmp_path / "run", model=Before(picky).eval()).figures.complete


@pytest.mark.parametrize("row", [3, 57])
def test_non_finite_logits_on_a_clean_row(tmp_path: Path, row: int) -> None:
    mark = X[row, 0, 0, 0].item()
    x = torch.cat([X, X + 1e-3]).clamp(0, 1)  # 120 rows: more than preflight tries
    y = torch.cat([Y, Y])

    def poisoned(points: Tensor) -> Tensor:
        return torch.where((points[:, :, :1, :1] == mark), torch.nan, points)

    error = refusal(tmp_path, model=Before(poisoned).eval(), x=x, y=y)
    assert error.subject == "model"
    assert error.got == f"no finite logits on 1 clean rows ({row})"


def test_infinite_logits_on_many_clean_rows_name_the_first(tmp_path: Path) -> None:
    error = refusal(tmp_path, model=After(lambda z: z * torch.inf).eval())
    assert error.got == "no finite logits on 60 clean rows (0, 1, 2, 3, 4, …)"


# The data and the threat model


def test_labels_out_of_range_name_their_rows(tmp_path: Path) -> None:
    y = Y.clone()
    y[5], y[7] = 4, -1
    error = refusal(tmp_path, y=y)
    assert (error.subject, error.got) == ("labels", "-1, 4 in rows 5, 7")
    assert error.expected == "classes 0 to 3, as the model has 4 outputs"


def test_labels_out_of_range_keep_their_index_in_the_data_set(tmp_path: Path) -> None:
    y = Y.clone()
    y[40:] = 9
    assert refusal(tmp_path, y=y, rows="38:50").got == "9 in rows 40, 41, 42, 43, 44, … (10 in all)"


def test_normalised_inputs(tmp_path: Path) -> None:
    """auto-attack#86."""
    error = refusal(tmp_path, x=(X - 0.5) / 0.2)
    assert error.subject == "inputs"
    assert error.got.startswith("values from -2.4")
    assert "60 rows lie outside: 0, 1, 2, 3, 4, … (60 in all)" in error.got
    assert error.expected == "the box [0, 1]"
    assert "look normalised" in error.remedy
    assert "`low` and `high`" in error.remedy


def test_pixels(tmp_path: Path) -> None:
    error = refusal(tmp_path, x=X * 255)
    assert "254." in error.got
    assert "divide them by 255" in error.remedy


def test_one_input_just_outside(tmp_path: Path) -> None:
    x = X.clone()
    x[17, 0, 3, 3] = 1 + 1e-12
    error = refusal(tmp_path, x=x)
    assert error.got.endswith("1 rows lie outside: 17")


def test_input_that_is_not_finite(tmp_path: Path) -> None:
    x = X.clone()
    x[17, 0, 3, 3], x[4, 0, 0, 0] = torch.nan, torch.inf
    error = refusal(tmp_path, x=x)
    assert (error.subject, error.got) == ("inputs", "NaN or infinity in rows 4, 17")


@pytest.mark.parametrize(("norm", "reach"), [("linf", "1"), ("l2", "4"), ("l1", "16")])
def test_eps_on_the_scale_of_pixels(tmp_path: Path, norm: str, reach: str) -> None:
    eps = 8 if norm != "l1" else 17
    error = refusal(tmp_path, threat=Threat(norm, eps), suite="pgd")
    assert (error.subject, error.got) == ("eps", f"{eps} in {norm}")
    assert error.expected == f"at most {reach}, the reach of the box [0, 1]"
    assert f"{eps}/255" in error.remedy


def test_box_far_wider_than_the_inputs_is_noted(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run", threat=Threat("linf", 0.06, low=0, high=255))
    assert "box 255 wide" in notes(result)


def test_empty_selection(tmp_path: Path) -> None:
    assert refusal(tmp_path, rows="4:4").got == "no rows"
    assert refusal(tmp_path, x=X[:0], y=Y[:0]).got == "no rows"


def test_suite_that_the_norm_is_not_for(tmp_path: Path) -> None:
    error = refusal(tmp_path, threat=Threat("l1", 0.5), suite="apgd")
    assert (error.subject, error.got) == ("suite apgd", "the norm l1 for apgd")


def test_row_right_nowhere(tmp_path: Path) -> None:
    """auto-attack#64: a model of 1,000 outputs that is wrong on every row. There is nothing to attack."""
    model = random_linear(1000, 16, seed=0).eval()
    with torch.no_grad():
        model.bias[:10] -= 1000.0
    result = small_result(tmp_path / "run", model=model)
    assert str(result.clean_accuracy).startswith("0/60")
    assert str(result.robust_accuracy).startswith("0/60")
    assert str(result.attack_success_rate) == "n/a (0 initially correct rows)"
    assert result.figures.passes.attack_forwards == 0
    assert "the model has 1000 outputs, the labels of these rows go from 0 to 3" in notes(result)
    assert result.figures.complete


# Few classes, low precision


def shortened(attack: Attack, place: int) -> Attack:
    """The same in a few steps and at most two restarts, and unlike the others of its suite."""
    few = {"steps": 4 + place, "queries": 40 + place, "restarts": min(getattr(attack, "restarts", 1), 2)}
    return replace(attack, **{name: number for name, number in few.items() if hasattr(attack, name)})  # type: ignore[type-var]


@pytest.mark.parametrize("classes", [2, 3, 4, 8, 100, 1000])
@pytest.mark.parametrize(
    ("suite", "norm"), [(suite, norm) for suite in suite_names() for norm in load_suite(suite).norms()]
)
def test_every_suite_runs_whatever_the_number_of_classes(tmp_path: Path, classes: int, suite: str, norm: Norm) -> None:
    """auto-attack#70 and #110: IndexError for 2, 3, 4 and 8 classes. What is undefined is replaced, and that is said."""
    model = random_linear(classes, 48, seed=classes).eval()
    x = torch.rand(6, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        y = model(x).argmax(1)
    brief = load_suite(suite)  # every attack of it, in a few steps
    brief = replace(
        brief,
        attacks=tuple(shortened(attack, n) for n, attack in enumerate(brief.attacks)),
        draws=brief.draws and Draws(attack=2, kept=2, select=20, score=20),
    )
    eps = {"linf": 0.004, "l2": 0.02, "l1": 0.05}[norm] * (1 if classes <= 8 else 0.02)
    threat = Threat(norm, eps)
    result = evaluate(model, x, y, threat=threat, suite=brief, batch_size=8, out=tmp_path / "run")
    assert result.figures.status["standing"] > 0
    assert result.figures.status["error"] == 0
    asked = brief.within(norm).table()["attacks"]
    for wanted, attack in zip(asked, result.reading.manifest.suite["attacks"], strict=True):
        if "targeted" in attack.get("loss", ""):
            assert attack["targets"] == min(wanted["targets"], classes - 1)
            assert attack["loss"] == ("targeted-margin" if classes < 4 else wanted["loss"])
            said = f"targets {wanted['targets']} replaced by {classes - 1} (too few classes)" in notes(result)
            assert said >= (classes <= wanted["targets"])
        elif suite == "apgd-dlr":
            assert attack["loss"] == ("dlr" if classes >= 3 else "margin")
            assert ("replaced" in notes(result)) == (classes < 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_models_of_every_precision(tmp_path: Path, dtype: torch.dtype) -> None:
    """auto-attack#51, torchattacks#100: half precision crashed. The precision is stated."""
    result = small_result(tmp_path / "run", model=small_net.load().to(dtype))
    name = str(dtype).removeprefix("torch.")
    points = "float64" if dtype == torch.float64 else "float32"
    assert result.reading.manifest.environment.precision == f"{name} model, {points} inputs"
    assert result.figures.status["error"] == 0
    assert result.figures.status["broken"] > 10
    assert np.load(result.folder / "witnesses.npy").dtype == points
    if dtype in (torch.float16, torch.bfloat16):
        assert f"model runs in {name}; inputs are float32" in notes(result)
    if dtype != torch.float64:
        assert "inputs converted from float64 to float32" in notes(result)


# Gradients on the faces of the box


class Clamped(Before):
    """A model that clamps its input by ``hardtanh``, whose gradient on its bounds is 0 in every version of torch."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__(lambda x: F.hardtanh(x, 0, 1), inner)


def test_clamp_that_hides_the_gradient_is_found_and_got_round(tmp_path: Path) -> None:
    """Half of the pixels of these rows lie on a face. Bare FGSM leaves 25 rows of the model, 52 of the clamped one."""
    x, y = zoo.load_rows()
    x, y = x[:100], y[:100]
    threat = Threat("linf", 0.05)
    bare = zoo.load_model("fmnist-standard")
    clamped = Clamped(bare).eval()

    def left_without_help(model: nn.Module) -> int:
        return 100 - len(trial(model, threat, FGSM(), (torch.tensor(x), torch.tensor(y)), batch_size=64).fell)

    def evaluated(model: nn.Module, name: str) -> Result:
        return evaluate(model, x, y, threat=threat, suite="fgsm", batch_size=64, out=tmp_path / name)

    helped, plain = evaluated(clamped, "clamped"), evaluated(bare, "bare")
    assert left_without_help(clamped) >= plain.robust_accuracy.count + 15
    assert abs(helped.robust_accuracy.count - plain.robust_accuracy.count) <= 3
    assert "the model clamps its input; gradients are taken 1e-06 inside the box" in notes(helped)
    assert helped.reading.manifest.pull_in == pytest.approx(1e-6)
    assert plain.reading.manifest.pull_in == 0.0
    assert "clamps" not in notes(plain)


def test_clamp_in_a_box_of_another_scale(tmp_path: Path) -> None:
    model = Before(lambda x: F.hardtanh(x, -1, 1)).eval()
    result = small_result(tmp_path / "run", model=model, x=2 * X - 1, threat=Threat("linf", 0.12, low=-1, high=1))
    assert result.reading.manifest.pull_in == pytest.approx(2e-6)


def test_vanishing_gradient_is_noted(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run", model=After(lambda z: 1e4 * z).eval())
    assert "the gradient of the cross-entropy is exactly zero on" in notes(result)
    assert "do not trust cross-entropy alone" in notes(result)


# The model is left as it was


class Stateful(nn.Module):
    """Everything that an evaluation might disturb, and buffers that change with every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_net.load()
        self.norm = nn.BatchNorm1d(4).double()
        self.drop = nn.Dropout(0.5)
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last_size", torch.zeros((), dtype=torch.int64))
        self.frozen = nn.Parameter(torch.ones(3, dtype=torch.float64), requires_grad=False)
        self.fail_after = 10**9

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        self.last_size = torch.tensor(len(x))  # a new tensor takes the buffer's place
        if self.passes > self.fail_after:
            raise RuntimeError("no more")
        return self.drop(self.norm(self.inner(x))) + 0 * torch.rand(1)  # draws from the global generator


def state(model: nn.Module) -> dict[str, Any]:
    return {
        "modes": [module.training for module in model.modules()],
        "buffers": {name: buffer.clone() for name, buffer in model.named_buffers()},
        "values": {name: parameter.detach().clone() for name, parameter in model.named_parameters()},
        "wants": {name: parameter.requires_grad for name, parameter in model.named_parameters()},
        "grads": {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state()[1],  # the global generator is what is watched
    }


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, Tensor | np.ndarray):
        return bool((torch.as_tensor(a) == torch.as_tensor(b)).all())
    return bool(a == b)


@pytest.mark.parametrize("how", ["to its end", "model fails", "interrupted", "refused"])
def test_model_is_left_as_it_was(tmp_path: Path, how: str) -> None:
    torch.manual_seed(5)
    model = Stateful().eval()
    next(model.inner.parameters()).grad = torch.full_like(next(model.inner.parameters()), 0.25)
    before = state(model)
    y = Y.clone()
    changes: dict[str, Any] = {"model": model, "y": y}
    expected: type[BaseException] = BrinellError
    if how == "model fails":
        model.fail_after = 30
        expected = ModelFailed
    elif how == "interrupted":

        def interrupt(moment: object) -> None:
            raise KeyboardInterrupt

        changes["observer"] = interrupt
        expected = KeyboardInterrupt
    elif how == "refused":
        y[0] = 99
        expected = BadInput
    if how == "to its end":
        assert small_result(tmp_path / "run", **changes).figures.complete
    else:
        with pytest.raises(expected):
            small_result(tmp_path / "run", **changes)
    after = state(model)
    for name, value in before.items():
        assert same(value, after[name]), name


def test_buffers_that_change_are_noted(tmp_path: Path) -> None:
    assert "changes its own buffers" in notes(small_result(tmp_path / "run", model=Stateful().eval()))


@pytest.mark.parametrize(
    "mode", [torch.no_grad, lambda: torch.autocast("cpu", torch.bfloat16)], ids=["no_grad", "autocast"]
)
def test_surroundings_do_not_matter(tmp_path: Path, bare: Result, mode: Any) -> None:
    torch.manual_seed(1)
    with mode():
        inside = small_result(tmp_path / "inside")
    assert fates(inside.rows) == fates(bare.rows)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_model_is_a_model(tmp_path: Path, bare: Result) -> None:
    """An old net often comes as TorchScript, with buffers."""
    scripted = torch.jit.script(
        nn.Sequential(small_net.load(), nn.BatchNorm1d(4, affine=False, eps=0.0).double()).eval()
    )
    assert fates(small_result(tmp_path / "run", model=scripted).rows) == fates(bare.rows)


def test_settings_of_these_tests_leave_something_to_see(bare: Result) -> None:
    """Rows of each kind, or a comparison of statuses would say nothing."""
    assert (bare.reading.manifest.threat["eps"], bare.reading.manifest.suite["name"]) == (THREAT.eps, SMALL.name)
    assert min(bare.figures.status[status] for status in ("misclassified", "broken", "standing")) >= 6
    assert all(stage.broke for stage in bare.figures.stages)
