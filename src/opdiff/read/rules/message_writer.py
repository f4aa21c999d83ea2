"""Messages of a compiled model from their fields by name: the way from texts and JSON to the one reader of messages."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opdiff.core import wire
from opdiff.core.reasons import because
from opdiff.read.rules.message_fields import FIXED32, VARINT
from opdiff.read.rules.model_schema import ENUMS, MESSAGES

if TYPE_CHECKING:
    from opdiff.core.reasons import Reason
    from opdiff.read.rules.model_schema import Field

    Tree = Mapping[str, Sequence[object]]
    """Values of a message by field: strings, bytes, numbers, or trees of other messages."""

_UINT64 = 0xFFFF_FFFF_FFFF_FFFF
_MAX_NUMBER_LENGTH = 400
_TRUE, _FALSE = ("true", "True", "t", "1"), ("false", "False", "f", "0")


class FieldError(Exception):
    """A value that the field of a message cannot have."""

    def __init__(self, field: str, value: object) -> None:
        super().__init__(field, value)
        self.field = field
        self.value = value

    @property
    def reason(self) -> Reason:
        """The field and the beginning of the value."""
        shown = self.value if isinstance(self.value, str | int | float) else type(self.value).__name__
        return because("rules.field_value", field=self.field, value=str(shown)[:80])

    def __str__(self) -> str:
        return str(self.reason)


def encode(message: str, tree: Tree) -> bytes:
    """Return a serialized message; fields that it does not have are left out.

    Raises:
        FieldError: a value does not fit its field.
    """
    return b"".join(_encode_field(field, tree[field.name]) for field in MESSAGES[message] if tree.get(field.name))


def _encode_field(field: Field, values: Sequence[object]) -> bytes:
    # Of a field that is not repeated the last value counts.
    chosen = values if field.is_repeated else values[-1:]
    return b"".join(_encode_value(field, value) for value in chosen)


def _encode_value(field: Field, value: object) -> bytes:
    if field.kind in MESSAGES:
        if not isinstance(value, Mapping):
            raise FieldError(field.name, value)
        return wire.block(field.number, encode(field.kind, value))
    if field.kind in ("string", "bytes"):
        return wire.block(field.number, _to_bytes(field, value))
    if field.kind == "float":
        return wire.varint(field.number << 3 | FIXED32) + _to_float(field, value)
    return wire.varint(field.number << 3 | VARINT) + wire.varint(_to_int(field, value))


def _to_bytes(field: Field, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise FieldError(field.name, value)
    try:
        return value.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return value.encode(errors="replace")


def _to_float(field: Field, value: object) -> bytes:
    if not isinstance(value, str | int | float) or len(str(value)) > _MAX_NUMBER_LENGTH:
        raise FieldError(field.name, value)
    try:
        return struct.pack("<f", float(value))
    except ValueError as error:
        raise FieldError(field.name, value) from error
    except OverflowError:
        return struct.pack("<f", float("-inf" if str(value)[0] == "-" else "inf"))


def _to_int(field: Field, value: object) -> int:
    """Return a number as it is written: two's complement of 64 bits."""
    names = ENUMS.get(field.kind, ())
    if isinstance(value, str) and value in names:
        return names.index(value)
    if field.kind == "bool" and value in (*_TRUE, *_FALSE):
        return int(value in _TRUE)
    if not isinstance(value, str | int) or len(str(value)) > _MAX_NUMBER_LENGTH:
        raise FieldError(field.name, value)
    try:
        number = int(value)
    except ValueError as error:
        raise FieldError(field.name, value) from error
    if not -(1 << 63) <= number <= _UINT64:
        raise FieldError(field.name, value)
    return number & _UINT64
