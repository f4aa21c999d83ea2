"""Encoders of dump files; they follow the format pages, independently of the readers.

    standard   length of the header, header (protobuf), then the data of inputs, outputs, buffers and spaces
    protobuf   the header alone, with the data inside it (version 1, old)
    nano       length of the head, head (packed structs), then the data of inputs and outputs
    overflow   the record in an overflow debug file, in its new and its old form

An integer in place of an element type or a layout is written unchanged, to encode unknown ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import pack
from typing import TYPE_CHECKING

from opdiff.core import codes as elements
from opdiff.core import dtypes, wire
from opdiff.core import layout_ids as layouts
from opdiff.core.errors import ElementError, LayoutError
from opdiff.core.reasons import because
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
_NANO_NUMBERS = {dtype: number for number, dtype in dtypes.NANO_BY_NUMBER.items()}


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
    return b"".join(
        (
            _type_layout_shape(tensor),
            wire.block(4, _original(tensor.original)) if tensor.original else b"",
            wire.text(5, tensor.payload) if inside else b"",
            wire.number(6, len(tensor.payload)),
            _dims(7, tensor.origin_shape),
            wire.number(8, _sub_format(tensor)),
            wire.number(9, tensor.address),
        )
    )


def _input(tensor: EncodedTensor, *, inside: bool) -> bytes:
    # Field numbers differ from those of an output from 4 on.
    return b"".join(
        (
            _type_layout_shape(tensor),
            wire.text(4, tensor.payload) if inside else b"",
            wire.number(5, len(tensor.payload)),
            _dims(6, tensor.origin_shape),
            wire.number(7, _sub_format(tensor)),
            wire.number(8, tensor.address),
        )
    )


def _type_layout_shape(tensor: EncodedTensor) -> bytes:
    shape = b"" if tensor.shape is None else wire.block(3, wire.packed(1, tensor.shape))
    return wire.number(1, _type_number(tensor.dtype)) + wire.number(2, _layout_number(tensor.layout)) + shape


def _dims(field: int, shape: Shape) -> bytes:
    return wire.block(field, wire.packed(1, shape)) if shape else b""


def _sub_format(tensor: EncodedTensor) -> int:
    return tensor.groups if tensor.groups > 1 else 0


def _original(original: OriginalTensor) -> bytes:
    kind = wire.number(3, _type_number(original.dtype)) + wire.number(4, _layout_number(original.layout))
    return wire.text(1, original.op) + wire.number(2, original.index) + kind


def _blob(raw: bytes, *, inside: bool) -> bytes:
    return (wire.text(2, raw) if inside else b"") + wire.number(3, len(raw))


def _type_number(dtype: DType | int) -> int:
    return dtype if isinstance(dtype, int) else _NUMBERS[dtype]


def _layout_number(layout: str | int) -> int:
    if isinstance(layout, int):
        return layout
    if layout not in layouts.NUMBERS:
        raise LayoutError(layout, because("sample.layout_number"))
    return layouts.NUMBERS[layout]


# Nano container


def nano_dump(dump: EncodedDump, *, version: int = 1) -> bytes:
    """Encode a nano dump file. It has inputs and outputs only; other fields of `dump` are not used."""
    inputs = [_nano_record(tensor, original=False) for tensor in dump.inputs]
    outputs = [_nano_record(tensor, original=True) for tensor in dump.outputs]
    head = pack("<II", _MAGIC, version) + _nano_section(4, inputs) + _nano_section(5, outputs)
    payloads = (tensor.payload for tensor in dump.inputs + dump.outputs)
    return b"".join((pack("<Q", len(head)), head, *payloads))


def _nano_section(tag: int, records: list[bytes]) -> bytes:
    return _tlv(tag, pack("<I", len(records)) + b"".join(records))


def _nano_record(tensor: EncodedTensor, *, original: bool) -> bytes:
    address_type = offset = 0
    kind = pack("<iii", _nano_number(tensor.dtype), _layout_number(tensor.layout), address_type)
    source = _nano_original(tensor.original) if original else b""
    where = pack("<QQQ", tensor.address, offset, len(tensor.payload))
    tlvs = b"" if tensor.shape is None else _tlv(0, _words(tensor.shape))
    tlvs += _tlv(1, _words(tensor.origin_shape)) if tensor.origin_shape else b""
    tlvs += _tlv(2, tensor.original.op.encode()) if original and tensor.original else b""
    return kind + source + where + pack("<I", len(tlvs)) + tlvs


def _nano_original(original: OriginalTensor | None) -> bytes:
    if original is None:
        return bytes(12)
    return pack("<iii", original.index, _nano_number(original.dtype), _layout_number(original.layout))


def _nano_number(dtype: DType | int) -> int:
    if isinstance(dtype, int):
        return dtype
    if dtype not in _NANO_NUMBERS:
        raise ElementError(dtype.name, because("sample.type_number"))
    return _NANO_NUMBERS[dtype]


def _tlv(tag: int, value: bytes) -> bytes:
    return pack("<II", tag, len(value)) + value


def _words(values: Shape) -> bytes:
    return pack(f"<{len(values)}Q", *values)


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


def overflow_record(overflow: Overflow) -> bytes:
    """Encode the record in its new form."""
    words = _words(tuple(getattr(overflow, name) for name in _UNIT_WORDS[overflow.unit]))
    is_core = overflow.unit in (Unit.AIC, Unit.AIV)
    count = 4 if is_core and overflow.version == 1 else 1
    data = words + _words((overflow.status + (0,) * count)[:count])
    valid, reserved = 1, 0
    return pack("<6I", _MAGIC, overflow.version, valid, overflow.unit, reserved, len(data)) + data


def old_overflow_record(dha: Overflow | None, l2: Overflow | None, ai_core: Overflow | None) -> bytes:
    """Encode the record in its old form: 2048 bytes with a field for each of three sources, zeros for `None`."""
    record = bytearray(2048)
    for start, overflow in ((0, dha), (128, l2), (256, ai_core)):
        if overflow:
            record[start : start + 48] = _words(_old_info(overflow))
    for start, overflow in ((512, dha), (768, l2)):
        if overflow:
            record[start : start + 8] = _words(overflow.status[:1])
    if ai_core:
        record[1024:1048] = _words((ai_core.kernel_code, ai_core.block_id, ai_core.status[0]))
    return bytes(record)


def _old_info(overflow: Overflow) -> Shape:
    ids = (overflow.model_id, overflow.stream_id, overflow.task_id, overflow.task_type)
    return (*ids, overflow.pc_start, overflow.para_base)


def overflow_dump(record: bytes, dump_time: int = 0) -> EncodedDump:
    """Return the contents of an overflow debug file: one output of bytes."""
    output = EncodedTensor(dtypes.UINT8, (len(record),), "ND", record)
    return EncodedDump(outputs=(output,), op_name="Node_OpDebug", dump_time=dump_time)
