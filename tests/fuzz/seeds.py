"""Where the fuzzer starts: small sound inputs for every target, made by the sample's encoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dump_files import npy_file, zip_file
from nano_files import nano_dump
from old_overflow_records import old_overflow_record
from opdiff.core import dtypes
from opdiff.read.rules.model_schema import encode
from opdiff.sample.container import EncodedDump, Overflow, encode_tensor, overflow_record, protobuf_dump, standard_dump
from opdiff.sample.graph_text import TextNode, graph_text

if TYPE_CHECKING:
    from opdiff.read.rules.model_schema import Tree

_T = 1671234567890123
_DUMP = EncodedDump(
    inputs=(encode_tensor(np.ones((1, 3, 2, 2), np.float16), dtypes.FLOAT16, "NC1HWC0"),),
    outputs=(encode_tensor(np.arange(4), dtypes.INT32), encode_tensor(np.ones(3, np.float32), dtypes.BFLOAT16)),
    buffers=(b"abc",),
    spaces=(b"log",),
    op_name="net/conv",
    dump_time=_T,
    attr='{"threadMode": 1}',
)
_ATTR = """{"threadMode": 1, "slice_instance_num": 2, "outputCutList": [[1,2]],
"output_tensor_slice": [[[{"lower":0,"higher":2},{"lower":0,"higher":2}]]], "input_tensor_slice": [[],[]]}"""


_NODE = TextNode("Add", "Add", ("x:0", "y:-1"), ("", "a.OUTPUT.0"), ("add-aten.add.OUTPUT.0",), ("Mul",))
_FIGURES = """{"schema": "opdiff.reduced", "version": 1, "inputs": [], "outputs": [{"min": "nan", "max": 2,
"mean": null,
"l2norm": 1.5, "nans": 1, "infs": 0, "crc32": "00ff", "dtype": "float32", "shape": [2, 3], "histogram": [1]}]}"""

_TREE: Tree = {
    "name": ["net"],
    "graph": [{"name": ["g"], "op": [{
        "name": ["a"], "type": ["Conv2D"], "id": [3], "input": ["x:0", "", "y:-1"], "subgraph_name": ["g"],
        "attr": [
            {"key": ["_datadump_original_op_names"], "value": [{"list": [{"s": ["c", "r"]}]}]},
            {"key": [b"\0\1"], "value": [{"i": [1]}]}, {"key": ["x"], "value": [{"f": [0.5]}]},
        ],
        "output_desc": [{"dtype": ["DT_FLOAT16"], "shape": [{"dim": [1, -1]}], "layout": ["NC1HWC0"]}],
    }]}],
    "attr": [
        {"key": ["om_compress_version"], "value": [{"i": [1]}]},
        {"key": ["attr_name_enum"], "value": [{"list": [{"s": ["pass_name"]}]}]},
        {"key": ["attrs_use_string_value"], "value": [{"list": [{"b": [True]}]}]},
        {"key": ["attr_value_enum"], "value": [{"list": [{"s": ["P", "Q"]}]}]},
        {"key": ["fm"], "value": [{"list": [{"bt": [encode("OpDef", {"name": ["a"]})]}]}]},
    ],
}  # fmt: skip
_MESSAGE = encode("ModelDef", _TREE)
_TEXT = b"""graph { op { name: "a" attr { key: "_datadump_is_multiop" value { b: true } }
output_desc { dtype: DT_INT8 } } }"""
_ONNX = b"""graph { node { name: "a" op_type: "ge:A" attribute { name: "output_desc_attr__datadump_origin_name:1"
s: "x" } attribute { name: "output_desc_shape:0" ints: 3 type: INTS } attribute { name: "id" i: 3 } } }"""
_VISUAL = b"""{"format": "ge_visual_json", "model": {"graph": [{"op": [{"name": "a", "attr": {"s": "t", "l": [[1]],
"k": {"type": "list_int", "value": [1]}, "t": {"type": "tensor", "value": {"desc": {"dtype": "DT_INT8"}}}}}]}]}}"""
_RULES = b""""graph": [{"op": [{"name": "a", "type": "A", "attr": [{"key": "_datadump_original_op_names",
"value": {"list": {"s": ["b"]}}}], "output_desc": [{"dtype": "DT_INT8", "shape": {"dim": [1]}}]}]}]}"""


def _om() -> bytes:
    """An offline model behind its first eight bytes: version 2, one partition."""
    header = (2 << 28).to_bytes(4, "little") + bytes(144) + b"\1\0\0\0" + bytes(96)
    table = b"".join(number.to_bytes(4, "little") for number in (1, 0, 0, len(_MESSAGE)))
    return header + table + _MESSAGE


SEEDS: dict[str, tuple[bytes, ...]] = {
    "graph": (graph_text("g", [_NODE]).encode(), b"op: <name: 'a' 'b'; input: ['x', \"y:1\"] # c\n>"),
    "figures": (_FIGURES.encode(),),
    "om": (_om(),),
    "message": (_MESSAGE,),
    "model_text": (_TEXT,),
    "onnx_text": (_ONNX,),
    "om2": (_VISUAL,),
    "atc_json": (_RULES,),
    "header": (standard_dump(_DUMP)[8:],),
    "dump": (standard_dump(_DUMP), protobuf_dump(_DUMP)),
    "nano": (nano_dump(_DUMP)[12:],),
    "npy": (npy_file(np.arange(6, dtype=">i2").reshape(2, 3))[6:],),
    "npz": (zip_file(("a.npy", npy_file(np.arange(6.0))), ("b.npy", npy_file(np.ones(2, np.int8)))),),
    "name": (
        f"Add.net_add.5.7.{_T}.4.1.2.0".encode(),
        f"Add.a.5.7.{_T}.output.0.1x3.npy".encode(),
        f"mm-aten.mm.default.INPUT.0.1.{_T}.npy".encode(),
        f"partition0_sgt_graph_0_conv_lxslice3.0.{_T}.pb".encode(),
    ),
    "record": (overflow_record(Overflow()), old_overflow_record(Overflow(), None, Overflow())),
    "attr": (_ATTR.encode(),),
    # Types, rank, the shape of the blocks; four numbers for each axis; data.
    "kernel": (
        bytes((2, 3, 1, 0, 9, 0, 1, 0, 1, 0, 0, 0)) + bytes(range(200)),
        bytes((0, 2, 3, 1, 2, 0, 1, 0, 112, 2, 20, 0, 16, 0, 16, 0, 1, 0, 5, 0, 1, 0, 16, 0, 0, 0)) + bytes(range(250)),
    ),
}
