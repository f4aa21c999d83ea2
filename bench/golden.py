"""Measure `opdiff golden` beside a plain run of ONNX Runtime that fetches all tensors: `make bench`.

time         of the whole command, files included, relative to a plain run whose results stay in memory
memory       of its own, without pages of files
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from bench.processes import run
from opdiff.workflows.golden.onnx_encoder import graph_input, graph_output, initializer, model, node

if TYPE_CHECKING:
    from bench.processes import Cost

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
    """Run both in turns, and print time and memory; the first round is watched and not timed."""
    data, output = os.path.join(folder, "x.npy"), os.path.join(folder, "golden")
    plain = (sys.executable, "-c", PLAIN_RUN, os.path.join(folder, "all_outputs.onnx"), data)
    golden = (sys.executable, "-m", "opdiff", "golden", os.path.join(folder, "original.onnx"))
    commands = (plain, (*golden, "--input", f"x={data}", "-o", output, "-q"))
    costs: list[list[Cost]] = [[], []]
    for turn in range(rounds + 1):
        for command, taken in zip(commands, costs, strict=True):
            shutil.rmtree(output, ignore_errors=True)
            cost = run(command, os.path.join(folder, "log"), settings={}, watched=not turn)
            if cost.code:
                with open(os.path.join(folder, "log"), encoding="utf-8", errors="replace") as log:
                    raise SystemExit(f"{command[2]} failed:\n{log.read()}")
            taken.append(cost)
    print_result(costs[0], costs[1], nbytes)


def print_result(plain: list[Cost], golden: list[Cost], nbytes: int) -> None:
    times = [statistics.median(cost.wall_s for cost in costs[1:]) for costs in (plain, golden)]
    memory = golden[0].memory
    own = memory.own / MIB if memory else 0
    print(f"golden       {nbytes / MIB:.0f} MiB of results: {times[1]:.2f} s, a plain run {times[0]:.2f} s:"
          f" {times[1] / times[0]:.2f} times (aim: at most {MAX_TIMES})")  # fmt: skip
    print(f"             memory of its own {own:.0f} MiB (aim: below {MAX_OWN_MIB})")


if __name__ == "__main__":
    sys.exit(main())
