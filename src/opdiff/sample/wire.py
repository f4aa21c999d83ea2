"""The protobuf wire format, as far as dump headers need it, for writing.

As proto3 writers do, a number that is zero and a text that is empty are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_VARINT, _LENGTH_DELIMITED = 0, 2


def varint(value: int) -> bytes:
    """The bytes of `value`, seven bits each, lowest first; a negative number as its 64-bit complement."""
    rest = value & 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def number(field: int, value: int) -> bytes:
    """An integer field."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def block(field: int, body: bytes) -> bytes:
    """A length-delimited field: a message, which is there even when it is empty."""
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(len(body)) + body


def text(field: int, value: str | bytes) -> bytes:
    """A string or bytes field."""
    raw = value.encode() if isinstance(value, str) else value
    return block(field, raw) if raw else b""


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated integer field in one block."""
    return text(field, b"".join(map(varint, values)))
