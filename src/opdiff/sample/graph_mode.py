"""Sample of graph mode: GE dumps with fusion on and off, and FX dumps, in all known directory layouts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core import dtypes
from opdiff.sample.container import EncodedDump, encode_tensor, standard_dump
from opdiff.sample.directory import write_files
from opdiff.sample.golden import npy_file
from opdiff.sample.graph_text import TextNode, graph_text
from opdiff.sample.names import DumpName, fx_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opdiff.core.codes import AnyArray
    from opdiff.sample.container import EncodedTensor

GE_DUMP, FX_DUMP = "msprobe_ge_dump", "msprobe_fx_dump"
FAULTY_OPERATOR = "MatMul_1"
"""Operator with the injected fault: from `FAULTY_TOKEN` on its outputs are 5 % too large."""

FAULTY_TOKEN = 1
_TIME = 1_706_596_911_000_000
_FX_TIME = 20_240_130_064_151_000_000
_DAY = "20240130064151"
_TOP_K = 3


class Executed(Struct, frozen=True):
    """An executed operator: its names in the graph, its inputs and outputs."""

    name: str
    op_type: str
    edges: tuple[str, ...]
    fx: str
    inputs: tuple[AnyArray, ...]
    outputs: tuple[AnyArray, ...]
    # Arguments that FX records as tensors and GE does not.
    numbers: tuple[int, ...] = ()

    @property
    def text(self) -> TextNode:
        """The operator in the graph text."""
        names = tuple(f"{self.fx}.OUTPUT.{index}" for index in range(len(self.outputs)))
        shapes = tuple(output.shape for output in self.outputs)
        return TextNode(self.name, self.op_type, self.edges, output_fx=names, shapes=shapes)


class GraphSample(Struct, frozen=True):
    """Paths of the parts of a sample."""

    target: str
    golden: str
    fusion_off: str


def write_graph_sample(
    directory: str, *, ranks: int = 2, tokens: int = 2, faulty: bool = True, version: str = "new"
) -> GraphSample:
    """Write all three dumps of the network.

    Args:
        directory: parent of the dumps.
        ranks: number of processes; use 1 for version `old`, whose directories do not have the rank.
        tokens: number of runs of the network.
        faulty: whether to inject the fault.
        version: directory layout: `new`, `7.1.0` (FX without ranks) or `old` (no ranks at all).
    """
    on, off = os.path.join(directory, "ge", GE_DUMP), os.path.join(directory, "ge_off", GE_DUMP)
    golden = {
        "new": os.path.join(directory, "fx", FX_DUMP),
        "7.1.0": os.path.join(directory, "fx", FX_DUMP, "data_dump"),
        "old": os.path.join(directory, "data_dump"),
    }[version]
    for rank in range(ranks):
        for root in (on, off):
            _write_text(root, rank)
        for token in range(tokens):
            reference = run_network(rank, token, half=False)
            device = run_network(rank, token, half=True, faulty=faulty and token >= FAULTY_TOKEN)
            plain = run_network(rank, token, half=True)
            write_files(_ge_folder(on, rank, token, version), ge_files(device, fused=True))
            write_files(_ge_folder(off, rank, token, version), ge_files(plain, fused=False))
            write_files(_fx_folder(golden, rank, token, version), fx_files(reference))
    return GraphSample(on, golden, off)


def run_network(rank: int, token: int, *, half: bool, faulty: bool = False) -> list[Executed]:
    """Run the network in float32, or with every output rounded to float16 as on the device."""
    random = np.random.default_rng(1000 * rank + token)
    kind = np.float16 if half else np.float32
    # No value is close to zero or to another value, so that rounding alone stays far below every limit.
    shapes = ((6, 16), (16, 24), (24,), (24, 8))
    made = [random.uniform(0.05, 0.15, shape).astype(np.float16).astype(kind) for shape in shapes]
    made[3] = np.multiply(made[3], np.linspace(1, 3, 8)).astype(np.float16).astype(kind)
    values: dict[str, tuple[AnyArray, ...]] = {f"arg{index}_1": (value,) for index, value in enumerate(made)}
    ran: list[Executed] = []
    for name, op_type, edges, fx, numbers in _NETWORK:
        inputs = tuple(values[edge.split(":")[0]][int(edge.split(":")[1])] for edge in edges)
        results = _compute(op_type, [value.astype(np.float32) for value in inputs])
        if faulty and name == FAULTY_OPERATOR:
            results = tuple(result * np.float32(1.05) for result in results)
        outputs = tuple(result.astype(kind) if result.dtype.kind == "f" else result for result in results)
        values[name] = outputs
        ran.append(Executed(name, op_type, edges, fx, inputs, outputs, numbers))
    return ran


_NETWORK: tuple[tuple[str, str, tuple[str, ...], str, tuple[int, ...]], ...] = (
    ("MatMul", "MatMulV2", ("arg0_1:0", "arg1_1:0"), "mm-aten.mm.default", ()),
    ("Add", "Add", ("MatMul:0", "arg2_1:0"), "add-aten.add.Tensor", ()),
    ("Relu", "Relu", ("Add:0",), "relu-aten.relu.default", ()),
    ("MatMul_1", "MatMulV2", ("Relu:0", "arg3_1:0"), "mm_1-aten.mm.default", ()),
    ("Muls", "Muls", ("MatMul_1:0",), "mul-aten.mul.Tensor", (2,)),
    ("Add_1", "Add", ("Muls:0", "MatMul_1:0"), "add_1-aten.add.Tensor", ()),
    ("Mul_1", "Mul", ("Add_1:0", "Muls:0"), "mul_1-aten.mul.Tensor", ()),
    ("TopKV2", "TopKV2", ("Mul_1:0",), "topk-aten.topk.default", (_TOP_K,)),
)


def _compute(op_type: str, values: list[AnyArray]) -> tuple[AnyArray, ...]:
    if op_type == "TopKV2":
        order = np.argsort(-values[0], axis=-1, kind="stable")[..., :_TOP_K]
        return np.take_along_axis(values[0], order, axis=-1), order.astype(np.int32)
    if op_type == "Relu":
        return (np.maximum(values[0], 0),)
    if op_type == "Muls":
        return (values[0] * np.float32(2),)
    if op_type == "MatMulV2":
        return (values[0] @ values[1],)
    return (values[0] + values[1] if op_type == "Add" else values[0] * values[1],)


# Directories and graph texts


def _ge_folder(root: str, rank: int, token: int, version: str) -> str:
    level = () if version == "old" else (f"worldsize8_global_rank{rank}",)
    return os.path.join(root, *level, _DAY, str(rank), "graph_1_0", "1", str(token))


def _fx_folder(root: str, rank: int, token: int, version: str) -> str:
    if version == "new":
        return os.path.join(root, f"worldsize8_global_rank{rank}", "graph_1", str(token))
    # The counter is incremented before the run, so the directory is one ahead.
    return os.path.join(root, str(token + 1), f"gm_{_FX_TIME + rank}_dump")


def _write_text(root: str, rank: int) -> None:
    nodes = [TextNode(f"arg{index}_1", "Data") for index in range(4)]
    nodes += [executed.text for executed in run_network(rank, 0, half=True)]
    content = graph_text("graph_1", nodes).encode()
    name = f"_graph_1_rank_{rank}_pid_{4711 + rank}_ts_{_FX_TIME}.txt"
    write_files(root, {f"dynamo_{stage}{name}": content for stage in ("original", "optimized")})


# GE


def ge_files(ran: Iterable[Executed], *, fused: bool) -> Mapping[str, bytes]:
    """Return the dump files of one token; fusion merges `Add_1` and `Mul_1`, and inserts a layout conversion."""
    files: dict[str, bytes] = {}
    listed = list(ran)
    for number, item in enumerate(_fused(listed) if fused else listed):
        stamp = _TIME + 211 * number
        files[str(DumpName(item.op_type, item.name, number + 4, 6, stamp))] = ge_dump(item.inputs, item.outputs)
        if fused and item.name == "Relu":
            # A layout conversion inserted by the compiler: the same values in tiles.
            name = DumpName("TransData", "trans_TransData_7", number + 4, 6, stamp + 100)
            files[str(name)] = ge_dump(item.outputs, item.outputs, layout="FRACTAL_NZ")
    return files


def _fused(ran: list[Executed]) -> Iterator[Executed]:
    by_name = {item.name: item for item in ran}
    for item in ran:
        if item.name == "Add_1":
            continue
        if item.name == "Mul_1":
            first = by_name["Add_1"]
            yield Executed(
                "Add_1Mul_1", "AutomaticBufferFusionOp", (), "", (*first.inputs, item.inputs[1]), item.outputs
            )
            continue
        yield item


def ge_dump(inputs: Iterable[AnyArray], outputs: Iterable[AnyArray], *, layout: str = "ND") -> bytes:
    """Return the dump file of one operator; `layout` applies to its outputs."""

    def encoded(array: AnyArray, how: str) -> EncodedTensor:
        return encode_tensor(array, dtypes.BY_NAME[str(array.dtype)], how)

    ins = tuple(encoded(array, "ND") for array in inputs)
    return standard_dump(EncodedDump(ins, tuple(encoded(array, layout) for array in outputs)))


# FX


def fx_files(ran: Iterable[Executed]) -> Mapping[str, bytes]:
    """Return the files of one token: arguments (scalars included) and results."""
    files: dict[str, bytes] = {}
    for position, item in enumerate(ran):
        node, _, target = item.fx.partition("-")
        stamp = _FX_TIME + 331 * position
        arguments = [*item.inputs, *(np.array(number) for number in item.numbers)]
        for slot, arrays in (("INPUT", arguments), ("OUTPUT", item.outputs)):
            for index, array in enumerate(arrays):
                files[fx_name(node, target, slot, (index,), stamp)] = npy_file(array)
    return files
