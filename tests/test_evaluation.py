"""The Python interface, on models that nobody knows the truth about: the record must hold against plain torch."""

import gc
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import brinell
import small_net
from brinell import Threat, zoo
from brinell.errors import BadInput
from brinell.evaluation import Result, evaluate, open_run
from brinell.suites.suite import Suite, suite_from
from small_runs import SMALL, fates, quiet_environment, small_result

ZOO_X, ZOO_Y = zoo.load_rows()
ROWS = slice(0, 100)
LINF = Threat("linf", 0.1)


def suite_of(*attacks: dict[str, Any]) -> Suite:
    return suite_from({"name": "these", "version": "1", "attacks": list(attacks)}, "tests")


def on_zoo(folder: Path, name: str, suite: Suite | str, threat: Threat = LINF) -> Result:
    x, y = ZOO_X[ROWS], ZOO_Y[ROWS]
    return evaluate(zoo.load_model(name), x, y, threat=threat, suite=suite, batch_size=100, out=folder)


@pytest.fixture(scope="module")
def robust(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The adversarially trained model under PGD-20."""
    suite = suite_of({"attack": "pgd", "steps": 20, "step_size": 0.25})
    return on_zoo(tmp_path_factory.mktemp("robust"), "fmnist-at", suite)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return small_result(tmp_path_factory.mktemp("small") / "run")


def test_figures_add_up(robust: Result) -> None:
    status = robust.figures.status
    assert sum(status.values()) == 100 == len(robust.rows)
    assert robust.clean_accuracy.count == 100 - status["misclassified"]
    assert robust.robust_accuracy.count == status["standing"]
    assert robust.attack_success_rate.count == status["broken"] == robust.perturbation.count
    assert robust.attack_success_rate.of == robust.clean_accuracy.count
    assert robust.robust_accuracy.count == robust.clean_accuracy.count - robust.attack_success_rate.count
    assert robust.figures.complete


def test_what_the_record_says_is_so(robust: Result) -> None:
    """Every row, by hand: the clean decision, and for a broken row a point within eps of it on which the model errs."""
    model, y = zoo.load_model("fmnist-at"), torch.tensor(ZOO_Y[ROWS])
    with torch.no_grad():
        clean = model(torch.tensor(ZOO_X[ROWS])).argmax(1)
    broken = 0
    for row in robust.rows:
        assert (row.status == "misclassified") == (clean[row.row] != y[row.row])
        assert (row.clean_prediction, row.label) == (clean[row.row], y[row.row])
        point = robust.witness(row.row)
        assert (point is None) == (row.status != "broken")
        if point is None:
            continue
        broken += 1
        delta = point.astype(np.float64) - ZOO_X[row.row].astype(np.float64)
        assert np.abs(delta).max() <= 0.1 * (1 + 1e-6)
        assert np.abs(delta).max() == pytest.approx(row.distance, abs=1e-12)
        assert point.min() >= 0
        assert point.max() <= 1
        with torch.no_grad():
            logits = model(torch.tensor(point)[None])[0]
        assert logits.argmax() == row.prediction != row.label
        np.testing.assert_array_equal(np.load(robust.folder / "originals.npy")[row.place], ZOO_X[row.row])
    assert broken == robust.figures.status["broken"] > 5


def test_perturbation_is_that_of_the_witnesses(robust: Result) -> None:
    rows = [row for row in robust.rows if row.status == "broken"]
    deltas = [np.float64(robust.witness(row.row)) - ZOO_X[row.row] for row in rows]
    sizes = np.array([np.abs(delta).max() for delta in deltas])
    relative = sizes / [ZOO_X[row.row].max() for row in rows]
    assert robust.perturbation.mean == pytest.approx(sizes.mean())
    assert robust.perturbation.relative_mean == pytest.approx(relative.mean())
    assert robust.perturbation.quantiles == pytest.approx({"0": sizes.min(), **_quartiles(sizes), "1": sizes.max()})


def _quartiles(sizes: np.ndarray) -> dict[str, float]:
    return {f"{q:g}": float(np.quantile(sizes, q)) for q in (0.25, 0.5, 0.75)}


def test_passes_are_what_the_attack_costs(robust: Result) -> None:
    """PGD-20: 21 forwards and 20 backwards on a row that stands, fewer on one that fell, none on a wrong one."""
    for row in robust.rows:
        if row.status == "standing":
            assert (row.forwards, row.backwards) == (21, 20)
        elif row.status == "misclassified":
            assert (row.forwards, row.backwards) == (0, 0)
        else:
            assert row.backwards <= 20
            assert 1 <= row.forwards <= 21
    passes = robust.figures.passes
    assert passes.attack_forwards == sum(row.forwards for row in robust.rows)
    assert passes.clean_forwards == 100
    assert passes.referee_forwards == robust.figures.status["broken"] + robust.figures.unconfirmed
    assert passes.cut_off_forwards == 0


def test_masked_model_falls_to_cross_entropy_in_float64(tmp_path: Path) -> None:
    """Its cross-entropy has no slope in float32; that is noticed, and climbed in float64."""
    pgd = on_zoo(tmp_path / "ce", "fmnist-masked", suite_of({"attack": "pgd", "steps": 20, "step_size": 0.25}))
    targeted = suite_of({"attack": "apgd", "loss": "targeted-dlr", "steps": 20, "targets": 9})
    apgd = on_zoo(tmp_path / "t", "fmnist-masked", targeted)
    logits = zoo.load_model("fmnist-masked")(torch.from_numpy(ZOO_X)).detach().requires_grad_()
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(ZOO_Y), reduction="sum")
    (slope,) = torch.autograd.grad(loss, logits)
    assert int((slope == 0).all(1).sum()) >= 70
    assert pgd.reading.manifest.loss_precision == "float64"
    assert pgd.robust_accuracy.count <= 10
    assert apgd.robust_accuracy.count <= 10
    assert "the gradient of the cross-entropy is exactly zero" in "\n".join(pgd.reading.manifest.notes)


def test_undefended_model_falls(tmp_path: Path) -> None:
    assert on_zoo(tmp_path / "run", "fmnist-standard", "pgd").robust_accuracy.count <= 8


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_other_norms(tmp_path: Path, norm: str) -> None:
    threat = Threat(norm, {"l2": 1.5, "l1": 15.0}[norm])
    suite = suite_of({"attack": "pgd", "loss": "margin", "steps": 10, "step_size": 0.3})
    result = on_zoo(tmp_path / "run", "fmnist-standard", suite, threat)
    assert result.figures.status["broken"] > 20
    order = {"l2": 2, "l1": 1}[norm]
    for row in result.rows:
        if row.status == "broken":
            delta = np.float64(result.witness(row.row)) - ZOO_X[row.row]
            assert np.linalg.norm(delta.ravel(), order) <= threat.eps * (1 + 1e-6)
            assert row.input_size == pytest.approx(np.linalg.norm(ZOO_X[row.row].ravel().astype(float), order))


@pytest.mark.parametrize("size", [1, 7, 16])
def test_batch_size_does_not_matter(tmp_path: Path, small: Result, size: int) -> None:
    """Nor does the ragged last batch (armory#300: accuracy above 100 %)."""
    result = small_result(tmp_path / "run", rows="0:16", batch_size=size)
    assert fates(result.rows) == fates(small.rows)[:16]  # those were in a batch of 60
    assert result.reading.manifest.batch_size == size


def test_order_of_the_rows_does_not_matter(tmp_path: Path, small: Result) -> None:
    order = torch.randperm(60, generator=torch.Generator().manual_seed(3)).tolist()
    result = small_result(tmp_path / "run", rows=",".join(map(str, order)), batch_size=7)
    assert [row.row for row in result.rows] == order
    assert sorted(fates(result.rows)) == sorted(fates(small.rows))
    for row in result.rows:
        if row.status == "broken":
            np.testing.assert_array_equal(result.witness(row.row), small.witness(row.row))


def test_other_rows_do_not_matter(tmp_path: Path, small: Result) -> None:
    result = small_result(tmp_path / "run", rows="7,20:30")
    chosen = {row.row for row in result.rows}
    assert fates(sorted(result.rows, key=lambda row: row.row)) == [f for f in fates(small.rows) if f[0] in chosen]


def test_same_seed_same_result_and_another_seed_another(tmp_path: Path, small: Result) -> None:
    assert fates(small_result(tmp_path / "same", seed=0).rows) == fates(small.rows)
    other = small_result(tmp_path / "other", seed=1)
    assert fates(other.rows) != fates(small.rows)
    assert abs(other.robust_accuracy.count - small.robust_accuracy.count) <= 6


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_radius_zero_changes_nothing(tmp_path: Path, precision: torch.dtype) -> None:
    """torchattacks#172, foolbox#713: robust accuracy is clean accuracy, and no attack makes a pass."""
    result = small_result(tmp_path / "run", threat=Threat("linf", 0), model=small_net.load().to(precision))
    assert result.robust_accuracy == result.clean_accuracy
    assert (result.clean_accuracy.count, result.clean_accuracy.of) == (54, 60)
    assert (result.attack_success_rate.count, result.attack_success_rate.of) == (0, 54)
    assert result.perturbation.mean is None
    passes = result.figures.passes
    assert (passes.attack_forwards, passes.attack_backwards, passes.referee_forwards) == (0, 0, 0)
    assert passes.clean_forwards == 60
    with pytest.raises(BadInput, match="look normalised"):
        small_result(tmp_path / "other", threat=Threat("linf", 0), x=2 * small_net.rows()[0] - 1)


class FromMinusOne(torch.nn.Module):
    """The same model on inputs in [-1, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_net.load()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner((x + 1) / 2)


def test_scale_of_the_box_does_not_matter(tmp_path: Path, small: Result) -> None:
    """Inputs in [-1, 1] with eps doubled: the same rows fall to the same attempts, at twice the distance."""
    x, _ = small_net.rows()
    scaled = small_result(
        tmp_path / "run", model=FromMinusOne().eval(), x=2 * x - 1, threat=Threat("linf", 0.12, low=-1, high=1)
    )
    wanted = [(row.row, row.status, row.stage, row.attempt, row.forwards) for row in small.rows]
    assert [(row.row, row.status, row.stage, row.attempt, row.forwards) for row in scaled.rows] == wanted
    assert scaled.perturbation.mean == pytest.approx(2 * small.perturbation.mean)
    assert "[-1, 1]" in scaled.claim


def test_more_attacks_break_no_fewer_rows(tmp_path: Path, small: Result) -> None:
    first = small_result(tmp_path / "run", suite=Suite("first", "1", "", SMALL.attacks[:1]))
    assert {r.row for r in first.rows if r.status == "broken"} < {r.row for r in small.rows if r.status == "broken"}
    assert first.robust_accuracy.count == small.figures.stages[0].left
    assert first.figures.stages[0] == small.figures.stages[0]


def test_labels_in_every_form_are_the_same(tmp_path: Path, small: Result) -> None:
    _, y = small_net.rows()
    one_hot = small_result(tmp_path / "run", y=np.eye(4)[y.numpy()])
    assert fates(one_hot.rows) == fates(small.rows)


def test_channels_last_is_turned(tmp_path: Path, small: Result) -> None:
    x, _ = small_net.rows()
    result = small_result(tmp_path / "run", x=x.permute(0, 2, 3, 1), layout="channels-last")
    assert fates(result.rows) == fates(small.rows)


class Sickly(torch.nn.Module):
    """Not a number, or an exception, on what an attack shows it, unless it sees class 3 there."""

    def __init__(self, raises: bool) -> None:
        super().__init__()
        self.inner = small_net.load()
        self.raises = raises
        self.register_buffer("known", small_net.rows()[0].flatten(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        points = x.detach().flatten(1)
        fine = (points[:, None] == self.known[None]).all(2).any(1)  # clean rows
        fine |= (points - 0.5).abs().amax(1) > 0.4999  # preflight's points on the faces of the box
        fine |= self.inner(x.detach()).argmax(1) == 3
        if self.raises and not fine.all():
            raise ValueError("cannot look at this")
        return torch.where(fine[:, None], self.inner(x), torch.nan)


@pytest.mark.parametrize(
    ("raises", "reason"), [(True, "model raised ValueError: cannot look at this"), (False, "non-finite logits")]
)
def test_row_that_cannot_be_judged_is_in_error(tmp_path: Path, raises: bool, reason: str) -> None:
    """foolbox#670: a model that is NaN on perturbed rows was broken on all but those of class 0. It is robust on none.

    Where the model raises on a batch, the rows that it raises on are lost, and not their neighbours.
    """
    result = small_result(tmp_path / "run", model=Sickly(raises).eval())
    status = result.figures.status
    assert status["error"] > 10
    assert status["standing"] + status["broken"] > 5
    assert sum(status.values()) == 60
    assert (result.robust_accuracy.count, result.robust_accuracy.of) == (status["standing"], 60)
    assert result.figures.errors == {reason: status["error"]}
    for row in result.rows:
        assert row.reason == (reason if row.status == "error" else None)
        assert (result.witness(row.row) is None) == (row.status != "broken")


class Forgiving(torch.nn.Module):
    """Errs on every point but the clean rows, once, when it is armed: asked again about the same point, it is right."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_net.load()
        self.seen = {point.numpy().tobytes() for point in small_net.rows()[0]}
        self.armed = False

    def arm(self, moment: object) -> None:
        self.armed = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.inner(x)
        points = [point.numpy().tobytes() for point in x.detach()]
        new = torch.tensor([self.armed and point not in self.seen for point in points])
        self.seen.update(points)
        return torch.where(new[:, None], z.detach().roll(1, dims=1) + 0 * z, z)


def test_witness_that_does_not_hold_when_asked_again_is_none(tmp_path: Path) -> None:
    """The row stands, the count says how often, and no figure has the point in it."""
    suite = Suite("first", "1", "", SMALL.attacks[:1])  # two restarts
    threat = Threat("linf", 1e-4)  # no row falls to so little in truth
    model = Forgiving().eval()
    result = small_result(tmp_path / "run", model=model, suite=suite, threat=threat, observer=model.arm)
    assert result.robust_accuracy == result.clean_accuracy
    assert result.figures.unconfirmed == 2 * result.clean_accuracy.count
    assert f"{result.figures.unconfirmed} witnesses did not hold when they were scored again" in str(
        result.reading.manifest.notes
    )
    assert {attempt.outcome for attempt in result.reading.attempts} == {"unconfirmed"}
    assert result.perturbation.count == 0
    assert result.figures.passes.referee_forwards == result.figures.unconfirmed
    for row in result.rows:
        assert result.witness(row.row) is None
        assert row.status in ("standing", "misclassified")
        assert row.unconfirmed == (0 if row.status == "misclassified" else 2)


def test_claim_over_rows_in_error_says_so(tmp_path: Path) -> None:
    """Rows in error are in no numerator, so that the count alone is no upper bound of the truth."""
    result = small_result(tmp_path / "run", model=Sickly(raises=False).eval())
    assert f"{result.figures.status['error']} rows in error" in result.claim


def test_result_is_its_claim(robust: Result) -> None:
    assert repr(robust) == robust.claim
    assert "\n" not in robust.claim
    assert robust.figures.rows == 100


def test_temporary_run_lives_as_long_as_its_result() -> None:
    x, y = small_net.rows()
    result = evaluate(small_net.load(), x, y, threat=Threat("linf", 0.06), suite="fgsm", batch_size=64)
    folder = result.folder
    assert (folder / "manifest.json").is_file()
    del result
    gc.collect()
    assert not folder.exists()


def test_refused_evaluation_leaves_no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    x, y = small_net.rows()
    with pytest.raises(BadInput):
        evaluate(small_net.load(), x * 9, y, threat=Threat("linf", 0.06), suite="fgsm", batch_size=64)
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_saved_result_stays(tmp_path: Path) -> None:
    x, y = small_net.rows()
    result = evaluate(small_net.load(), x, y, threat=Threat("linf", 0.06), suite="fgsm", batch_size=64)
    before, claim, rows = result.folder, result.claim, result.rows
    witnesses = {row.row: result.witness(row.row) for row in rows}
    assert result.save(tmp_path / "kept") is result
    gc.collect()
    assert not before.exists()
    assert result.folder == tmp_path / "kept"
    for again in (result, open_run(tmp_path / "kept")):
        assert (again.claim, again.rows) == (claim, rows)
        for row, point in witnesses.items():
            np.testing.assert_array_equal(again.witness(row), point)
    with pytest.raises(BadInput, match="a new folder"):
        result.save(tmp_path / "kept")
    (tmp_path / "file").write_text("mine", "utf-8")
    with pytest.raises(BadInput, match="a new folder"):
        result.save(tmp_path / "file")


def test_witness_of_no_row(small: Result) -> None:
    assert small.witness(0) is None  # misclassified
    assert small.witness(1000) is None


def test_folder_that_is_taken_is_refused(tmp_path: Path) -> None:
    run = small_result(tmp_path / "run", suite="fgsm").folder
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(BadInput, match="a run that is there already"):
        small_result(run)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine", "utf-8")
    with pytest.raises(BadInput, match="not empty"):
        small_result(tmp_path / "other")
    with pytest.raises(BadInput, match="a new folder"):
        small_result(tmp_path / "other" / "file")
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    (tmp_path / "empty").mkdir()
    assert small_result(tmp_path / "empty", suite="fgsm").figures.complete


def test_opening_what_is_no_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(BadInput, match=r"no manifest\.json"):
            open_run(path)


def test_observer_sees_how_far_it_has_got(tmp_path: Path) -> None:
    moments: list[Any] = []
    result = small_result(tmp_path / "run", observer=moments.append)
    last = moments[-1]
    assert last.fallen == result.figures.status["broken"] + result.figures.unconfirmed
    assert last.standing == result.figures.status["standing"]
    assert sum(last.spent) == result.figures.passes.attack_forwards + result.figures.passes.attack_backwards
    for before, after in pairwise(moments):
        assert after.standing <= before.standing
        assert sum(after.spent) >= sum(before.spent)
    assert all(sum(moment.forecast) >= sum(moment.spent) for moment in moments)
    assert sum(last.forecast) == sum(last.spent)
    assert {moment.label for moment in moments} >= {"pgd ce 1/2", "pgd ce 2/2", "apgd targeted-dlr 2/2"}


def test_public_names() -> None:
    for name in brinell.__all__:
        assert getattr(brinell, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'attack'"):
        brinell.attack  # noqa: B018


MISUSE = """
import json, signal, small_net, brinell

x, y = small_net.rows()
good = {"threat": brinell.Threat("linf", 0.06), "suite": "fgsm", "batch_size": 64}
said = {}
for name, model, changes in (
    ("no module", lambda x: x, {}),
    ("outputs", small_net.load(), {"outputs": "scores"}),
    ("batch size 0", small_net.load(), {"batch_size": 0}),
    ("batch size -1", small_net.load(), {"batch_size": -1}),
    ("seed", small_net.load(), {"seed": -1}),
    ("large seed", small_net.load(), {"seed": 2**64}),
    ("layout", small_net.load(), {"layout": "channels-first"}),
    ("suite", small_net.load(), {"suite": "no-such-suite"}),
    ("norm", small_net.load(), {"suite": "apgd", "threat": brinell.Threat("l1", 0.06)}),
):
    signal.alarm(2)  # a run that never ends
    try:
        brinell.evaluate(model, x, y, **{**good, **changes})
        said[name] = "accepted"
    except BaseException as error:
        said[name] = type(error).__name__
print(json.dumps(said))
"""


def test_misuse_is_refused_at_the_border(tmp_path: Path) -> None:
    """In a process of its own, for here the type checker would be quicker."""
    code = MISUSE.replace("signal.alarm", "signal.signal(signal.SIGALRM, signal.default_int_handler); signal.alarm")
    done = subprocess.run(
        [sys.executable, "-c", code], env=quiet_environment(), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    said = json.loads(done.stdout)
    assert {name: kind for name, kind in said.items() if kind != "BadInput"} == {}
