"""The JSON that ATC and AMCT write about a model, read into a `RuleFile`.

Only what pairing needs is looked at; other keys may be there and may be anything.
"""

from __future__ import annotations

import gc
import json
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from opdiff.errors import InputError
from opdiff.pair.graph import OutputDesc, RuleFile, RuleGraph, RuleOp

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_READ = frozenset(
    {
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
        try:
            graphs = _need(_want(value, dict, ()), "graph", list, ())
            return RuleFile(path, tuple(_graph(graph, ("graph", number)) for number, graph in enumerate(graphs)))
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


class _MisfitError(Exception):
    """A value that is not what it should be, and its place in the file."""

    def __init__(self, problem: str, place: Place) -> None:
        super().__init__(problem, place)
        self.problem = problem
        self.place = place

    def __str__(self) -> str:
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.place)
        return f"{where.removeprefix('.')}: {self.problem}" if where else self.problem


# Places are handed down as their steps, and are put into words only when something is wrong there.


def _want(value: object, kind: type[T], place: Place) -> T:
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    problem = f"{_KINDS[kind]} is expected, and it is {_KINDS.get(type(value), 'something else')}"
    raise _MisfitError(problem, place)


def _need(fields: dict[str, Any], key: str, kind: type[T], place: Place) -> T:
    """What an object has under a key that it must have."""
    if key not in fields:
        raise _MisfitError("missing", (*place, key))
    return _want(fields[key], kind, (*place, key))


def _graph(value: object, place: Place) -> RuleGraph:
    fields = _want(value, dict, place)
    name = _want(fields.get("name", ""), str, (*place, "name"))
    operators = _need(fields, "op", list, place)
    # Graphs without a name are told apart by their place: `graph[1]`.
    key = name or f"graph[{place[-1]}]"
    return RuleGraph(name, tuple([_operator(item, key, (*place, "op", n)) for n, item in enumerate(operators)]))


def _operator(value: object, graph_name: str, place: Place) -> RuleOp:
    fields = _want(value, dict, place)
    name = _unsliced(_need(fields, "name", str, place))
    attributes = _attributes(fields, place)
    originals = _originals(attributes, place)
    return RuleOp(
        name,
        _need(fields, "type", str, place),
        _want(fields.get("id", 0), int, (*place, "id")),
        _inputs(fields, place),
        _outputs(fields, place),
        (name,) if originals is None else originals,
        originals is not None,
        _attribute(attributes, "_datadump_is_multiop", "b", bool, place) or False,
        _attribute(attributes, "_L1_fusion_sub_graph_no", "s", str, place) or "",
        graph_name,
        _passes(attributes, "pass_name"),
        _passes(attributes, "pass_name_ub"),
    )


def _unsliced(name: str) -> str:
    return re.sub("_lxslice[0-9]+", "", name) if "_lxslice" in name else name


def _inputs(fields: dict[str, Any], place: Place) -> tuple[str, ...]:
    entries = _want(fields.get("input", []), list, (*place, "input"))
    texts = [_want(entry, str, (*place, "input", number)) for number, entry in enumerate(entries)]
    return tuple([_unsliced(text) for text in texts if text and not text.endswith(":-1")])


def _outputs(fields: dict[str, Any], place: Place) -> tuple[OutputDesc, ...]:
    place = (*place, "output_desc")
    items = _want(fields.get("output_desc", []), list, place)
    return tuple([_output(item, number, (*place, number)) for number, item in enumerate(items)])


def _output(value: object, position: int, place: Place) -> OutputDesc:
    fields = _want(value, dict, place)
    attributes = _attributes(fields, place)
    index = _attribute(attributes, "_datadump_origin_output_index", "i", int, place)
    layout = _attribute(attributes, "_datadump_origin_format", "s", str, place)
    if layout is None:
        layout = _attribute(attributes, "origin_format", "s", str, place)
    return OutputDesc(
        position,
        _want(fields.get("dtype", ""), str, (*place, "dtype")),
        _attribute(attributes, "_datadump_origin_name", "s", str, place) or "",
        position if index is None else index,
        layout or "",
        _shape(attributes, place),
    )


def _attributes(fields: dict[str, Any], place: Place) -> dict[str, dict[str, Any]]:
    """Attribute values by key; of a repeated key the first."""
    place = (*place, "attr")
    found: dict[str, dict[str, Any]] = {}
    for number, item in enumerate(_want(fields.get("attr", []), list, place)):
        key = item.get("key") if isinstance(item, dict) else None
        if not isinstance(key, str):
            _need(_want(item, dict, (*place, number)), "key", str, (*place, number))
        elif key in _READ:
            value = item.get("value")
            found.setdefault(key, value if isinstance(value, dict) else {})
    return found


def _attribute(attributes: dict[str, dict[str, Any]], key: str, form: str, kind: type[T], place: Place) -> T | None:
    value = attributes[key].get(form) if key in attributes else None
    return None if value is None else _want(value, kind, (*place, f"attr[{key}]", form))


def _list(
    attributes: dict[str, dict[str, Any]], key: str, form: str, kind: type[T], place: Place
) -> tuple[T, ...] | None:
    """The list of an attribute: `None` when the attribute or the list is not there."""
    place = (*place, f"attr[{key}]", "list")
    holder = _want(attributes.get(key, {}).get("list", {}), dict, place)
    if form not in holder:
        return None
    place = (*place, form)
    return tuple([_want(item, kind, (*place, n)) for n, item in enumerate(_want(holder[form], list, place))])


def _originals(attributes: dict[str, dict[str, Any]], place: Place) -> tuple[str, ...] | None:
    """Original names. The attribute without a list says that there is none: one empty name stands for that."""
    key = "_datadump_original_op_names"
    if key not in attributes:
        return None
    names = _list(attributes, key, "s", str, place)
    return ("",) if names is None else names


def _shape(attributes: dict[str, dict[str, Any]], place: Place) -> tuple[int, ...]:
    return _list(attributes, "origin_shape", "i", int, place) or ()


def _passes(attributes: dict[str, dict[str, Any]], key: str) -> tuple[str, ...]:
    """The fusion passes, in either of the forms in which compilers write them; they are told and not relied on."""
    value = attributes.get(key)
    if value is None:
        return ()
    listed = value.get("list")
    names = listed.get("s") if isinstance(listed, dict) else [value.get("s")]
    return tuple(name for name in names if isinstance(name, str) and name) if isinstance(names, list) else ()
