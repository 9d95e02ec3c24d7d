"""Nets in ONNX files, wherever a model may be named; and properties of them, decided by the command."""

import builtins
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import small_runs
from brinell.assemble import load_onnx
from brinell.certify import onnx_net
from brinell.cli import main
from brinell.models.torch_model import TorchModel
from brinell.result import read_run
from brinell.rows import Rows, load_rows
from test_certify_files import BOX, difference, floats, helper, saved

HOLDS, VIOLATED, UNKNOWN = 0, 4, 6


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a net of two classes and twelve rows, each of which it is right on."""
    monkeypatch.chdir(tmp_path)
    net = difference(tmp_path)
    x = np.random.default_rng(0).random((12, 2), dtype=np.float32)
    y = net.module(torch.from_numpy(x)).argmax(1).numpy()
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    return tmp_path


WHERE = ["--model", "difference.onnx", "--data", "rows.npz", "--norm", "linf", "--eps", "0.1"]


def rows(here: Path) -> Rows:
    return load_rows(str(here / "rows.npz"), "all")


def test_each_command_takes_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exact answer is known: a row is robust if and only if ``|(x_0 - x_1) - 0.5| > 2 eps``, on the unit box."""
    assert main(["doctor", *WHERE]) in (0, 6)
    assert main(["run", *WHERE, "--suite", "apgd", "--certify", "crown", "--out", "attacked", "--quiet"]) == 0
    assert main(["certify", *WHERE, "--seconds", "2", "--out", "proved", "--quiet"]) == 0
    assert main(["verify", "attacked", "--seconds", "2"]) == 0
    x = np.load(here / "rows.npz")["x"].astype(np.float64)
    low, high = np.clip(x - 0.1, 0, 1), np.clip(x + 0.1, 0, 1)
    ends = (low[:, 0] - high[:, 1] - 0.5, high[:, 0] - low[:, 1] - 0.5)
    robust = (np.sign(ends[0]) == np.sign(ends[1])).tolist()
    assert 0 < sum(robust) < 12
    for folder in ("attacked", "proved"):
        said = {row.row: row.status for row in read_run(here / folder).rows}
        assert [said[row] == "certified" for row in range(12)] == robust
        others = {said[row] for row in range(12) if not robust[row]}
        assert others <= {"broken"} | ({"pending"} if folder == "proved" else set())


def test_the_fingerprint_tells_graphs_apart(here: Path) -> None:
    """The same weights in another order of operations are another model."""
    weights = {"w": floats(1, -1, -1, 1).reshape(2, 2), "b": floats(0, 0.5)}
    gemm, relu = helper.make_node("Gemm", ["x", "w"], ["z"]), helper.make_node("Relu", ["z"], ["r"])
    add = helper.make_node("Add", ["r", "b"], ["y"])
    tanh = helper.make_node("Tanh", ["z"], ["r"])
    files = [saved(here / f"{i}.onnx", [gemm, bend, add], weights, (1, 2)) for i, bend in enumerate((relu, tanh, relu))]
    prints = [TorchModel(load_onnx(str(file), rows(here))).fingerprint() for file in files]
    assert prints[0] == prints[2] != prints[1]


def test_rows_of_another_shape_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(here / "rows.npz", x=np.zeros((3, 1, 2), dtype=np.float32), y=np.zeros(3, dtype=np.int64))
    assert main(["run", *WHERE, "--out", "run"]) == 2
    assert "rows of shape (2,)" in capsys.readouterr().err
    assert not (here / "run").exists()


def test_an_operation_that_is_not_known_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(here / "difference.onnx", [helper.make_node("Softmax", ["x"], ["y"])], {}, (1, 2))
    for command in ("run", "certify"):
        assert main([command, *WHERE, "--out", "run"]) == 2
        assert "the operation Softmax" in capsys.readouterr().err


def test_without_the_package_the_remedy_is_said(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".")[0] == "onnx":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["run", *WHERE, "--out", "run"]) == 2
    assert "pip install 'brinell[onnx]'" in capsys.readouterr().err


def asked(here: Path, unsafe: str) -> list[str]:
    (here / "prop.vnnlib").write_text(BOX + unsafe, "utf-8")
    return ["certify", "--model", "difference.onnx", "--vnnlib", "prop.vnnlib", "--seconds", "2"]


def test_a_property_that_holds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*asked(here, "(assert (<= Y_0 0.24))"), "--out", "witness.txt"]) == HOLDS
    assert capsys.readouterr().out == "holds\n"
    assert not (here / "witness.txt").exists()


def test_a_property_that_is_open(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(asked(here, "(assert (>= Y_0 0.7)) (assert (<= Y_0 0.6))")) == UNKNOWN
    assert capsys.readouterr().out == "unknown\n"


def test_a_property_that_is_violated(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The witness lies in the box, and the file's outputs are the net's there."""
    arguments = asked(here, "(assert (<= Y_0 0.26))")
    assert main(arguments) == VIOLATED
    answer, text = capsys.readouterr().out.split("\n", 1)
    assert answer == "violated"
    values = {name: float(value) for name, value in re.findall(r"\(([XY]_\d) (\S+?)\)", text)}
    x = torch.tensor([[values["X_0"], values["X_1"]]])
    assert 0.5 <= values["X_0"] <= 1
    assert 0 <= values["X_1"] <= 0.25
    found = onnx_net.read(here / "difference.onnx").module(x)[0].tolist()
    assert found == pytest.approx([values["Y_0"], values["Y_1"]])
    assert found[0] <= 0.26
    assert main([*arguments, "--out", "witness.txt"]) == VIOLATED
    assert capsys.readouterr().out == "violated\n"
    assert (here / "witness.txt").read_text("utf-8").startswith("((X_0 ")
    assert main([*arguments, "--out", "witness.txt"]) == 2
    assert main([*arguments, "--json"]) == VIOLATED
    said = json.loads(capsys.readouterr().out)
    assert said["answer"] == "violated"
    assert len(said["witness"]) == 2


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "difference.onnx", "--vnnlib", "nowhere.vnnlib"],
        ["--model", "nowhere.onnx", "--vnnlib", "prop.vnnlib"],
        ["--model", small_runs.NET, "--vnnlib", "prop.vnnlib"],
        ["--vnnlib", "prop.vnnlib"],
        [*WHERE, "--vnnlib", "prop.vnnlib"],
        ["--model", "difference.onnx", "--vnnlib", "prop.vnnlib", "--method", "crown"],
    ],
)
def test_what_makes_no_sense_is_refused(here: Path, options: list[str]) -> None:
    asked(here, "(assert (<= Y_0 0.24))")
    assert main(["certify", *options]) == 2
