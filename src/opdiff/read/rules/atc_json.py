"""The JSON that ATC and AMCT write about a model.

Only the part that pairing needs is decoded; other keys, and the values of other attributes, may be anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from opdiff.core.errors import InputError
from opdiff.core.filesystem import read_input
from opdiff.core.reasons import Status, because
from opdiff.read.rules.c_escapes import unescape
from opdiff.read.rules.model import READ_ATTRIBUTES, CompiledGraph, Model, ModelOp, TensorDesc

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import TypeVar

    from opdiff.read.rules.model import Attribute

    _Decoded = TypeVar("_Decoded")

_MAX_BYTES = 2 << 30
# Attributes that only inform: values of other types are ignored.
_INFORMATION = frozenset({"pass_name", "pass_name_ub"})


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


class _Shape(Struct):
    dim: list[int] = []


class _Tensor(Struct):
    dtype: str = ""
    attr: list[_Attribute] | None = None
    name: Raw = Raw(b"null")
    shape: Raw = Raw(b"null")
    layout: Raw = Raw(b"null")


class _Operator(Struct):
    name: str
    type: str
    id: int = 0
    input: list[str] = []
    input_desc: Raw = Raw(b"[]")
    output_desc: list[_Tensor] = []
    attr: list[_Attribute] = []
    subgraph_name: Raw = Raw(b"[]")


class _Graph(Struct):
    # Decoded one by one: all attributes of a network at once would take several times the memory of the file.
    op: list[Raw]
    name: str = ""


class _Document(Struct):
    graph: list[_Graph]
    name: Raw = Raw(b"null")
    attr: Raw = Raw(b"null")


_DOCUMENT = msgspec.json.Decoder(_Document)
_OPERATOR = msgspec.json.Decoder(_Operator)
_VALUE = msgspec.json.Decoder(_Value | None)
_TENSORS = msgspec.json.Decoder(list[_Tensor] | None)
_NAMES = msgspec.json.Decoder(list[str] | None)
_STRING = msgspec.json.Decoder(str | None)
_SHAPE = msgspec.json.Decoder(_Shape | None)
_MODEL_ATTRIBUTES = msgspec.json.Decoder(list[_Attribute] | None)


def read_atc_json(path: str) -> Model:
    """Read the JSON of ATC or AMCT.

    Raises:
        InputError: with the position in the file, as in "Expected `int`, got `str` - at `$.graph[0].op[12].id`".
    """
    try:
        document = _decode(read_input(path, _MAX_BYTES))
        graphs = tuple(_graph(graph, f"$.graph[{number}]") for number, graph in enumerate(document.graph))
        return Model(_information(_STRING, document.name) or "", graphs, _model_attributes(document.attr))
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    except RecursionError as error:
        raise InputError(path, because("rules.nested_too_deeply")) from error
    except msgspec.ValidationError as error:
        raise InputError(path, because("rules.not_rules", error=str(error))) from error
    except ValueError as error:
        raise InputError(path, because("rules.not_json", error=str(error))) from error


def _decode(content: bytes) -> _Document:
    try:
        return _DOCUMENT.decode(content)
    except msgspec.ValidationError:
        raise
    except ValueError:
        # Python's parser accepts more (NaN, a byte order mark, UTF-16), and its errors name line and column.
        import json

        accepted = json.loads(content, parse_constant=lambda _: None)
        return _DOCUMENT.decode(json.dumps(accepted))


def _graph(graph: _Graph, path: str) -> CompiledGraph:
    operators = [_operator(_decode_operator(raw, f"{path}.op[{number}]")) for number, raw in enumerate(graph.op)]
    return CompiledGraph(graph.name, tuple(operators))


def _decode_operator(raw: Raw, path: str) -> _Operator:
    try:
        return _OPERATOR.decode(raw)
    except msgspec.ValidationError as error:
        # The position in the operator begins with `$`; there is none if it is no object at all.
        problem, _, inner = str(error).partition(" - at `$")
        raise msgspec.ValidationError(f"{problem} - at `{path}{inner or '`'}") from None


def _operator(operator: _Operator) -> ModelOp:
    # Descriptors of inputs are long; only those of a graph's end say more than the outputs that they come from.
    inputs = _TENSORS.decode(operator.input_desc) if operator.type == "NetOutput" else ()
    return ModelOp(
        operator.name,
        operator.type,
        operator.id,
        tuple(operator.input),
        _attributes(operator.attr, operator.name),
        tuple([_tensor(each, operator.name) for each in inputs or ()]),
        tuple([_tensor(each, operator.name) for each in operator.output_desc]),
        tuple(_NAMES.decode(operator.subgraph_name) or ()),
    )


def _tensor(tensor: _Tensor, operator: str) -> TensorDesc:
    shape = _information(_SHAPE, tensor.shape)
    return TensorDesc(
        _information(_STRING, tensor.name) or "",
        tensor.dtype,
        tuple(shape.dim) if shape else (),
        _information(_STRING, tensor.layout) or "",
        _attributes(tensor.attr or (), operator),
    )


def _attributes(attributes: Collection[_Attribute], operator: str) -> dict[str, Attribute]:
    """Return the values of the attributes that are read; of a repeated key the first."""
    found: dict[str, Attribute] = {}
    # In one expression, because operators have dozens of attributes that are not read.
    for attribute in [attribute for attribute in attributes if attribute.key in READ_ATTRIBUTES]:
        key = attribute.key
        if key not in found:
            try:
                found[key] = _value(attribute.value)
            except msgspec.ValidationError as error:
                if key not in _INFORMATION:
                    raise msgspec.ValidationError(f"{error}, attribute {key} of operator {operator}") from None
    return found


def _value(raw: Raw) -> Attribute:
    value: _Value | None = _VALUE.decode(raw)
    if value is None:
        return None
    if value.list is not None:
        return tuple(value.list.s) if value.list.s else tuple(value.list.i or ())
    # ATC escapes single strings, but not strings in lists.
    if value.s is not None:
        return unescape(value.s)
    return value.b if value.i is None else value.i


def _model_attributes(raw: Raw) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for attribute in _information(_MODEL_ATTRIBUTES, raw) or ():
        try:
            found[attribute.key] = _value(attribute.value)
        except msgspec.ValidationError:
            found[attribute.key] = None
    return found


def _information(decoder: msgspec.json.Decoder[_Decoded | None], raw: Raw) -> _Decoded | None:
    """Return a value that only informs; `None` if it has another type."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        return None
