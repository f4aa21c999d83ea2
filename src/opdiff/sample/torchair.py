"""A small network as graph mode dumps it: the graph engine with fusion on and off, and FX, in all known layouts."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.atomic_file import whole_file
from opdiff.sample.graph_text import TextNode, graph_text
from opdiff.sample.names import DumpName, fx_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opdiff.core.codes import AnyArray
    from opdiff.sample.container import EncodedTensor

GE_DUMP, FX_DUMP = "msprobe_ge_dump", "msprobe_fx_dump"
FAULTY = "MatMul_1"
"""The operator with the planted fault, in every token from `FAULTY_TOKEN` on: its results are 5 % too large."""

FAULTY_TOKEN = 1
_TIME = 1_706_596_911_000_000
_FX_TIME = 20_240_130_064_151_000_000
_DAY = "20240130064151"
_TOP = 3


class Executed(NamedTuple):
    """One operator that ran: the graph's names for it, and what went in and came out."""

    name: str
    op_type: str
    edges: tuple[str, ...]
    fx: str
    inputs: tuple[AnyArray, ...]
    outputs: tuple[AnyArray, ...]
    # Arguments that FX records and the graph engine does not take as tensors.
    numbers: tuple[int, ...] = ()

    @property
    def text(self) -> TextNode:
        """The operator in the graph's text."""
        names = tuple(f"{self.fx}.OUTPUT.{index}" for index in range(len(self.outputs)))
        shapes = tuple(output.shape for output in self.outputs)
        return TextNode(self.name, self.op_type, self.edges, output_fx=names, shapes=shapes)


class GraphSample(NamedTuple):
    """Where the parts of a sample are."""

    target: str
    golden: str
    fusion_off: str


def write_graph_sample(
    directory: str, *, ranks: int = 2, tokens: int = 2, faulty: bool = True, version: str = "new"
) -> GraphSample:
    """Write all three dumps of the network.

    Args:
        directory: where to.
        ranks: processes; the folders of version `old` do not tell them, so there should be one.
        tokens: how often the network runs.
        faulty: plant the fault.
        version: the layout of folders: `new`, `7.1.0` (FX without ranks) or `old` (nowhere ranks).
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
            _write_ge(_ge_folder(on, rank, token, version), device, fused=True)
            _write_ge(_ge_folder(off, rank, token, version), plain, fused=False)
            _write_fx(_fx_folder(golden, rank, token, version), reference)
    return GraphSample(on, golden, off)


def run_network(rank: int, token: int, *, half: bool, faulty: bool = False) -> list[Executed]:
    """Run the network: in float32, or with every result rounded to float16 as a device does."""
    import numpy as np

    random = np.random.default_rng(1000 * rank + token)
    kind = np.float16 if half else np.float32
    # No number is near zero or near another one, so that rounding alone stays far below every limit.
    shapes = ((6, 16), (16, 24), (24,), (24, 8))
    made = [random.uniform(0.05, 0.15, shape).astype(np.float16).astype(kind) for shape in shapes]
    made[3] = np.multiply(made[3], np.linspace(1, 3, 8)).astype(np.float16).astype(kind)
    values: dict[str, tuple[AnyArray, ...]] = {f"arg{place}_1": (value,) for place, value in enumerate(made)}
    ran: list[Executed] = []
    for name, op_type, edges, fx, numbers in _NETWORK:
        inputs = tuple(values[edge.split(":")[0]][int(edge.split(":")[1])] for edge in edges)
        results = _compute(op_type, [value.astype(np.float32) for value in inputs])
        if faulty and name == FAULTY:
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
    ("TopKV2", "TopKV2", ("Mul_1:0",), "topk-aten.topk.default", (_TOP,)),
)


def _compute(op_type: str, values: list[AnyArray]) -> tuple[AnyArray, ...]:
    import numpy as np

    if op_type == "TopKV2":
        order = np.argsort(-values[0], axis=-1, kind="stable")[..., :_TOP]
        return np.take_along_axis(values[0], order, axis=-1), order.astype(np.int32)
    if op_type == "Relu":
        return (np.maximum(values[0], 0),)
    if op_type == "Muls":
        return (values[0] * np.float32(2),)
    if op_type == "MatMulV2":
        return (values[0] @ values[1],)
    return (values[0] + values[1] if op_type == "Add" else values[0] * values[1],)


# Folders and texts


def _ge_folder(root: str, rank: int, token: int, version: str) -> str:
    level = () if version == "old" else (f"worldsize8_global_rank{rank}",)
    return os.path.join(root, *level, _DAY, str(rank), "graph_1_0", "1", str(token))


def _fx_folder(root: str, rank: int, token: int, version: str) -> str:
    if version == "new":
        return os.path.join(root, f"worldsize8_global_rank{rank}", "graph_1", str(token))
    # The counter was raised before the run: the folder is one ahead.
    return os.path.join(root, str(token + 1), f"gm_{_FX_TIME + rank}_dump")


def _write_text(root: str, rank: int) -> None:
    nodes = [TextNode(f"arg{place}_1", "Data") for place in range(4)]
    nodes += [executed.text for executed in run_network(rank, 0, half=True)]
    content = graph_text("graph_1", nodes)
    for stage in ("original", "optimized"):
        name = f"dynamo_{stage}_graph_1_rank_{rank}_pid_{4711 + rank}_ts_{_FX_TIME}.txt"
        _write(os.path.join(root, name), content.encode())


# The graph engine


def _write_ge(folder: str, ran: list[Executed], *, fused: bool) -> None:
    for name, content in ge_files(ran, fused=fused).items():
        _write(os.path.join(folder, name), content)


def ge_files(ran: Iterable[Executed], *, fused: bool) -> Mapping[str, bytes]:
    """The dump files of one token by name; fusion makes one operator of `Add_1` and `Mul_1`, and inserts one."""
    files: dict[str, bytes] = {}
    listed = list(ran)
    for number, item in enumerate(_fused(listed) if fused else listed):
        stamp = _TIME + 211 * number
        files[str(DumpName(item.op_type, item.name, number + 4, 6, stamp))] = ge_dump(item.inputs, item.outputs)
        if fused and item.name == "Relu":
            # A change of layout that the compiler put in: the same numbers in tiles.
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
    """The dump file of one operator; `layout` is that of its outputs."""
    from opdiff.core import dtypes
    from opdiff.sample.container import EncodedDump, encode_tensor, standard_dump

    def encoded(array: AnyArray, how: str) -> EncodedTensor:
        return encode_tensor(array, dtypes.BY_NAME[str(array.dtype)], how)

    ins = tuple(encoded(array, "ND") for array in inputs)
    return standard_dump(EncodedDump(ins, tuple(encoded(array, layout) for array in outputs)))


# FX


def _write_fx(folder: str, ran: Iterable[Executed]) -> None:
    for name, content in fx_files(ran).items():
        _write(os.path.join(folder, name), content)


def fx_files(ran: Iterable[Executed]) -> Mapping[str, bytes]:
    """The files of one token by name: arguments, numbers among them, and results."""
    import numpy as np

    files: dict[str, bytes] = {}
    for place, item in enumerate(ran):
        node, _, target = item.fx.partition("-")
        stamp = _FX_TIME + 331 * place
        arguments = [*item.inputs, *(np.array(number) for number in item.numbers)]
        for slot, arrays in (("INPUT", arguments), ("OUTPUT", item.outputs)):
            for index, array in enumerate(arrays):
                files[fx_name(node, target, slot, (index,), stamp)] = npy(array)
    return files


def npy(array: AnyArray) -> bytes:
    """A NumPy file."""
    import numpy as np

    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with whole_file(path) as file:
        file.write(content)
