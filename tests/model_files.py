"""Encoder of offline models: by Google's protobuf, and a container that follows the format page, not the reader."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from proto_messages import message_class

if TYPE_CHECKING:
    from collections.abc import Sequence

_MESSAGES: dict[str, tuple[str, ...]] = {
    "AttrEntry": ("1 key bytes", "2 value AttrDef"),
    "ListValue": (
        "2 s bytes*", "3 i int64*", "4 f float*", "5 b bool*", "7 bt bytes*", "8 td TensorDescriptor*",
        "9 t TensorDef*", "10 g GraphDef*", "11 na NamedAttrs*", "12 dt int64*", "20 val_type int32",
    ),
    "ListInt": ("1 list_i int64*",),
    "ListListInt": ("1 list_list_i ListInt*",),
    "ListFloat": ("1 list_f float*",),
    "ListListFloat": ("1 list_list_f ListFloat*",),
    "NamedAttrs": ("1 name string", "2 attr AttrEntry*"),
    "AttrDef": (
        "1 list ListValue=value", "2 s bytes=value", "3 i int64=value", "4 f float=value", "5 b bool=value",
        "7 bt bytes=value", "10 func NamedAttrs=value", "11 td TensorDescriptor=value", "12 t TensorDef=value",
        "13 g GraphDef=value", "14 list_list_int ListListInt=value", "15 dt int64=value",
        "16 list_list_float ListListFloat=value", "17 expression bytes=value",
    ),
    "ShapeDef": ("1 dim int64*",),
    "TensorDescriptor": (
        "1 name string", "2 dtype int32", "3 shape ShapeDef", "4 layout string", "5 attr AttrEntry*",
        "9 has_out_attr bool", "10 size int64", "11 weight_size int64", "12 reuse_input bool", "13 output_tensor bool",
        "14 device_type string", "15 input_tensor bool", "16 real_dim_cnt int64", "17 reuse_input_index int64",
        "18 data_offset int64", "19 cmps_size int64", "20 cmps_tab string", "21 cmps_tab_offset int64",
    ),
    "TensorDef": ("1 desc TensorDescriptor", "2 data bytes"),
    "OpDef": (
        "1 name string", "2 type string", "5 input string*", "10 attr AttrEntry*", "20 has_out_attr bool",
        "21 id int64", "22 stream_id int64", "23 input_name string*", "24 src_name string*", "25 src_index int64*",
        "26 dst_name string*", "27 dst_index int64*", "28 input_i int64*", "29 output_i int64*", "30 workspace int64*",
        "31 workspace_bytes int64*", "32 is_input_const bool*", "33 input_desc TensorDescriptor*",
        "34 output_desc TensorDescriptor*", "35 subgraph_name string*",
    ),
    "GraphDef": ("1 name string", "4 input string*", "5 output string*", "6 op OpDef*", "11 attr AttrEntry*"),
    "ModelDef": (
        "1 name string", "2 version uint32", "3 custom_version string", "7 graph GraphDef*", "11 attr AttrEntry*",
        "20 op OpDef*",
    ),
}  # fmt: skip

ModelDef: Any = message_class("ge.proto", _MESSAGES, "ModelDef")

OpDef: Any = message_class("ge.proto", _MESSAGES, "OpDef")

MODEL_DEF, WEIGHTS, TASKS, KERNELS = 0, 1, 2, 3


def attr(key: bytes | str, **value: object) -> dict[str, object]:
    """Return an attribute: `attr("pass_name", s=b"P")`, `attr("names", list={"s": [b"a"]})`."""
    return {"key": key.encode() if isinstance(key, str) else key, "value": value}


CONV: dict[str, object] = {
    "name": "conv1conv1_relu", "type": "Conv2D", "id": 3, "input": ["x:0", "w:0", "", "data:-1"],
    "attr": [
        attr("_datadump_original_op_names", list={"s": [b"conv1", b"conv1_relu"]}),
        attr("pass_name", s=b"ConvReluPass"), attr("pass_name_ub", list={"s": [b"UbPass"]}),
        attr("_datadump_is_multiop", b=True), attr("strides", list={"i": [1, 1]}), attr("weights", bt=b"12345"),
    ],
    "output_desc": [{
        "dtype": 2, "shape": {"dim": [1, 4, -1, 8, 16]}, "layout": "NC1HWC0",
        "attr": [
            attr("_datadump_origin_name", s=b"conv1_relu"), attr("_datadump_origin_output_index", i=0),
            attr("_datadump_origin_format", s=b"NCHW"), attr("origin_shape", list={"i": [1, 64, 8, 8]}),
        ],
    }],
}  # fmt: skip
INSERTED: dict[str, object] = {
    "name": "trans_Cast_0", "type": "Cast", "attr": [attr("_datadump_original_op_names", list={"val_type": 1})],
}  # fmt: skip
MODEL: Any = ModelDef(
    name="net", graph=[{"name": "net_0", "op": [CONV, INSERTED]}], attr=[attr("atc_version", s=b"7.6")]
)


def compressed_key(number: int) -> bytes:
    """The key of an attribute by its number in the table of names."""
    return b"\0" + (bytes([number + 1]) if number < 127 else bytes([number % 127 + 1, number // 127 + 1]))


def compressed_model(operator: object, names: list[bytes], flags: list[bool], strings: list[bytes]) -> bytes:
    """A model message of one operator, with the tables of compressed attributes."""
    tables = [
        attr("om_compress_version", i=1), attr("attr_name_enum", list={"s": names}),
        attr("attrs_use_string_value", list={"b": flags}), attr("attr_value_enum", list={"s": strings}),
    ]  # fmt: skip
    content: bytes = ModelDef(graph=[{"name": "g", "op": [operator]}], attr=tables).SerializeToString()
    return content


def om_file(
    description: bytes,
    *,
    version: int = 0x2000_0000,
    large: bool = False,
    models: int = 1,
    model_type: int = 0,
    encrypted: int = 0,
    partitions: Sequence[tuple[int, bytes]] = (),
) -> bytes:
    """Return the bytes of an offline model; by default weights follow the description."""
    parts = partitions or ((MODEL_DEF, description), (WEIGHTS, b"w" * 100))
    body = _table(parts, large=large) + b"".join(content for _, content in parts)
    return _header(len(body), version, (large, models, model_type, encrypted)) + body


def _header(nbytes: int, version: int, about: tuple[bool, int, int, int]) -> bytes:
    large, models, model_type, encrypted = about
    header = bytearray(256)
    length = nbytes + 256 if model_type == 5 else nbytes
    struct.pack_into("<4sII", header, 0, b"IMOD", 256, version)
    struct.pack_into("<I", header, 76, 0 if large else length)
    header[80], header[82] = encrypted, model_type
    if version == 0x1000_0000:
        header[156:164] = b"1.11.z.0"
    else:
        struct.pack_into("<I", header, 156, models)
        header[160:168] = b"1.11.z.0"
    struct.pack_into("<Q", header, 184, length if large else 0)
    return bytes(header)


def _table(parts: Sequence[tuple[int, bytes]], *, large: bool) -> bytes:
    table = struct.pack("<I4x" if large else "<I", len(parts))
    offset = 0
    for kind, content in parts:
        table += struct.pack("<I4xQQ" if large else "<III", kind, offset, len(content))
        offset += len(content)
    return table
