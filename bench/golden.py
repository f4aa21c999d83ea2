"""Measure `opdiff golden` beside a plain run of ONNX Runtime that fetches all tensors: `make bench`.

time         of the whole command, files included, relative to a plain run whose results stay in memory
memory       of its own, without pages of files
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec

import numpy as np

from bench.processes import run_in_turns
from opdiff.core.onnx_encoder import graph_input, graph_output, initializer, model, node

MIB = 1 << 20
OPSET = 17
CHANNELS = 16
MAX_TIMES, MAX_OWN_MIB = 1.5, 250
PLAIN_RUN = """
import sys
import numpy as np
import onnxruntime as ort
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, {"x": np.load(sys.argv[2])})
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=14, help="convolutions, each with an activation")
    parser.add_argument("--side", type=int, default=640, help="height and width of all tensors")
    args = parser.parse_args()
    if find_spec("onnxruntime") is None:
        print("golden       not measured: ONNX Runtime is not installed (pip install '.[golden]')")
        return 0
    with tempfile.TemporaryDirectory(prefix="opdiff-bench-") as folder:
        write_network(folder, args.layers, args.side)
        measure(folder, args.rounds, 2 * args.layers * CHANNELS * args.side**2 * 4)
    return 0


def write_network(folder: str, layers: int, side: int) -> None:
    """Write a chain of convolutions and activations: as the original has it, and with all tensors as outputs."""
    shape = (1, CHANNELS, side, side)
    random = np.random.default_rng(0)
    parts = [graph_input("x", shape)]
    tensors = ["x"]
    for number in range(layers):
        kernel = random.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / 12
        parts.append(initializer(f"w{number}", kernel))
        parts.append(node("Conv", [tensors[-1], f"w{number}"], [f"conv{number}"], {"pads": (1, 1, 1, 1)}))
        parts.append(node("Relu", [f"conv{number}"], [f"relu{number}"]))
        tensors += [f"conv{number}", f"relu{number}"]
    for name, outputs in (("original", tensors[-1:]), ("all_outputs", tensors[1:])):
        with open(os.path.join(folder, f"{name}.onnx"), "wb") as file:
            file.write(model([*parts, *map(graph_output, outputs)], OPSET))
    np.save(os.path.join(folder, "x.npy"), random.random(shape, np.float32))


def measure(folder: str, rounds: int, nbytes: int) -> None:
    """Run both in turns, and print time and memory."""
    data, output = os.path.join(folder, "x.npy"), os.path.join(folder, "golden")
    command = (sys.executable, "-m", "opdiff", "golden", os.path.join(folder, "original.onnx"))
    plain, golden = run_in_turns(
        [
            (sys.executable, "-c", PLAIN_RUN, os.path.join(folder, "all_outputs.onnx"), data),
            (*command, "--input", f"x={data}", "-o", output, "-q"),
        ],
        os.path.join(folder, "log"),
        rounds,
        lambda: shutil.rmtree(output, ignore_errors=True),
    )
    print(f"golden       {nbytes / MIB:.0f} MiB of results: {golden.wall_s:.2f} s, a plain run {plain.wall_s:.2f} s:"
          f" {golden.wall_s / plain.wall_s:.2f} times (aim: at most {MAX_TIMES})")  # fmt: skip
    print(f"             memory of its own {golden.own_nbytes / MIB:.0f} MiB (aim: below {MAX_OWN_MIB})")


if __name__ == "__main__":
    sys.exit(main())
