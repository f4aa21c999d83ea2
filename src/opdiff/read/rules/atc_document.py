"""The JSON that ATC makes of a model message, for tools that read no other. See docs/commands/rules.md.

Fields keep their names; zeros and what is empty is left out; maps are lists of key and value; compressed attributes are
expanded. Fields with data or with sizes of memory are left out, as ATC does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from opdiff.core.reasons import because
from opdiff.read.rules.c_escapes import escape
from opdiff.read.rules.message_fields import LENGTH, MessageError, iter_fields, iter_floats, iter_numbers, signed
from opdiff.read.rules.model_message import COMPRESSION_TABLES, AttributeNames, parse_entries
from opdiff.read.rules.model_schema import ENUMS, MESSAGES, enum_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opdiff.read.rules.model_schema import Field

    Document = dict[str, object]

_LEFT_OUT = frozenset({
    "output", "data_offset", "data", "workspace", "workspace_bytes", "memory_size", "weight_size", "size", "bt",
    "quantize_factor",
})  # fmt: skip
_FIELDS: Mapping[str, Mapping[int, Field]] = {
    message: {field.number: field for field in fields if field.name not in _LEFT_OUT}
    for message, fields in MESSAGES.items()
}
# Of the fields of this message one is set, be it to zero.
_ONE_OF = "AttrDef"
_MAX_DEPTH = 20
_MAX_FLOAT_LENGTH = 9


def to_document(messages: Sequence[bytes]) -> Document:
    """Return the JSON of one model; of several, the first with the graphs of all.

    Raises:
        MessageError: the bytes are not such messages.
    """
    documents = [_to_document(message) for message in messages]
    graphs = [graph for document in documents for graph in listed(document, "graph")]
    return {**documents[0], "graph": graphs}


def _to_document(data: bytes) -> Document:
    tables = parse_entries(data, 0, len(data), number=11)
    decoder = _Decoder(data, AttributeNames(tables))
    document = decoder.message("ModelDef", 0, len(data), 0) or {}
    entries = [entry for entry in listed(document, "attr") if entry["key"] not in COMPRESSION_TABLES]
    document.pop("attr", None)
    if entries:
        document["attr"] = entries
    _name_groups(document, data)
    return document


class _Decoder:
    """Messages to objects of JSON."""

    def __init__(self, data: bytes, names: AttributeNames) -> None:
        self._data = data
        self._names = names

    def message(self, kind: str, first: int, last: int, depth: int) -> Document | None:
        """Return the object of a message; `None` if nothing is in it."""
        if depth > _MAX_DEPTH:
            raise MessageError(because("rules.messages_nested", limit=_MAX_DEPTH), first)
        found: Document = {}
        entries: dict[str, list[tuple[int, int]]] = {}
        for number, wire, start, end in iter_fields(self._data, first, last):
            field = _FIELDS[kind].get(number)
            if field is None:
                continue
            if field.kind == "AttrEntry":
                entries.setdefault(field.name, []).append((start, end) if wire == LENGTH else (0, 0))
            elif values := list(self._values(field, (wire, start, end), depth)):
                _add(found, field, values, is_one_of=kind == _ONE_OF)
        for name, positions in entries.items():
            found[name] = self._attributes(positions, depth)
        return found or None

    def _values(self, field: Field, position: tuple[int, int, int], depth: int) -> Iterator[object]:
        wire, first, last = position
        if field.kind in MESSAGES:
            if wire == LENGTH and (field.is_repeated or last > first):
                yield self.message(field.kind, first, last, depth + 1)
        elif field.kind in ("string", "bytes"):
            if wire == LENGTH:
                yield self._string(field, first, last)
        elif field.kind == "float":
            yield from (_float(field, value) for value in iter_floats(self._data, wire, first, last))
        else:
            yield from (_integer(field, value) for value in iter_numbers(self._data, wire, first, last))

    def _string(self, field: Field, first: int, last: int) -> str:
        content = self._data[first:last]
        # ATC escapes single strings, but not strings in lists.
        is_escaped = field.kind == "bytes" and not field.is_repeated
        return escape(content) if is_escaped else content.decode(errors="ignore")

    def _attributes(self, positions: Sequence[tuple[int, int]], depth: int) -> list[Document]:
        """Return the entries of a map; a plain name counts before a compressed one."""
        entries = [self._entry(first, last, depth) for first, last in positions]
        plain = {name for name, _, is_compressed in entries if not is_compressed}
        return [
            {"key": name, "value": value}
            for name, value, is_compressed in entries
            if not (is_compressed and name in plain)
        ]

    def _entry(self, first: int, last: int, depth: int) -> tuple[str, Document | None, bool]:
        """Return name, value, and whether they are compressed in the message."""
        key, value = b"", None
        for number, wire, start, end in iter_fields(self._data, first, last):
            if number == 1 and wire == LENGTH:
                key = self._data[start:end]
            elif number == 2 and wire == LENGTH:
                value = self.message("AttrDef", start, end, depth + 1)
        name, is_string_number = self._names.find(key, first) or ("", False)
        return name, self._expanded(value, first) if value and is_string_number else value, key[:1] == b"\0"

    def _expanded(self, value: Document, offset: int) -> Document:
        """Return a value with the strings that it has the numbers of."""
        if "i" in value:
            return {"s": escape(self._names.string(_as_int(value["i"]), offset).encode())}
        inner = value.get("list")
        if not isinstance(inner, dict):
            return value
        strings = [self._names.string(_as_int(number), offset) for number in inner.pop("i", ())]
        found = {"s": strings, **inner} if strings else inner
        return {"list": {**found, "val_type": "VT_LIST_STRING"} if "val_type" in found else found}


def _as_int(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _add(found: Document, field: Field, values: list[object], *, is_one_of: bool) -> None:
    if field.is_repeated:
        earlier = found.setdefault(field.name, [])
        if isinstance(earlier, list):
            earlier += values
        return
    if is_one_of:
        found.clear()
    # A field that is zero is not there; an enum's zero has a name.
    if is_one_of or values[-1] not in (0, "", *ENUMS.get(field.kind, ())[:1]):
        found[field.name] = values[-1]


def _integer(field: Field, value: int) -> object:
    if field.kind in ENUMS:
        return enum_name(field.kind, value)
    return bool(value) if field.kind == "bool" else signed(value)


def _float(field: Field, value: float) -> object:
    """Return a string of at most nine characters for a single number, a number in lists; JSON has no infinities."""
    text = f"{value:g}"
    if not field.is_repeated and len(text) <= _MAX_FLOAT_LENGTH:
        return text
    return value if math.isfinite(value) else None


def listed(document: Document, name: str) -> list[Document]:
    """Return the objects of a field that is a list."""
    values = document.get(name)
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _name_groups(document: Document, data: bytes) -> None:
    """Add the group of each fused operator, which the model has as messages of operators in an attribute of its own."""
    operators = (operator for graph in listed(document, "graph") for operator in listed(graph, "op"))
    for operator, (first, last) in zip(operators, _iter_fused_operators(data), strict=False):
        if first == last:
            return
        name = _group_name(_scope(data, first, last), operator.get("stream_id", 0))
        if name:
            operator["attr"] = [*listed(operator, "attr"), {"key": "group_op_name", "value": {"s": name}}]


def _group_name(scope: int, stream: object) -> str:
    level_1, buffer = scope >> 16 & 0xFFFF, scope & 0xFFFF
    if level_1:
        return f"group_op_l1_{level_1}_{stream}"
    return f"group_op_ub_{buffer}_{stream}" if buffer else ""


def _scope(data: bytes, first: int, last: int) -> int:
    """Return the number of an operator's fusion, an attribute of the operator."""
    value = parse_entries(data, first, last, number=10).get("fusion_scope")
    return value if isinstance(value, int) else 0


def _iter_fused_operators(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the positions of the messages in the list of bytes that the model's attribute `fm` is."""
    for first, last in _iter_parts(data, 0, len(data), 11):
        if any(data[start:end] == b"fm" for start, end in _iter_parts(data, first, last, 1)):
            for value in _iter_parts(data, first, last, 2):
                for items in _iter_parts(data, *value, 1):
                    yield from _iter_parts(data, *items, 7)


def _iter_parts(data: bytes, first: int, last: int, wanted: int) -> Iterator[tuple[int, int]]:
    for number, wire, start, end in iter_fields(data, first, last):
        if number == wanted and wire == LENGTH:
            yield start, end
