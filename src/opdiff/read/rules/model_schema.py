"""Messages of `ge.proto` that describe a compiled model, and their encoder. See docs/formats/om.md.

A line is `number name type`, with `*` behind the type of a repeated field. Maps are repeated entries of key and value.
Texts and JSON are encoded, so that one reader of messages serves all.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core import wire
from opdiff.core.reasons import because
from opdiff.read.rules.message_fields import FIXED32, VARINT

if TYPE_CHECKING:
    from opdiff.core.reasons import Reason

    Tree = Mapping[str, Sequence[object]]
    """Values of a message by field: strings, bytes, numbers, or trees of other messages."""

ELEMENT_TYPES = (
    "DT_UNDEFINED", "DT_FLOAT", "DT_FLOAT16", "DT_INT8", "DT_UINT8", "DT_INT16", "DT_UINT16", "DT_INT32", "DT_INT64",
    "DT_UINT32", "DT_UINT64", "DT_BOOL", "DT_DOUBLE", "DT_STRING", "DT_DUAL_SUB_INT8", "DT_DUAL_SUB_UINT8",
    "DT_COMPLEX64", "DT_COMPLEX128", "DT_QINT8", "DT_QINT16", "DT_QINT32", "DT_QUINT8", "DT_QUINT16", "DT_RESOURCE",
    "DT_STRING_REF", "DT_DUAL", "DT_VARIANT", "DT_BF16", "DT_INT4", "DT_UINT1", "DT_INT2", "DT_UINT2", "DT_COMPLEX32",
    "DT_HIFLOAT8", "DT_FLOAT8_E5M2", "DT_FLOAT8_E4M3FN", "DT_FLOAT8_E8M0", "DT_FLOAT6_E3M2", "DT_FLOAT6_E2M3",
    "DT_FLOAT4_E2M1", "DT_FLOAT4_E1M2", "DT_HIFLOAT4",
)  # fmt: skip
"""Names of element types by their number in model files."""

LIST_TYPES = (
    "VT_LIST_NONE", "VT_LIST_STRING", "VT_LIST_INT", "VT_LIST_FLOAT", "VT_LIST_BOOL", "VT_LIST_BYTES",
    "VT_LIST_TENSOR_DESC", "VT_LIST_TENSOR", "VT_LIST_GRAPH", "VT_LIST_NAMED_ATTRS", "VT_LIST_DATA_TYPE",
)  # fmt: skip
"""Names of the types of lists by their number."""

ENUMS: Mapping[str, tuple[str, ...]] = {"DataType": ELEMENT_TYPES, "ListValueType": LIST_TYPES}

_UINT64 = 0xFFFF_FFFF_FFFF_FFFF
_MAX_NUMBER_LENGTH = 400
_TRUE, _FALSE = ("true", "True", "t", "1"), ("false", "False", "f", "0")


def enum_name(enum: str, number: int) -> str:
    """Return the name of a number; of one that is not known, the number with the enum's prefix."""
    names = ENUMS[enum]
    return names[number] if 0 <= number < len(names) else f"{names[0].rpartition('_')[0]}_{number}"


class Field(NamedTuple):
    """One field of a message; `kind` is a scalar type, an enum, or another message."""

    number: int
    name: str
    kind: str
    is_repeated: bool


def _fields(*lines: str) -> tuple[Field, ...]:
    parts = (line.split() for line in lines)
    return tuple(Field(int(number), name, kind.removesuffix("*"), kind.endswith("*")) for number, name, kind in parts)


MESSAGES: Mapping[str, tuple[Field, ...]] = {
    "ModelDef": _fields(
        "1 name string", "2 version int", "3 custom_version string", "7 graph GraphDef*", "11 attr AttrEntry*",
    ),
    "GraphDef": _fields(
        "1 name string", "4 input string*", "5 output string*", "6 op OpDef*", "11 attr AttrEntry*",
    ),
    "OpDef": _fields(
        "1 name string", "2 type string", "5 input string*", "10 attr AttrEntry*", "20 has_out_attr bool", "21 id int",
        "22 stream_id int", "23 input_name string*", "24 src_name string*", "25 src_index int*", "26 dst_name string*",
        "27 dst_index int*", "28 input_i int*", "29 output_i int*", "30 workspace int*", "31 workspace_bytes int*",
        "32 is_input_const bool*", "33 input_desc TensorDescriptor*", "34 output_desc TensorDescriptor*",
        "35 subgraph_name string*",
    ),
    "TensorDescriptor": _fields(
        "1 name string", "2 dtype DataType", "3 shape ShapeDef", "4 layout string", "5 attr AttrEntry*",
        "9 has_out_attr bool", "10 size int", "11 weight_size int", "12 reuse_input bool", "13 output_tensor bool",
        "14 device_type string", "15 input_tensor bool", "16 real_dim_cnt int", "17 reuse_input_index int",
        "18 data_offset int", "19 cmps_size int", "20 cmps_tab string", "21 cmps_tab_offset int",
    ),
    "ShapeDef": _fields("1 dim int*"),
    "TensorDef": _fields("1 desc TensorDescriptor", "2 data bytes"),
    "AttrEntry": _fields("1 key string", "2 value AttrDef"),
    "AttrDef": _fields(
        "1 list ListValue", "2 s bytes", "3 i int", "4 f float", "5 b bool", "7 bt bytes", "10 func NamedAttrs",
        "11 td TensorDescriptor", "12 t TensorDef", "13 g GraphDef", "14 list_list_int ListListInt", "15 dt int",
        "16 list_list_float ListListFloat", "17 expression bytes",
    ),
    "ListValue": _fields(
        "2 s bytes*", "3 i int*", "4 f float*", "5 b bool*", "7 bt bytes*", "8 td TensorDescriptor*", "9 t TensorDef*",
        "10 g GraphDef*", "11 na NamedAttrs*", "12 dt int*", "20 val_type ListValueType",
    ),
    "ListListInt": _fields("1 list_list_i ListInt*"),
    "ListInt": _fields("1 list_i int*"),
    "ListListFloat": _fields("1 list_list_f ListFloat*"),
    "ListFloat": _fields("1 list_f float*"),
    "NamedAttrs": _fields("1 name string", "2 attr AttrEntry*"),
}  # fmt: skip


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
    encoded: list[bytes] = []
    for field in MESSAGES[message]:
        values = tree.get(field.name, ())
        # Of a field that is not repeated the last value counts.
        encoded += [_encode_value(field, value) for value in (values if field.is_repeated else values[-1:])]
    return b"".join(encoded)


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
