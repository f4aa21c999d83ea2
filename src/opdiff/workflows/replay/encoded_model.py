"""Nodes and weights of an ONNX model as ranges of its bytes, and subgraphs, which become smaller models.

Attributes and weights are copied as they are, never decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import onnx_encoder as onnx
from opdiff.core import wire
from opdiff.core.errors import DumpError, InputError
from opdiff.core.reasons import Reason, because
from opdiff.read.cursor import Cursor
from opdiff.read.protowire import Field, Message, Range, Type
from opdiff.workflows.golden.onnx_model import name_operators, parse_onnx

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from opdiff.core.onnx_encoder import Attribute
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.onnx_model import ModelBytes, OnnxGraph
    from opdiff.workflows.golden.original import OriginalModel

_GRAPH_OF_MODEL = 7
_IR_VERSION, _OPSETS, _FUNCTIONS = 1, 8, 25
# More original operators than one compiled operator is ever fused from.
_MAX_NODES = 512


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


def added_node(op_type: str, inputs: Sequence[str], output: str, **attributes: Attribute) -> EncodedNode:
    """Return a node that the model does not have."""
    encoded = tuple(onnx.attribute(name, value) for name, value in attributes.items())
    return EncodedNode("", op_type, tuple(inputs), (output,), encoded)


class EncodedWeight(Struct, frozen=True):
    """A weight: its name, the number of its element type in ONNX, its shape, and its bytes in the model."""

    name: str
    element: int
    shape: Shape
    place: Range


class EncodedModel:
    """A model as ranges of its bytes: its nodes in order and by the tensors that they compute, its weights by name."""

    def __init__(self, model: OriginalModel) -> None:
        self.model = model
        # Additions are small, and empty for most models.
        data = model.data if not model.additions else model.with_outputs(())
        self._data: ModelBytes = data
        description = parse_onnx(model.path, data)
        try:
            self._values = _MODEL.decode(Cursor(data, model.path))
            self.nodes, weights = self._parse(description.graph)
        except DumpError as error:
            raise InputError(model.path, because("golden.onnx_damaged", problem=error.brief)) from error
        self.weights: Mapping[str, EncodedWeight] = {weight.name: weight for weight in weights}
        self.producers: Mapping[str, EncodedNode] = {
            tensor: node for node in self.nodes for tensor in node.outputs if tensor
        }

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


class Subgraph(Struct, frozen=True):
    """A part of a model.

    Attributes:
        nodes: its nodes in their order.
        weights: weights that they read.
        inputs: tensors whose values are needed.
        shapes: tensors of which only the shape is needed.
        outputs: tensors that it computes.
    """

    nodes: tuple[EncodedNode, ...]
    weights: tuple[EncodedWeight, ...]
    inputs: tuple[str, ...]
    shapes: tuple[str, ...]
    outputs: tuple[str, ...]


def find_subgraph(
    encoded: EncodedModel, outputs: Sequence[str], known: Collection[str], owners: Mapping[str, str]
) -> Subgraph | Reason:
    """Walk from outputs back to the nearest tensors with known values.

    Args:
        encoded: the model.
        outputs: tensors to compute.
        known: tensors whose values are known.
        owners: the compiled operator of each tensor that one computes; the search does not go past such a tensor.

    Returns:
        The subgraph, or the reason why a value that it needs is not known.
    """
    walk = _Walk(encoded, frozenset(outputs), known, owners)
    problem = walk.run(outputs)
    if problem is not None:
        return problem
    nodes = tuple(node for node in encoded.nodes if any(name in walk.computed for name in node.outputs if name))
    shapes = tuple(name for name in walk.shapes if name not in walk.inputs and name not in walk.computed)
    return Subgraph(nodes, tuple(walk.weights.values()), tuple(walk.inputs), shapes, tuple(outputs))


class _Walk:
    """Tensors found so far."""

    def __init__(
        self, encoded: EncodedModel, outputs: frozenset[str], known: Collection[str], owners: Mapping[str, str]
    ) -> None:
        self._encoded = encoded
        self._outputs = outputs
        self._known = known
        self._owners = owners
        self.inputs: dict[str, None] = {}
        self.shapes: dict[str, None] = {}
        self.computed: set[str] = set()
        self.weights: dict[str, EncodedWeight] = {}

    def run(self, outputs: Sequence[str]) -> Reason | None:
        """Walk; return the reason why the values of a tensor are not known."""
        pending = list(outputs)
        while pending:
            tensor = pending.pop()
            if tensor in self.computed or tensor in self.inputs or tensor in self.weights:
                continue
            found = self._visit(tensor)
            if isinstance(found, Reason):
                return found
            pending += found
        return None

    def _visit(self, tensor: str) -> Reason | tuple[str, ...]:
        """Classify a tensor; return the tensors that it is computed from."""
        node = self._encoded.producers.get(tensor)
        is_constant = node is not None and not node.reads
        if tensor in self._known and tensor not in self._outputs and not is_constant:
            self.inputs[tensor] = None
            return ()
        if tensor in self._encoded.weights:
            self.weights[tensor] = self._encoded.weights[tensor]
            return ()
        if node is None:
            return because("replay.model_input_unknown", tensor=tensor)
        if tensor in self._owners and tensor not in self._outputs and not is_constant:
            return because("replay.input_unknown", tensor=tensor, producer=self._owners[tensor])
        self.computed |= {name for name in node.outputs if name}
        if len(self.computed) > _MAX_NODES:
            return because("replay.too_many_originals", limit=_MAX_NODES)
        return self._sources(node)

    def _sources(self, node: EncodedNode) -> tuple[str, ...]:
        if node.op_type != "Shape":
            return node.reads
        unknown = [name for name in node.reads if name not in self._known and name not in self._encoded.weights]
        self.shapes |= dict.fromkeys(unknown)
        return tuple(name for name in node.reads if name not in unknown)
