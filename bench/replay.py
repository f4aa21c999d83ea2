"""Measure `opdiff replay` of every operator beside one plain run of the model: `make bench`.

time         of the whole command relative to a script that loads the model and runs it once
memory       of its own, without pages of files, beside that of the plain run
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.processes import run_in_turns
from opdiff.core import dtypes
from opdiff.core.onnx_encoder import graph_input, graph_output, initializer, model, node
from opdiff.sample.container import EncodedDump, encode_tensor, standard_dump
from opdiff.sample.names import DumpName
from opdiff.workflows.golden.options import GoldenOptions
from opdiff.workflows.golden.original import read_source
from opdiff.workflows.golden.runtime import import_runtime

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.onnx_encoder import Attribute

MIB = 1 << 20
OPSET, TIME = 17, 1_700_000_000_000_000
# Blocks of three convolutions, and their inner channels, in each stage of ResNet-50.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
MAX_TIMES = 10
PLAIN_RUN = """
import sys
import numpy as np
import onnxruntime as ort
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
session.run(None, {"x": np.load(sys.argv[2])})
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", type=int, default=224, help="height and width of the image")
    args = parser.parse_args()
    if find_spec("onnxruntime") is None:
        print("replay       not measured: ONNX Runtime is not installed (pip install '.[golden]')")
        return 0
    with tempfile.TemporaryDirectory(prefix="opdiff-bench-") as folder:
        image = np.random.default_rng(0).standard_normal((1, 3, args.side, args.side)).astype(np.float32)
        np.save(os.path.join(folder, "x.npy"), image)
        Network(image.shape).write(os.path.join(folder, "m.onnx"))
        count = write_device_run(folder, image)
        measure(folder, args.rounds, count)
    return 0


class Network:
    """A network like ResNet-50: convolutions with activations, residual sums, a classifier."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._random = np.random.default_rng(1)
        self._parts = [graph_input("x", shape)]
        self._count = 0

    def write(self, path: str) -> None:
        """Build the network and write it as an ONNX model."""
        x = self._add("Relu", self._conv("x", (64, 3, 7), stride=2))
        x = self._add("MaxPool", x, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
        width = 64
        for number, (blocks, inner) in enumerate(STAGES):
            for block in range(blocks):
                stride = 2 if number and not block else 1
                y = self._add("Relu", self._conv(x, (inner, width, 1)))
                y = self._add("Relu", self._conv(y, (inner, inner, 3), stride))
                y = self._conv(y, (4 * inner, inner, 1))
                x = x if block else self._conv(x, (4 * inner, width, 1), stride)
                x, width = self._add("Relu", self._add("Add", y, x)), 4 * inner
        x = self._add("Flatten", self._add("GlobalAveragePool", x))
        x = self._add("Gemm", x, self._weight((width, 1000), width))
        x = self._add("Softmax", x)
        with open(path, "wb") as file:
            file.write(model([*self._parts, graph_output(x)], OPSET))

    def _conv(self, x: str, sizes: tuple[int, int, int], stride: int = 1) -> str:
        channels, width, size = sizes
        weight = self._weight((channels, width, size, size), width * size * size)
        return self._add("Conv", x, weight, strides=(stride, stride), pads=(size // 2,) * 4)

    def _weight(self, shape: tuple[int, ...], length: int) -> str:
        name = f"w{len(self._parts)}"
        array = (self._random.standard_normal(shape) / np.sqrt(length)).astype(np.float16)
        self._parts.append(initializer(name, array.astype(np.float32)))
        return name

    def _add(self, op_type: str, *inputs: str, **attributes: Attribute) -> str:
        self._count += 1
        self._parts.append(node(op_type, inputs, [f"t{self._count}"], attributes))
        return f"t{self._count}"


def write_device_run(folder: str, image: AnyArray) -> int:
    """Write the dump and the rules of a run without faults, each node an operator; return their number."""
    path = os.path.join(folder, "m.onnx")
    original = read_source(GoldenOptions(path), {}).original
    tensors = [operator.outputs[0] for operator in original.operators]
    session = import_runtime().InferenceSession(original.with_outputs(tensors), providers=["CPUExecutionProvider"])
    values = dict(zip(tensors, session.run(tensors, {"x": image}), strict=True))
    os.makedirs(os.path.join(folder, "npu"))
    described = [_described("x", "Data", image.shape)]
    for number, operator in enumerate(original.operators):
        array = values[operator.outputs[0]]
        encoded = encode_tensor(array, dtypes.FLOAT16, "NC1HWC0" if array.ndim == 4 else "ND")
        content = standard_dump(EncodedDump((), (encoded,), op_name=operator.name, dump_time=TIME + number))
        name = str(DumpName(operator.op_type, operator.name, number + 1, 3, TIME + number))
        with open(os.path.join(folder, "npu", name), "wb") as file:
            file.write(content)
        described.append(_described(operator.name, operator.op_type, array.shape))
    with open(os.path.join(folder, "rules.json"), "w", encoding="utf-8") as file:
        json.dump({"name": "m", "graph": [{"name": "g", "op": described}]}, file)
    return len(original.operators)


def _described(name: str, op_type: str, shape: tuple[int, ...]) -> dict[str, Any]:
    origin = {
        "_datadump_origin_name": {"s": name},
        "_datadump_origin_output_index": {"i": 0},
        "_datadump_origin_format": {"s": "NCHW" if len(shape) == 4 else "ND"},
        "origin_shape": {"list": {"i": list(shape), "val_type": 2}},
    }
    attributes = [{"key": key, "value": value} for key, value in origin.items()]
    output = {"dtype": "DT_FLOAT16", "shape": {"dim": list(shape)}, "attr": attributes}
    names = {"key": "_datadump_original_op_names", "value": {"list": {"s": [name], "val_type": 1}}}
    return {"name": name, "type": op_type, "input": [], "attr": [names], "output_desc": [output]}


def measure(folder: str, rounds: int, count: int) -> None:
    """Run both in turns, and print time and memory."""
    paths = [os.path.join(folder, name) for name in ("m.onnx", "x.npy", "npu", "rules.json")]
    log = os.path.join(folder, "log")
    command = (sys.executable, "-m", "opdiff", "replay", paths[2], "--model", paths[0], "-fr", paths[3])
    plain, replay = run_in_turns([(sys.executable, "-c", PLAIN_RUN, *paths[:2]), command], log, rounds)
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if f"{count - 1} innocent" not in text:
        raise SystemExit(f"opdiff replay failed:\n{text}")
    print(f"replay       {count} operators: {replay.wall_s:.2f} s, one plain run {plain.wall_s:.2f} s:"
          f" {replay.wall_s / plain.wall_s:.1f} times (aim: {MAX_TIMES}),"
          f" CPU time {replay.cpu_s / plain.cpu_s:.1f} times")  # fmt: skip
    print(f"             memory of its own {replay.own_nbytes / MIB:.0f} MiB,"
          f" of the plain run {plain.own_nbytes / MIB:.0f} MiB")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
