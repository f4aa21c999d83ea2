"""Attributes of ONNX nodes: small attributes decoded, all others kept as bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core import onnx_encoder as onnx
from opdiff.read.cursor import Cursor
from opdiff.read.protowire import iter_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.onnx_encoder import Attribute
    from opdiff.read.protowire import Range, RawField
    from opdiff.workflows.replay.encoded_model import EncodedModel, EncodedNode

_NAME, _FLOAT, _INTEGER, _STRING, _INTEGERS = 1, 2, 3, 4, 8
_MAX_NBYTES = 1 << 12


def read_attributes(encoded: EncodedModel, node: EncodedNode) -> dict[str, Attribute]:
    """Return the attributes that are a number, a string or a list of integers, by name."""
    found: dict[str, Attribute] = {}
    for part in node.attributes:
        raw = part if isinstance(part, bytes) else encoded.bytes_of(part) if part.nbytes <= _MAX_NBYTES else b""
        fields = list(iter_fields(Cursor(raw, encoded.model.path)))
        name = b"".join(_content(raw, field) for field in fields if field.number == _NAME)
        value = _value(raw, fields)
        if value is not None:
            found[name.decode()] = value
    return found


def with_attributes(encoded: EncodedModel, node: EncodedNode, changes: Mapping[str, Attribute]) -> EncodedNode:
    """Return a node with some attributes changed or added."""
    kept = [part for part in node.attributes if _name(encoded, part) not in changes]
    return replace(node, attributes=(*kept, *(onnx.attribute(name, value) for name, value in changes.items())))


def _name(encoded: EncodedModel, part: bytes | Range) -> str:
    raw = part if isinstance(part, bytes) else bytes(encoded.bytes_of(part)[:_MAX_NBYTES])
    field = next(iter_fields(Cursor(raw, encoded.model.path)))
    return _content(raw, field).decode() if field.number == _NAME else ""


def _value(raw: bytes, fields: list[RawField]) -> Attribute | None:
    for field in fields:
        if field.number == _FLOAT:
            value: float = struct.unpack("<f", field.raw[-4:])[0]
            return value
        if field.number == _INTEGER:
            return _signed(Cursor(field.raw, "", 1).varint("i"))
        if field.number == _STRING:
            return _content(raw, field).decode(errors="replace")
        if field.number == _INTEGERS:
            return tuple(number for item in fields if item.number == _INTEGERS for number in _integers(raw, item))
    return None


def _integers(raw: bytes, field: RawField) -> list[int]:
    """Return the numbers of one field, which may be packed."""
    if field.content is None:
        return [_signed(Cursor(field.raw, "", 1).varint("ints"))]
    cursor = Cursor(_content(raw, field), "")
    found = []
    while cursor.remaining:
        found.append(_signed(cursor.varint("ints")))
    return found


def _content(raw: bytes, field: RawField) -> bytes:
    if field.content is None:
        return b""
    return raw[field.content.offset : field.content.offset + field.content.nbytes]


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
