"""ONNX models as far as golden data needs them: operators, tensors, inputs, and names that ATC gives to operators.

Weights are never decoded.
The message tables follow the ONNX specification; fields that are not listed are skipped.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import dtypes
from opdiff.core.errors import DumpError, InputError
from opdiff.core.filesystem import regular_file
from opdiff.core.reasons import Status, because
from opdiff.read.cursor import Cursor
from opdiff.read.protowire import Field, Message, Range, Type

if TYPE_CHECKING:
    from typing import Any

    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape

ModelBytes = bytes | mmap.mmap
Dimension = int | str | None
"""Extent of an axis: a number, the name of a free dimension, or unknown."""

_MAX_GRAPH_DEPTH = 32
_MAX_MODEL_NBYTES = (2 << 30) - 1
_EXTERNAL = 1
_BRANCH_NUMBERS = {"then_branch": 0, "else_branch": 1}


def _strings(name: str) -> Field:
    return Field(name, Type.STRING, repeated=True)


def _messages(name: str, message: Message) -> Field:
    return Field(name, Type.MESSAGE, repeated=True, message=message)


_DIMENSION = Message({1: Field("value", Type.UINT64), 2: Field("name", Type.STRING)})
_SHAPE = Message({1: _messages("dims", _DIMENSION)})
_TENSOR_TYPE = Message({1: Field("element", Type.INT32), 2: Field("shape", Type.MESSAGE, message=_SHAPE)})
_TYPE = Message({1: Field("tensor", Type.MESSAGE, message=_TENSOR_TYPE)})
_VALUE = Message({1: Field("name", Type.STRING), 2: Field("type", Type.MESSAGE, message=_TYPE)})
_ENTRY = Message({1: Field("key", Type.STRING), 2: Field("value", Type.STRING)})
_WEIGHT = Message({
    8: Field("name", Type.STRING), 13: _messages("external", _ENTRY), 14: Field("location", Type.INT32),
})  # fmt: skip
_ATTRIBUTE = Message({
    1: Field("name", Type.STRING), 6: Field("graph", Type.DATA), 11: Field("graphs", Type.DATA, repeated=True),
})  # fmt: skip
_NODE = Message({
    1: _strings("inputs"), 2: _strings("outputs"), 3: Field("name", Type.STRING), 4: Field("op_type", Type.STRING),
    5: _messages("attributes", _ATTRIBUTE), 7: Field("domain", Type.STRING),
})  # fmt: skip
_GRAPH = Message({
    1: _messages("nodes", _NODE), 5: _messages("initializers", _WEIGHT), 11: _messages("inputs", _VALUE),
    12: _messages("outputs", _VALUE),
})  # fmt: skip
_FUNCTION = Message({1: Field("name", Type.STRING), 10: Field("domain", Type.STRING)})
_MODEL = Message({
    1: Field("ir_version", Type.UINT64), 7: Field("graph", Type.MESSAGE, message=_GRAPH),
    25: _messages("functions", _FUNCTION),
})  # fmt: skip

ELEMENT_TYPES: dict[int, DType] = {
    1: dtypes.FLOAT32, 2: dtypes.UINT8, 3: dtypes.INT8, 4: dtypes.UINT16, 5: dtypes.INT16, 6: dtypes.INT32,
    7: dtypes.INT64, 9: dtypes.BOOL, 10: dtypes.FLOAT16, 11: dtypes.FLOAT64, 12: dtypes.UINT32, 13: dtypes.UINT64,
    16: dtypes.BFLOAT16, 17: dtypes.FLOAT8_E4M3FN, 19: dtypes.FLOAT8_E5M2,
}  # fmt: skip
"""Element types that inputs may have, by their number in ONNX."""


class InputSpec(Struct, frozen=True):
    """An input of a model.

    Attributes:
        name: its name.
        element: number of the element type in ONNX; 0 if it is not a tensor.
        shape: its axes; `None` if not even their number is known.
    """

    name: str
    element: int
    shape: tuple[Dimension, ...] | None

    @property
    def dtype(self) -> DType | None:
        """Element type; `None` for strings and other types that cannot be given as files."""
        return ELEMENT_TYPES.get(self.element)

    @property
    def is_open(self) -> bool:
        """Whether some extents are not known."""
        return self.shape is None or not all(isinstance(dim, int) for dim in self.shape)

    def fits(self, shape: Shape) -> bool:
        """Return whether data may have this shape."""
        if self.shape is None:
            return True
        dims = zip(self.shape, shape, strict=False)
        return len(self.shape) == len(shape) and all(not isinstance(dim, int) or dim == extent for dim, extent in dims)


class OnnxNode(Struct, frozen=True):
    """One node; absent optional inputs and outputs have empty names. `graphs` are inner graphs by attribute."""

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    graphs: tuple[tuple[str, OnnxGraph], ...] = ()


class OnnxGraph(Struct, frozen=True):
    """One graph; `range` is its place in the file, empty for the main graph."""

    nodes: tuple[OnnxNode, ...]
    initializers: frozenset[str]
    inputs: tuple[InputSpec, ...]
    outputs: tuple[str, ...]
    range: Range


class OnnxModel(Struct, frozen=True):
    """A model file and its description.

    Attributes:
        path: the file.
        data: its bytes.
        graph: the main graph.
        functions: domain and name of operators that the model itself defines.
        external_files: files with weights, relative to the folder of the model.
    """

    path: str
    data: ModelBytes
    graph: OnnxGraph
    functions: frozenset[tuple[str, str]]
    external_files: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Folder of the model."""
        return os.path.dirname(os.path.abspath(self.path))

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """Inputs that have no default value."""
        return tuple(spec for spec in self.graph.inputs if spec.name not in self.graph.initializers)


def read_onnx(path: str) -> OnnxModel:
    """Read the description of a model.

    Raises:
        InputError: the file cannot be read, is not an ONNX model, or names weights outside of its folder.
    """
    return parse_onnx(path, map_file(path))


def parse_onnx(path: str, data: ModelBytes) -> OnnxModel:
    """Parse the bytes of a model; see `read_onnx`."""
    try:
        values = _MODEL.decode(Cursor(data, path))
        external: list[str] = []
        graph = _GraphParser(data, path, external).graph(values.get("graph", {}), Range(0, 0), 0)
    except DumpError as error:
        raise InputError(path, because("golden.onnx_damaged", problem=error.brief)) from error
    if not values.get("ir_version") or not graph.nodes:
        raise InputError(path, because("golden.not_onnx"))
    functions = frozenset((item.get("domain", ""), item.get("name", "")) for item in values.get("functions", ()))
    model = OnnxModel(path, data, graph, functions, tuple(dict.fromkeys(external)))
    _check_external_files(model)
    return model


def map_file(path: str) -> mmap.mmap:
    """Map a file of at most 2 GiB, the limit of protobuf.

    Raises:
        InputError: the file cannot be read, is empty or larger.
    """
    try:
        with open(path, "rb", opener=regular_file) as file:
            if not 0 < os.fstat(file.fileno()).st_size <= _MAX_MODEL_NBYTES:
                raise InputError(path, because("golden.model_size"))
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error


def _check_external_files(model: OnnxModel) -> None:
    """Refuse weights outside of the model's folder, and missing weights."""
    folder = os.path.realpath(model.folder)
    for name in model.external_files:
        real = os.path.realpath(os.path.join(folder, name))
        if os.path.isabs(name) or not real.startswith(os.path.join(folder, "")):
            raise InputError(model.path, because("golden.weights_outside", name=name))
        if not os.path.isfile(real):
            raise InputError(model.path, because("golden.weights_missing", name=name))


class _GraphParser:
    """Turns decoded messages into graphs, inner graphs included; collects the names of files with weights."""

    def __init__(self, data: ModelBytes, path: str, external: list[str]) -> None:
        self._data = data
        self._path = path
        self._external = external

    def graph(self, values: dict[str, Any], place: Range, depth: int) -> OnnxGraph:
        if depth > _MAX_GRAPH_DEPTH:
            raise InputError(self._path, because("golden.graphs_nested", limit=_MAX_GRAPH_DEPTH))
        weights = values.get("initializers", ())
        self._external += [
            entry.get("value", "")
            for weight in weights
            if weight.get("location") == _EXTERNAL
            for entry in weight.get("external", ())
            if entry.get("key") == "location"
        ]
        return OnnxGraph(
            tuple(self._node(node, depth) for node in values.get("nodes", ())),
            frozenset(weight.get("name", "") for weight in weights),
            tuple(_input_spec(value) for value in values.get("inputs", ())),
            tuple(value.get("name", "") for value in values.get("outputs", ())),
            place,
        )

    def _node(self, values: dict[str, Any], depth: int) -> OnnxNode:
        graphs = tuple(
            (attribute.get("name", ""), self._inner(place, depth))
            for attribute in values.get("attributes", ())
            for place in (*([attribute["graph"]] if "graph" in attribute else ()), *attribute.get("graphs", ()))
        )
        return OnnxNode(
            values.get("name", ""),
            values.get("op_type", ""),
            values.get("domain", ""),
            tuple(values.get("inputs", ())),
            tuple(values.get("outputs", ())),
            graphs,
        )

    def _inner(self, place: tuple[int, int], depth: int) -> OnnxGraph:
        offset, nbytes = place
        cursor = Cursor(self._data, self._path, offset, offset + nbytes)
        return self.graph(_GRAPH.decode(cursor), Range(offset, nbytes), depth + 1)


def _input_spec(values: dict[str, Any]) -> InputSpec:
    tensor = values.get("type", {}).get("tensor", {})
    dims = tensor["shape"].get("dims", ()) if "shape" in tensor else None
    shape = None if dims is None else tuple(_dimension(dim) for dim in dims)
    return InputSpec(values.get("name", ""), tensor.get("element", 0), shape)


def _dimension(values: dict[str, Any]) -> Dimension:
    extent: int | None = values.get("value")
    if extent is not None and extent < 1 << 63:
        return extent
    name: str | None = values.get("name")
    return name if name and name != "?" else None


# Names of ATC


class NamedGraph(Struct, frozen=True):
    """A graph with the names of its operators, in order; `prefix` is already part of the names."""

    graph: OnnxGraph
    prefix: str
    names: tuple[str, ...]

    def operators(self) -> tuple[tuple[str, OnnxNode], ...]:
        """Names and nodes."""
        return tuple(zip(self.names, self.graph.nodes, strict=True))


def name_operators(main: OnnxGraph) -> dict[int, NamedGraph]:
    """Return every graph of a model with the names that ATC gives to its operators, by its offset in the file.

    Rule files refer to originals by these names. A node keeps its name. Only nodes without a name are numbered: first
    those of the main graph, then those of inner graphs, breadth first. Operators of a branch have the name of their
    `If` and of the branch in front.
    """
    unnamed = count()
    found: dict[int, NamedGraph] = {}
    pending = deque([("", main)])
    while pending:
        prefix, graph = pending.popleft()
        names = tuple(prefix + (node.name or f"{node.op_type}_{next(unnamed)}") for node in graph.nodes)
        found[graph.range.offset] = NamedGraph(graph, prefix, names)
        for name, node in zip(names, graph.nodes, strict=True):
            for number, (attribute, inner) in enumerate(node.graphs):
                pending.append((f"{name}_{_BRANCH_NUMBERS.get(attribute, number)}_{attribute}/", inner))
    return found
