"""Each finding on four rows of two values whose right answer is in the numbers, and none on a clean import."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from brinell.arrays import named_arrays
from brinell.errors import BadInput
from brinell.imports.evidence import Evidence, Said
from brinell.imports.importing import CHECKS
from brinell.imports.matching import NOWHERE, places_of
from brinell.imports.names import Handed, handed_over
from brinell.imports.recounts import recounts
from brinell.imports.source import in_layout
from brinell.threat import Threat

X = np.array([[0.2, 0.3], [0.4, 0.5], [0.6, 0.7], [0.8, 0.35]])
Y = np.array([0, 1, 0, 1])
POINTS = X + 0.05
FELL = np.array([True, True, False, False])
AT_POINTS = np.where(FELL, 1 - Y, Y)
THREAT = Threat("linf", 0.1)


def said(*, clean: Any = Y, points: Any = AT_POINTS, raw: Any = AT_POINTS) -> Said:
    return Said(np.array(clean), np.array(points), None if raw is None else np.array(raw), forwards=12)


def evidence(handed: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    """A clean import of the four rows, changed as is said."""
    parts = {"x_adv": POINTS, "x": X, "y": Y, "raw": POINTS, "success": FELL, "predictions": AT_POINTS}
    file = Handed(**{"tool": "foolbox", "saved": "float64", **parts, **(handed or {})})
    clean = Evidence(file, THREAT, x=X, y=Y, place=np.arange(4), of=4, apart=True, said=said())
    return replace(clean, **changes)


def with_row(row: int, point: Any) -> Any:
    points = POINTS.copy()
    points[row] = point
    return points


def raised(of: Evidence) -> dict[str, str]:
    return {finding.check: finding.detail for finding in (check(of) for check in CHECKS) if finding.holds is False}


def test_a_clean_import_raises_nothing_and_leaves_nothing_open():
    assert [finding for finding in (check(evidence()) for check in CHECKS) if finding.holds is not True] == []


OWN = np.array([0, 1, 1, 1])  # the model has row 2 wrong
FAULTS: list[tuple[str, Evidence, dict[str, str]]] = [
    (
        "wrong eps",
        evidence({"x_adv": with_row(0, [0.4, 0.3])}),
        {"points in the ball": "1 of 4 outside Linf eps 0.1: the largest has size 0.2, 100 % beyond eps"},
    ),
    (
        "no bounds",
        evidence(threat=Threat("linf", 0.1, low=0.0, high=0.83)),
        {"points in the box": r"1 of 4 leave \[0, 0.83\], by 0.02 at most"},
    ),
    ("failed", evidence({"x_adv": with_row(2, [np.nan, 0.7])}), {"points are finite": "1 of 4 hold NaN"}),
    ("integers", evidence({"saved": "uint8"}), {"points as computed": "saved as uint8"}),
    ("pixels", evidence({"x_adv": np.round(POINTS * 255) / 255}), {"points as computed": "rounded to pixels"}),
    ("scale", evidence({"x": X * 255}), {"scale of the inputs": "inputs span 51 to 204: they look like pixels"}),
    ("normalised", evidence({"x": (X - 0.5) / 0.2}), {"scale of the inputs": "they look like normalised values"}),
    (
        "raw alone",
        evidence({"x_adv": with_row(0, [0.4, 0.3]), "raw": None, "clipped": False}),
        {"points are the clipped ones": "`raw` only; .* 1 raw points lie outside", "points in the ball": "1 of 4"},
    ),
    (
        "mask of raw",  # wrong on the raw points 1, 2, 3 and on the clipped points 0, 1
        evidence({"success": np.array([False, True, True, True])}, said=said(raw=[0, 0, 1, 0])),
        {
            "points are the clipped ones": "agrees with the model on 1 clipped and 4 raw points",
            "success by the model": "2 of 3 successes are no error of the model, 1 of its errors are no success",
        },
    ),
    (
        "mask",
        evidence({"success": np.array([True, False, True, False])}),
        {"success by the model": "1 of 2 successes are no error of the model, 1 of its errors are no success"},
    ),
    (
        "wrong before",
        evidence(said=said(clean=[1, 1, 0, 1])),
        {"successes were right before": "1 of 2 successes were wrong before any attack"},
    ),
    (
        "gave up",
        evidence({"x_adv": with_row(0, X[0])}),
        {"points of successes are changed": "1 of 2 successes are the clean input"},
    ),
    ("predictions", evidence({"predictions": Y}), {"predictions by the model": "2 of 4 differ"}),
    (
        "own predictions for labels",
        evidence({"y": OWN, "success": AT_POINTS != OWN}, said=said(clean=OWN)),
        {
            "labels are true": "1 of 4 differ from the data's; all are the model's own predictions",
            "successes were right before": "1 of 3",
        },
    ),
    ("one-hot", evidence({"y": np.eye(3)[Y]}), {"form of the labels": "one-hot of 3 classes"}),
    ("dropped", evidence(of=7), {"rows of the data": "3 of the data's 7 rows are not in the file"}),
    ("strangers", evidence(strangers=2), {"rows of the data": "2 of the file's 6 are not among the data's"}),
    ("shuffled", evidence(place=np.array([1, 0, 3, 2])), {"order of the rows": "goes back 2 times"}),
    ("copies", evidence(place=np.array([0, 1, 2, 0]), of=3), {"each row once": "1 rows of the file are copies"}),
]


@pytest.mark.parametrize(("of", "found"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
def test_each_fault_is_found_and_nothing_else(of, found):
    details = raised(of)
    assert set(details) == set(found)
    for check, detail in found.items():
        assert re.search(detail, details[check]), details[check]


def test_every_check_is_raised_by_a_fault():
    assert {check for _, _, found in FAULTS for check in found} == {check(evidence()).check for check in CHECKS}


def test_rounding_is_named_apart_from_leaving_the_ball():
    x = np.zeros((3, 2))
    threat = Threat("linf", "8/255", low=-1)
    eps = 8 / 255
    # by 5e-7 of eps, by 5e-8 (1.6e-6 of eps, less than float32 tells apart at 1), and within
    points = np.array([[eps * (1 + 5e-7), 0], [eps + 5e-8, 0], [eps / 2, 0]])
    of = evidence({"x": x, "x_adv": points, "raw": None}, x=x, threat=threat)
    found = next(finding for finding in (check(of) for check in CHECKS) if finding.check == "points in the ball")
    assert found.holds is True
    assert "1 beyond eps by at most 1e-06 of it" in found.detail
    assert "1 beyond it by no more than the rounding of float32" in found.detail


@pytest.mark.parametrize(
    ("eps", "norm", "holds"), [("8/255", "linf", True), (0.1, "linf", False), ("8/255", "l2", False)]
)
def test_pixels_that_an_attack_reaches_by_itself(eps, norm, holds):
    x = np.array([[51, 102], [0, 255]]) / 255
    of = evidence({"x": x, "x_adv": x + 8 / 255, "raw": None}, x=x, threat=Threat(norm, eps))
    found = next(finding for finding in (check(of) for check in CHECKS) if finding.check == "points as computed")
    assert found.holds is holds


def test_without_a_model_what_it_would_say_stays_open():
    open_ones = {finding.check for finding in (check(evidence(said=None)) for check in CHECKS) if finding.holds is None}
    assert open_ones == {"success by the model", "successes were right before", "predictions by the model"}


# --- their numbers


def lines(of: Evidence) -> dict[str, Any]:
    return {line.figure: line for line in recounts(of, None)}


def test_their_success_rate_and_accuracy_count_all_rows():
    of = evidence({"told": {"success rate": 0.75}}, said=said(clean=[1, 1, 0, 1]))
    rate, accuracy = lines(of)["success rate"], lines(of)["robust accuracy"]
    assert (rate.told, rate.by_their_rule) == (0.75, 0.5)
    assert "all 4 rows of the file, 1 of them wrong before" in rate.rule
    assert (accuracy.told, accuracy.by_their_rule) == (None, 0.5)


def test_arts_empirical_robustness():
    """Rows 0, 1 and 2 change: sizes 0.05 of inputs of Linf size 0.3, 0.5 and 0.7. Row 2 was wrong, and becomes right."""
    of = evidence({"tool": "art", "told": {"empirical robustness": 0.1}}, said=said(clean=[0, 1, 1, 1]))
    line = lines(of)["empirical robustness"]
    assert line.by_their_rule == pytest.approx((0.05 / 0.3 + 0.05 / 0.5 + 0.05 / 0.7) / 3)
    assert "3 rows, 1 of them wrong before any attack" in line.rule
    nothing = evidence({"tool": "art"}, said=said(clean=AT_POINTS))
    assert lines(nothing)["empirical robustness"].by_their_rule == 0.0


def test_torchattacks_distance_is_l2_over_all_errors():
    of = evidence({"tool": "torchattacks", "told": {"mean distance": 1.0}}, said=said(clean=AT_POINTS))
    line = lines(of)["mean distance"]
    assert line.by_their_rule == pytest.approx(0.05 * 2**0.5)  # two values moved by 0.05, on rows 0 and 1
    assert "2 rows" in line.rule


# --- rows


def test_rows_are_found_by_value_in_any_order():
    data = np.random.default_rng(0).random((50, 3, 4))
    order = np.random.default_rng(1).permutation(50)[:30]
    moved = data[order] + 5e-7 * np.random.default_rng(2).choice([-1, 1], (30, 3, 4))
    assert places_of(moved, data).tolist() == order.tolist()
    strangers = np.stack([data[3] + 1e-4, np.full((3, 4), np.nan), data[4]])
    assert places_of(strangers, data).tolist() == [NOWHERE, NOWHERE, 4]


def test_copies_get_the_places_of_copies():
    data = np.array([[0.1], [0.5], [0.1], [0.9]])
    assert places_of(np.array([[0.1], [0.1], [0.9], [0.1]]), data).tolist() == [0, 2, 3, 2]


# --- files


def test_one_result_in_four_kinds_of_file(tmp_path: Path):
    arrays = {"x": X, "x_adv": POINTS, "y": Y}
    np.savez(tmp_path / "all.npz", **arrays, tool="a text")
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    save_file(tensors, tmp_path / "all.safetensors")
    torch.save({**tensors, "x_adv": list(tensors["x_adv"]), "tool": "a text"}, tmp_path / "all.pt")
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    for files in (["all.npz"], ["all.safetensors"], ["all.pt"], ["x.npy", "x_adv.npy", "y.npy"]):
        found = named_arrays([tmp_path / name for name in files])
        assert set(found) == set(arrays)
        assert all((found[name] == array).all() for name, array in arrays.items())


def test_nothing_is_unpickled(tmp_path: Path):
    (tmp_path / "points.pkl").write_bytes(b"")
    np.savez(tmp_path / "objects.npz", x=np.array([{}], dtype=object))
    torch.save({"x": nn.Linear(1, 1)}, tmp_path / "module.pt")
    torch.save((torch.zeros(2), torch.zeros(2)), tmp_path / "tuple.pt")
    torch.save({"x": [torch.zeros(2), torch.zeros(3)]}, tmp_path / "ragged.pt")
    (tmp_path / "broken.safetensors").write_bytes(b"not one")
    for name in ("points.pkl", "objects.npz", "module.pt", "tuple.pt", "broken.safetensors", "absent.pt", "ragged.pt"):
        with pytest.raises(BadInput):
            named_arrays([tmp_path / name])
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(BadInput, match="second 'x'"):
        named_arrays([tmp_path / "x.npy", tmp_path / "x.npy"])


# --- names


STACK = {
    "x": X,
    "y": Y,
    "raw": np.stack([X + 0.05, X + 0.3]),
    "clipped": np.stack([X + 0.05, X + 0.1]),
    "success": np.array([FELL, ~FELL]),
    "epsilons": np.float32([0.05, 0.1]),
}


@pytest.mark.parametrize(("eps", "chosen"), [(0.05, 0), ("0.1", 1)])
def test_one_radius_of_several_is_chosen(eps, chosen):
    handed = handed_over("foolbox", STACK, Threat("linf", eps))
    assert (handed.x_adv == STACK["clipped"][chosen]).all()
    assert (handed.raw == STACK["raw"][chosen]).all()
    assert (handed.success == STACK["success"][chosen]).all()


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({**STACK, "epsilons": np.array([0.05, 0.2])}, "one of the radii in the file: 0.05, 0.2"),
        ({key: STACK[key] for key in STACK if key != "epsilons"}, "`epsilons` with one radius for each"),
        ({"x": X, "y": Y, "x_adv": X}, "points named clipped or raw"),
        ({"x": X, "y": Y, "clipped": POINTS[:3]}, "one of everything else for each row"),
    ],
)
def test_files_that_do_not_fit_are_refused(arrays, expected):
    with pytest.raises(BadInput) as refused:
        handed_over("foolbox", arrays, THREAT)
    assert expected in refused.value.expected
    if "x_adv" in arrays:
        assert refused.value.got == "the names x, x_adv, y"


def test_channels_last_is_turned_on_request_only():
    images = np.random.default_rng(0).random((5, 8, 6, 3))
    handed = Handed(tool="art", x_adv=images * 255, x=images * 255, saved="float64")
    with pytest.raises(BadInput, match="looks channels-last"):
        in_layout(handed, 255, "as-is")
    turned = in_layout(handed, 255, "channels-last")
    assert turned.x_adv.shape == (5, 3, 8, 6)
    assert turned.x_adv[1, 2, 3, 4] == pytest.approx(images[1, 3, 4, 2])
    with pytest.raises(BadInput, match="looks channels-first"):
        in_layout(turned, 1, "channels-last")


def test_torchattacks_tells_percent():
    arrays = {"adv_inputs": POINTS, "labels": Y, "rob_acc": np.array(62.5), "l2": np.array(0.4)}
    handed = handed_over("torchattacks", arrays, THREAT)
    assert handed.told == {"robust accuracy": 0.625, "mean distance": 0.4}
