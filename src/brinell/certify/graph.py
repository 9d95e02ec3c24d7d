"""A module as a short list of operators whose bounds are known, or a refusal that names what is not among them.

The module is traced by ``torch.export`` in float64, made free of writing in place (what writes on a value writes on its
views too), and must agree with what was read, on random inputs: a module that is misread is refused, never bounded. What is
bounded is therefore the module's function of real numbers, with the weights that it has. The deployed module rounds in its
own precision; what that can change is for the caller's tolerance.
"""

import copy
import operator as python
import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import OutputKind

from brinell.certify.operators import Affine, Function, Shape, Sum
from brinell.certify.reading import EITHER_SIDE, READERS, WITH_MORE_RESULTS, Call, Place, Unreadable, plain
from brinell.errors import BadInput

AGREEMENT = 1e-9
"""Largest difference between what was read and the module, in float64, relative to the largest output."""
_ROWS = 3
"""Rows of the traced batch: a module that folds rows into one another does not agree with one row at a time."""


@dataclass(frozen=True, eq=False)
class Node:
    """One value of the network and how it comes about; the first is the input and has no operator."""

    operator: Affine | Function | Sum | None
    sources: tuple[int, ...]
    """Places in the network's list, all before this one."""
    shape: Shape
    """Without the rows."""


@dataclass(frozen=True, eq=False)
class Network:
    """Values in an order in which each follows from those before; the last one holds the scores."""

    nodes: tuple[Node, ...]

    def forward(self, x: Tensor) -> Tensor:
        """The scores of each row."""
        values: list[Tensor] = []
        for node in self.nodes:
            given = [values[i] for i in node.sources]
            match node.operator:
                case None:
                    values.append(x)
                case Sum(sign):
                    values.append(given[0] + sign * given[1])
                case operator:
                    values.append(operator.forward(given[0]))
        return values[-1]

    def then(self, operator: Affine, outputs: int) -> "Network":
        """The network with one more affine operator on its scores."""
        return Network((*self.nodes, Node(operator, (len(self.nodes) - 1,), (outputs,))))

    def to(self, dtype: torch.dtype) -> "Network":
        """The same network with its weights in another precision."""
        return Network(
            tuple(
                node
                if node.operator is None or isinstance(node.operator, Sum | Function)
                else replace(node, operator=node.operator.to(dtype))
                for node in self.nodes
            )
        )


def network_of(module: nn.Module, shape: Shape) -> Network:
    """The network that ``module`` computes on inputs of ``shape`` (without the rows), in float64.

    Raises
    ------
    BadInput
        If the module cannot be traced, holds an operation whose bounds are not known, or does not agree with what was
        read.
    """
    try:
        exact = copy.deepcopy(module).double().cpu().requires_grad_(False)
    except Exception as error:
        raise _refused(f"a module that cannot be copied: {error}") from error
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(_ROWS, *shape, generator=generator, dtype=torch.float64)
    network = _Reader(exact, x).read()
    if len(network.nodes[-1].shape) != 1:
        raise _refused(f"outputs of shape {network.nodes[-1].shape} a row", expected="one score for each class")
    _check_agreement(network, exact, x)
    return network


def _check_agreement(network: Network, exact: nn.Module, x: Tensor) -> None:
    """Refuse where the network read from the module gives other scores on inputs near and far."""
    for points in (x, 4 * x - 2, x[:1], torch.zeros_like(x)):
        with torch.no_grad():
            wanted, got = exact(points.clone()), network.forward(points)
        scale = max(1.0, float(wanted.abs().max()))
        if wanted.shape != got.shape or not bool(((wanted - got).abs() <= AGREEMENT * scale).all()):
            raise _refused("a module whose outputs are not those of the operations that were read from it")


class _Reader:
    """Walks the traced operations, computes what depends on weights alone, and lists the rest."""

    def __init__(self, module: nn.Module, x: Tensor) -> None:
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                # no operation is taken apart; writes in place become values of their own
                program = torch.export.export(module, (x,), strict=False).run_decompositions({})
        except Exception as error:
            raise _refused(f"a module that cannot be traced: {str(error).splitlines()[0]}") from error
        self.graph = program.graph
        held = program.state_dict | program.constants
        names = program.graph_signature
        lifted = names.inputs_to_parameters | names.inputs_to_buffers | names.inputs_to_lifted_tensor_constants
        self.weights = {put: held[name] for put, name in lifted.items()}
        self.outputs = [spec.kind for spec in names.output_specs]
        self.nodes: list[Node] = [Node(None, (), tuple(x.shape[1:]))]
        self.found: dict[fx.Node, Any] = {}

    def read(self) -> Network:
        """The network, up to the module's output."""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self.found[node] = self.weights[node.name].detach() if node.name in self.weights else Place(0)
            elif node.op == "output":
                return self._ended(node)
            else:
                self._read_call(node)
        raise _refused("a module without an output")

    def _ended(self, output: fx.Node) -> Network:
        results: Any = output.args[0]
        if OutputKind.BUFFER_MUTATION in self.outputs:
            raise _refused("a module that writes on its own buffers")
        scores = [
            one for one, kind in zip(results, self.outputs, strict=True) if kind is not OutputKind.USER_INPUT_MUTATION
        ]
        if len(scores) != 1:
            raise _refused("a module that returns several values", expected="one tensor of scores")
        place = self.found[scores[0]]
        if not isinstance(place, Place):
            raise _refused("an output that does not depend on the input")
        return Network(tuple(self.nodes[: place.index + 1]))

    def _read_call(self, node: fx.Node) -> None:
        if node.target in _SAYS_NOTHING:
            return
        try:
            args: Any = fx.map_arg(node.args, self._value)
            named: Any = fx.map_arg(node.kwargs, self._value)
            if any(isinstance(self.found[source], Place) for source in node.all_input_nodes):
                self.found[node] = self._listed(node, args, named)
            else:
                self.found[node] = node.target(*args, **named)  # type: ignore[operator]  # of weights alone
        except Unreadable as error:
            raise _refused(f"{error} in {_where(node)}") from error
        except Exception as error:  # an argument that no reader foresees
            told = f"the operation {plain(str(node.target))} as it is used in {_where(node)}"
            raise _refused(f"{told} ({type(error).__name__})") from error

    def _value(self, node: fx.Node) -> Any:
        return self.found[node]

    def _listed(self, node: fx.Node, args: tuple[Any, ...], named: dict[str, Any]) -> Place:
        if node.target is python.getitem and isinstance(args[0], Place):  # of what an operation gives beside its value
            if args[1] != 0:
                raise Unreadable("a second result of an operation")
            return args[0]
        name, value = plain(str(node.target)), node.meta["val"]
        if name in WITH_MORE_RESULTS:
            value = value[0]
        if not isinstance(value, Tensor) or value.shape[:1] != (_ROWS,):
            raise Unreadable(f"the operation {name}, whose value is not one for each row,")
        places = tuple(one.index for one in args if isinstance(one, Place))
        if len(set(places)) != sum(isinstance(self.found[source], Place) for source in node.all_input_nodes):
            raise Unreadable(f"the operation {name} of several values at once")
        shapes = [self.nodes[i].shape for i in places]
        after = tuple(value.shape[1:])
        operator: Affine | Function | Sum | None
        if len(places) == 2 and name in ("add", "sub") and shapes == [after, after] and not named:
            operator = Sum(1 if name == "add" else -1)
        elif len(places) == 1 and name in READERS and (name in EITHER_SIDE or isinstance(args[0], Place)):
            operator = READERS[name](Call(name, args, named, shapes[0], after))
        else:
            raise Unreadable(f"the operation {name}")
        if operator is None:
            return Place(places[0])
        self.nodes.append(Node(operator, places, after))
        return Place(len(self.nodes) - 1)


_SAYS_NOTHING = (torch.ops.aten._assert_tensor_metadata.default, torch.ops.aten._assert_async.msg)
"""Operations without a value."""


def _where(node: fx.Node) -> str:
    """The module that an operation stands in, as the user named it."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    name, kind = stack[-1][:2] if stack else ("", "the module")
    return f"{name or 'the module'} ({str(kind).rpartition('.')[2]})"


def _refused(
    got: str, expected: str = "linear, convolution, batch norm, pooling, ReLU, sigmoid, tanh, sums"
) -> BadInput:
    return BadInput(
        "a model to certify",
        got=got,
        expected=expected,
        remedy="No bound is given for what is not understood: write the model with these operations, in evaluation mode.",
    )
