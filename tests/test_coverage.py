"""What a claim does not cover, and where its attacks come from."""

import re
import sys
from typing import Any

import pytest
import torch

from brinell.attacks.catalogue import ATTACKS, RECORDED
from brinell.attacks.given import GivenPoints
from brinell.evaluation import open_run
from brinell.geometry import size
from brinell.manifest import Manifest
from brinell.report.citations import OF_ATTACK, OF_SUITE, papers_of, source_of
from brinell.report.coverage import not_covered, pictures
from brinell.suites.suite import load_suite
from small_runs import small_run


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return open_run(small_run(tmp_path_factory.mktemp("run"))).reading.manifest


def gaps_of(manifest: Manifest, field: str, **changes: Any) -> dict[str, str]:
    changed = manifest.model_copy(update={field: {**getattr(manifest, field), **changes}})
    return {gap.what: gap.why for gap in not_covered(changed)}


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_a_bound_holds_in_balls_that_contain_this_one(manifest: Manifest, norm: str) -> None:
    """The farthest points of a ball: a corner in Linf, along an axis in L1, in L2 either of them."""
    gaps = gaps_of(manifest, "threat", norm=norm, eps=0.5, eps_text="0.5")
    said = next(why for what, why in gaps.items() if what.startswith("Other norms"))
    radii = {name.lower(): float(radius) for radius, name in re.findall(r"([\d.]+) in (L\w+)", said)}
    assert set(radii) == {"linf", "l2", "l1"} - {norm}
    axis, corner = torch.zeros(1, 16, dtype=torch.float64), torch.ones(1, 16, dtype=torch.float64)
    axis[0, 0] = 1.0
    farthest = [0.5 * point / size(point, norm) for point in (axis, corner)]  # type: ignore[arg-type]
    for other, radius in radii.items():
        assert radius == pytest.approx(max(float(size(point, other)) for point in farthest), rel=2e-3)  # type: ignore[arg-type]


def test_the_gaps_name_the_threat_model(manifest: Manifest) -> None:
    gaps = gaps_of(manifest, "threat", norm="l2", eps=8 / 255, eps_text="8/255", low=-1.0, high=2.0)
    assert {"Other norms than L2", "Changes larger than eps 8/255", "Inputs outside [-1, 2]"} <= set(gaps)
    for what in ("Stronger attacks", "Corruptions", "Distribution shift", "Physical attacks", "Patches and stickers"):
        assert what in gaps
    assert "Prompt injection" in gaps


def test_other_rows_are_named_where_there_are_any(manifest: Manifest) -> None:
    assert "940 other rows" in gaps_of(manifest, "data", total=1000)["Other rows"]
    assert "Other rows" not in gaps_of(manifest, "data", total=60)


def test_what_is_of_pictures_only_is_said_of_pictures_only(manifest: Manifest) -> None:
    assert not {"Patches and stickers", "Physical attacks"} & set(gaps_of(manifest, "data", shape=[16]))
    assert pictures([3, 4, 4])
    assert pictures([1, 28, 28])
    assert not any(map(pictures, ([28, 28], [2, 8, 8], [3, 3, 8], [1, 3, 8, 8], [784])))


def test_a_budget_and_draws_leave_gaps_of_their_own(manifest: Manifest) -> None:
    cut = {gap.what for gap in not_covered(manifest.model_copy(update={"cut": "passes", "budget": "20k"}))}
    assert "The rest of the suite" in cut - {gap.what for gap in not_covered(manifest)}
    drawn = gaps_of(manifest, "suite", draws={"attack": 2})
    assert "An attacker who knows the model's draws" in drawn
    assert "Randomised versions of the model" not in drawn


def test_every_attack_has_the_sources_on_its_card() -> None:
    cited = {name: kind for name, kind in RECORDED.items() if name != GivenPoints.name}
    assert set(OF_ATTACK) == set(cited) >= set(ATTACKS)
    for name, kind in cited.items():
        card = sys.modules[kind.__module__].__doc__
        assert card is not None
        assert OF_ATTACK[name]
        for paper in OF_ATTACK[name]:
            assert paper.arxiv in card, f"{name}: {paper.arxiv}"


def test_suites_with_a_source_exist() -> None:
    assert [load_suite(name).name for name in OF_SUITE] == list(OF_SUITE)


def test_papers_come_once_and_only_of_what_was_run() -> None:
    keys = [paper.key for paper in papers_of("autoattack", ["apgd", "apgd", "fab-t", "square"])]
    assert keys == ["croce2020reliable", "croce2020minimally", "andriushchenko2020square"]
    assert papers_of("somebody's", ["something"]) == []


def test_sources_are_named_as_one_cites() -> None:
    assert source_of("apgd") == "Croce & Hein 2020 (arXiv:2003.01690)"
    assert source_of("pgd") == "Madry et al. 2018 (arXiv:1706.06083)"
    assert source_of("something") == ""


def test_bibtex_has_an_author_between_each_and() -> None:
    entry = papers_of("pgd", ["pgd"])[0].bibtex()
    assert "author = {A. Madry and A. Makelov and L. Schmidt and D. Tsipras and A. Vladu}" in entry
    assert entry.count("{") == entry.count("}")
