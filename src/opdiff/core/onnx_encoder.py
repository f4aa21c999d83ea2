"""Parts of ONNX models, encoded: nodes with their attributes, weights, inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

Attribute = int | float | str | tuple[int, ...]
FLOAT, INT64 = 1, 7
_ELEMENTS = {"float32": FLOAT, "int64": INT64}
_IR_VERSION = 8


def node(
    op_type: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    attributes: Mapping[str, Attribute] | None = None,
    *,
    name: str = "",
) -> bytes:
    """Encode a node as a field of a graph."""
    body = b"".join(wire.block(1, tensor.encode()) for tensor in inputs)
    body += b"".join(wire.block(2, tensor.encode()) for tensor in outputs)
    body += wire.text(3, name) + wire.text(4, op_type)
    body += b"".join(wire.block(5, attribute(key, value)) for key, value in (attributes or {}).items())
    return wire.block(1, body)


def attribute(name: str, value: Attribute) -> bytes:
    """Encode an attribute of a node."""
    head = wire.text(1, name)
    if isinstance(value, float):
        return head + wire.single(2, value) + wire.number(20, 1)
    if isinstance(value, int):
        return head + wire.varint(3 << 3) + wire.varint(value) + wire.number(20, 2)
    if isinstance(value, str):
        return head + wire.block(4, value.encode()) + wire.number(20, 3)
    return head + b"".join(wire.varint(8 << 3) + wire.varint(item) for item in value) + wire.number(20, 7)


def initializer(name: str, array: AnyArray) -> bytes:
    """Encode a weight of float32 or int64 as a field of a graph."""
    values = np.ascontiguousarray(array)
    body = wire.packed(1, array.shape) + wire.number(2, _ELEMENTS[array.dtype.name])
    return wire.block(5, body + wire.text(8, name) + wire.block(9, values.tobytes()))


def graph_input(name: str, shape: Shape, element: int = FLOAT) -> bytes:
    """Encode an input as a field of a graph; `element` is the number of its element type in ONNX."""
    return wire.block(11, _value(name, shape, element))


def graph_output(name: str, shape: Shape | None = None) -> bytes:
    """Encode an output as a field of a graph: of float32, or without a stated type if it has no shape."""
    return wire.block(12, wire.text(1, name) if shape is None else _value(name, shape, FLOAT))


def _value(name: str, shape: Shape, element: int) -> bytes:
    dims = b"".join(wire.block(1, wire.varint(1 << 3) + wire.varint(extent)) for extent in shape)
    tensor = wire.number(1, element) + wire.block(2, dims)
    return wire.text(1, name) + wire.block(2, wire.block(1, tensor))


def model(parts: Sequence[bytes], opset: int) -> bytes:
    """Encode a model whose graph has the given fields."""
    graph = b"".join((*parts, wire.text(2, "graph")))
    return wire.number(1, _IR_VERSION) + wire.block(7, graph) + wire.block(8, wire.number(2, opset))
