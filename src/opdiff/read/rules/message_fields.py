"""Fields of a protobuf message by their position, for messages of which most fields are skipped."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.reasons import Reason

    # Field number, wire type, and the number itself or the first and last byte of the field.
    WireField = tuple[int, int, int, int]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
MAX_STRING_NBYTES = 64 << 10


class MessageError(Exception):
    """Bytes that are not a model message; `offset` counts from the beginning of the message."""

    def __init__(self, problem: Reason, offset: int) -> None:
        super().__init__(problem, offset)
        self.problem = problem
        self.offset = offset

    @property
    def reason(self) -> Reason:
        """The problem and its offset."""
        return because("rules.in_description", problem=self.problem, offset=self.offset)

    def __str__(self) -> str:
        return str(self.reason)


def iter_fields(data: bytes, position: int, end: int) -> Iterator[WireField]:
    """Yield the fields of a message; of a number its value stands in place of the first byte."""
    while position < end:
        start = position
        tag, position = _varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        if wire == LENGTH:
            length, first = _varint(data, position, end)
            position = first + length
            if position > end:
                raise MessageError(because("rules.field_length", number=number, nbytes=length, left=end - first), start)
            yield number, wire, first, position
        elif wire == VARINT:
            value, position = _varint(data, position, end)
            yield number, wire, value, position
        elif wire in (FIXED64, FIXED32):
            first, position = position, position + (8 if wire == FIXED64 else 4)
            if position > end:
                raise MessageError(because("rules.field_end", number=number), start)
            yield number, wire, first, position
        else:
            raise MessageError(because("rules.wire_type", number=number, type=wire), start)


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
    raise MessageError(because("rules.endless_number"), start)


def signed(value: int) -> int:
    """Return a 64-bit number with its sign."""
    return value - (1 << 64) if value >> 63 else value


def string(data: bytes, first: int, last: int) -> str:
    """Return a string of at most `MAX_STRING_NBYTES`."""
    return data[first : min(last, first + MAX_STRING_NBYTES)].decode(errors="replace")


def iter_numbers(data: bytes, wire: int, first: int, last: int) -> Iterator[int]:
    """Yield repeated integers, packed or single."""
    if wire == VARINT:
        yield first
    elif wire == LENGTH:
        while first < last:
            value, first = _varint(data, first, last)
            yield value


def iter_floats(data: bytes, wire: int, first: int, last: int) -> Iterator[float]:
    """Yield repeated 32-bit floating-point numbers, packed or single."""
    if wire == FIXED32:
        last = first + 4
    elif wire != LENGTH:
        return
    yield from struct.unpack_from(f"<{(last - first) // 4}f", data, first)
