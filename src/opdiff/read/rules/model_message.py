"""The protobuf message of a compiled model (`ge.proto.ModelDef`), walked once. See docs/formats/om.md.

Attributes that pairing does not read are passed over by their length, so that the time does not depend on them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from opdiff.read.rules.model import ELEMENT_TYPES, READ_ATTRIBUTES, Model, ModelGraph, ModelOp, TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opdiff.read.rules.model import Attribute

    # Field number, wire type, and the number itself or the first and last byte of the field.
    WireField = tuple[int, int, int, int]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
MAX_OPERATORS = 1_000_000
MAX_GRAPHS = 65_536
_MAX_TEXT = 64 << 10
_COMPRESSION_TABLES = ("om_compress_version", "attr_name_enum", "attrs_use_string_value", "attr_value_enum")


class MessageError(Exception):
    """Bytes that are not a model message; `offset` counts from the beginning of the message."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem, offset)
        self.problem = problem
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.problem} (byte {self.offset} of the model's description)"


def parse_model(data: bytes) -> Model:
    """Return the model that a serialized ModelDef describes.

    Raises:
        MessageError: the bytes are not such a message, or the model is in a form that cannot be read.
    """
    name, graphs, entries, has_bare_operators = "", [], [], False
    for number, wire, first, last in _fields(data, 0, len(data)):
        if number == 1 and wire == _LENGTH:
            name = _text(data, first, last)
        elif number == 7 and wire == _LENGTH:
            graphs.append((first, last))
        elif number == 11 and wire == _LENGTH:
            entries.append((first, last))
        elif number == 20:
            has_bare_operators = True
    if not graphs:
        old = (
            "it is in the form of toolkits before CANN, which has no graphs"
            if has_bare_operators
            else "there is no graph in it"
        )
        raise MessageError(old, 0)
    if len(graphs) > MAX_GRAPHS:
        raise MessageError(f"{len(graphs)} graphs are not credible", 0)
    attributes = dict(_attribute_entry(data, *entry) for entry in entries)
    reader = _Reader(data, _Names(attributes))
    model_graphs = tuple(reader.graph(*graph) for graph in graphs)
    shown = {key: value for key, value in attributes.items() if key not in _COMPRESSION_TABLES}
    return Model(name, model_graphs, shown)


def _fields(data: bytes, position: int, end: int) -> Iterator[WireField]:
    """Yield the fields of a message; of a number its value stands in place of the first byte."""
    while position < end:
        start = position
        tag, position = _varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        if wire == _LENGTH:
            length, first = _varint(data, position, end)
            position = first + length
            if position > end:
                raise MessageError(f"field {number} is {length} bytes long, {end - first} are left", start)
            yield number, wire, first, position
        elif wire == _VARINT:
            value, position = _varint(data, position, end)
            yield number, wire, value, position
        elif wire in (_FIXED64, _FIXED32):
            first, position = position, position + (8 if wire == _FIXED64 else 4)
            if position > end:
                raise MessageError(f"field {number} ends behind its message", start)
            yield number, wire, first, position
        else:
            raise MessageError(f"field {number} has wire type {wire}", start)


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    start = position
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
    raise MessageError("a number does not end", start)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _text(data: bytes, first: int, last: int) -> str:
    return data[first : min(last, first + _MAX_TEXT)].decode(errors="replace")


def _attribute_entry(data: bytes, first: int, last: int) -> tuple[str, Attribute]:
    """Return key and value of a map entry that is not compressed."""
    key, value = "", None
    for number, wire, start, end in _fields(data, first, last):
        if number == 1 and wire == _LENGTH:
            key = _text(data, start, end)
        elif number == 2 and wire == _LENGTH:
            value = _value(data, start, end)
    return key, value


def _value(data: bytes, first: int, last: int) -> Attribute:
    """Return a text, number, truth value or list of them; `None` for other kinds."""
    found: Attribute = None
    for number, wire, start, end in _fields(data, first, last):
        if number == 1 and wire == _LENGTH:
            found = _list(data, start, end)
        elif number == 2 and wire == _LENGTH:
            found = _text(data, start, end)
        elif number == 3 and wire == _VARINT:
            found = _signed(start)
        elif number == 4 and wire == _FIXED32:
            (found,) = struct.unpack_from("<f", data, start)
        elif number == 5 and wire == _VARINT:
            found = bool(start)
    return found


def _list(data: bytes, first: int, last: int) -> Attribute:
    texts: list[str] = []
    numbers: list[int] = []
    flags: list[bool] = []
    floats: list[float] = []
    for number, wire, start, end in _fields(data, first, last):
        if number == 2 and wire == _LENGTH:
            texts.append(_text(data, start, end))
        elif number == 3:
            numbers += [_signed(value) for value in _numbers(data, wire, start, end)]
        elif number == 4 and wire == _LENGTH:
            floats += struct.unpack_from(f"<{(end - start) // 4}f", data, start)
        elif number == 5:
            flags += [bool(value) for value in _numbers(data, wire, start, end)]
    return tuple(texts) or tuple(numbers) or tuple(flags) or tuple(floats)


def _numbers(data: bytes, wire: int, first: int, last: int) -> Iterator[int]:
    """Yield repeated numbers, packed or single."""
    if wire == _VARINT:
        yield first
    elif wire == _LENGTH:
        while first < last:
            value, first = _varint(data, first, last)
            yield value


class _Names:
    """Names and texts of attributes, of which newer toolkits write numbers."""

    def __init__(self, attributes: Mapping[str, Attribute]) -> None:
        self._wanted = {name.encode(): (name, False) for name in READ_ATTRIBUTES}
        names, texts = attributes.get("attr_name_enum"), attributes.get("attr_value_enum")
        uses_text = attributes.get("attrs_use_string_value")
        self._texts = texts if isinstance(texts, tuple) else ()
        self._count = len(names) if isinstance(names, tuple) else 0
        flags = uses_text if isinstance(uses_text, tuple) else ()
        for number, name in enumerate(names if isinstance(names, tuple) else ()):
            if name in READ_ATTRIBUTES:
                flag = bool(flags[number]) if number < len(flags) else False
                self._wanted[_compressed(number)] = str(name), flag

    def find(self, key: bytes, offset: int) -> tuple[str, bool] | None:
        """Return name and whether values are numbers of texts; `None` for an attribute that is not read."""
        found = self._wanted.get(key)
        if found is None and key[:1] == b"\0":
            number = sum((digit - 1) * 127**place for place, digit in enumerate(key[1:]))
            if not 0 <= number < self._count:
                raise MessageError(f"attribute number {number} of {self._count} does not exist", offset)
        return found

    def expand(self, value: Attribute, offset: int) -> Attribute:
        """Return the text, or texts, that a value has the numbers of."""
        if isinstance(value, tuple):
            return tuple(self._text(item, offset) for item in value)
        return self._text(value, offset)

    def _text(self, number: Attribute, offset: int) -> str:
        if not isinstance(number, int) or not 0 <= number < len(self._texts):
            raise MessageError(f"text number {number} of {len(self._texts)} does not exist", offset)
        return str(self._texts[number])


def _compressed(number: int) -> bytes:
    """Return the key of an attribute by its number: a zero, then digits of base 127, each plus one, lowest first."""
    digits = bytearray(b"\0")
    while True:
        number, digit = divmod(number, 127)
        digits.append(digit + 1)
        if not number:
            return bytes(digits)


class _Reader:
    """Graphs, operators and descriptors of one message."""

    def __init__(self, data: bytes, names: _Names) -> None:
        self._data = data
        self._names = names
        self._operators = 0

    def graph(self, first: int, last: int) -> ModelGraph:
        name, operators = "", []
        for number, wire, start, end in _fields(self._data, first, last):
            if number == 1 and wire == _LENGTH:
                name = _text(self._data, start, end)
            elif number == 6 and wire == _LENGTH:
                self._operators += 1
                if self._operators > MAX_OPERATORS:
                    raise MessageError(f"more than {MAX_OPERATORS} operators are not credible", start)
                operators.append(self._operator(start, end))
        return ModelGraph(name, tuple(operators))

    def _operator(self, first: int, last: int) -> ModelOp:
        texts: dict[int, list[str]] = {1: [], 2: [], 5: [], 35: []}
        descs: dict[int, list[TensorDesc]] = {33: [], 34: []}
        attributes = _Attributes(self._data, self._names)
        order = 0
        for number, wire, start, end in _fields(self._data, first, last):
            if wire == _LENGTH:
                if number == 10:
                    attributes.add(start, end)
                elif number in descs:
                    descs[number].append(self._descriptor(start, end))
                elif number in texts:
                    texts[number].append(_text(self._data, start, end))
            elif number == 21 and wire == _VARINT:
                order = _signed(start)
        name, op_type = ((texts[number] or [""])[-1] for number in (1, 2))
        inputs, outputs = tuple(descs[33]), tuple(descs[34])
        return ModelOp(name, op_type, order, tuple(texts[5]), attributes.found, inputs, outputs, tuple(texts[35]))

    def _descriptor(self, first: int, last: int) -> TensorDesc:
        name = layout = ""
        dtype = 0
        shape: tuple[int, ...] = ()
        attributes = _Attributes(self._data, self._names)
        for number, wire, start, end in _fields(self._data, first, last):
            if number == 1 and wire == _LENGTH:
                name = _text(self._data, start, end)
            elif number == 2 and wire == _VARINT:
                dtype = start
            elif number == 3 and wire == _LENGTH:
                shape = _shape(self._data, start, end)
            elif number == 4 and wire == _LENGTH:
                layout = _text(self._data, start, end)
            elif number == 5 and wire == _LENGTH:
                attributes.add(start, end)
        # Zero is not written, and means that nothing is known.
        known = ELEMENT_TYPES[dtype] if 0 < dtype < len(ELEMENT_TYPES) else f"DT_{dtype}" if dtype else ""
        return TensorDesc(name, known, shape, layout, attributes.found)


def _shape(data: bytes, first: int, last: int) -> tuple[int, ...]:
    return tuple(
        _signed(value)
        for number, wire, start, end in _fields(data, first, last)
        if number == 1
        for value in _numbers(data, wire, start, end)
    )


class _Attributes:
    """The attributes of an operator or a descriptor, those that are read; a plain name wins over a compressed one."""

    def __init__(self, data: bytes, names: _Names) -> None:
        self.found: dict[str, Attribute] = {}
        self._data = data
        self._names = names
        self._plain: set[str] = set()

    def add(self, first: int, last: int) -> None:
        data = self._data
        known: tuple[str, bool] | None = None
        key, value = b"", (0, 0)
        for number, wire, start, end in _fields(data, first, last):
            if number == 1 and wire == _LENGTH:
                key = data[start:end]
                known = self._names.find(key, start)
            elif number == 2 and wire == _LENGTH:
                value = start, end
        if known is None or known[0] in self._plain:
            return
        name, is_text_number = known
        found = _value(data, *value) if value != (0, 0) else None
        self.found[name] = self._names.expand(found, first) if is_text_number else found
        if key[:1] != b"\0":
            self._plain.add(name)
