"""Messages of `ge.proto` that describe a compiled model. See docs/formats/om.md.

A line is `number name type`, with `*` behind the type of a repeated field. Maps are repeated entries of key and value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    return tuple(_field(*line.split()) for line in lines)


def _field(number: str, name: str, kind: str) -> Field:
    return Field(int(number), name, kind.removesuffix("*"), kind.endswith("*"))


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
