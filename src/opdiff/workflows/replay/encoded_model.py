"""Nodes and weights of an ONNX model as ranges of its bytes, from which smaller models are assembled.

Attributes and weights are copied as they are, never decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import wire
from opdiff.core.errors import DumpError, InputError
from opdiff.core.reasons import because
from opdiff.read.cursor import Cursor
from opdiff.read.protowire import Field, Message, Range, Type
from opdiff.workflows.golden.onnx_model import name_operators, parse_onnx

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.onnx_model import ModelBytes, OnnxGraph
    from opdiff.workflows.golden.original import OriginalModel

_GRAPH_OF_MODEL = 7
_IR_VERSION, _OPSETS, _FUNCTIONS = 1, 8, 25


def _ranges(name: str) -> Field:
    return Field(name, Type.DATA, repeated=True)


_MODEL = Message({
    _IR_VERSION: Field("ir_version", Type.UINT64), _GRAPH_OF_MODEL: _ranges("graphs"), _OPSETS: _ranges("opsets"),
    _FUNCTIONS: _ranges("functions"),
})  # fmt: skip
_GRAPH = Message({1: _ranges("nodes"), 5: _ranges("weights")})
_NODE = Message({
    1: Field("inputs", Type.STRING, repeated=True), 2: Field("outputs", Type.STRING, repeated=True),
    4: Field("op_type", Type.STRING), 5: _ranges("attributes"), 7: Field("domain", Type.STRING),
})  # fmt: skip
_WEIGHT = Message({
    1: Field("shape", Type.UINT64, repeated=True), 2: Field("element", Type.INT32), 8: Field("name", Type.STRING),
})  # fmt: skip


class EncodedNode(Struct, frozen=True):
    """A node whose attributes are encoded.

    Attributes:
        name: its name in rule files; empty for an added node.
        op_type: its type.
        inputs: tensors that the node reads; an absent input is an empty string.
        outputs: tensors that the node computes; an absent output is an empty string.
        attributes: its attributes, encoded: ranges of the model, or bytes.
        domain: its domain.
        captured: tensors that its inner graphs read from outside.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[Range | bytes, ...] = ()
    domain: str = ""
    captured: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """All tensors that it reads."""
        return tuple(name for name in (*self.inputs, *self.captured) if name)


class EncodedWeight(Struct, frozen=True):
    """A weight: its name, the number of its element type in ONNX, its shape, and its bytes in the model."""

    name: str
    element: int
    shape: Shape
    place: Range


class EncodedModel:
    """A model as ranges of its bytes: every node by the tensors that it computes, every weight by its name."""

    def __init__(self, model: OriginalModel) -> None:
        self.model = model
        # Additions are small, and empty for most models.
        data = model.data if not model.additions else model.with_outputs(())
        self._data: ModelBytes = data
        description = parse_onnx(model.path, data)
        try:
            self._values = _MODEL.decode(Cursor(data, model.path))
            self._nodes, weights = self._parse(description.graph)
        except DumpError as error:
            raise InputError(model.path, because("golden.onnx_damaged", problem=error.brief)) from error
        self.weights: Mapping[str, EncodedWeight] = {weight.name: weight for weight in weights}
        self.producers: Mapping[str, EncodedNode] = {
            tensor: node for node in self._nodes for tensor in node.outputs if tensor
        }

    @property
    def nodes(self) -> tuple[EncodedNode, ...]:
        """The nodes of the main graph in their order."""
        return self._nodes

    def encode_model(self, graph: bytes) -> bytes:
        """Return a model with the versions and functions of this model and another graph."""
        values = self._values
        blocks = [(_OPSETS, place) for place in values.get("opsets", ())]
        blocks += [(_FUNCTIONS, place) for place in values.get("functions", ())]
        kept = b"".join(wire.block(field, self.bytes_of(Range(*place))) for field, place in blocks)
        named = graph + wire.text(2, "graph")
        return wire.number(_IR_VERSION, values["ir_version"]) + kept + wire.block(_GRAPH_OF_MODEL, named)

    def encode_node(self, node: EncodedNode) -> bytes:
        """Return a node as a field of a graph."""
        parts = [wire.block(1, name.encode()) for name in node.inputs]
        parts += [wire.block(2, name.encode()) for name in node.outputs]
        parts += [wire.text(4, node.op_type)]
        parts += [wire.block(5, part if isinstance(part, bytes) else self.bytes_of(part)) for part in node.attributes]
        return wire.block(1, b"".join((*parts, wire.text(7, node.domain))))

    def encode_weight(self, weight: EncodedWeight, name: str = "") -> bytes:
        """Return a weight as a field of a graph, under another name if one is given.

        Of repeated single fields the last one counts, so that a name that is added replaces the first.
        """
        return wire.block(5, self.bytes_of(weight.place) + wire.text(8, name))

    def _parse(self, graph: OnnxGraph) -> tuple[tuple[EncodedNode, ...], list[EncodedWeight]]:
        names = name_operators(graph)[graph.range.offset].names
        parts = [self._decode(_GRAPH, Range(*place)) for place in self._values.get("graphs", ())]
        nodes = [Range(*place) for part in parts for place in part.get("nodes", ())]
        captured = [_captured(node.graphs) for node in graph.nodes]
        named = zip(names, nodes, captured, strict=True)
        weights = [Range(*place) for part in parts for place in part.get("weights", ())]
        return tuple(self._node(*item) for item in named), [self._weight(place) for place in weights]

    def _node(self, name: str, place: Range, captured: tuple[str, ...]) -> EncodedNode:
        values = self._decode(_NODE, place)
        return EncodedNode(
            name,
            values.get("op_type", ""),
            tuple(values.get("inputs", ())),
            tuple(values.get("outputs", ())),
            tuple(Range(*attribute) for attribute in values.get("attributes", ())),
            values.get("domain", ""),
            captured,
        )

    def _weight(self, place: Range) -> EncodedWeight:
        values = self._decode(_WEIGHT, place)
        return EncodedWeight(values.get("name", ""), values.get("element", 0), tuple(values.get("shape", ())), place)

    def _decode(self, message: Message, place: Range) -> dict[str, Any]:
        return message.decode(Cursor(self._data, self.model.path, place.offset, place.offset + place.nbytes))

    def bytes_of(self, place: Range) -> bytes:
        """Return a copy of a range of the model."""
        return bytes(self._data[place.offset : place.offset + place.nbytes])


def _captured(graphs: Iterable[tuple[str, OnnxGraph]]) -> tuple[str, ...]:
    """Return the tensors that inner graphs read and do not make."""
    found: dict[str, None] = {}
    for _, graph in graphs:
        own = graph.initializers | {spec.name for spec in graph.inputs} | {""}
        own |= {name for node in graph.nodes for name in node.outputs}
        read = [name for node in graph.nodes for name in (*node.inputs, *_captured(node.graphs))]
        found |= dict.fromkeys(name for name in (*read, *graph.outputs) if name not in own)
    return tuple(found)
