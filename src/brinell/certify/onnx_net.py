"""An ONNX file as a PyTorch module, if it is made of the operations of plain classifiers. Others are refused by name.

Needs the package ``onnx`` (``pip install 'brinell[onnx]'``), to read the file and for nothing else.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from brinell.certify.onnx_operations import CONSTANT, ON_CONSTANTS, OPERATIONS, OPSETS, Unsupported
from brinell.errors import BadInput

OWN = ("", "ai.onnx")
"""The names of ONNX's own domain."""


class Operation(NamedTuple):
    """One node of the graph."""

    kind: str
    takes: tuple[str, ...]
    """Names of values; an empty one was left out."""
    gives: str
    settings: dict[str, Any]


class OnnxModule(nn.Module):
    """The graph's output for each row, in float32 or whatever the module is cast to.

    Inputs have the graph's shape without its first dimension, which is that of the rows.
    """

    def __init__(self, operations: list[Operation], weights: dict[str, Tensor], given: str, result: str) -> None:
        super().__init__()
        self.operations, self.given, self.result = operations, given, result
        real = [name for name, weight in weights.items() if weight.is_floating_point()]
        self.whole = {name: weight.tolist() for name, weight in weights.items() if name not in real}
        self.places = {name: f"weight_{i}" for i, name in enumerate(real)}
        for name in real:
            self.register_buffer(self.places[name], weights[name])

    def extra_repr(self) -> str:
        """The graph, operation by operation: what a fingerprint has to tell apart beside the weights."""
        lines = [f"{one.gives} = {one.kind}{one.takes} {sorted(one.settings.items())}" for one in self.operations]
        return "\n".join([*lines, f"whole numbers {self.whole}, from {self.given} to {self.result}"])

    def forward(self, x: Tensor) -> Tensor:
        """The scores of each row."""
        scores: Tensor = self.values(x)[self.result]
        return scores

    def values(self, x: Tensor) -> dict[str, Any]:
        """All values of the graph by their names, the last of which depend on ``x``."""
        found: dict[str, Any] = {name: getattr(self, place) for name, place in self.places.items()}
        found |= {**self.whole, self.given: x}
        for kind, takes, gives, settings in self.operations:
            found[gives] = OPERATIONS[kind].compute([found[name] if name else None for name in takes], settings)
        return found


class OnnxNet(NamedTuple):
    """A module and the shape of its input, without the rows."""

    module: OnnxModule
    shape: tuple[int, ...]


def read(path: Path) -> OnnxNet:
    """The net in an ONNX file, in evaluation mode.

    Raises
    ------
    BadInput
        If the file cannot be read or breaks ONNX's own rules, or holds an operation, a setting, a function or a type that
        is not supported, or does not treat each row by itself.
    """
    try:
        import onnx
    except ImportError as error:
        raise _refused(path, "no package onnx", "pip install 'brinell[onnx]'.") from error
    try:
        model = onnx.load(path)
    except Exception as error:
        raise _refused(path, f"a file that cannot be read: {error}", "Give an ONNX file.") from error
    try:
        operations = _operations(model)
        onnx.checker.check_model(onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True))
        return _net(model, operations)
    except Unsupported as error:
        raise _refused(path, str(error), "Export the net without it.") from error
    except Exception as error:
        raise _refused(path, f"a net that cannot be evaluated: {error}", "Export it with plain settings.") from error


def _operations(model: Any) -> list[Operation]:
    """The graph's nodes, each one of ONNX's own and with nothing that is not known here."""
    from onnx.helper import get_attribute_value

    opsets = {one.version for one in model.opset_import if one.domain in OWN}
    if len(opsets) != 1 or not opsets <= set(OPSETS):
        raise Unsupported(f"opset {', '.join(map(str, sorted(opsets))) or 'of no version'}")
    functions = {one.name for one in model.functions if one.domain in OWN}
    operations = []
    for node in model.graph.node:
        gives = [name for name in node.output if name]
        if node.domain not in OWN:
            raise Unsupported(f"the operation {node.op_type} of the domain {node.domain}")
        if node.op_type in functions:
            raise Unsupported(f"the operation {node.op_type} as a function of the file's own")
        if node.op_type not in (*OPERATIONS, "Constant"):
            raise Unsupported(f"the operation {node.op_type}")
        settings = {one.name: get_attribute_value(one) for one in node.attribute}
        try:
            if len(settings) != len(node.attribute) or any(one.ref_attr_name for one in node.attribute):
                raise Unsupported("settings given twice, or by reference")
            if gives != list(node.output[:1]):
                raise Unsupported(f"the outputs {', '.join(gives)}")
            OPERATIONS.get(node.op_type, CONSTANT).check(len(node.input), settings)
        except Unsupported as error:
            raise Unsupported(f"the operation {node.op_type} with {error}") from error
        operations.append(Operation(node.op_type, tuple(node.input), gives[0], settings))
    return operations


def _net(model: Any, operations: list[Operation]) -> OnnxNet:
    """The net of the operations, those on weights alone computed here and now."""
    graph, kept = model.graph, []
    if graph.sparse_initializer:
        raise Unsupported("sparse weights")
    weights = {held.name: _weight(held) for held in graph.initializer}
    inputs = [put for put in graph.input if put.name not in weights]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise Unsupported(f"{len(inputs)} inputs and {len(graph.output)} outputs (a net has one of each)")
    for one in operations:
        if one.kind == "Constant":
            weights[one.gives] = _constant(one.settings)
        elif _on_weights(one, weights):
            given = [weights[name] if name else None for name in one.takes]
            weights[one.gives] = ON_CONSTANTS[one.kind](given, one.settings)
        else:
            kept.append(one)
    shape = _shape(inputs[0].type.tensor_type)
    taken = {name for one in kept for name in one.takes}
    held = {name: weight for name, weight in weights.items() if name in taken}
    net = OnnxNet(OnnxModule(kept, held, inputs[0].name, graph.output[0].name).eval(), shape)
    _check_rows(net)
    return net


def _weight(held: Any) -> Tensor:
    """A stored tensor: finite float32, int64 or truth values."""
    from onnx import TensorProto, numpy_helper

    if held.data_type not in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL):
        raise Unsupported(f"weights {held.name} of type {TensorProto.DataType.Name(held.data_type)}")
    weight = torch.tensor(numpy_helper.to_array(held))
    if not bool(weight.isfinite().all()):
        raise Unsupported(f"weights {held.name} that are not finite")
    return weight


def _constant(settings: dict[str, Any]) -> Tensor:
    """The value of the operation ``Constant``."""
    match list(settings.items()):
        case [("value", held)]:
            return _weight(held)
        case [("value_float" | "value_floats", value)]:
            return torch.tensor(value, dtype=torch.float32)
        case [("value_int" | "value_ints", value)]:
            return torch.tensor(value, dtype=torch.int64)
    raise Unsupported(f"the operation Constant with {', '.join(settings)}")


def _on_weights(one: Operation, weights: dict[str, Tensor]) -> bool:
    """Whether an operation depends on weights alone; refused are weights and values in places where none can stand."""
    kind = OPERATIONS[one.kind]
    for place, name in enumerate(one.takes):
        weight = weights.get(name)
        if not name and place < kind.inputs[0]:
            raise Unsupported(f"the operation {one.kind} without its input {place}")
        if weight is not None and weight.is_floating_point() == (place in kind.whole):
            raise Unsupported(f"the operation {one.kind} with {name} of type {str(weight.dtype).split('.')[1]}")
    real = [place for place, name in enumerate(one.takes) if name and name not in weights]
    if real and not (kind.anywhere or real == [0]):
        raise Unsupported(f"the operation {one.kind} with {one.takes[real[-1]]}, which depends on the input")
    return not real


def _shape(given: Any) -> tuple[int, ...]:
    """Of an input, without the rows: it must be float32, and for one row or for any number of them."""
    from onnx import TensorProto

    if given.elem_type != TensorProto.FLOAT:
        raise Unsupported(f"an input of type {TensorProto.DataType.Name(given.elem_type)}")
    rows, *shape = [size.dim_value for size in given.shape.dim] or [0]
    if rows > 1:
        raise Unsupported(f"an input of {rows} rows at once (it must be 1, or left open)")
    if not shape or min(shape) < 1:
        raise Unsupported(f"an input of unknown shape {tuple(shape)} (its size must be fixed)")
    return tuple(shape)


def _check_rows(net: OnnxNet) -> None:
    """Refuse a net whose values are not, for 1, 2 and 3 rows, the rows first and then one shape.

    So no dimension beside the first grows with the rows, and none of the operations can let them meet: what is computed for
    rows together is what the file says of one.
    """
    with torch.no_grad():
        found = [net.module.values(torch.zeros(rows, *net.shape)) for rows in (1, 2, 3)]
    for name in [net.module.given, *(one.gives for one in net.module.operations)]:
        shapes = [tuple(values[name].shape) for values in found]
        if any(shape != (rows, *shapes[0][1:]) for rows, shape in enumerate(shapes, start=1)):
            raise Unsupported(f"the value {name} of shapes {shapes} for 1, 2 and 3 rows")
    if net.module.result not in [net.module.given, *(one.gives for one in net.module.operations)]:
        raise Unsupported("an output that does not depend on the input")


def _refused(path: Path, got: str, remedy: str) -> BadInput:
    return BadInput(
        f"ONNX file {path}",
        got=got,
        expected=f"a classifier in opset {OPSETS[0]} to {OPSETS[-1]} made of {', '.join(sorted(OPERATIONS))}",
        remedy=remedy,
    )
