"""The JSON that ATC and AMCT write about a model, read into a `RuleFile`.

Only what pairing needs is looked at; other keys may be there and may be anything.
"""

from __future__ import annotations

import gc
import json
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from opdiff.core.errors import InputError
from opdiff.core.graph import OutputDesc, RuleFile, RuleGraph, RuleOp
from opdiff.core.native import NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Place = tuple[str | int, ...]

_MAX_BYTES = 2 << 30
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
_READ = (
    "_datadump_original_op_names",
    "_datadump_is_multiop",
    "_L1_fusion_sub_graph_no",
    "pass_name",
    "pass_name_ub",
    "_datadump_origin_name",
    "_datadump_origin_output_index",
    "_datadump_origin_format",
    "origin_format",
    "origin_shape",
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
            return RuleFile(path, _read_shortened(content) or _graphs(json.loads(content)))
        except RecursionError as error:
            raise InputError(path, "nested too deeply to be a rule file") from error
        except ValueError as error:
            raise InputError(path, f"not valid JSON: {error}") from error
        except _MisfitError as misfit:
            raise InputError(path, str(misfit)) from None


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
            # What has no size, such as a pipe, is read to its end.
            return file.read(nbytes or _MAX_BYTES)
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


class _MisfitError(Exception):
    """A value that is not what it should be, and its place in the file."""

    def __init__(self, problem: str, place: Place) -> None:
        super().__init__(problem, place)
        self.problem = problem
        self.place = place

    def __str__(self) -> str:
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.place)
        return f"{where.removeprefix('.')}: {self.problem}" if where else self.problem


# A misfit knows the last steps of its place; those before them are added on its way out.


def _want(value: object, kind: type[T], *place: str | int) -> T:
    # Texts, numbers and the others have exactly these types, and `true` is no whole number.
    if type(value) is kind:
        return value
    problem = f"{_KINDS[kind]} is expected, and it is {_KINDS.get(type(value), 'something else')}"
    raise _MisfitError(problem, place)


def _need(fields: dict[str, Any], key: str, kind: type[T], *place: str | int) -> T:
    """What an object has under a key that it must have."""
    if key not in fields:
        raise _MisfitError("missing", (*place, key))
    return _want(fields[key], kind, *place, key)


def _want_each(value: object, kind: type[T], *place: str | int) -> tuple[T, ...]:
    """A list of items of one kind."""
    items = _want(value, list, *place)
    for number, item in enumerate(items):
        if type(item) is not kind:
            _want(item, kind, *place, number)
    return tuple(items)


def _each(items: list[Any], name: str, read: Callable[[Any, int], T]) -> tuple[T, ...]:
    """What is read from each item of a list, which has this name, and its number."""
    found = []
    for number, item in enumerate(items):
        try:
            found.append(read(item, number))
        except _MisfitError as misfit:
            raise _MisfitError(misfit.problem, (name, number, *misfit.place)) from None
    return tuple(found)


def _read_shortened(content: bytes) -> tuple[RuleGraph, ...] | None:
    """The graphs of a file whose attributes that nobody reads are passed over; `None` where all has to be read.

    That is where something is wrong, too: only the whole file tells the right place.
    """
    value = None if NATIVE is None else NATIVE.rule_json(content, _READ)
    try:
        return None if value is None else _graphs(value)
    except _MisfitError:
        return None


def _graphs(value: object) -> tuple[RuleGraph, ...]:
    return _each(_need(_want(value, dict), "graph", list), "graph", _graph)


def _graph(value: object, number: int) -> RuleGraph:
    fields = _want(value, dict)
    name = _want(fields.get("name", ""), str, "name")
    operators = _need(fields, "op", list)
    # Graphs without a name are told apart by their place: `graph[1]`.
    key = name or f"graph[{number}]"
    return RuleGraph(name, _each(operators, "op", lambda item, _: _operator(item, key)))


def _operator(value: object, graph_name: str) -> RuleOp:
    fields = _want(value, dict)
    name = _unsliced(_need(fields, "name", str))
    attributes = _attributes(fields)
    originals = _originals(attributes)
    return RuleOp(
        name,
        _need(fields, "type", str),
        _want(fields.get("id", 0), int, "id"),
        _inputs(fields),
        _each(_want(fields.get("output_desc", []), list, "output_desc"), "output_desc", _output),
        (name,) if originals is None else originals,
        originals is not None,
        _attribute(attributes, "_datadump_is_multiop", "b", bool) or False,
        _attribute(attributes, "_L1_fusion_sub_graph_no", "s", str) or "",
        graph_name,
        _passes(attributes, "pass_name"),
        _passes(attributes, "pass_name_ub"),
    )


def _unsliced(name: str) -> str:
    return re.sub("_lxslice[0-9]+", "", name) if "_lxslice" in name else name


def _inputs(fields: dict[str, Any]) -> tuple[str, ...]:
    texts = _want_each(fields.get("input", []), str, "input")
    return tuple([_unsliced(text) for text in texts if text and not text.endswith(":-1")])


def _output(value: object, position: int) -> OutputDesc:
    fields = _want(value, dict)
    attributes = _attributes(fields)
    index = _attribute(attributes, "_datadump_origin_output_index", "i", int)
    layout = _attribute(attributes, "_datadump_origin_format", "s", str)
    if layout is None:
        layout = _attribute(attributes, "origin_format", "s", str)
    return OutputDesc(
        position,
        _want(fields.get("dtype", ""), str, "dtype"),
        _attribute(attributes, "_datadump_origin_name", "s", str) or "",
        position if index is None else index,
        layout or "",
        _list(attributes, "origin_shape", "i", int) or (),
    )


def _attributes(fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Attribute values by key; of a repeated key the first."""
    found: dict[str, dict[str, Any]] = {}
    for number, item in enumerate(_want(fields.get("attr", []), list, "attr")):
        key = item.get("key") if type(item) is dict else None
        if type(key) is not str:
            _need(_want(item, dict, "attr", number), "key", str, "attr", number)
        elif key in _READ and key not in found:
            value = item.get("value")
            found[key] = value if type(value) is dict else {}
    return found


def _attribute(attributes: dict[str, dict[str, Any]], key: str, form: str, kind: type[T]) -> T | None:
    value = attributes[key].get(form) if key in attributes else None
    return value if value is None or type(value) is kind else _want(value, kind, f"attr[{key}]", form)


def _list(attributes: dict[str, dict[str, Any]], key: str, form: str, kind: type[T]) -> tuple[T, ...] | None:
    """The list of an attribute: `None` when the attribute or the list is not there."""
    if key not in attributes:
        return None
    holder = _want(attributes[key].get("list", {}), dict, f"attr[{key}]", "list")
    return _want_each(holder[form], kind, f"attr[{key}]", "list", form) if form in holder else None


def _originals(attributes: dict[str, dict[str, Any]]) -> tuple[str, ...] | None:
    """Original names. The attribute without a list says that there is none: one empty name stands for that."""
    key = "_datadump_original_op_names"
    if key not in attributes:
        return None
    names = _list(attributes, key, "s", str)
    return ("",) if names is None else names


def _passes(attributes: dict[str, dict[str, Any]], key: str) -> tuple[str, ...]:
    """The fusion passes, in either of the forms in which compilers write them; they are told and not relied on."""
    value = attributes.get(key)
    if value is None:
        return ()
    listed = value.get("list")
    names = listed.get("s") if isinstance(listed, dict) else [value.get("s")]
    return tuple(name for name in names if isinstance(name, str) and name) if isinstance(names, list) else ()
