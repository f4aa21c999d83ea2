"""Graph texts as messages. See docs/formats/graph-text.md.

In texts of the graph engine (`ge_proto_*.txt`) the outermost message is the model, in those of TorchAir the graph.

In the form of ONNX (`ge_onnx_*.pbtxt`) attributes of tensors stand beside those of their operator:
`output_desc_shape:0`, `output_desc_attr_{name}:0`. Strings are there only if the text was written with
`DUMP_GE_GRAPH=1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read.rules.model_schema import FieldError, encode
from opdiff.read.rules.protobuf_text import Block, iter_top, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.read.rules.model_schema import Tree

_MAX_TENSORS = 65_536
_SUBGRAPH = "subgraph"
_TYPE_PREFIX = "ge:"
_DESCRIPTOR = re.compile(r"(input|output)_desc_(attr_)?(.+):([0-9]{1,9})", re.DOTALL)
_DESCRIPTOR_AS_JSON = re.compile(r"(?:input|output)_desc_[0-9]+")
# Fields of a descriptor, and attributes of it, that have names of their own.
_FIELDS = {"dtype": "dtype", "layout": "layout"}
_RENAMED = {"origin_layout": "origin_format", "origin_shape": "origin_shape"}
_LISTS = {
    "strings": ("s", "VT_LIST_STRING"), "ints": ("i", "VT_LIST_INT"), "floats": ("f", "VT_LIST_FLOAT"),
}  # fmt: skip
_SCALARS = ("s", "i", "f")
_FLAGS = frozenset({"_datadump_is_multiop"})
_RULE_PREFIX = "_datadump_"


def read_model_text(path: str) -> bytes:
    """Return the message of the model that a graph text describes.

    Raises:
        InputError: the file cannot be read, is cut off, or is not such a text.
    """
    tree = _read_tree(path)
    return _encode(path, {"graph": [tree]} if "op" in tree else tree)


def read_onnx_text(path: str) -> bytes:
    """Return the message of the model that a text in the form of ONNX describes.

    Raises:
        InputError: the file cannot be read, is damaged, or does not have the attributes that pairing needs.
    """
    graphs = [_graph(path, inner) for graph in _blocks(_read_tree(path), "graph") for inner in _with_subgraphs(graph)]
    if not any(_has_rules(graph) for graph in graphs):
        raise InputError(path, because("rules.no_originals"))
    return _encode(path, {"graph": graphs})


def _read_tree(path: str) -> Tree:
    """Return the fields of the outermost message of a text."""
    problems: dict[Reason, None] = {}
    tree: dict[str, list[object]] = {}
    for name, value in iter_top(read_text(path), problems):
        tree.setdefault(name, []).append(_tree(value) if isinstance(value, Block) else value)
    if problems:
        raise InputError(path, because("rules.damaged_graph_text", problem=next(iter(problems))))
    return tree


def _tree(block: Block) -> Tree:
    blocks = {name: [_tree(inner) for inner in inners] for name, inners in block.blocks.items()}
    return {**block.texts, **blocks}


def _encode(path: str, model: Tree) -> bytes:
    try:
        return encode("ModelDef", model)
    except FieldError as error:
        raise InputError(path, because("rules.not_graph_text", error=str(error))) from error


# The form of ONNX


def _with_subgraphs(graph: Tree) -> Iterator[Tree]:
    """Yield a graph, then the graphs in its nodes of the type `subgraph`."""
    yield graph
    for node in _blocks(graph, "node"):
        if _last(node, "op_type") == _SUBGRAPH:
            for attribute in _blocks(node, "attribute"):
                yield from _blocks(attribute, "g")


def _graph(path: str, graph: Tree) -> Tree:
    nodes = [node for node in _blocks(graph, "node") if _last(node, "op_type") != _SUBGRAPH]
    return {"name": graph.get("name", ()), "op": [_operator(path, node) for node in nodes]}


def _operator(path: str, node: Tree) -> Tree:
    attributes: list[Tree] = []
    descriptors: dict[str, dict[int, dict[str, list[object]]]] = {"input": {}, "output": {}}
    order: Sequence[object] = ()
    for attribute in _blocks(node, "attribute"):
        name = str(_last(attribute, "name"))
        if _DESCRIPTOR_AS_JSON.fullmatch(name):
            raise InputError(path, because("rules.json_tensors", name=name))
        if match := _DESCRIPTOR.fullmatch(name):
            side, number = descriptors[match[1]], int(match[4])
            if number < _MAX_TENSORS:
                _describe(side.setdefault(number, {"attr": []}), match[3], attribute, is_attribute=bool(match[2]))
        elif name == "id":
            order = attribute.get("i", ())
        else:
            attributes.append(_entry(name, attribute))
    return {
        "name": node.get("name", ()),
        "type": [str(_last(node, "op_type")).removeprefix(_TYPE_PREFIX)],
        "input": node.get("input", ()),
        "id": order,
        "attr": attributes,
        "input_desc": _listed(descriptors["input"]),
        "output_desc": _listed(descriptors["output"]),
    }


def _describe(descriptor: dict[str, list[object]], name: str, attribute: Tree, *, is_attribute: bool) -> None:
    """Add one attribute of a node to the descriptor that it belongs to."""
    if is_attribute or name in _RENAMED:
        descriptor["attr"].append(_entry(name if is_attribute else _RENAMED[name], attribute))
    elif name == "shape":
        descriptor["shape"] = [{"dim": attribute.get("ints", ())}]
    elif name in _FIELDS:
        descriptor[_FIELDS[name]] = list(attribute.get("s", ()))


def _listed(descriptors: Mapping[int, Tree]) -> list[Tree]:
    """Return descriptors by number; empty ones where the text has none."""
    return [descriptors.get(number, {}) for number in range(max(descriptors, default=-1) + 1)]


def _entry(name: str, attribute: Tree) -> Tree:
    return {"key": [name], "value": [_value(name, attribute)]}


def _value(name: str, attribute: Tree) -> Tree:
    for key, (listed, list_type) in _LISTS.items():
        if _last(attribute, "type") == key.upper() or attribute.get(key):
            return {"list": [{listed: attribute.get(key, ()), "val_type": [list_type]}]}
    # Truth values are written as numbers.
    return {"b" if name in _FLAGS and key == "i" else key: attribute.get(key, ()) for key in _SCALARS}


def _has_rules(graph: Tree) -> bool:
    entries = [
        entry
        for op in _blocks(graph, "op")
        for holder in (op, *_blocks(op, "output_desc"))
        for entry in _blocks(holder, "attr")
    ]
    return any(str(_last(entry, "key")).startswith(_RULE_PREFIX) for entry in entries)


def _blocks(tree: Tree, name: str) -> list[Tree]:
    return [value for value in tree.get(name, ()) if isinstance(value, Mapping)]


def _last(tree: Tree, name: str) -> object:
    values = tree.get(name) or ("",)
    return values[-1]
