"""An ONNX file as a PyTorch module, if it is made of the operations of plain classifiers. Others are refused by name.

Needs the package ``onnx`` (``pip install 'brinell[onnx]'``), to read the file and for nothing else.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from brinell.certify.onnx_operations import OPERATIONS
from brinell.errors import BadInput


class Operation(NamedTuple):
    """One node of the graph."""

    kind: str
    takes: tuple[str, ...]
    """Names of values; an empty one was left out."""
    gives: str
    settings: dict[str, Any]


class OnnxModule(nn.Module):
    """The graph's output for each row, in float32 or whatever the module is cast to.

    Inputs have the graph's shape without its first dimension, which is taken for the rows whatever the file says.
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
        found: dict[str, Any] = {self.given: x, **self.whole}
        found |= {name: getattr(self, place) for name, place in self.places.items()}
        for kind, takes, gives, settings in self.operations:
            found[gives] = OPERATIONS[kind]([found[name] if name else None for name in takes], settings)
        scores: Tensor = found[self.result]
        return scores


class OnnxNet(NamedTuple):
    """A module and the shape of its input, without the rows."""

    module: OnnxModule
    shape: tuple[int, ...]


def read(path: Path) -> OnnxNet:
    """The net in an ONNX file, in evaluation mode.

    Raises
    ------
    BadInput
        If the file cannot be read, or holds an operation or a setting that is not supported.
    """
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise _refused(path, "no package onnx", "pip install 'brinell[onnx]'.") from error
    try:
        graph = onnx.load(path).graph
    except Exception as error:
        raise _refused(path, f"a file that cannot be read: {error}", "Give an ONNX file.") from error
    weights = {held.name: torch.tensor(numpy_helper.to_array(held)) for held in graph.initializer}
    operations = []
    for node in graph.node:
        settings = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            weights[node.output[0]] = torch.tensor(numpy_helper.to_array(settings["value"]))
        elif node.op_type in OPERATIONS and len(node.output) == 1:
            operations.append(Operation(node.op_type, tuple(node.input), node.output[0], settings))
        else:
            raise _refused(path, f"the operation {node.op_type}", "Export the net without it.")
    inputs = [put for put in graph.input if put.name not in weights]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise _refused(path, f"{len(inputs)} inputs and {len(graph.output)} outputs", "Give a net with one of each.")
    shape = tuple(size.dim_value for size in inputs[0].type.tensor_type.shape.dim)[1:]
    if not all(shape):
        raise _refused(path, f"an input of unknown shape {shape}", "Export the net with a fixed size of its inputs.")
    module = OnnxModule(operations, weights, inputs[0].name, graph.output[0].name).eval()
    _try(path, module, shape)
    return OnnxNet(module, shape)


def _try(path: Path, module: OnnxModule, shape: tuple[int, ...]) -> None:
    """Refuse settings that are not supported before anything is asked of the net."""
    try:
        with torch.no_grad():
            rows = len(module(torch.zeros(2, *shape)))
    except Exception as error:
        raise _refused(path, f"a net that cannot be evaluated: {error}", "Export it with plain settings.") from error
    if rows != 2:
        raise _refused(path, f"{rows} outputs for 2 rows", "Export a net that treats each row by itself.")


def _refused(path: Path, got: str, remedy: str) -> BadInput:
    return BadInput(
        f"ONNX file {path}", got=got, expected=f"a classifier made of {', '.join(sorted(OPERATIONS))}", remedy=remedy
    )
