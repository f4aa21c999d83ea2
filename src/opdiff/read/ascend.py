"""The standard dump (a length, a protobuf header, the payload) and its older, purely protobuf form.

See docs/formats/standard-dump.md and docs/formats/protobuf-dump.md for the byte tables.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core import dtypes
from opdiff.core.errors import DumpError
from opdiff.core.reasons import Reason, because
from opdiff.core.source import FileRange
from opdiff.core.tensor import Blob, Container, OpDump, Slot, Tensor, TensorSpec, parse_format_word
from opdiff.read.cursor import Cursor
from opdiff.read.protowire import Field, Message, Type, UnknownFieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from opdiff.core.tensor import Shape
    from opdiff.read.reader import OpenFile

# A header of this size would describe a hundred thousand tensors.
MAX_HEADER = 16 << 20
# A tensor takes about fifteen fields, its extents included. Without native code, this many take half a second.
MAX_FIELDS = 1 << 18
# Size of the length field before the header.
_PREFIX = 8
_NO_LENGTH = Reason("read.no_length")

_SHAPE = Message({1: Field("dim", Type.UINT64, repeated=True)})
_DIM_RANGE = Message({1: Field("dim_start", Type.UINT64), 2: Field("dim_end", Type.UINT64)})
_ORIGINAL_OP = Message(
    {
        1: Field("name", Type.STRING),
        2: Field("output_index", Type.UINT32),
        3: Field("data_type", Type.INT32),
        4: Field("format", Type.INT32),
    }
)
_OUTPUT = Message(
    {
        1: Field("data_type", Type.INT32),
        2: Field("format", Type.INT32),
        3: Field("shape", Type.MESSAGE, message=_SHAPE),
        4: Field("original_op", Type.MESSAGE, message=_ORIGINAL_OP),
        5: Field("data", Type.DATA),
        6: Field("size", Type.UINT64),
        7: Field("original_shape", Type.MESSAGE, message=_SHAPE),
        8: Field("sub_format", Type.INT32),
        9: Field("address", Type.UINT64),
        10: Field("dim_range", Type.MESSAGE, repeated=True, message=_DIM_RANGE),
        11: Field("offset", Type.UINT64),
        12: Field("arg_index", Type.UINT32),
    }
)
_INPUT = Message(
    {
        1: Field("data_type", Type.INT32),
        2: Field("format", Type.INT32),
        3: Field("shape", Type.MESSAGE, message=_SHAPE),
        4: Field("data", Type.DATA),
        5: Field("size", Type.UINT64),
        6: Field("original_shape", Type.MESSAGE, message=_SHAPE),
        7: Field("sub_format", Type.INT32),
        8: Field("address", Type.UINT64),
        9: Field("offset", Type.UINT64),
        10: Field("arg_index", Type.UINT32),
        11: Field("input_type", Type.UINT32),
    }
)
_BUFFER = Message({1: Field("kind", Type.INT32), 2: Field("data", Type.DATA), 3: Field("size", Type.UINT64)})
_SPACE = Message(
    {
        1: Field("kind", Type.INT32),
        2: Field("data", Type.DATA),
        3: Field("size", Type.UINT64),
        4: Field("arg_index", Type.UINT32),
    }
)
_ATTR = Message({1: Field("name", Type.STRING), 2: Field("value", Type.STRING)})
DUMP_DATA = Message(
    {
        1: Field("version", Type.STRING),
        2: Field("dump_time", Type.UINT64),
        3: Field("output", Type.MESSAGE, repeated=True, message=_OUTPUT),
        4: Field("input", Type.MESSAGE, repeated=True, message=_INPUT),
        5: Field("buffer", Type.MESSAGE, repeated=True, message=_BUFFER),
        6: Field("op_name", Type.STRING),
        7: Field("attr", Type.MESSAGE, repeated=True, message=_ATTR),
        8: Field("space", Type.MESSAGE, repeated=True, message=_SPACE),
        9: Field("dfx_message", Type.STRING),
    },
    max_fields=MAX_FIELDS,
)
# Fields whose items have a payload, in its order.
_PAYLOAD = ("input", "output", "buffer", "space")


def read_ascend(file: OpenFile) -> OpDump:
    """Describe a standard dump, or an old one, which is a single protobuf message."""
    if file.size <= _PREFIX:
        raise DumpError(file.path, because("read.too_short", nbytes=file.size))
    header = int.from_bytes(file.head[:_PREFIX], "little")
    if header > file.size - _PREFIX:
        return _read_protobuf(file, header)
    if header > MAX_HEADER:
        raise DumpError(file.path, because("read.header_too_long", nbytes=header, limit=MAX_HEADER), 0)
    data = file.head
    if len(data) < _PREFIX + header:
        data = file.read(_PREFIX + header, 0)
    cursor = Cursor(data, file.path, _PREFIX, min(len(data), _PREFIX + header))
    payload = _Payload(file, _PREFIX + header)
    operator = _describe(DUMP_DATA.decode(cursor), file, Container.STANDARD, payload.next_range)
    if payload.end != file.size:
        # A damaged tag or size hides a tensor and moves the others.
        problem = because("read.size_mismatch", expected=payload.end, size=file.size)
        raise DumpError(file.path, problem, payload.end)
    return _with_anomalies(operator, cursor.anomalies) if cursor.anomalies else operator


def _read_protobuf(file: OpenFile, header: int) -> OpDump:
    """Describe an old dump. If decoding fails, the error is that of a damaged standard dump, which is more likely."""
    with file.content() as data:
        cursor = Cursor(data, file.path)
        try:
            values = DUMP_DATA.decode(cursor)
        except DumpError as error:
            is_length = header <= MAX_HEADER
            problem = because("read.header_truncated", nbytes=header, size=file.size) if is_length else _NO_LENGTH
            raise DumpError(file.path, problem, 0) from error
    if not any(values.get(kind) for kind in _PAYLOAD):
        raise DumpError(file.path, because("read.nothing_described"), 0)
    if cursor.anomalies:
        # No newer writer adds fields to this form, and an unknown field may be a tensor.
        raise cursor.anomalies[0]
    return _describe(values, file, Container.PROTOBUF, partial(_embedded_range, file.path))


def _with_anomalies(operator: OpDump, anomalies: Sequence[DumpError]) -> OpDump:
    """Note on every tensor that the header has unknown fields.

    Raises:
        DumpError: the header has other anomalies.
    """
    damage = next((anomaly for anomaly in anomalies if not isinstance(anomaly, UnknownFieldError)), None)
    if damage is not None:
        raise damage
    notes = tuple(anomaly.brief for anomaly in anomalies)
    inputs, outputs = (
        tuple(replace(tensor, notes=(*notes, *tensor.notes)) for tensor in operator.tensors(slot)) for slot in Slot
    )
    return replace(operator, inputs=inputs, outputs=outputs, anomalies=notes)


class _Payload:
    """Consecutive ranges of the payload, each checked against the file size; `end` is the end of the last one."""

    __slots__ = ("_file", "end")

    def __init__(self, file: OpenFile, start: int) -> None:
        self._file = file
        self.end = start

    def next_range(self, item: dict[str, Any]) -> FileRange:
        """Return the range of the next item."""
        file, offset, nbytes = self._file, self.end, item.get("size", 0)
        self.end = offset + nbytes
        if self.end > file.size:
            problem = because("read.data_truncated", nbytes=nbytes, size=file.size)
            raise DumpError(file.path, problem, offset)
        return file.range(offset, nbytes)


def _embedded_range(path: str, item: dict[str, Any]) -> FileRange:
    return FileRange(path, *item.get("data", (0, 0)))


def _describe(
    values: dict[str, Any], file: OpenFile, container: Container, locate: Callable[[dict[str, Any]], FileRange]
) -> OpDump:
    # The order of the payload is inputs, outputs, buffers, spaces; `locate` must be called in this order.
    get = values.get
    attrs = get("attr")
    return OpDump(
        file.path,
        container,
        _tensors(get("input"), locate),
        _tensors(get("output"), locate),
        _blobs(get("buffer"), locate),
        _blobs(get("space"), locate),
        get("op_name", ""),
        get("version", ""),
        get("dump_time"),
        attrs[0].get("value", "") if attrs else "",
    )


def _tensors(
    items: Sequence[dict[str, Any]] | None, locate: Callable[[dict[str, Any]], FileRange]
) -> tuple[Tensor, ...]:
    return tuple([_tensor(item, locate(item)) for item in items]) if items else ()


def _blobs(items: Sequence[dict[str, Any]] | None, locate: Callable[[dict[str, Any]], FileRange]) -> tuple[Blob, ...]:
    return tuple([Blob(item.get("kind", 0), locate(item)) for item in items]) if items else ()


def _tensor(item: dict[str, Any], source: FileRange) -> Tensor:
    get = item.get
    number = get("data_type", 0)
    dtype = dtypes.BY_NUMBER.get(number) or dtypes.unknown(number)
    layout, groups = parse_format_word(get("format", 0))
    # Tensors of the undefined type are shown as bytes.
    shape = (source.nbytes,) if dtype is dtypes.UNDEFINED else _dims(get("shape"))
    groups = max(get("sub_format", 0), groups)
    spec = TensorSpec(dtype, shape, layout, _dims(get("original_shape")), groups, get("address") or None)
    return Tensor(spec, source, doubts=_data_doubts(item, source))


def _data_doubts(item: dict[str, Any], source: FileRange) -> tuple[Reason, ...]:
    """Return the contradiction between the payload, the data inside the header, and the size that is recorded."""
    offset, nbytes = item.get("data", (0, 0))
    if nbytes and offset != source.offset:
        return (because("read.data_in_header", nbytes=nbytes),)
    size = item.get("size", 0)
    return (because("read.other_size", size=size, nbytes=source.nbytes),) if size and size != source.nbytes else ()


def _dims(shape: dict[str, Any] | None) -> Shape:
    return tuple(shape.get("dim", ())) if shape else ()
