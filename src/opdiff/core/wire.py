"""Encoder of the protobuf wire format, as far as dump headers, ONNX models and Caffe weights need it.

As in proto3, zero numbers and empty strings are omitted.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_VARINT, _LENGTH_DELIMITED, _FIXED32 = 0, 2, 5


def varint(value: int) -> bytes:
    """Encode a varint: seven bits per byte, lowest first; negative values as 64-bit two's complement."""
    if 0 <= value < 0x80:
        return bytes((value,))
    rest = value & 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def number(field: int, value: int) -> bytes:
    """Encode an integer field."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def block(field: int, body: bytes) -> bytes:
    """Encode a message field; it is written even if it is empty."""
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(len(body)) + body


def text(field: int, value: str | bytes) -> bytes:
    """Encode a string or bytes field."""
    raw = value.encode() if isinstance(value, str) else value
    return block(field, raw) if raw else b""


def packed(field: int, values: Iterable[int]) -> bytes:
    """Encode a packed repeated integer field."""
    return text(field, b"".join(map(varint, values)))


def single(field: int, value: float) -> bytes:
    """Encode a single-precision field; it is written even if it is zero."""
    return varint(field << 3 | _FIXED32) + struct.pack("<f", value)
