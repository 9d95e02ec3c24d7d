"""ONNX files that say something else than they seem to: read as ONNX's own reference evaluates them, or refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from brinell.certify import onnx_net
from brinell.cli import main
from brinell.errors import BadInput
from test_certify_files import BOX, floats

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

Nodes = list[onnx.NodeProto]
node = helper.make_node


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def whole(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def model(
    nodes: Nodes,
    weights: dict[str, np.ndarray],
    shape: tuple[int | str, ...] = (1, 4),
    *,
    opset: int = 15,
    kind: int = TensorProto.FLOAT,
    domains: tuple[str, ...] = (),
    functions: tuple[onnx.FunctionProto, ...] = (),
) -> onnx.ModelProto:
    """From ``x`` of ``shape``, rows first, to ``y`` of whatever shape follows."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def read(folder: Path, made: onnx.ModelProto) -> onnx_net.OnnxNet:
    onnx.save(made, folder / "net.onnx")
    return onnx_net.read(folder / "net.onnx")


def negation(domain: str) -> onnx.FunctionProto:
    """A function named ``Relu`` that is none."""
    opsets = [helper.make_opsetid("", 15)]
    return helper.make_function(domain, "Relu", ["a"], ["b"], [node("Neg", ["a"], ["b"])], opsets)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (model([node("Relu", ["x"], ["y"], domain="of.mine")], {}, domains=("of.mine",)), "of the domain of.mine"),
        (
            model([node("Relu", ["x"], ["y"], domain="mine")], {}, domains=("mine",), functions=(negation("mine"),)),
            "the operation Relu of the domain mine",
        ),
        (model([node("Relu", ["x"], ["y"])], {}, functions=(negation(""),)), "a function of the file's own"),
        (model([node("Add", ["x", "c"], ["y"], broadcast=1, axis=1)], {"c": draw(4)}, opset=6), "opset 6"),
        (model([node("Relu", ["x"], ["y"])], {}, opset=29), "opset 29"),
        (model([node("Add", ["x", "c"], ["y"], axis=0)], {"c": draw(4)}), "Add with the setting axis = 0"),
        (model([node("Relu", ["x"], ["y"], alpha=0.5)], {}), "Relu with the setting alpha = 0.5"),
        (model([node("Gemm", ["x", "w"], ["y"], beta=0.0)], {"w": draw(4, 3)}), "Gemm with beta"),
        (model([node("MaxPool", ["x"], ["y"], kernel_shape=[2])], {}, (1, 3, 7)), "rows, channels, height, width"),
        (model([node("AveragePool", ["x"], ["y"], kernel_shape=[2])], {}, (1, 3, 7)), "rows, channels, height, width"),
        (model([node("GlobalAveragePool", ["x"], ["y"])], {}, (1, 3, 7)), "rows, channels, height, width"),
        (model([node("GlobalAveragePool", ["x"], ["y"])], {}, (1, 3, 2, 2, 2)), "rows, channels, height, width"),
        (model([node("Conv", ["x", "k"], ["y"])], {"k": draw(2, 3, 2)}, (1, 3, 7)), "rows, channels, height, width"),
        (
            model([node("Conv", ["x", "k"], ["y"], kernel_shape=[2, 2])], {"k": draw(1, 1, 3, 3)}, (1, 1, 5, 5)),
            "kernel_shape|cannot be evaluated",
        ),
        (
            model([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="VALID", pads=[1] * 4)], {}, (1, 1, 4, 4)),
            "beside auto_pad",
        ),
        (
            model([node("Dropout", ["x", "r", "t"], ["y"])], {"r": np.float32(0.9)[()], "t": np.array(True)}),
            "dropout in training mode",
        ),
        (model([node("Dropout", ["x"], ["y", "mask"])], {}), "Dropout with the outputs y, mask"),
        (model([node("Mul", ["x", "c"], ["y"])], {"c": np.array(2)}), "cannot be evaluated"),
        (model([node("Mul", ["c", "c"], ["d"]), node("Mul", ["x", "d"], ["y"])], {"c": whole(3)}), "type int64|inconsistent"),
        (model([node("Add", ["x", "c"], ["y"])], {"c": floats(np.nan)}), "not finite"),
        (model([node("Add", ["x", "c"], ["y"])], {"c": draw(2, 4)}), "cannot be evaluated|shapes"),
        (model([node("Add", ["x", "c"], ["y"])], {"c": draw(1, 1, 4)}), "for 1, 2 and 3 rows"),
        (model([node("MatMul", ["c", "x"], ["y"])], {"c": draw(1, 1)}), "cannot be evaluated|shapes"),
        (model([node("Reshape", ["x", "s"], ["z"]), node("Add", ["x", "z"], ["y"])], {"s": whole(1, 1, 4)}), "3 rows"),
        (model([node("Gemm", ["x", "x"], ["y"], transB=1)], {}), "Gemm with x, which depends on the input"),
        (model([node("Identity", ["c"], ["y"])], {"c": draw(1, 4)}), "does not depend on the input"),
        (model([node("Relu", ["x"], ["y"])], {}, (5, 4)), "5 rows at once"),
        (model([node("Relu", ["x"], ["y"])], {}, (1, "wide")), "unknown shape"),
        (model([node("Relu", ["x"], ["y"])], {}, kind=TensorProto.DOUBLE), "an input of type DOUBLE"),
        (model([node("Add", ["x", "c"], ["y"])], {"c": draw(4).astype(np.float16)}), "c of type FLOAT16|inconsistent type"),
        (model([node("Constant", [], ["c"], value_string="a"), node("Add", ["x", "c"], ["y"])], {}), "value_string"),
        (model([node("Relu", ["x"], ["z"]), node("Relu", ["z"], ["z"]), node("Relu", ["z"], ["y"])], {}), "static assignment"),
    ],
)  # fmt: skip
def test_what_would_be_read_as_something_else_is_refused(tmp_path: Path, made: onnx.ModelProto, named: str) -> None:
    with pytest.raises(BadInput, match=named) as raised:
        read(tmp_path, made)
    assert str(tmp_path) in raised.value.subject
    assert raised.value.expected.startswith("a classifier in opset 7")
    assert raised.value.remedy


Weights = dict[str, Any]
READ: list[tuple[Nodes, Weights, tuple[int, ...]]] = [
    ([node("Constant", [], ["c"], value_float=2.0), node("Mul", ["x", "c"], ["y"])], {}, (1, 4)),
    ([node("Constant", [], ["c"], value_floats=[1.0, 2.0, 3.0, 4.0]), node("Mul", ["x", "c"], ["y"])], {}, (1, 4)),
    ([node("Constant", [], ["c"], value_ints=[1, -1]), node("Reshape", ["x", "c"], ["y"])], {}, (1, 2, 3)),
    (
        [node("Constant", [], ["c"], value=numpy_helper.from_array(draw(4))), node("Sub", ["c", "x"], ["y"])],
        {},
        (1, 4),
    ),
    ([node("Reshape", ["b", "s"], ["c"]), node("Add", ["x", "c"], ["y"])], {"b": draw(2), "s": whole(1, -1)}, (1, 2)),
    ([node("Reshape", ["b", "s"], ["c"]), node("Add", ["x", "c"], ["y"])], {"b": draw(3), "s": whole(1, -1, 1, 1)}, (1, 3, 2, 2)),
    ([node("Reshape", ["b", "s"], ["c"]), node("MatMul", ["x", "c"], ["y"])], {"b": draw(2, 8), "s": whole(4, 4)}, (1, 4)),
    ([node("Reshape", ["b", "s"], ["c"]), node("MatMul", ["x", "c"], ["y"])], {"b": draw(4, 2, 3), "s": whole(0, -1)}, (1, 4)),
    ([node("Div", ["b", "d"], ["c"]), node("Mul", ["x", "c"], ["y"])], {"b": draw(4), "d": floats(3)}, (1, 4)),
    ([node("Gemm", ["x", "w", ""], ["y"])], {"w": draw(4, 3)}, (1, 4)),
    ([node("Dropout", ["x", "r", "t"], ["y"])], {"r": np.float32(0.9)[()], "t": np.array(False)}, (1, 4)),
    ([node("MatMul", ["w", "x"], ["y"])], {"w": draw(2, 4)}, (1, 4, 3)),
    (
        [node("BatchNormalization", ["x", "a", "b", "m", "v"], ["y"], epsilon=0.01, momentum=0.5)],
        {"a": draw(3), "b": draw(3), "m": draw(3), "v": np.abs(draw(3))},
        (1, 3, 7),
    ),
    (
        [node("Conv", ["x", "k"], ["y"], strides=[1, 2], dilations=[2, 1], pads=[1, 2, 1, 2], group=2)],
        {"k": draw(4, 1, 3, 2)},
        (1, 2, 7, 8),
    ),
    ([node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 1], pads=[1] * 4)], {}, (1, 3, 7, 7)),
    ([node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)], {}, (1, 3, 7, 7)),
    ([node("GlobalAveragePool", ["x"], ["y"])], {}, (1, 3, 7, 7)),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "weights", "shape"), READ)
def test_what_is_read_is_what_the_reference_evaluates(
    tmp_path: Path, nodes: Nodes, weights: Weights, shape: tuple[int, ...]
) -> None:
    """Row by row, by the package onnx; of three rows together the same."""
    made = model(nodes, weights, shape)
    net, reference = read(tmp_path, made), ReferenceEvaluator(made)
    x = np.random.default_rng(1).normal(size=(3, *shape[1:])).astype(np.float32)
    wanted = np.concatenate([reference.run(None, {"x": x[i : i + 1]})[0] for i in range(3)])
    np.testing.assert_allclose(net.module(torch.from_numpy(x)).numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_a_violated_property_of_a_function_named_relu_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file negates its inputs, which are positive: no output is above 0, and no answer is given."""
    monkeypatch.chdir(tmp_path)
    nodes = [node("Relu", ["x"], ["y"], domain="mine")]
    onnx.save(model(nodes, {}, (1, 2), domains=("mine",), functions=(negation("mine"),)), "net.onnx")
    Path("prop.vnnlib").write_text(BOX.replace("X_1 0)", "X_1 0.1)") + "(assert (<= Y_0 0))", "utf-8")
    assert main(["certify", "--model", "net.onnx", "--vnnlib", "prop.vnnlib"]) == 2
    assert "holds" not in capsys.readouterr().out
