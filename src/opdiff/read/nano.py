"""Nano dumps: a head of tag-length-value records. See docs/formats/nano-dump.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.core import dtypes
from opdiff.core import layout_ids as layouts
from opdiff.core.errors import DumpError
from opdiff.core.source import FileRange
from opdiff.core.tensor import Container, OpDump, Slot, Tensor, TensorSpec
from opdiff.read.ascend import MAX_HEADER
from opdiff.read.cursor import Cursor

if TYPE_CHECKING:
    from opdiff.core.tensor import Shape
    from opdiff.read.ascend import OpenFile

MAGIC = 0x5A5A5A5A
_MAGIC_BYTES = MAGIC.to_bytes(4, "little")
_PREFIX = 8
_SECTIONS = {Slot.INPUT: 4, Slot.OUTPUT: 5}
# Bytes of a record without its tag-length-value list; a section cannot hold more records than fit.
_LEAST_RECORD = 40
_SHAPE, _ORIGIN_SHAPE, _NAME = range(3)


def is_nano(head: bytes) -> bool:
    """Whether a file that begins with `head` is a nano dump."""
    return head[_PREFIX : _PREFIX + 4] == _MAGIC_BYTES and len(head) > 12


def read_nano(file: OpenFile) -> OpDump:
    """The operator of a nano dump."""
    length = Cursor(file.head, file.path).u64("the head's length")
    if length > min(file.size - _PREFIX, MAX_HEADER):
        raise DumpError(file.path, f"the head should have {length} bytes, but the file has {file.size}", 0)
    data = file.head
    if len(data) < _PREFIX + length:
        data = os.pread(file.descriptor, _PREFIX + length, 0)
    cursor = Cursor(data, file.path, _PREFIX, min(len(data), _PREFIX + length))
    cursor.skip(4, "the magic number")
    version = cursor.u32("the version")
    start = _PREFIX + length
    inputs, start = _section(cursor, Slot.INPUT, start)
    outputs, start = _section(cursor, Slot.OUTPUT, start)
    if start != file.size:
        raise DumpError(file.path, f"head and tensors take {start} bytes, but the file has {file.size}", start)
    return OpDump(file.path, Container.NANO, inputs, outputs, version=str(version))


def _section(cursor: Cursor, slot: Slot, start: int) -> tuple[tuple[Tensor, ...], int]:
    """The tensors of a section, which may be missing, and where the payload behind them starts."""
    if not cursor.remaining or _peek(cursor) != _SECTIONS[slot]:
        return (), start
    cursor.skip(4, "the section's tag")
    section = cursor.part(cursor.u32("the section's length"), f"the section of {slot}s")
    count = section.u32("the number of records")
    if count * _LEAST_RECORD > section.remaining:
        raise section.error(f"{count} records of {slot}s do not fit in {section.remaining} bytes")
    tensors = []
    for _ in range(count):
        tensor = _record(section, slot, start)
        start += tensor.source.nbytes
        tensors.append(tensor)
    return tuple(tensors), start


def _peek(cursor: Cursor) -> int:
    tag = cursor.u32("a section's tag")
    cursor.position -= 4
    return tag


def _record(section: Cursor, slot: Slot, start: int) -> Tensor:
    number = section.i32("the data type")
    layout, groups = layouts.split_word(section.i32("the format"))
    section.skip(4 if slot is Slot.INPUT else 16, "address type and origin")
    address = section.u64("the address")
    section.skip(8, "the offset")
    source = FileRange(section.path, start, section.u64("the size"))
    values = section.part(section.u32("the length of the list"), "the list of values")
    shape, origin_shape, name = _values(values)
    dtype = dtypes.NANO_BY_NUMBER.get(number) or dtypes.unknown(number)
    if shape is None:
        shape = (source.nbytes * 8 // dtype.bits if dtype.bits else source.nbytes,)
    return Tensor(TensorSpec(dtype, shape, layout, origin_shape, groups, address or None), source, name)


def _values(values: Cursor) -> tuple[Shape | None, Shape, str]:
    shape: Shape | None = None
    origin_shape: Shape = ()
    name = ""
    while values.remaining:
        tag = values.u32("a value's tag")
        value = values.part(values.u32("a value's length"), "a value")
        if tag == _SHAPE:
            shape = _dims(value)
        elif tag == _ORIGIN_SHAPE:
            origin_shape = _dims(value)
        elif tag == _NAME:
            name = value.take(value.remaining, "a name").decode(errors="replace")
    return shape, origin_shape, name


def _dims(value: Cursor) -> Shape:
    if value.remaining % 8:
        raise value.error(f"a shape of {value.remaining} bytes is not a list of 64-bit numbers")
    return tuple(value.u64("a dimension") for _ in range(value.remaining // 8))
