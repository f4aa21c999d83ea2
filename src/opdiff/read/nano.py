"""Nano dumps: a header of tag-length-value records. See docs/formats/nano-dump.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core import dtypes
from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.core.source import FileRange
from opdiff.core.tensor import Container, OpDump, Slot, Tensor, TensorSpec, parse_format_word
from opdiff.read.ascend import MAX_FIELDS, MAX_HEADER
from opdiff.read.cursor import Cursor

if TYPE_CHECKING:
    from opdiff.core.tensor import Shape
    from opdiff.read.reader import OpenFile

MAGIC = 0x5A5A5A5A
_MAGIC_BYTES = MAGIC.to_bytes(4, "little")
_PREFIX = 8
_SECTIONS = {Slot.INPUT: 4, Slot.OUTPUT: 5}
# Bytes of a record with an empty tag-length-value list; limits the number of records of a section.
_MIN_RECORD_NBYTES = 40
_SHAPE, _ORIGIN_SHAPE, _NAME = range(3)


def is_nano(file: OpenFile) -> bool:
    """Return whether a file is a nano dump."""
    return file.head[_PREFIX : _PREFIX + 4] == _MAGIC_BYTES and len(file.head) > 12


def read_nano(file: OpenFile) -> OpDump:
    """Describe a nano dump."""
    length = Cursor(file.head, file.path).u64("header_length")
    if length > file.size - _PREFIX:
        raise DumpError(file.path, because("read.header_truncated", nbytes=length, size=file.size), 0)
    if length > MAX_HEADER:
        raise DumpError(file.path, because("read.header_too_long", nbytes=length, limit=MAX_HEADER), 0)
    data = file.head
    if len(data) < _PREFIX + length:
        data = file.read(_PREFIX + length, 0)
    cursor = Cursor(data, file.path, _PREFIX, min(len(data), _PREFIX + length))
    cursor.max_fields = MAX_FIELDS
    cursor.skip(4, "magic")
    version = cursor.u32("version")
    start = _PREFIX + length
    inputs, start = _section(cursor, Slot.INPUT, start)
    outputs, start = _section(cursor, Slot.OUTPUT, start)
    if start != file.size:
        raise DumpError(file.path, because("read.size_mismatch", expected=start, size=file.size), start)
    return OpDump(file.path, Container.NANO, inputs, outputs, version=str(version))


def _section(cursor: Cursor, slot: Slot, start: int) -> tuple[tuple[Tensor, ...], int]:
    """Return the tensors of a section, which may be missing, and the offset behind their payload."""
    if not cursor.remaining or _peek(cursor) != _SECTIONS[slot]:
        return (), start
    cursor.skip(4, "section_tag")
    section = cursor.part(cursor.u32("section_length"), slot)
    count = section.u32("record_count")
    if count * _MIN_RECORD_NBYTES > section.remaining:
        raise section.error(because("read.too_many_records", count=count, section=slot, nbytes=section.remaining))
    tensors = []
    for _ in range(count):
        tensor = _record(section, slot, start)
        start += tensor.source.nbytes
        tensors.append(tensor)
    return tuple(tensors), start


def _peek(cursor: Cursor) -> int:
    tag = cursor.u32("section_tag")
    cursor.position -= 4
    return tag


def _record(section: Cursor, slot: Slot, start: int) -> Tensor:
    section.count_field()
    number = section.i32("data_type")
    layout, groups = parse_format_word(section.i32("format"))
    section.skip(4 if slot is Slot.INPUT else 16, "address_type")
    address = section.u64("address")
    section.skip(8, "offset")
    source = FileRange(section.path, start, section.u64("size"))
    values = section.part(section.u32("values_length"), "values")
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
        values.count_field()
        tag = values.u32("value_tag")
        value = values.part(values.u32("value_length"), "value")
        if tag == _SHAPE:
            shape = _dims(value)
        elif tag == _ORIGIN_SHAPE:
            origin_shape = _dims(value)
        elif tag == _NAME:
            name = value.take(value.remaining, "name").decode(errors="replace")
    return shape, origin_shape, name


def _dims(value: Cursor) -> Shape:
    if value.remaining % 8:
        raise value.error(because("read.shape_length", nbytes=value.remaining))
    return tuple(value.u64("dim") for _ in range(value.remaining // 8))
