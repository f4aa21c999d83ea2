"""Decoder of the protobuf wire format, as far as dump headers need it.

A message is described by a table of fields. The value of a `DATA` field is a range of the file, not a copy. The others
are as protobuf decodes them; malformed bytes are an error. Fields that writers of sound files do not write become
anomalies of the cursor: unknown ones, known ones with another wire type, and single ones that occur twice.

The native decoder gives the same values in less time, and is used where it was built.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from opdiff.core.errors import DumpError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

    from opdiff._native import Table
    from opdiff.read.cursor import Cursor


class UnknownFieldError(DumpError):
    """The anomaly that newer writers may cause; all others are damage."""


_MAX_GROUP_DEPTH = 100
# An item takes two bytes of the file and many more of memory, so that the number of items is limited.
_MAX_ITEMS = 1 << 16
_MAX_STRING_NBYTES = 16 << 20
_MAX_ANOMALIES = 100
_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)
# Equal to `version` in `native/python/wire.cpp`; both change with the interface of the module.
_NATIVE_VERSION = 5


def _load_native() -> ModuleType | None:
    if os.environ.get("OPDIFF_KERNEL") == "numpy":
        return None
    try:
        from opdiff import _native as module
    except ImportError:
        return None
    # The module may have been built from other sources.
    return module if getattr(module, "VERSION", 0) == _NATIVE_VERSION else None


NATIVE = _load_native()
"""The extension module; `None` if no matching one was built or `OPDIFF_KERNEL=numpy` is set."""


class Type(StrEnum):
    """Types of fields; the native decoder numbers them in this order."""

    UINT64 = "uint64"
    UINT32 = "uint32"
    INT32 = "int32"
    STRING = "string"
    DATA = "data"
    MESSAGE = "message"


_INTEGERS = frozenset({Type.UINT64, Type.UINT32, Type.INT32})


class Range(NamedTuple):
    """A range of bytes in the file."""

    offset: int
    nbytes: int


class Field(Struct, frozen=True):
    """A field of a message."""

    name: str
    type: Type
    repeated: bool = False
    message: Message | None = None


class RawField(Struct, frozen=True):
    """An undecoded field: its number, all its bytes with the tag, and the content of a length-delimited one."""

    number: int
    raw: bytes
    content: Range | None


class Message:
    """Fields of a message by number.

    A message with more than `max_fields` fields is refused. Fields of inner messages and packed numbers are counted.
    """

    def __init__(self, fields: dict[int, Field], max_fields: int = sys.maxsize) -> None:
        self._fields = fields
        self._max_fields = max_fields
        self._table = _native_table(fields)

    def decode(self, cursor: Cursor) -> dict[str, Any]:
        """Return the values by field name, repeated ones as lists, without absent fields."""
        if NATIVE is not None and self._table is not None:
            found: dict[str, Any] | None
            found = NATIVE.decode_message(self._table, cursor.data, cursor.position, cursor.end, self._max_fields)
            if found is not None:
                return found
        values: dict[str, Any] = {}
        cursor.max_fields = self._max_fields
        self.decode_into(values, cursor)
        return values

    def decode_into(self, values: dict[str, Any], cursor: Cursor) -> None:
        """Decode into existing values, which are merged field by field; never uses the native decoder."""
        while cursor.remaining:
            start = cursor.offset
            number, wire = _tag(cursor)
            known = self._fields.get(number)
            if known is not None and not known.repeated and known.name in values:
                _add_anomaly(cursor, DumpError, start, "read.field_twice", field=known.name)
            if known is None:
                _add_anomaly(cursor, UnknownFieldError, start, "read.unknown_field", number=number)
                _skip_field(cursor, number, wire)
            elif not _store(values, known, wire, cursor):
                _add_anomaly(cursor, DumpError, start, "read.wire_type", field=known.name, number=wire)
                _skip_field(cursor, number, wire)


def iter_fields(cursor: Cursor) -> Iterator[RawField]:
    """Yield the fields of a message in stored order, undecoded."""
    while cursor.remaining:
        start = cursor.position
        number, wire = _tag(cursor)
        content = None
        if wire == _LENGTH:
            part = _length_delimited(cursor, f"#{number}")
            content = Range(part.offset, part.remaining)
        else:
            _skip_field(cursor, number, wire)
        yield RawField(number, bytes(cursor.data[start : cursor.position]), content)


def _native_table(fields: dict[int, Field]) -> Table | None:
    if NATIVE is None:
        return None
    kinds = list(Type)
    described = (
        (number, field.name, kinds.index(field.type), field.repeated, field.message and field.message._table)  # noqa: SLF001  same class
        for number, field in fields.items()
    )
    table: Table = NATIVE.message_table(tuple(described))
    return table


def _add_anomaly(cursor: Cursor, kind: type[DumpError], offset: int, code: str, **facts: str | int) -> None:
    if len(cursor.anomalies) < _MAX_ANOMALIES:
        cursor.anomalies.append(kind(cursor.path, because(code, **facts), offset))


def _tag(cursor: Cursor) -> tuple[int, int]:
    cursor.count_field()
    tag = cursor.varint("tag", bits=32)
    if tag < 8:
        raise cursor.error(because("read.field_zero"))
    return tag >> 3, tag & 7


def _store(values: dict[str, Any], known: Field, wire: int, cursor: Cursor) -> bool:
    """Read the value of a known field; return False if it has another wire type."""
    if known.type in _INTEGERS:
        return _store_integer(values, known, wire, cursor)
    if wire != _LENGTH:
        return False
    part = _length_delimited(cursor, known.name)
    if known.type is Type.MESSAGE and known.message is not None:
        _store_message(values, known, known.message, part)
    elif known.type is Type.STRING:
        _put(values, known, _read_string(part, known.name), cursor)
    else:
        _put(values, known, Range(part.offset, part.remaining), cursor)
    return True


def _store_integer(values: dict[str, Any], known: Field, wire: int, cursor: Cursor) -> bool:
    if wire == _VARINT:
        _put(values, known, _read_integer(cursor, known), cursor)
        return True
    if wire == _LENGTH and known.repeated:
        packed = _length_delimited(cursor, known.name)
        while packed.remaining:
            packed.count_field()
            _append(values, known, _read_integer(packed, known), packed)
        return True
    return False


def _store_message(values: dict[str, Any], known: Field, message: Message, part: Cursor) -> None:
    if known.repeated:
        item: dict[str, Any] = {}
        message.decode_into(item, part)
        _append(values, known, item, part)
    else:
        # Repetitions of a message are merged field by field.
        message.decode_into(values.setdefault(known.name, {}), part)


def _put(values: dict[str, Any], known: Field, value: object, cursor: Cursor) -> None:
    if known.repeated:
        _append(values, known, value, cursor)
    else:
        values[known.name] = value


def _append(values: dict[str, Any], known: Field, value: object, cursor: Cursor) -> None:
    items = values.setdefault(known.name, [])
    if len(items) >= _MAX_ITEMS:
        raise cursor.error(because("read.too_many_items", field=known.name, limit=_MAX_ITEMS))
    items.append(value)


def _read_integer(cursor: Cursor, known: Field) -> int:
    value = cursor.varint(known.name)
    if value < 1 << 31 or known.type is Type.UINT64:
        return value
    value &= 0xFFFF_FFFF
    if known.type is Type.INT32 and value >= 1 << 31:
        value -= 1 << 32
    return value


def _read_string(part: Cursor, name: str) -> str:
    start = part.offset
    if part.remaining > _MAX_STRING_NBYTES:
        raise part.error(because("read.string_too_long", field=name, nbytes=part.remaining, limit=_MAX_STRING_NBYTES))
    try:
        return part.take(part.remaining, name).decode()
    except UnicodeDecodeError as error:
        raise part.error(because("read.not_utf8", field=name), back=part.offset - start - error.start) from error


def _length_delimited(cursor: Cursor, name: str) -> Cursor:
    return cursor.part(cursor.varint(name), name)


def _skip_field(cursor: Cursor, number: int, wire: int, depth: int = 0) -> None:
    field = f"#{number}"
    if wire == _VARINT:
        cursor.varint(field)
    elif wire == _FIXED64:
        cursor.skip(8, field)
    elif wire == _LENGTH:
        cursor.skip(cursor.varint(field), field)
    elif wire == _FIXED32:
        cursor.skip(4, field)
    elif wire == _GROUP:
        _skip_group(cursor, number, depth + 1)
    else:
        raise cursor.error(because("read.wire_type", field=field, number=wire))


def _skip_group(cursor: Cursor, number: int, depth: int) -> None:
    if depth >= _MAX_GROUP_DEPTH:
        raise cursor.error(because("read.groups_too_deep", limit=_MAX_GROUP_DEPTH))
    while True:
        if not cursor.remaining:
            raise cursor.error(because("read.group_not_closed", number=number))
        inner, wire = _tag(cursor)
        if wire == _END_GROUP:
            if inner != number:
                raise cursor.error(because("read.group_mismatch", number=number, other=inner))
            return
        _skip_field(cursor, inner, wire, depth)
