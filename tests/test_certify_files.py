"""ONNX files and VNN-LIB files written by hand here, whose answers are known by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from brinell.certify import onnx_net, vnnlib
from brinell.certify.decide import decide
from brinell.certify.graph import network_of
from brinell.errors import BadInput

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def saved(path: Path, nodes: list, weights: dict[str, np.ndarray], shape: tuple[int, ...], out: int = 2) -> Path:
    """A model with one input ``x`` of ``shape`` (with the rows) and one output ``y``."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (shape[0], out))],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph), path)
    return path


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def difference(folder: Path) -> onnx_net.OnnxNet:
    """``y_0 = relu(x_0 - x_1)``, ``y_1 = relu(x_1 - x_0) + 0.5``."""
    weights = {"w": floats(1, -1, -1, 1).reshape(2, 2), "b": floats(0, 0.5)}
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["z"]),
        helper.make_node("Relu", ["z"], ["r"]),
        helper.make_node("Add", ["r", "b"], ["y"]),
    ]
    return onnx_net.read(saved(folder / "difference.onnx", nodes, weights, (1, 2)))


BOX = """
(declare-const X_0 Real) (declare-const X_1 Real)
(declare-const Y_0 Real) (declare-const Y_1 Real)
(assert (>= X_0 0.5)) (assert (<= X_0 1)) ; first input
(assert (>= X_1 0)) (assert (<= X_1 0.25))
"""


def test_a_property_is_read_as_it_is_written() -> None:
    """Either ``2 y_0 - y_1 <= 3``, or both ``y_0 >= 1 + y_1`` and ``y_1 <= -1``."""
    text = BOX + "(assert (or (and (<= (- (* 2 Y_0) Y_1) 3.0)) (and (>= Y_0 (+ 1 Y_1)) (<= Y_1 -1))))"
    asked = vnnlib.parse(text)
    assert (asked.inputs, asked.outputs, len(asked.cases)) == (2, 2, 2)
    first, second = asked.cases
    for case in asked.cases:
        assert (case.lower.tolist(), case.upper.tolist()) == ([0.5, 0.0], [1.0, 0.25])
    assert (first.weight.tolist(), first.constant.tolist()) == ([[2.0, -1.0]], [-3.0])
    assert (second.weight.tolist(), second.constant.tolist()) == ([[-1.0, 1.0], [0.0, 1.0]], [1.0, 1.0])


def test_cases_may_have_boxes_of_their_own() -> None:
    text = """
    (declare-const X_0 Real) (declare-const Y_0 Real)
    (assert (or (and (>= X_0 0) (<= X_0 1) (<= Y_0 0)) (and (>= X_0 2) (<= X_0 3) (>= Y_0 5))
                (and (>= X_0 2) (<= X_0 1) (>= Y_0 5))))
    """
    asked = vnnlib.parse(text)  # the last box is empty
    assert [(*case.lower, *case.upper, *case.weight[0], *case.constant) for case in asked.cases] == [
        (0, 1, 1, 0),
        (2, 3, -1, 5),
    ]


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (BOX + "(assert (<= Y_0 Y_1)", "not closed"),
        (BOX + "(assert (<= Y_0 Y_1)))", "closes nothing"),
        (BOX + "(assert (not (<= Y_0 Y_1)))", r"\(not \(<= Y_0 Y_1\)\)"),
        (BOX + "(assert (<= (* Y_0 Y_1) 0))", r"\(\* Y_0 Y_1\)"),
        (BOX + "(assert (<= Y_0 X_1))", "inputs and outputs together"),
        (BOX + "(assert (<= Y_0 one))", "one where a number"),
        (BOX, "without a condition"),
        (BOX.replace("(assert (<= X_1 0.25))", "") + "(assert (<= Y_0 Y_1))", "without a lower and an upper"),
        (BOX + "(declare-const Y_3 Real)", "not X_0, X_1"),
    ],
)
def test_what_is_no_property_is_refused(text: str, got: str) -> None:
    with pytest.raises(BadInput, match=got):
        vnnlib.parse(text)


@pytest.mark.parametrize(
    ("unsafe", "answer"),
    [
        # on the box x_0 - x_1 lies in [0.25, 1], so that y_0 does, and y_1 is 0.5 everywhere
        ("(assert (<= Y_0 0.24))", "holds"),
        ("(assert (<= Y_0 0.26))", "violated"),
        ("(assert (>= Y_1 Y_0)) (assert (>= Y_0 1.1))", "holds"),
        ("(assert (or (and (>= Y_0 1.01)) (and (>= Y_1 0.51)) (and (<= Y_1 0.49))))", "holds"),
        ("(assert (or (and (>= Y_0 1.01)) (and (>= Y_0 0.9) (<= Y_1 0.5))))", "violated"),
        # met by numbers rounded to float32 alone: no point violates it, none is far enough for a proof
        ("(assert (<= Y_1 0.49999999999))", "unknown"),
        # the same in whatever units it is written
        ("(assert (<= (* 1e-300 Y_0) 0.24e-300))", "holds"),
        ("(assert (<= (* 1e-300 Y_0) 0.26e-300))", "violated"),
        ("(assert (<= (* 1e12 Y_1) 0.49999999e12))", "unknown"),
        # nowhere both, though each alone is somewhere: neither is above 0 on all of the box
        ("(assert (>= Y_0 0.7)) (assert (<= Y_0 0.6))", "unknown"),
    ],
)
def test_properties_are_decided(tmp_path: Path, unsafe: str, answer: str) -> None:
    net, asked = difference(tmp_path), vnnlib.parse(BOX + unsafe)
    verdict = decide(net, asked, seconds=2)
    assert verdict.answer == answer
    assert (verdict.witness is None) == (answer != "violated")
    assert verdict.text.count("X_") == verdict.text.count("Y_") == (2 if answer == "violated" else 0)
    if verdict.witness is not None:
        case = asked.cases[-1]
        point = verdict.witness[0].double().numpy()
        assert (case.lower <= point).all()
        assert (point <= case.upper).all()
        assert (case.weight @ net.module(verdict.witness)[0].double().numpy() + case.constant <= 0).all()


def test_a_witness_is_written_as_the_competition_reads_it() -> None:
    assert vnnlib.counterexample(np.array([0.5, 1.0]), np.array([-2.0])) == "((X_0 0.5)\n(X_1 1.0)\n(Y_0 -2.0))\n"


def test_a_property_must_fit_its_net(tmp_path: Path) -> None:
    asked = vnnlib.parse(BOX + "(declare-const Y_2 Real) (assert (<= Y_0 0))")
    with pytest.raises(BadInput, match="3 outputs"):
        decide(difference(tmp_path), asked, seconds=1)


def test_a_net_of_every_operation_says_what_pytorch_says(tmp_path: Path) -> None:
    """The same computation written as ONNX and as a module."""
    generator = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return generator.normal(size=shape).astype(np.float32)

    weights = {
        "mean": draw(1, 2, 1, 1), "std": floats(0.3), "k": draw(4, 2, 3, 3), "kb": draw(4), "gamma": draw(4), "beta": draw(4),
        "mu": draw(4), "var": np.abs(draw(4)), "g": draw(4, 2, 1, 1), "flat": np.array([-1, 16], dtype=np.int64),
        "w": draw(16, 6), "v": draw(3, 6), "vb": draw(3),
    }  # fmt: skip
    chain = [
        ("Sub", ["x", "mean"], {}),
        ("Div", ["", "std"], {}),
        ("Conv", ["", "k", "kb"], {"strides": [2, 2], "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}),
        ("BatchNormalization", ["", "gamma", "beta", "mu", "var"], {"epsilon": 0.1}),
        ("Relu", [""], {}),
        ("MaxPool", [""], {"kernel_shape": [2, 2], "strides": [1, 1], "pads": [1, 1, 1, 1]}),
        ("Conv", ["", "g"], {"group": 2, "kernel_shape": [1, 1]}),
        ("Sigmoid", [""], {}),
        ("AveragePool", [""], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Reshape", ["", "flat"], {}),
        ("MatMul", ["", "w"], {}),
        ("Tanh", [""], {}),
        ("Gemm", ["", "v", "vb"], {"transB": 1}),
    ]
    nodes = []
    for i, (kind, takes, settings) in enumerate(chain):
        names = [name or f"t{i - 1}" for name in takes]
        nodes.append(helper.make_node(kind, names, ["y" if i == len(chain) - 1 else f"t{i}"], **settings))
    net = onnx_net.read(saved(tmp_path / "net.onnx", nodes, weights, (1, 2, 6, 6), 3))
    held = {name: torch.from_numpy(value) for name, value in weights.items()}
    x = torch.rand(5, 2, 6, 6)
    z = nn.functional.conv2d((x - held["mean"]) / 0.3, held["k"], held["kb"], stride=2, padding=1)
    z = nn.functional.batch_norm(z, held["mu"], held["var"], held["gamma"], held["beta"], eps=0.1).relu()
    z = nn.functional.conv2d(nn.functional.max_pool2d(z, 2, 1, 1), held["g"], groups=2).sigmoid()
    z = (nn.functional.avg_pool2d(z, 2).flatten(1) @ held["w"]).tanh()
    wanted = z @ held["v"].T + held["vb"]
    torch.testing.assert_close(net.module(x), wanted)
    assert net.shape == (2, 6, 6)
    torch.testing.assert_close(
        network_of(net.module, net.shape).forward(x.double()).float(), wanted, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("node", "named"),
    [
        (helper.make_node("Softmax", ["x"], ["y"]), "operation Softmax"),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], ceil_mode=1), "ceil_mode"),
        (helper.make_node("Conv", ["x", "k"], ["y"], kernel_shape=[1, 1], auto_pad="SAME_UPPER"), "auto_pad"),
        (helper.make_node("Conv", ["x", "k"], ["y"], kernel_shape=[1, 1], pads=[0, 0, 1, 1]), "pads"),
        (helper.make_node("Flatten", ["x"], ["y"], axis=2), "axis"),
    ],
)
def test_operations_that_are_not_supported_are_refused(tmp_path: Path, node: onnx.NodeProto, named: str) -> None:
    path = saved(tmp_path / "net.onnx", [node], {"k": np.ones((1, 1, 1, 1), dtype=np.float32)}, (1, 1, 4, 4))
    with pytest.raises(BadInput, match=named):
        onnx_net.read(path)


def test_what_is_no_onnx_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_text("not a net", "utf-8")
    with pytest.raises(BadInput, match="cannot be read"):
        onnx_net.read(tmp_path / "net.onnx")
