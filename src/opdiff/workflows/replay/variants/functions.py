"""The operand of the function at the end of a subgraph: one node, or several that compute element by element."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.workflows.replay.variants.operands import ACTIVATIONS
from opdiff.workflows.replay.variants.variant import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.workflows.replay.encoded_model import EncodedNode
    from opdiff.workflows.replay.variants.variant import Computation

_FUNCTIONS = ACTIVATIONS | {"Exp", "Log", "Sqrt", "Reciprocal", "Pow", "Sin", "Cos", "Softsign", "Softmax"}
# Functions that devices approximate.
_APPROXIMATED = _FUNCTIONS - {
    "Relu", "Clip", "LeakyRelu", "PRelu", "HardSigmoid", "HardSwish", "ThresholdedRelu",
}  # fmt: skip
_COMBINED = (_FUNCTIONS - {"Softmax"}) | {"Add", "Sub", "Mul", "Div", "Neg", "Abs"}


class Function(NamedTuple):
    """The last node of a function, its operand, and whether there are no other nodes."""

    node: EncodedNode
    operand: str
    is_single: bool


def find_function(computation: Computation, output: str) -> Function | None:
    """Return the function of one tensor that computes an output element by element.

    Steps with other operands than scalar constants end it.
    """
    last = next((node for node in computation.subgraph.nodes if output in node.outputs), None)
    if last is None:
        return None
    found = _walk_back(computation, output)
    is_function = last.op_type in _FUNCTIONS
    if found is not None:
        return Function(last, found, is_function and found in last.inputs)
    return Function(last, last.inputs[0], is_single=True) if is_function else None


def computes_function(computation: Computation) -> bool:
    """Return whether a node computes a function that devices approximate."""
    return any(node.op_type in _APPROXIMATED for node in computation.subgraph.nodes)


def without_function(computation: Computation) -> Iterator[Variant]:
    """Yield variants without an activation that consists of several nodes."""
    for output in computation.subgraph.outputs:
        found = find_function(computation, output)
        if found is not None and not found.is_single:
            node = found.node
            reason = because("replay.cause_no_activation", operator=node.name, op_type=node.op_type, operand="")
            yield Variant(ErrorKind.ACTIVATION, reason, computation.passing_on(node, found.operand))


def _walk_back(computation: Computation, output: str) -> str | None:
    """Return the earliest tensor that all paths to the output go through."""
    shape, open_tensors, found = computation.shape_of(output), {output}, None
    for node in reversed(computation.subgraph.nodes):
        if not node.reads or not open_tensors & set(node.outputs):
            continue
        if node.op_type not in _COMBINED:
            break
        sources = [name for name in node.inputs if name and not _is_scalar(computation, name)]
        if any(computation.is_constant(name) or computation.shape_of(name) != shape for name in sources):
            break
        open_tensors = (open_tensors - set(node.outputs)) | set(sources)
        if len(open_tensors) == 1:
            (found,) = open_tensors
    return found


def _is_scalar(computation: Computation, name: str) -> bool:
    shape = computation.shape_of(name)
    return computation.is_constant(name) and shape is not None and prod(shape) == 1
