"""The quantization or dequantization at the end of a subgraph: the values before it, and its zero point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core import onnx_encoder as onnx
from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.workflows.replay.encoded_model import added_node
from opdiff.workflows.replay.variants.variant import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.workflows.replay.encoded_model import EncodedNode, Subgraph
    from opdiff.workflows.replay.variants.variant import Computation

_ROUNDING = frozenset({"Round", "Floor", "Ceil"})
_MAX_STEPS = 6


def before_rounding(computation: Computation, output: str) -> Subgraph | None:
    """Return the subgraph that ends with the values before they are rounded to integers; `None` if they are not."""
    last = _producer(computation, output)
    if last is None:
        return None
    if last.op_type == "QuantizeLinear":
        return _before_linear(computation, last)
    node = last
    for _ in range(_MAX_STEPS):
        if node.op_type in _ROUNDING:
            return computation.passing_on(last, node.inputs[0])
        before = _producer(computation, node.inputs[0]) if node.op_type in ("Cast", "Clip") else None
        if before is None:
            return None
        node = before
    return None


def _before_linear(computation: Computation, node: EncodedNode) -> Subgraph | None:
    """Return the subgraph with a division and a sum in place of a quantization with one scale."""
    if max(computation.shape_of(node.inputs[1]) or (1,), default=1) > 1:
        return None
    name = f"opdiff:scaled:{node.outputs[0]}"
    divided = replace(node, op_type="Div", inputs=node.inputs[:2], attributes=())
    if len(node.inputs) < 3:
        return computation.with_node(node, divided)
    zero = added_node("Cast", node.inputs[2:3], f"{name}:zero", to=onnx.FLOAT)
    total = replace(node, op_type="Add", inputs=(name, f"{name}:zero"), attributes=())
    return computation.with_node(node, zero, replace(divided, outputs=(name,)), total)


def integers_before_scaling(computation: Computation, output: str) -> Subgraph | None:
    """Return the subgraph that ends with the integers, as floats, that the output scales; `None` if there are none."""
    last = _producer(computation, output)
    node = last
    for _ in range(_MAX_STEPS):
        if node is None or last is None:
            return None
        if node.op_type == "DequantizeLinear" or (node.op_type == "Cast" and _is_integer(computation, node.inputs[0])):
            if computation.shape_of(node.inputs[0]) != computation.shape_of(output):
                return None
            to_float = (onnx.attribute("to", onnx.FLOAT),)
            return computation.with_node(
                last, replace(last, op_type="Cast", inputs=node.inputs[:1], attributes=to_float)
            )
        if node.op_type not in ("Relu", "Mul", "Add"):
            return None
        node = _producer(computation, node.inputs[0])
    return None


def is_quantized(computation: Computation) -> bool:
    """Return whether a subgraph computes with quantized values."""
    return any(node.op_type in ("DequantizeLinear", "QuantizeLinear") for node in computation.subgraph.nodes)


def without_zero_point(computation: Computation) -> Iterator[Variant]:
    """Yield variants of dequantizations of the model without their zero point."""
    for node in computation.computing_nodes():
        if node.op_type == "DequantizeLinear" and len(node.inputs) > 2:
            reason = because("replay.cause_node_zero_point", operator=node.name, op_type=node.op_type)
            subgraph = computation.with_node(node, replace(node, inputs=node.inputs[:2]))
            yield Variant(ErrorKind.QUANTIZATION, reason, subgraph)


def _producer(computation: Computation, tensor: str) -> EncodedNode | None:
    return next((node for node in computation.subgraph.nodes if tensor in node.outputs and node.reads), None)


def _is_integer(computation: Computation, tensor: str) -> bool:
    kind = computation.types.get(tensor)
    return kind is not None and "int" in kind.dtype.name
