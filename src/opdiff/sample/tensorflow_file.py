"""Frozen TensorFlow graph of a sample network; images are NHWC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import wire
from opdiff.sample import ops

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape
    from opdiff.sample.graph import GoldenOp, Kernel, SampleNetwork

    Attributes = Mapping[str, bytes]
    """Encoded values by name."""

# Fields of a NodeDef, of its attributes and of a TensorProto.
_NODE, _NAME, _OP, _INPUT, _ATTR = 1, 1, 2, 3, 5
_LIST, _STRING, _BOOL, _TYPE, _SHAPE, _TENSOR = 1, 2, 5, 6, 7, 8
_CONTENT = 4
_TYPE_NUMBERS = {"float32": 1, "int32": 3}
_FLOAT, _INT32 = (wire.number(_TYPE, _TYPE_NUMBERS[name]) for name in ("float32", "int32"))
_TYPES: dict[Kernel, str] = {ops.relu: "Relu", ops.add: "AddV2", ops.softmax: "Softmax"}


def encode_tensorflow(network: SampleNetwork) -> bytes:
    """Return the graph."""
    n, c, height, width = network.image.shape
    image = {"dtype": _FLOAT, "shape": wire.block(_SHAPE, _shape((n, height, width, c)))}
    nodes = [_node(network.image_name, "Placeholder", (), image)]
    return b"".join((*nodes, *(part for op in network.golden for part in _nodes(op))))


def _nodes(op: GoldenOp) -> list[bytes]:
    """Return the nodes of an operator: the last one has its name, and the others and constants have names below it."""
    inputs = [port.op for port in op.inputs]
    if op.function is ops.conv:
        weight = op.parameters["weight"].transpose(2, 3, 1, 0)
        stride = op.parameters["stride"]
        strides = wire.block(_LIST, wire.packed(3, (1, stride, stride, 1)))
        return _with_bias(op, "Conv2D", weight, {"strides": strides, "padding": wire.text(_STRING, "SAME")})
    if op.function is ops.dense:
        return _with_bias(op, "MatMul", op.parameters["weight"], {})
    if op.function is ops.average_all:
        axes = _constant(f"{op.name}/axes", np.array([1, 2], np.int32))
        keep = wire.number(_BOOL, 1)
        attributes = {"T": _FLOAT, "Tidx": _INT32, "keep_dims": keep}
        return [axes, _node(op.name, "Mean", (*inputs, f"{op.name}/axes"), attributes)]
    if op.function is ops.flatten:
        shape = _constant(f"{op.name}/shape", np.array([1, -1], np.int32))
        return [shape, _node(op.name, "Reshape", (*inputs, f"{op.name}/shape"), {"T": _FLOAT, "Tshape": _INT32})]
    return [_node(op.name, _TYPES[op.function], inputs, {"T": _FLOAT})]


def _with_bias(op: GoldenOp, product: str, weight: AnyArray, attributes: Attributes) -> list[bytes]:
    """Return a product with weights, named by its type, and the sum with the bias."""
    weight_name, bias_name, product_name = (f"{op.name}/{part}" for part in ("weight", "bias", product))
    return [
        _constant(weight_name, weight.astype(np.float32)),
        _constant(bias_name, op.parameters["bias"].astype(np.float32)),
        _node(product_name, product, (op.inputs[0].op, weight_name), {"T": _FLOAT, **attributes}),
        _node(op.name, "BiasAdd", (product_name, bias_name), {"T": _FLOAT}),
    ]


def _constant(name: str, array: AnyArray) -> bytes:
    number = _TYPE_NUMBERS[array.dtype.name]
    tensor = wire.number(1, number) + wire.block(2, _shape(array.shape)) + wire.block(_CONTENT, array.tobytes())
    return _node(name, "Const", (), {"dtype": wire.number(_TYPE, number), "value": wire.block(_TENSOR, tensor)})


def _node(name: str, op_type: str, inputs: Iterable[str], attributes: Attributes) -> bytes:
    body = wire.text(_NAME, name) + wire.text(_OP, op_type) + b"".join(wire.text(_INPUT, each) for each in inputs)
    entries = (wire.text(1, key) + wire.block(2, value) for key, value in sorted(attributes.items()))
    return wire.block(_NODE, body + b"".join(wire.block(_ATTR, entry) for entry in entries))


def _shape(shape: Shape) -> bytes:
    return b"".join(wire.block(2, wire.number(1, extent)) for extent in shape)
