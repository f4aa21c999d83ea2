"""A compiled model as its file describes it, how it was compiled, and the rules for pairing that follow from it.

    .om, zip, texts ──description──► messages ──model_message──► Model ──to_rules──► RuleFile
    JSON of ATC ─────────────atc_json─────────────────────────────┘

Attributes are plain values: string, number, truth value, or a tuple of them. Of operators and tensors only those that
`READ_ATTRIBUTES` names are kept; they have dozens of others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.graph import ModelOrigin, OutputDesc, RuleFile, RuleGraph, RuleOp
from opdiff.core.tensor import StatedTensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape

Attribute = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | tuple[float, ...] | None

READ_ATTRIBUTES = frozenset({
    "_datadump_original_op_names", "_datadump_is_multiop", "_L1_fusion_sub_graph_no", "pass_name", "pass_name_ub",
    "_datadump_origin_name", "_datadump_origin_output_index", "_datadump_origin_format", "_datadump_origin_data_type",
    "origin_format", "origin_shape", "_fusion_origin_name", "_fusion_origin_output_index", "_parent_node_index",
    "_fx_tensor_name",
})  # fmt: skip
# Options whose values are names in the model, in which a slash does not separate directories.
_NAME_OPTIONS = frozenset({
    "--input_shape", "--input_shape_range", "--input_hint_shape", "--input_format", "--out_nodes", "--output_type",
    "--input_fp16_nodes", "--is_input_adjust_hw_layout", "--is_output_adjust_hw_layout", "--dynamic_dims",
    "--dynamic_image_size", "--dynamic_batch_size",
})  # fmt: skip
_DIRECTORIES = re.compile(r"[^=,;:]*[/\\]")


class TensorDesc(Struct, frozen=True):
    """Descriptor of one input or output of an operator."""

    name: str = ""
    dtype: str = ""
    shape: Shape = ()
    layout: str = ""
    attributes: Mapping[str, Attribute] = {}


class ModelOp(Struct, frozen=True):
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


class OmHeader(Struct, frozen=True):
    """Header of an offline model.

    Attributes:
        version: 1 or 2.
        nbytes: bytes behind the header.
        has_large_tables: whether partition tables have 64-bit sizes.
        model_type: 0 for an ordinary model, 3 for a flow, 5 for a bundle.
        models: number of models in the file.
        platform: version of the platform that wrote it.
        is_dynamic: whether shapes are unknown.
    """

    version: int
    nbytes: int
    has_large_tables: bool
    model_type: int
    models: int
    platform: str
    is_dynamic: bool


class Description(Struct, frozen=True):
    """Serialized messages of a model (`ge.proto.ModelDef`), the header of their file, and notes about other parts."""

    messages: tuple[bytes, ...]
    header: OmHeader | None = None
    notes: tuple[Reason, ...] = ()


class CompiledGraph(Struct, frozen=True):
    """One graph; the first of a model is its root."""

    name: str
    operators: tuple[ModelOp, ...]


class Model(Struct, frozen=True):
    """A compiled model.

    Attributes:
        name: its name.
        graphs: the root graph, then its sub-graphs.
        attributes: attributes of the model itself: versions, the command line that made it, …
        header: header of its file, of an offline model.
        notes: parts of the file that were not looked at.
    """

    name: str
    graphs: tuple[CompiledGraph, ...]
    attributes: Mapping[str, Attribute] = {}
    header: OmHeader | None = None
    notes: tuple[Reason, ...] = ()


def to_rules(model: Model, path: str) -> RuleFile:
    """Return the rules for pairing that a model describes."""
    graphs = tuple(_graph(graph, number) for number, graph in enumerate(model.graphs))
    return RuleFile(path, graphs, find_origin(model), model.notes)


def _graph(graph: CompiledGraph, number: int) -> RuleGraph:
    # Graphs without a name are told apart by their position.
    key = graph.name or f"graph[{number}]"
    return RuleGraph(graph.name, tuple(_operator(op, key) for op in graph.operators))


def _operator(op: ModelOp, graph_name: str) -> RuleOp:
    name = _without_slice(op.name)
    originals = _strings(op.attributes.get("_datadump_original_op_names"))
    has_originals = "_datadump_original_op_names" in op.attributes
    l1_subgraph = op.attributes.get("_L1_fusion_sub_graph_no")
    return RuleOp(
        name,
        op.op_type,
        op.number,
        tuple([_without_slice(edge) for edge in op.inputs if edge and not edge.endswith(":-1")]),
        tuple([_output(desc, position) for position, desc in enumerate(op.output_descs)]),
        # An empty list says that the operator has no original: one empty name stands for that.
        (originals or ("",)) if has_originals else (name,),
        has_originals,
        op.attributes.get("_datadump_is_multiop") is True,
        l1_subgraph if isinstance(l1_subgraph, str) else "",
        graph_name,
        _strings(op.attributes.get("pass_name")),
        _strings(op.attributes.get("pass_name_ub")),
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
    origin_shape = tuple([extent for extent in shape if isinstance(extent, int)]) if isinstance(shape, tuple) else ()
    return OutputDesc(
        position,
        desc.dtype,
        name if isinstance(name, str) else "",
        index if isinstance(index, int) else position,
        layout if isinstance(layout, str) else "",
        origin_shape,
        # A description without a layout is not that of a compiled tensor.
        StatedTensor(desc.dtype, desc.layout, desc.shape, origin_shape) if desc.layout else None,
    )


def _strings(value: Attribute) -> tuple[str, ...]:
    """Return the strings of an attribute that compilers write as a string or as a list of strings."""
    if value is None:
        return ()
    items = value if isinstance(value, tuple) else (value,)
    return tuple([item for item in items if isinstance(item, str) and item])


def _without_slice(name: str) -> str:
    return re.sub("_lxslice[0-9]+", "", name) if "_lxslice" in name else name


# How a model was compiled


def find_origin(model: Model) -> ModelOrigin:
    """Return how a model was compiled, as far as its attributes say."""
    attributes = model.attributes
    return ModelOrigin(
        model.name,
        split_command_line(_string(attributes, "atc_cmdline")),
        _string(attributes, "framework_type"),
        _string(attributes, "atc_version"),
        _string(attributes, "opp_version"),
        _string(attributes, "soc_version"),
        model.header.platform if model.header is not None else "",
    )


def split_command_line(text: str) -> tuple[str, ...]:
    """Return the arguments of a command line; of paths, which are those of another machine, only the last part."""
    if not text:
        return ()
    import shlex

    try:
        arguments = shlex.split(text)
    except ValueError:
        arguments = text.split()
    found: list[str] = []
    for argument in arguments:
        earlier = found[-1] if found else ""
        option = argument.partition("=")[0] if argument.startswith("-") else earlier
        found.append(argument if option in _NAME_OPTIONS else _DIRECTORIES.sub("", argument))
    return tuple(found)


def _string(attributes: Mapping[str, Attribute], name: str) -> str:
    value = attributes.get(name)
    return value if isinstance(value, str) else ""
