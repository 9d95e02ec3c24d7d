"""A loss whose slope underflows is climbed in float64: in the right direction, on those rows alone, by the same passes."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import small_net
from brinell.evaluation import resume
from brinell.losses import CROSS_ENTROPY
from brinell.models.double import WIDEST
from brinell.models.torch_model import TorchModel
from brinell.selftest import trials
from brinell.verify import verify_files
from small_runs import fates, small_result

X, Y = small_net.rows()
RIGHT = [row for row in range(len(X)) if row not in small_net.WRONG]


class Times(nn.Module):
    """A model's logits on another scale, in float32 or as they are."""

    def __init__(self, factor: float, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.inner, self.factor = small_net.load().to(dtype), factor

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.inner(x)
        return z * self.factor


def slope(model: TorchModel, x: Tensor, y: Tensor) -> Tensor:
    return model.gradient(x.to(model.dtype), lambda z: CROSS_ENTROPY.climb(z, y)).grad.flatten(1)


def pull(model: TorchModel, x: Tensor, y: Tensor) -> Tensor:
    """``sum_j p_j grad (z_j - z_y)`` with the softmax ``p`` of the wrong classes among themselves: cross-entropy's direction."""
    wrong = model.scores(x).scatter(1, y[:, None], -torch.inf).softmax(1)
    grad = model.gradient(x, lambda z: (wrong * z).sum(1) - z.gather(1, y[:, None])[:, 0]).grad
    return grad.flatten(1)


def test_the_direction_is_that_of_wider_numbers_and_other_rows_keep_their_slope() -> None:
    x, y = X[RIGHT], Y[RIGHT]
    narrow, wide = TorchModel(Times(300).eval()), TorchModel(Times(300, torch.float64).eval())
    own = slope(narrow, x, y)
    flat = (own == 0).all(dim=1)
    assert 0 < int(flat.sum()) < len(x)
    narrow.loss_precision = "float64"
    found = slope(narrow, x, y)
    assert torch.equal(found[~flat], own[~flat])
    assert not bool((found[flat] == 0).all(dim=1).any())
    true = pull(wide, x, y)
    cosine = torch.nn.functional.cosine_similarity(found.double(), true)
    scores = wide.scores(x)
    held = flat & (scores.amax(1) - scores.amin(1) <= WIDEST)  # others are scaled down, and only nearly the same
    assert bool(held.any()) and float(cosine[held].min()) > 0.999
    assert float(cosine[flat].min()) > 0.9


def test_far_beyond_float64_there_is_a_direction_still_and_it_is_that_of_the_margin() -> None:
    x, y = X[RIGHT], Y[RIGHT]
    model = TorchModel(Times(1e6).eval(), loss_precision="float64")
    found = slope(model, x, y)
    rivals = model.scores(x.float()).scatter(1, y[:, None], -torch.inf).argmax(1)
    gap = model.gradient(x.float(), lambda z: (z.gather(1, rivals[:, None]) - z.gather(1, y[:, None]))[:, 0]).grad
    cosine = torch.nn.functional.cosine_similarity(found, gap.flatten(1) / 1e6)
    assert float(cosine.median()) > 0.9 and not bool((found == 0).all(dim=1).any())


def test_a_run_finds_out_records_it_and_makes_no_pass_more(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run", model=Times(1e3).eval(), x=X.float())
    manifest = result.reading.manifest
    assert manifest.loss_precision == "float64"
    assert any("float64" in note for note in manifest.notes)
    bare = small_result(tmp_path / "bare", model=Times(1.0).eval(), x=X.float())
    assert bare.reading.manifest.loss_precision == "own"
    assert abs(result.figures.status["broken"] - bare.figures.status["broken"]) <= 2
    assert result.figures.status["broken"] > 10
    assert all(finding.holds is not False for finding in verify_files(result.folder))
    again = resume(result.folder, Times(1e3).eval(), X.float(), Y)
    assert fates(again.reading.rows) == fates(result.reading.rows)


@pytest.mark.parametrize("name", ["times-1e3", "times-1e6"])
def test_pgd_on_saturated_cross_entropy(name: str) -> None:
    """Left to itself it breaks no row of 17, of which 10 are not robust."""
    (trial,) = trials([name], ["pgd"], rows=20)
    assert trial.truth is not None and trial.figure is not None
    assert trial.truth[0] <= trial.figure <= trial.truth[1] + 1
