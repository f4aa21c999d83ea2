"""The header message of dumps for Google's protobuf, an implementation independent of the reader.

`DumpData` is a message class made at run time from the field tables of the format page:

    message = DumpData.FromString(raw)
    raw = DumpData(version="2.0", output=[{"data_type": 2, "size": 8}]).SerializeToString()
"""

from __future__ import annotations

from typing import Any

from proto_messages import message_class

# See `proto_messages`.
_MESSAGES: dict[str, tuple[str, ...]] = {
    "Shape": ("1 dim uint64*",),
    "DimRange": ("1 dim_start uint64", "2 dim_end uint64"),
    "OriginalOp": ("1 name string", "2 output_index uint32", "3 data_type int32", "4 format int32"),
    "OpOutput": (
        "1 data_type int32",
        "2 format int32",
        "3 shape Shape",
        "4 original_op OriginalOp",
        "5 data bytes",
        "6 size uint64",
        "7 original_shape Shape",
        "8 sub_format int32",
        "9 address uint64",
        "10 dim_range DimRange*",
        "11 offset uint64",
        "12 arg_index uint32",
    ),
    "OpInput": (
        "1 data_type int32",
        "2 format int32",
        "3 shape Shape",
        "4 data bytes",
        "5 size uint64",
        "6 original_shape Shape",
        "7 sub_format int32",
        "8 address uint64",
        "9 offset uint64",
        "10 arg_index uint32",
        "11 input_type uint32",
    ),
    "OpBuffer": ("1 buffer_type int32", "2 data bytes", "3 size uint64"),
    "OpAttr": ("1 name string", "2 value string"),
    "Workspace": ("1 type int32", "2 data bytes", "3 size uint64", "4 arg_index uint32"),
    "DumpData": (
        "1 version string",
        "2 dump_time uint64",
        "3 output OpOutput*",
        "4 input OpInput*",
        "5 buffer OpBuffer*",
        "6 op_name string",
        "7 attr OpAttr*",
        "8 space Workspace*",
        "9 dfx_message string",
    ),
}

DumpData: Any = message_class("toolkit.dumpdata", _MESSAGES, "DumpData")
