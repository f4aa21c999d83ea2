"""A compiled model as its file describes it, and the rules for pairing that follow from it.

    .om ──om──► description ──model_message──► Model ──to_rules──► RuleFile

Attributes are plain values: text, number, truth value, or a tuple of them. Of operators and tensors only those that
`READ_ATTRIBUTES` names are kept; they have dozens of others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.graph import OutputDesc, RuleFile, RuleGraph, RuleOp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.tensor import Shape

Attribute = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | tuple[float, ...] | None

READ_ATTRIBUTES = frozenset({
    "_datadump_original_op_names", "_datadump_is_multiop", "_L1_fusion_sub_graph_no", "pass_name", "pass_name_ub",
    "_datadump_origin_name", "_datadump_origin_output_index", "_datadump_origin_format", "_datadump_origin_data_type",
    "origin_format", "origin_shape", "_fusion_origin_name", "_fusion_origin_output_index", "_parent_node_index",
    "_fx_tensor_name",
})  # fmt: skip

ELEMENT_TYPES = (
    "DT_UNDEFINED", "DT_FLOAT", "DT_FLOAT16", "DT_INT8", "DT_UINT8", "DT_INT16", "DT_UINT16", "DT_INT32", "DT_INT64",
    "DT_UINT32", "DT_UINT64", "DT_BOOL", "DT_DOUBLE", "DT_STRING", "DT_DUAL_SUB_INT8", "DT_DUAL_SUB_UINT8",
    "DT_COMPLEX64", "DT_COMPLEX128", "DT_QINT8", "DT_QINT16", "DT_QINT32", "DT_QUINT8", "DT_QUINT16", "DT_RESOURCE",
    "DT_STRING_REF", "DT_DUAL", "DT_VARIANT", "DT_BF16", "DT_INT4", "DT_UINT1", "DT_INT2", "DT_UINT2", "DT_COMPLEX32",
    "DT_HIFLOAT8", "DT_FLOAT8_E5M2", "DT_FLOAT8_E4M3FN", "DT_FLOAT8_E8M0", "DT_FLOAT6_E3M2", "DT_FLOAT6_E2M3",
    "DT_FLOAT4_E2M1", "DT_FLOAT4_E1M2", "DT_HIFLOAT4",
)  # fmt: skip
"""Names of element types by their number in model files."""


class TensorDesc(NamedTuple):
    """Descriptor of one input or output of an operator."""

    name: str = ""
    dtype: str = ""
    shape: Shape = ()
    layout: str = ""
    attributes: Mapping[str, Attribute] = {}


class ModelOp(NamedTuple):
    """One operator.

    Attributes:
        name: its name.
        op_type: its type.
        number: its number in the order of execution; it counts anew in each graph.
        inputs: `producer:output` for each input; empty where an optional input is not connected, `:-1` for a control
            edge.
        attributes: the attributes of `READ_ATTRIBUTES`.
        input_descs: descriptors of its inputs.
        output_descs: descriptors of its outputs.
        subgraphs: names of the graphs that it owns.
    """

    name: str
    op_type: str
    number: int = 0
    inputs: tuple[str, ...] = ()
    attributes: Mapping[str, Attribute] = {}
    input_descs: tuple[TensorDesc, ...] = ()
    output_descs: tuple[TensorDesc, ...] = ()
    subgraphs: tuple[str, ...] = ()


class ModelGraph(NamedTuple):
    """One graph; the first of a model is its root."""

    name: str
    operators: tuple[ModelOp, ...]


class Model(NamedTuple):
    """A compiled model.

    Attributes:
        name: its name.
        graphs: the root graph, then its sub-graphs.
        attributes: attributes of the model itself: versions, the command line that made it, …
        notes: sentences about parts of the file that were not looked at.
    """

    name: str
    graphs: tuple[ModelGraph, ...]
    attributes: Mapping[str, Attribute] = {}
    notes: tuple[str, ...] = ()


def to_rules(model: Model, path: str) -> RuleFile:
    """Return the rules for pairing that a model describes."""
    return RuleFile(path, tuple(_graph(graph, number) for number, graph in enumerate(model.graphs)))


def _graph(graph: ModelGraph, number: int) -> RuleGraph:
    # Graphs without a name are told apart by their position.
    key = graph.name or f"graph[{number}]"
    return RuleGraph(graph.name, tuple(_operator(op, key) for op in graph.operators))


def _operator(op: ModelOp, graph_name: str) -> RuleOp:
    name = _without_slice(op.name)
    originals = _texts(op.attributes.get("_datadump_original_op_names"))
    has_originals = "_datadump_original_op_names" in op.attributes
    l1_number = op.attributes.get("_L1_fusion_sub_graph_no")
    return RuleOp(
        name,
        op.op_type,
        op.number,
        tuple(_without_slice(edge) for edge in op.inputs if edge and not edge.endswith(":-1")),
        tuple(_output(desc, position) for position, desc in enumerate(op.output_descs)),
        # An empty list says that the operator has no original: one empty name stands for that.
        (originals or ("",)) if has_originals else (name,),
        has_originals,
        op.attributes.get("_datadump_is_multiop") is True,
        l1_number if isinstance(l1_number, str) else "",
        graph_name,
        _texts(op.attributes.get("pass_name")),
        _texts(op.attributes.get("pass_name_ub")),
        op.subgraphs,
        _parent(op.attributes) if op.op_type == "Data" else None,
        tuple(_parent(desc.attributes) for desc in op.input_descs) if op.op_type == "NetOutput" else (),
    )


def _parent(attributes: Mapping[str, Attribute]) -> int | None:
    """Return the input or output of a sub-graph's owner that a `Data` or an input of `NetOutput` stands for."""
    index = attributes.get("_parent_node_index")
    return index if isinstance(index, int) else None


def _output(desc: TensorDesc, position: int) -> OutputDesc:
    attributes = desc.attributes
    name, index = attributes.get("_datadump_origin_name"), attributes.get("_datadump_origin_output_index")
    layout, shape = attributes.get("_datadump_origin_format"), attributes.get("origin_shape")
    if not isinstance(layout, str):
        layout = attributes.get("origin_format")
    return OutputDesc(
        position,
        desc.dtype,
        name if isinstance(name, str) else "",
        index if isinstance(index, int) else position,
        layout if isinstance(layout, str) else "",
        tuple(extent for extent in shape if isinstance(extent, int)) if isinstance(shape, tuple) else (),
    )


def _texts(value: Attribute) -> tuple[str, ...]:
    """Return the texts of an attribute that compilers write as a text or as a list of texts."""
    items = value if isinstance(value, tuple) else (value,)
    return tuple(item for item in items if isinstance(item, str) and item)


def _without_slice(name: str) -> str:
    return re.sub("_lxslice[0-9]+", "", name) if "_lxslice" in name else name
