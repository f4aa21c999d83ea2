"""The protobuf message of a compiled model (`ge.proto.ModelDef`), walked once. See docs/formats/om.md.

Attributes that pairing does not read are skipped by their length, so that the time does not depend on them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from opdiff.core.reasons import because
from opdiff.read.rules.message_fields import (
    FIXED32,
    LENGTH,
    VARINT,
    MessageError,
    iter_fields,
    iter_floats,
    iter_numbers,
    signed,
    string,
)
from opdiff.read.rules.model import READ_ATTRIBUTES, CompiledGraph, Model, ModelOp, TensorDesc
from opdiff.read.rules.model_schema import enum_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from opdiff.read.rules.model import Attribute

MAX_OPERATORS = 1_000_000
MAX_GRAPHS = 65_536
COMPRESSION_TABLES = ("om_compress_version", "attr_name_enum", "attrs_use_string_value", "attr_value_enum")
"""Attributes of a model that hold the names and strings by number."""
_BASE = 127


def parse_model(data: bytes) -> Model:
    """Return the model that a serialized ModelDef describes.

    Raises:
        MessageError: the bytes are not such a message, or the model is in a form that cannot be read.
    """
    name, graphs, has_bare_operators = "", [], False
    for number, wire, first, last in iter_fields(data, 0, len(data)):
        if number == 1 and wire == LENGTH:
            name = string(data, first, last)
        elif number == 7 and wire == LENGTH:
            graphs.append((first, last))
        elif number == 20:
            has_bare_operators = True
    if not graphs:
        raise MessageError(because("rules.before_cann") if has_bare_operators else because("rules.no_graph"), 0)
    if len(graphs) > MAX_GRAPHS:
        raise MessageError(because("rules.too_many_graphs", count=len(graphs)), 0)
    attributes = parse_entries(data, 0, len(data), number=11)
    reader = _Reader(data, AttributeNames(attributes, READ_ATTRIBUTES))
    model_graphs = tuple(reader.graph(*graph) for graph in graphs)
    shown = {key: value for key, value in attributes.items() if key not in COMPRESSION_TABLES}
    return Model(name, model_graphs, shown)


def parse_entries(data: bytes, first: int, last: int, *, number: int) -> dict[str, Attribute]:
    """Return a map of plain attributes, which is the field `number` of a message.

    Raises:
        MessageError: the bytes are not such a message.
    """
    return dict(
        _attribute_entry(data, start, end)
        for found, wire, start, end in iter_fields(data, first, last)
        if found == number and wire == LENGTH
    )


def _attribute_entry(data: bytes, first: int, last: int) -> tuple[str, Attribute]:
    """Return key and value of a map entry that is not compressed."""
    key, value = "", None
    for number, wire, start, end in iter_fields(data, first, last):
        if number == 1 and wire == LENGTH:
            key = string(data, start, end)
        elif number == 2 and wire == LENGTH:
            value = _value(data, start, end)
    return key, value


def _value(data: bytes, first: int, last: int) -> Attribute:
    """Return a string, number, truth value or list of them; `None` for other kinds."""
    found: Attribute = None
    for number, wire, start, end in iter_fields(data, first, last):
        if number == 1 and wire == LENGTH:
            found = _list(data, start, end)
        elif number == 2 and wire == LENGTH:
            found = string(data, start, end)
        elif number == 3 and wire == VARINT:
            found = signed(start)
        elif number == 4 and wire == FIXED32:
            (found,) = struct.unpack_from("<f", data, start)
        elif number == 5 and wire == VARINT:
            found = bool(start)
    return found


def _list(data: bytes, first: int, last: int) -> Attribute:
    strings: list[str] = []
    numbers: list[int] = []
    flags: list[bool] = []
    floats: list[float] = []
    for number, wire, start, end in iter_fields(data, first, last):
        if number == 2 and wire == LENGTH:
            strings.append(string(data, start, end))
        elif number == 3:
            numbers += [signed(value) for value in iter_numbers(data, wire, start, end)]
        elif number == 4:
            floats += iter_floats(data, wire, start, end)
        elif number == 5:
            flags += [bool(value) for value in iter_numbers(data, wire, start, end)]
    return tuple(strings) or tuple(numbers) or tuple(flags) or tuple(floats)


class _Reader:
    """Graphs, operators and descriptors of one message."""

    def __init__(self, data: bytes, names: AttributeNames) -> None:
        self._data = data
        self._names = names
        self._operators = 0

    def graph(self, first: int, last: int) -> CompiledGraph:
        name, operators = "", []
        for number, wire, start, end in iter_fields(self._data, first, last):
            if number == 1 and wire == LENGTH:
                name = string(self._data, start, end)
            elif number == 6 and wire == LENGTH:
                self._operators += 1
                if self._operators > MAX_OPERATORS:
                    raise MessageError(because("rules.too_many_operators", limit=MAX_OPERATORS), start)
                operators.append(self._operator(start, end))
        return CompiledGraph(name, tuple(operators))

    def _operator(self, first: int, last: int) -> ModelOp:
        strings: dict[int, list[str]] = {1: [], 2: [], 5: [], 35: []}
        try:
            return self._operator_of(strings, first, last)
        except MessageError as error:
            if not strings[1]:
                raise
            problem = because("rules.in_operator", problem=error.problem, name=strings[1][-1])
            raise MessageError(problem, error.offset) from error

    def _operator_of(self, strings: dict[int, list[str]], first: int, last: int) -> ModelOp:
        descs: dict[int, list[TensorDesc]] = {33: [], 34: []}
        attributes = _Attributes(self._data, self._names)
        order = 0
        for number, wire, start, end in iter_fields(self._data, first, last):
            if wire == LENGTH:
                if number == 10:
                    attributes.add(start, end)
                elif number in descs:
                    descs[number].append(self._descriptor(start, end))
                elif number in strings:
                    strings[number].append(string(self._data, start, end))
            elif number == 21 and wire == VARINT:
                order = signed(start)
        name, op_type = ((strings[number] or [""])[-1] for number in (1, 2))
        inputs, outputs = tuple(descs[33]), tuple(descs[34])
        return ModelOp(name, op_type, order, tuple(strings[5]), attributes.found, inputs, outputs, tuple(strings[35]))

    def _descriptor(self, first: int, last: int) -> TensorDesc:
        name = layout = ""
        dtype = 0
        shape: tuple[int, ...] = ()
        attributes = _Attributes(self._data, self._names)
        for number, wire, start, end in iter_fields(self._data, first, last):
            if number == 1 and wire == LENGTH:
                name = string(self._data, start, end)
            elif number == 2 and wire == VARINT:
                dtype = start
            elif number == 3 and wire == LENGTH:
                shape = _shape(self._data, start, end)
            elif number == 4 and wire == LENGTH:
                layout = string(self._data, start, end)
            elif number == 5 and wire == LENGTH:
                attributes.add(start, end)
        # Zero is not written, and means that nothing is known.
        return TensorDesc(name, enum_name("DataType", dtype) if dtype else "", shape, layout, attributes.found)


def _shape(data: bytes, first: int, last: int) -> tuple[int, ...]:
    return tuple(
        signed(value)
        for number, wire, start, end in iter_fields(data, first, last)
        if number == 1
        for value in iter_numbers(data, wire, start, end)
    )


class _Attributes:
    """The attributes of an operator or a descriptor, those that are read; a plain name wins over a compressed one."""

    def __init__(self, data: bytes, names: AttributeNames) -> None:
        self.found: dict[str, Attribute] = {}
        self._data = data
        self._names = names
        self._plain: set[str] = set()

    def add(self, first: int, last: int) -> None:
        data = self._data
        known: tuple[str, bool] | None = None
        key, value = b"", (0, 0)
        for number, wire, start, end in iter_fields(data, first, last):
            if number == 1 and wire == LENGTH:
                key = data[start:end]
                known = self._names.find(key, start)
            elif number == 2 and wire == LENGTH:
                value = start, end
        if known is None or known[0] in self._plain:
            return
        name, is_string_number = known
        found = _value(data, *value) if value != (0, 0) else None
        self.found[name] = self._names.expand(found, first) if is_string_number else found
        if key[:1] != b"\0":
            self._plain.add(name)


# Names and strings of attributes, in place of which newer toolkits write numbers


class AttributeNames:
    """Names of attributes by their keys; if `wanted` is given, those of other attributes are not looked up."""

    def __init__(self, tables: Mapping[str, Attribute], wanted: Collection[str] | None = None) -> None:
        names, strings, flags = (
            _items(tables.get(key)) for key in ("attr_name_enum", "attr_value_enum", "attrs_use_string_value")
        )
        self._takes_all = wanted is None
        self._known = {name.encode(): (name, False) for name in wanted or ()}
        self._strings = strings
        self._count = len(names)
        for number, name in enumerate(names):
            if wanted is None or name in wanted:
                is_string_number = bool(flags[number]) if number < len(flags) else False
                self._known[_compressed(number)] = str(name), is_string_number

    def find(self, key: bytes, offset: int) -> tuple[str, bool] | None:
        """Return the name, and whether values are numbers of strings; `None` for an attribute that is not wanted.

        Raises:
            MessageError: a number without a name.
        """
        found = self._known.get(key)
        if found is not None:
            return found
        if key[:1] == b"\0":
            self._check_number(key, offset)
            return None
        return (key.decode(errors="replace"), False) if self._takes_all else None

    def _check_number(self, key: bytes, offset: int) -> None:
        if not self._count:
            raise MessageError(because("rules.names_compressed"), offset)
        number = sum((digit - 1) * _BASE**place for place, digit in enumerate(key[1:9]))
        if not 0 <= number < self._count or len(key) > 9:
            raise MessageError(because("rules.no_attribute", number=number, count=self._count), offset)

    def expand(self, value: Attribute, offset: int) -> Attribute:
        """Return the string, or strings, that a value has the numbers of.

        Raises:
            MessageError: a number without a string.
        """
        if isinstance(value, tuple):
            return tuple(self.string(item, offset) for item in value)
        return self.string(value, offset)

    def string(self, number: Attribute, offset: int) -> str:
        """Return a string by its number.

        Raises:
            MessageError: there is none.
        """
        if not isinstance(number, int) or not 0 <= number < len(self._strings):
            raise MessageError(because("rules.no_string", number=number, count=len(self._strings)), offset)
        return str(self._strings[number])


def _items(value: Attribute) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()


def _compressed(number: int) -> bytes:
    """Return the key of an attribute by its number: a zero, then digits of base 127, each plus one, lowest first."""
    digits = bytearray(b"\0")
    while True:
        number, digit = divmod(number, _BASE)
        digits.append(digit + 1)
        if not number:
            return bytes(digits)
