"""Encoders of dump files; they follow the format pages, independently of the readers.

    standard   length of the header, header (protobuf), then the data of inputs, outputs, buffers and spaces
    protobuf   the header alone, with the data inside it (version 1, old)
    overflow   the record in an overflow debug file

An integer in place of an element type or a layout is written unchanged, to encode unknown ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import pack
from typing import TYPE_CHECKING

from opdiff.core import codes as elements
from opdiff.core import dtypes, wire
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.tensor import LAYOUT_NUMBERS
from opdiff.sample.storage import store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape

NONE_ID = 65535
"""Value of overflow records for an absent context or thread."""

_MAGIC = 0x5A5A5A5A
_NUMBERS = {dtype: number for number, dtype in dtypes.BY_NUMBER.items()}


@dataclass(frozen=True, slots=True)
class OriginalTensor:
    """A tensor of the original model: operator, output index, element type and layout."""

    op: str
    index: int = 0
    dtype: DType | int = dtypes.FLOAT32
    layout: str | int = "ND"


@dataclass(frozen=True, slots=True)
class EncodedTensor:
    """A tensor as stored in a file.

    Attributes:
        dtype: the element type.
        shape: the stored shape; `None` omits the field.
        layout: the storage layout.
        payload: the stored bytes.
        origin_shape: the shape before the device layout was applied; empty omits the field.
        groups: the group count; written if above 1.
        address: the device address; 0 omits the field.
        original: the tensor of the original model. Standard dumps have it for outputs only.
    """

    dtype: DType | int
    shape: Shape | None
    layout: str | int
    payload: bytes
    origin_shape: Shape = ()
    groups: int = 1
    address: int = 0
    original: OriginalTensor | None = None


@dataclass(frozen=True, slots=True)
class EncodedDump:
    """Contents of the dump file of one operator. Empty and zero fields are omitted."""

    inputs: tuple[EncodedTensor, ...] = ()
    outputs: tuple[EncodedTensor, ...] = ()
    buffers: tuple[bytes, ...] = ()
    spaces: tuple[bytes, ...] = ()
    op_name: str = ""
    dump_time: int = 0
    attr: str = ""
    version: str = "2.0"


def encode_tensor(
    array: AnyArray, dtype: DType, layout: str = "ND", *, groups: int = 1, address: int = 0
) -> EncodedTensor:
    """Encode the values of an array as `dtype` in `layout`.

    The axis order is that of `storage.store`: NCHW, NCDHW, or the matrix last.
    """
    codes = elements.encode(array, dtype)
    # A scalar has no axis that a layout could move.
    stored = store(codes, layout, c0=block_channels(dtype), groups=groups) if array.ndim else codes
    payload = elements.pack(stored, dtype)
    return EncodedTensor(dtype, stored.shape, layout, payload, array.shape, groups, address)


def block_channels(dtype: DType) -> int:
    """Return C0 of an element type: 32 bytes of elements, at least 16 elements."""
    return max(16, 256 // dtype.bits)


# Standard and protobuf containers


def standard_dump(dump: EncodedDump) -> bytes:
    """Encode a standard dump file."""
    return b"".join(iter_standard(dump))


def iter_standard(dump: EncodedDump) -> Iterator[bytes]:
    """Yield a standard dump file in pieces, header first, without copying payloads."""
    header = _header(dump, inside=False)
    yield pack("<Q", len(header)) + header
    yield from (tensor.payload for tensor in dump.inputs + dump.outputs)
    yield from dump.buffers + dump.spaces


def protobuf_dump(dump: EncodedDump) -> bytes:
    """Encode a dump file in its old form: one message with the data inside; the version is that of `dump`."""
    return _header(dump, inside=True)


def _header(dump: EncodedDump, *, inside: bool) -> bytes:
    return b"".join(
        (
            wire.text(1, dump.version),
            wire.number(2, dump.dump_time),
            *(wire.block(3, _output(tensor, inside=inside)) for tensor in dump.outputs),
            *(wire.block(4, _input(tensor, inside=inside)) for tensor in dump.inputs),
            *(wire.block(5, _blob(raw, inside=inside)) for raw in dump.buffers),
            wire.text(6, dump.op_name),
            wire.block(7, wire.text(1, "slice_info") + wire.text(2, dump.attr)) if dump.attr else b"",
            *(wire.block(8, _blob(raw, inside=inside)) for raw in dump.spaces),
        )
    )


def _output(tensor: EncodedTensor, *, inside: bool) -> bytes:
    original = wire.block(4, _original(tensor.original)) if tensor.original else b""
    return _type_layout_shape(tensor) + original + _data(tensor, 5, inside=inside)


def _input(tensor: EncodedTensor, *, inside: bool) -> bytes:
    return _type_layout_shape(tensor) + _data(tensor, 4, inside=inside)


def _data(tensor: EncodedTensor, first: int, *, inside: bool) -> bytes:
    """Encode payload, size, origin shape, groups and address, whose field numbers begin with `first`."""
    return b"".join(
        (
            wire.text(first, tensor.payload) if inside else b"",
            wire.number(first + 1, len(tensor.payload)),
            wire.block(first + 2, wire.packed(1, tensor.origin_shape)) if tensor.origin_shape else b"",
            wire.number(first + 3, tensor.groups) if tensor.groups > 1 else b"",
            wire.number(first + 4, tensor.address),
        )
    )


def _type_layout_shape(tensor: EncodedTensor) -> bytes:
    shape = b"" if tensor.shape is None else wire.block(3, wire.packed(1, tensor.shape))
    return wire.number(1, _type_number(tensor.dtype)) + wire.number(2, layout_number(tensor.layout)) + shape


def _original(original: OriginalTensor) -> bytes:
    kind = wire.number(3, _type_number(original.dtype)) + wire.number(4, layout_number(original.layout))
    return wire.text(1, original.op) + wire.number(2, original.index) + kind


def _blob(raw: bytes, *, inside: bool) -> bytes:
    return (wire.text(2, raw) if inside else b"") + wire.number(3, len(raw))


def _type_number(dtype: DType | int) -> int:
    return dtype if isinstance(dtype, int) else _NUMBERS[dtype]


def layout_number(layout: str | int) -> int:
    """Return the number of a layout in headers."""
    if isinstance(layout, int):
        return layout
    if layout not in LAYOUT_NUMBERS:
        raise LayoutError(layout, because("sample.layout_number"))
    return LAYOUT_NUMBERS[layout]


# Overflow records


class Unit(IntEnum):
    """Device unit that detected an overflow."""

    AIC = 0
    AIV = 1
    AICPU = 2
    SDMA = 3


@dataclass(frozen=True, slots=True)
class Overflow:
    """An overflow of an operator. Each unit writes only its own fields.

    Attributes:
        status: non-zero bits describe the overflow; AI cores of version 1 write four words, all others one.
        version: version of the record, 0 or 1.
    """

    unit: Unit = Unit.AIC
    model_id: int = 0
    stream_id: int = 0
    task_id: int = 0
    task_type: int = 0
    context_id: int = NONE_ID
    thread_id: int = NONE_ID
    pc_start: int = 0
    para_base: int = 0
    core_id: int = 0
    block_id: int = 0
    cpu_id: int = 0
    src_addr: int = 0
    dst_addr: int = 0
    channel_id: int = 0
    kernel_code: int = 0
    status: tuple[int, ...] = (1,)
    version: int = 0


_CORE_WORDS = (
    "model_id", "stream_id", "task_id", "task_type", "context_id", "thread_id",
    "pc_start", "para_base", "core_id", "block_id",
)  # fmt: skip
_UNIT_WORDS = {
    Unit.AIC: _CORE_WORDS,
    Unit.AIV: _CORE_WORDS,
    Unit.AICPU: ("model_id", "stream_id", "task_id", "task_type", "context_id", "cpu_id", "thread_id"),
    Unit.SDMA: (*_CORE_WORDS[:6], "src_addr", "dst_addr", "channel_id"),
}


def words(values: Shape) -> bytes:
    """Return numbers as 64-bit words."""
    return pack(f"<{len(values)}Q", *values)


def overflow_record(overflow: Overflow) -> bytes:
    """Encode the record of an overflow."""
    fields = words(tuple(getattr(overflow, name) for name in _UNIT_WORDS[overflow.unit]))
    is_core = overflow.unit in (Unit.AIC, Unit.AIV)
    count = 4 if is_core and overflow.version == 1 else 1
    data = fields + words((overflow.status + (0,) * count)[:count])
    valid, reserved = 1, 0
    return pack("<6I", _MAGIC, overflow.version, valid, overflow.unit, reserved, len(data)) + data


def overflow_dump(record: bytes, dump_time: int = 0) -> EncodedDump:
    """Return the contents of an overflow debug file: one output of bytes."""
    output = EncodedTensor(dtypes.UINT8, (len(record),), "ND", record)
    return EncodedDump(outputs=(output,), op_name="Node_OpDebug", dump_time=dump_time)
