"""The protobuf wire format, as far as dump headers need it: a table of fields in, values out.

Fields of type `DATA` are not copied: their value is a range of the file. Unknown fields, and known ones with another
wire type, are passed over, as protobuf does; anything malformed is an error.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from opdiff.read.cursor import Cursor
from opdiff.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    Shortcut = Callable[[dict[str, Any], Cursor, int], int]

_MAX_GROUP_DEPTH = 100
# A few bytes can announce an item, so their number is bounded, and so is the length of a text.
_MAX_ITEMS = 1 << 16
_MAX_TEXT = 16 << 20
_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)


class Type(Enum):
    """What a field holds."""

    UINT64 = auto()
    UINT32 = auto()
    INT32 = auto()
    STRING = auto()
    DATA = auto()
    MESSAGE = auto()


_NUMBERS = frozenset({Type.UINT64, Type.UINT32, Type.INT32})


class Range(NamedTuple):
    """Bytes in the file."""

    offset: int
    nbytes: int


class Field(NamedTuple):
    """One line of a message's table."""

    name: str
    type: Type
    repeated: bool = False
    message: Message | None = None


class Message:
    """The table of a message: its fields by number."""

    def __init__(self, fields: dict[int, Field]) -> None:
        self.fields = fields
        # By the one byte that nearly every field begins with: its number and its wire type.
        self._shortcuts = {
            number << 3 | wire: shortcut
            for number, known in fields.items()
            for wire, shortcut in _shortcuts(known)
            if number < 16
        }

    def decode(self, cursor: Cursor) -> dict[str, Any]:
        """The values by field name, repeated ones as lists; absent fields are absent."""
        values: dict[str, Any] = {}
        self._decode_into(values, cursor)
        return values

    def _decode_into(self, values: dict[str, Any], cursor: Cursor) -> None:
        data, end, shortcuts = cursor.data, cursor.end, self._shortcuts
        position = cursor.position
        while position < end:
            shortcut = shortcuts.get(data[position])
            after = shortcut(values, cursor, position + 1) if shortcut is not None and position + 1 < end else 0
            if not after:
                cursor.position = position
                self._take_any(values, cursor)
                after = cursor.position
            position = after

    def _take_any(self, values: dict[str, Any], cursor: Cursor) -> None:
        number, wire = _tag(cursor)
        known = self.fields.get(number)
        if known is None or not _store(values, known, wire, cursor):
            _pass_over(cursor, number, wire)


# Shortcuts for fields as they nearly always are: several times as fast. They are given the place behind the tag, which
# is inside of the bytes, and return the place behind the value; or 0, with nothing done, when `_take_any` has to look.


def _shortcuts(known: Field) -> tuple[tuple[int, Shortcut], ...]:
    """The wire types of a field that have a shortcut, and the shortcut."""
    if known.message is not None:
        return ((_LENGTH, _message_shortcut(known, known.message)),)
    if known.type is Type.STRING:
        return ((_LENGTH, _text_shortcut(known)),)
    if known.type is Type.DATA:
        return ()
    return ((_LENGTH, _packed_shortcut(known)),) if known.repeated else ((_VARINT, _number_shortcut(known)),)


def _number_shortcut(known: Field) -> Shortcut:
    name = known.name

    def take(values: dict[str, Any], cursor: Cursor, position: int) -> int:
        number = cursor.data[position]
        if number < 0x80:
            values[name] = number
            return position + 1
        cursor.position = position
        values[name] = _number(cursor, known)
        return cursor.position

    return take


def _packed_shortcut(known: Field) -> Shortcut:
    """For a list of numbers; and not for more of them, when there are some already."""
    name = known.name

    def take(values: dict[str, Any], cursor: Cursor, position: int) -> int:
        length = cursor.data[position]
        end = position + 1 + length
        if length >= 0x80 or end > cursor.end or name in values:
            return 0
        numbers = list(cursor.data[position + 1 : end])
        if not numbers:
            return 0
        if max(numbers) >= 0x80:  # else every number is one byte
            part = Cursor(cursor.data, cursor.path, position + 1, end, cursor.origin)
            numbers = []
            while part.position < end:
                numbers.append(_number(part, known))
        values[name] = numbers
        return end

    return take


def _text_shortcut(known: Field) -> Shortcut:
    name = known.name

    def take(values: dict[str, Any], cursor: Cursor, position: int) -> int:
        length = cursor.data[position]
        end = position + 1 + length
        if length >= 0x80 or end > cursor.end or known.repeated:
            return 0
        try:
            values[name] = str(cursor.data[position + 1 : end], "utf-8")
        except UnicodeDecodeError:
            return 0
        return end

    return take


def _message_shortcut(known: Field, message: Message) -> Shortcut:
    name, repeated = known.name, known.repeated

    def take(values: dict[str, Any], cursor: Cursor, position: int) -> int:
        length = cursor.data[position]
        end = position + 1 + length
        if length >= 0x80 or end > cursor.end:
            return 0
        part = Cursor(cursor.data, cursor.path, position + 1, end, cursor.origin)
        if repeated or name in values:
            _store_message(values, known, message, part)
        else:
            values[name] = message.decode(part)
        return end

    return take


# The long way


def _tag(cursor: Cursor) -> tuple[int, int]:
    tag = cursor.varint("a field's tag", bits=32)
    if tag < 8:
        raise cursor.error("a field has number 0")
    return tag >> 3, tag & 7


def _store(values: dict[str, Any], known: Field, wire: int, cursor: Cursor) -> bool:
    """Read the value of a known field; False when the wire type is not the field's own."""
    if known.type in _NUMBERS:
        return _store_number(values, known, wire, cursor)
    if wire != _LENGTH:
        return False
    part = _length_delimited(cursor, known.name)
    if known.type is Type.MESSAGE and known.message is not None:
        _store_message(values, known, known.message, part)
    elif known.type is Type.STRING:
        _put(values, known, _text(part, known.name), cursor)
    else:
        _put(values, known, Range(part.offset, part.remaining), cursor)
    return True


def _store_number(values: dict[str, Any], known: Field, wire: int, cursor: Cursor) -> bool:
    if wire == _VARINT:
        _put(values, known, _number(cursor, known), cursor)
        return True
    if wire == _LENGTH and known.repeated:
        packed = _length_delimited(cursor, known.name)
        while packed.remaining:
            _append(values, known, _number(packed, known), packed)
        return True
    return False


def _store_message(values: dict[str, Any], known: Field, message: Message, part: Cursor) -> None:
    if known.repeated:
        _append(values, known, message.decode(part), part)
    else:
        # A message that comes twice is merged, field by field.
        message._decode_into(values.setdefault(known.name, {}), part)  # noqa: SLF001  same module


def _put(values: dict[str, Any], known: Field, value: object, cursor: Cursor) -> None:
    if known.repeated:
        _append(values, known, value, cursor)
    else:
        values[known.name] = value


def _append(values: dict[str, Any], known: Field, value: object, cursor: Cursor) -> None:
    items = values.setdefault(known.name, [])
    if len(items) >= _MAX_ITEMS:
        raise cursor.error(f"more than {_MAX_ITEMS} of {known.name} are not credible")
    items.append(value)


def _number(cursor: Cursor, known: Field) -> int:
    value = cursor.varint(known.name)
    if value < 1 << 31 or known.type is Type.UINT64:
        return value
    value &= 0xFFFF_FFFF
    if known.type is Type.INT32 and value >= 1 << 31:
        value -= 1 << 32
    return value


def _text(part: Cursor, name: str) -> str:
    start = part.offset
    if part.remaining > _MAX_TEXT:
        raise part.error(f"{name} of {part.remaining} bytes is not credible")
    try:
        return part.take(part.remaining, name).decode()
    except UnicodeDecodeError as error:
        raise part.error(f"{name} is not UTF-8", back=part.offset - start - error.start) from error


def _length_delimited(cursor: Cursor, name: str) -> Cursor:
    return cursor.part(cursor.varint(name), name)


def _pass_over(cursor: Cursor, number: int, wire: int, depth: int = 0) -> None:
    what = f"field {number}"
    if wire == _VARINT:
        cursor.varint(what)
    elif wire == _FIXED64:
        cursor.skip(8, what)
    elif wire == _LENGTH:
        cursor.skip(cursor.varint(what), what)
    elif wire == _FIXED32:
        cursor.skip(4, what)
    elif wire == _GROUP:
        _pass_over_group(cursor, number, depth + 1)
    else:
        raise cursor.error(f"{what} has wire type {wire}")


def _pass_over_group(cursor: Cursor, number: int, depth: int) -> None:
    if depth >= _MAX_GROUP_DEPTH:
        raise cursor.error("groups are nested too deeply")
    while True:
        if not cursor.remaining:
            raise cursor.error(f"group {number} is not closed")
        inner, wire = _tag(cursor)
        if wire == _END_GROUP:
            if inner != number:
                raise cursor.error(f"group {number} is closed as group {inner}")
            return
        _pass_over(cursor, inner, wire, depth)
