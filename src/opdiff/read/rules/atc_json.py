"""The JSON that ATC and AMCT write about a model, read into a `RuleFile`.

Only the part that pairing needs is decoded; other keys, and the values of other attributes, may be anything.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from opdiff.core.errors import InputError
from opdiff.core.graph import OutputDesc, RuleFile, RuleGraph, RuleOp
from opdiff.read.rules.c_escapes import unescape

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_BYTES = 2 << 30
_PARENT = "_parent_node_index"


class _List(Struct):
    s: list[str] | None = None
    i: list[int] | None = None


class _Value(Struct):
    """Value of an attribute: one of these fields is set."""

    s: str | None = None
    i: int | None = None
    b: bool | None = None
    list: _List | None = None


class _Attribute(Struct, gc=False):
    """An operator has dozens of attributes; the values of a few are decoded later."""

    key: str
    value: Raw = Raw(b"{}")


class _Output(Struct):
    dtype: str = ""
    attr: list[_Attribute] = []


class _Input(Struct):
    attr: list[_Attribute] | None = None


class _Operator(Struct):
    name: str
    type: str
    id: int = 0
    input: list[str] = []
    input_desc: Raw = Raw(b"[]")
    output_desc: list[_Output] = []
    attr: list[_Attribute] = []
    subgraph_name: Raw = Raw(b"[]")


class _Graph(Struct):
    op: list[_Operator]
    name: str = ""


class _Document(Struct):
    graph: list[_Graph]


_DOCUMENT = msgspec.json.Decoder(_Document)
_VALUE = msgspec.json.Decoder(_Value | None)
_INPUTS = msgspec.json.Decoder(list[_Input] | None)
_NAMES = msgspec.json.Decoder(list[str] | None)


def read_atc_json(path: str) -> RuleFile:
    """Read the JSON of ATC or AMCT.

    Raises:
        InputError: with the position in the file, as in "Expected `int`, got `str` - at `$.graph[0].op[12].id`".
    """
    content = _read_bytes(path)
    try:
        graphs = _decode(content).graph
        return RuleFile(path, tuple(_graph(graph, number) for number, graph in enumerate(graphs)))
    except RecursionError as error:
        raise InputError(path, "nested too deeply for a rule file") from error
    except msgspec.ValidationError as error:
        raise InputError(path, f"not a rule file: {error}") from error
    except ValueError as error:
        raise InputError(path, f"not valid JSON: {error}") from error


def _read_bytes(path: str) -> bytes:
    try:
        if os.path.isdir(path):
            raise InputError(path, "a directory, where one rule file is expected")
        nbytes = os.stat(path).st_size
        if nbytes > _MAX_BYTES:
            raise InputError(path, f"{nbytes} bytes; a rule file has at most {_MAX_BYTES}")
        with open(path, "rb") as file:
            # Files without a size, such as pipes, are read to their end.
            return file.read(nbytes or _MAX_BYTES)
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from error


def _decode(content: bytes) -> _Document:
    try:
        return _DOCUMENT.decode(content)
    except msgspec.ValidationError:
        raise
    except ValueError:
        # Python's parser accepts more (NaN, a byte order mark, UTF-16), and its errors name line and column.
        accepted = json.loads(content, parse_constant=lambda _: None)
        return _DOCUMENT.decode(json.dumps(accepted))


def _graph(graph: _Graph, number: int) -> RuleGraph:
    # Graphs without a name are identified by their position.
    key = graph.name or f"graph[{number}]"
    return RuleGraph(graph.name, tuple([_operator(operator, key) for operator in graph.op]))


def _operator(operator: _Operator, graph_name: str) -> RuleOp:
    name = _unsliced(operator.name)
    attributes = _Attributes(operator.attr, operator.name)
    originals = _originals(attributes)
    return RuleOp(
        name,
        operator.type,
        operator.id,
        tuple([_unsliced(text) for text in operator.input if text and not text.endswith(":-1")]),
        tuple([_output(output, index, operator.name) for index, output in enumerate(operator.output_desc)]),
        (name,) if originals is None else originals,
        originals is not None,
        attributes["_datadump_is_multiop"].b or False,
        attributes["_L1_fusion_sub_graph_no"].s or "",
        graph_name,
        _passes(attributes, "pass_name"),
        _passes(attributes, "pass_name_ub"),
        tuple(_NAMES.decode(operator.subgraph_name) or ()),
        attributes[_PARENT].i if operator.type == "Data" else None,
        _parent_outputs(operator) if operator.type == "NetOutput" else (),
    )


def _parent_outputs(operator: _Operator) -> tuple[int | None, ...]:
    """Return for each input of a sub-graph's end the output of the owner that it becomes."""
    inputs = _INPUTS.decode(operator.input_desc) or []
    return tuple([_Attributes(each.attr or (), operator.name)[_PARENT].i for each in inputs])


def _unsliced(name: str) -> str:
    return re.sub("_lxslice[0-9]+", "", name) if "_lxslice" in name else name


def _output(output: _Output, position: int, operator: str) -> OutputDesc:
    attributes = _Attributes(output.attr, operator)
    index = attributes["_datadump_origin_output_index"].i
    layout = attributes["_datadump_origin_format"].s
    shape = attributes["origin_shape"].list
    return OutputDesc(
        position,
        output.dtype,
        # ATC escapes single texts, but not texts in lists.
        unescape(attributes["_datadump_origin_name"].s or ""),
        position if index is None else index,
        (attributes["origin_format"].s if layout is None else layout) or "",
        tuple(shape.i or ()) if shape else (),
    )


class _Attributes:
    """Attributes by key; of a repeated key the first."""

    def __init__(self, attributes: Iterable[_Attribute], operator: str) -> None:
        self._values: dict[str, Raw] = {}
        self._operator = operator
        for attribute in attributes:
            self._values.setdefault(attribute.key, attribute.value)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> _Value:
        """Return the value of an attribute; an empty one if it is absent."""
        raw = self._values.get(key)
        if raw is None:
            return _EMPTY
        try:
            return _VALUE.decode(raw) or _EMPTY
        except msgspec.ValidationError as error:
            raise msgspec.ValidationError(f"{error}, attribute {key} of operator {self._operator}") from None


_EMPTY = _Value()


def _originals(attributes: _Attributes) -> tuple[str, ...] | None:
    """Return original names; one empty name if the attribute has no list, which means that there is no original."""
    key = "_datadump_original_op_names"
    if key not in attributes:
        return None
    names = attributes[key].list
    return ("",) if names is None or names.s is None else tuple(names.s)


def _passes(attributes: _Attributes, key: str) -> tuple[str, ...]:
    """Return the names of fusion passes. They only inform, so values of other types are ignored."""
    value = _EMPTY
    with suppress(msgspec.ValidationError):
        value = attributes[key]
    names = [value.s] if value.list is None else value.list.s
    return tuple([name for name in names or () if name])
