"""The JSON that ATC and AMCT write about a model, read into a `RuleFile`.

Only what pairing needs is looked at; other keys may be there and may be anything.
"""

from __future__ import annotations

import gc
import json
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from opdiff.errors import InputError
from opdiff.pair.graph import OutputDesc, RuleFile, RuleGraph, RuleOp

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_BYTES = 2 << 30
_LXSLICE = re.compile(r"_lxslice[0-9]+")
_KINDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    float: "a fraction",
    type(None): "null",
}
# The attributes that are looked at; an operator has dozens of others.
_READ = frozenset(
    {
        "_datadump_original_op_names",
        "_datadump_is_multiop",
        "_L1_fusion_sub_graph_no",
        "pass_name",
        "_datadump_origin_name",
        "_datadump_origin_output_index",
        "_datadump_origin_format",
        "origin_format",
        "origin_shape",
    }
)

T = TypeVar("T")


def read_rules(path: str) -> RuleFile:
    """The rule file at this path.

    Raises:
        InputError: with the place in the file, as in `graph[0].op[12].name: missing`.
    """
    content = _read_bytes(path)
    with _no_garbage_collection():
        try:
            value = json.loads(content)
        except RecursionError as error:
            raise InputError(path, "nested too deeply to be a rule file") from error
        except ValueError as error:
            raise InputError(path, f"not valid JSON: {error}") from error
        root = _Place(path, "").want(value, dict)
        place = _Place(path, "graph")
        graphs = place.want(_need(root, "graph", place), list)
        return RuleFile(path, tuple(_graph(graph, place.item(number)) for number, graph in enumerate(graphs)))


def read_rule_directory(path: str) -> tuple[tuple[RuleFile, ...], tuple[InputError, ...]]:
    """Every `*.json` directly in a directory, by name, and what is wrong with those that are not rule files.

    Raises:
        InputError: the directory cannot be listed or has no such file, or none of them is a rule file.
    """
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".json"))
    except OSError as error:
        raise InputError(path, f"cannot be listed: {error.strerror}") from error
    if not names:
        raise InputError(path, "holds no .json rule file")
    rules: list[RuleFile] = []
    errors: list[InputError] = []
    for name in names:
        try:
            rules.append(read_rules(os.path.join(path, name)))
        except InputError as error:
            errors.append(error)
    if not rules:
        raise errors[0]
    return tuple(rules), tuple(errors)


def _read_bytes(path: str) -> bytes:
    try:
        if os.path.isdir(path):
            raise InputError(path, "a directory, where one rule file is expected")
        nbytes = os.stat(path).st_size
        if nbytes > _MAX_BYTES:
            raise InputError(path, f"{nbytes} bytes; a rule file has at most {_MAX_BYTES}")
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from error


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collecting again and again over millions of young objects doubles the time of parsing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Place(NamedTuple):
    """Where in the file a value stands, for messages."""

    path: str
    where: str

    def item(self, number: int) -> _Place:
        return _Place(self.path, f"{self.where}[{number}]")

    def field(self, name: str) -> _Place:
        return _Place(self.path, f"{self.where}.{name}" if self.where else name)

    def want(self, value: object, kind: type[T]) -> T:
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        raise self.error(f"{_KINDS[kind]} is expected, and it is {_KINDS.get(type(value), 'something else')}")

    def error(self, problem: str) -> InputError:
        return InputError(self.path, f"{self.where}: {problem}" if self.where else problem)


def _need(fields: dict[str, Any], key: str, place: _Place) -> object:
    if key not in fields:
        raise place.error("missing")
    return fields[key]


def _graph(value: object, place: _Place) -> RuleGraph:
    fields = place.want(value, dict)
    name = place.field("name").want(fields.get("name", ""), str)
    below = place.field("op")
    operators = below.want(_need(fields, "op", below), list)
    # Graphs without a name are told apart by their place: `graph[1]`.
    key = name or place.where
    return RuleGraph(name, tuple(_operator(item, key, below.item(number)) for number, item in enumerate(operators)))


def _operator(value: object, graph_name: str, place: _Place) -> RuleOp:
    fields = place.want(value, dict)
    name = _unsliced(place.field("name").want(_need(fields, "name", place.field("name")), str))
    attributes = _attributes(fields, place)
    originals = _originals(attributes, place)
    return RuleOp(
        name=name,
        op_type=place.field("type").want(_need(fields, "type", place.field("type")), str),
        sequence=place.field("id").want(fields.get("id", 0), int),
        inputs=_inputs(fields, place.field("input")),
        outputs=_outputs(fields, place.field("output_desc")),
        originals=(name,) if originals is None else originals,
        has_originals=originals is not None,
        is_multiop=_attribute(attributes, "_datadump_is_multiop", "b", bool, place) or False,
        l1_number=_attribute(attributes, "_L1_fusion_sub_graph_no", "s", str, place) or "",
        graph_name=graph_name,
        passes=_passes(attributes),
    )


def _unsliced(name: str) -> str:
    return _LXSLICE.sub("", name)


def _inputs(fields: dict[str, Any], place: _Place) -> tuple[str, ...]:
    entries = place.want(fields.get("input", []), list)
    texts = [place.item(number).want(entry, str) for number, entry in enumerate(entries)]
    return tuple(_unsliced(text) for text in texts if text and not text.endswith(":-1"))


def _outputs(fields: dict[str, Any], place: _Place) -> tuple[OutputDesc, ...]:
    items = place.want(fields.get("output_desc", []), list)
    return tuple(_output(item, number, place.item(number)) for number, item in enumerate(items))


def _output(value: object, position: int, place: _Place) -> OutputDesc:
    fields = place.want(value, dict)
    attributes = _attributes(fields, place)
    index = _attribute(attributes, "_datadump_origin_output_index", "i", int, place)
    layout = _attribute(attributes, "_datadump_origin_format", "s", str, place)
    if layout is None:
        layout = _attribute(attributes, "origin_format", "s", str, place)
    return OutputDesc(
        position=position,
        dtype=place.field("dtype").want(fields.get("dtype", ""), str),
        origin_name=_attribute(attributes, "_datadump_origin_name", "s", str, place) or "",
        origin_index=position if index is None else index,
        layout=layout or "",
        shape=_shape(attributes, place),
    )


def _attributes(fields: dict[str, Any], place: _Place) -> dict[str, dict[str, Any]]:
    """Attribute values by key; of a repeated key the first."""
    place = place.field("attr")
    found: dict[str, dict[str, Any]] = {}
    for number, item in enumerate(place.want(fields.get("attr", []), list)):
        key = item.get("key") if isinstance(item, dict) else None
        if not isinstance(key, str):
            raise _bad_attribute(item, place.item(number))
        if key in _READ:
            value = item.get("value")
            found.setdefault(key, value if isinstance(value, dict) else {})
    return found


def _bad_attribute(item: object, place: _Place) -> InputError:
    pair = place.want(item, dict)
    place = place.field("key")
    place.want(_need(pair, "key", place), str)
    return place.error("not understood")


def _attribute(attributes: dict[str, dict[str, Any]], key: str, form: str, kind: type[T], place: _Place) -> T | None:
    value = attributes.get(key, {}).get(form)
    return None if value is None else place.field(f"attr[{key}].{form}").want(value, kind)


def _list(attributes: dict[str, dict[str, Any]], key: str, form: str, place: _Place) -> list[Any] | None:
    """The list of an attribute: `None` when the attribute or the list is not there."""
    place = place.field(f"attr[{key}].list")
    holder = place.want(attributes.get(key, {}).get("list", {}), dict)
    return place.field(form).want(holder[form], list) if form in holder else None


def _originals(attributes: dict[str, dict[str, Any]], place: _Place) -> tuple[str, ...] | None:
    """Original names. The attribute without a list says that there is none: one empty name stands for that."""
    key = "_datadump_original_op_names"
    if key not in attributes:
        return None
    names = _list(attributes, key, "s", place)
    if names is None:
        return ("",)
    place = place.field(f"attr[{key}].list.s")
    return tuple(place.item(number).want(name, str) for number, name in enumerate(names))


def _shape(attributes: dict[str, dict[str, Any]], place: _Place) -> tuple[int, ...]:
    sizes = _list(attributes, "origin_shape", "i", place) or []
    place = place.field("attr[origin_shape].list.i")
    return tuple(place.item(number).want(size, int) for number, size in enumerate(sizes))


def _passes(attributes: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    """The fusion passes, in either of the forms in which compilers write them; they are told and not relied on."""
    value = attributes.get("pass_name", {})
    listed = value.get("list")
    names = listed.get("s") if isinstance(listed, dict) else [value.get("s")]
    return tuple(name for name in names if isinstance(name, str) and name) if isinstance(names, list) else ()
