"""Small right runs in every format of dumps: every difference that a comparison finds is due to a mutation."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dump_files import TIME, npy_file
from nano_files import nano_dump
from opdiff.core import dtypes
from opdiff.sample.container import EncodedDump, EncodedTensor, encode_tensor, protobuf_dump, standard_dump
from opdiff.sample.graph_mode import ge_dump
from opdiff.sample.graph_text import TextNode, graph_text
from opdiff.sample.names import DumpName, fx_name, golden_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

_TYPE_NAMES = {dtypes.FLOAT16: "DT_FLOAT16", dtypes.FLOAT32: "DT_FLOAT", dtypes.INT32: "DT_INT32"}
CONTAINERS: dict[str, Callable[[EncodedDump], bytes]] = {
    "standard": standard_dump,
    "protobuf": protobuf_dump,
    "nano": nano_dump,
}


class _Op(NamedTuple):
    """An operator: type, element type, layout and shape of its output; its input is the output of the one before."""

    name: str
    op_type: str
    dtype: DType
    layout: str
    shape: tuple[int, ...]

    @property
    def values(self) -> AnyArray:
        """Numbers that all element types represent exactly."""
        seed = sum(self.name.encode())
        found: AnyArray = np.random.default_rng(seed).integers(-60, 60, self.shape).astype(np.float32)
        return found if self.dtype is dtypes.INT32 else found / 8

    @property
    def output(self) -> EncodedTensor:
        """The output as a device stores it."""
        return encode_tensor(self.values, self.dtype, self.layout)


# Every family of layouts, and extents that need padding.
NETWORK = (
    _Op("images", "Data", dtypes.FLOAT16, "NCHW", (1, 3, 6, 5)),
    _Op("conv", "Conv2D", dtypes.FLOAT16, "NC1HWC0", (1, 18, 6, 5)),
    _Op("relu", "Relu", dtypes.FLOAT16, "NC1HWC0", (1, 18, 6, 5)),
    _Op("matmul", "MatMulV2", dtypes.FLOAT16, "FRACTAL_NZ", (20, 30)),
    _Op("add", "Add", dtypes.FLOAT32, "ND", (20, 30)),
    _Op("argmax", "ArgMaxV2", dtypes.INT32, "ND", (20,)),
)


def target_files(encode: Callable[[EncodedDump], bytes]) -> dict[str, bytes]:
    """Return the dump of the network by file names."""
    found = {}
    for number, (source, op) in enumerate(pairwise(NETWORK), 1):
        dump = EncodedDump((source.output,), (op.output,), op_name=op.name, dump_time=TIME + number)
        found[str(DumpName(op.op_type, op.name, number, 3, TIME + number))] = encode(dump)
    return found


def golden_files() -> dict[str, bytes]:
    """Return the golden arrays of the network by file names."""
    return {golden_name(op.name, 0, TIME): npy_file(op.values) for op in NETWORK}


def rule_document() -> dict[str, object]:
    """Return the JSON that ATC writes about the network."""
    ops = [
        _rule(op, f"{source.name}:0" if source else "") for source, op in zip((None, *NETWORK), NETWORK, strict=False)
    ]
    return {"name": "net", "graph": [{"name": "net", "op": ops}]}


def _rule(op: _Op, source: str) -> dict[str, object]:
    output = op.output
    attributes = {
        "_datadump_origin_name": {"s": op.name},
        "_datadump_origin_output_index": {"i": 0},
        "_datadump_origin_format": {"s": "NCHW" if len(op.shape) == 4 else "ND"},
        "origin_shape": {"list": {"i": list(op.shape)}},
    }
    desc = {
        "name": "y", "dtype": _TYPE_NAMES[op.dtype], "layout": op.layout, "shape": {"dim": list(output.shape or ())},
        "attr": [{"key": key, "value": value} for key, value in attributes.items()],
    }  # fmt: skip
    originals = {"key": "_datadump_original_op_names", "value": {"list": {"s": [op.name]}}}
    made = {"name": op.name, "type": op.op_type, "id": NETWORK.index(op), "output_desc": [desc], "attr": [originals]}
    return made | ({"input": [source]} if source else {})


def write_network(folder: Path, container: str = "standard") -> None:
    """Write both sides and the rules."""
    write_files(folder / "target", target_files(CONTAINERS[container]))
    write_files(folder / "golden", golden_files())
    (folder / "rules.json").write_text(json.dumps(rule_document()))


def write_graph_network(folder: Path) -> None:
    """Write one token of graph mode: a GE dump, the golden FX dump and the graph text."""
    ge, fx = folder / "ge" / "msprobe_ge_dump", folder / "fx" / "msprobe_fx_dump"
    arrays = [np.random.default_rng(number).integers(-60, 60, (6, 35)).astype(np.float16) / 8 for number in range(4)]
    nodes: list[TextNode] = []
    targets, goldens = dict[str, bytes](), dict[str, bytes]()
    for number, name in enumerate(("Add", "Mul", "Sub")):
        target = f"{name.lower()}-aten.{name.lower()}.Tensor"
        source = f"{nodes[-1].name}:0" if nodes else "arg0:0"
        nodes.append(TextNode(name, name, (source,), output_fx=(f"{target}.OUTPUT.0",)))
        inputs, outputs = (arrays[number],), (arrays[number + 1],)
        targets[str(DumpName(name, name, number, 6, TIME + number))] = ge_dump(inputs, outputs)
        node, _, function = target.partition("-")
        for slot, (array,) in (("INPUT", inputs), ("OUTPUT", outputs)):
            goldens[fx_name(node, function, slot, (0,), 20240130064151000 + number)] = npy_file(array)
    text = graph_text("graph_1", nodes)
    write_files(ge, {"dynamo_original_graph_1_rank_0_pid_1_ts_20240130064151000.txt": text.encode()})
    write_files(ge / "worldsize1_global_rank0/20240130064151/0/graph_1_0/1/0", targets)
    write_files(fx / "worldsize1_global_rank0/graph_1/0", goldens)


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write files to a folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
