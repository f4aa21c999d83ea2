"""Measure `opdiff compare --mode torchair` and `opdiff reduce`, each time in a fresh process.

ranks   8 ranks x 4 tokens x 500 operators of small tensors
large   20 operators of 64 MB of golden data each
tokens  500 tokens x 2,000 operators of tiny tensors: a million rows, in two million files (8 GB on disk). Only with
        --preset tokens; with CSV, JSON, page and Parquet, and without `reduce`

GE tensors are float16, FX tensors float32; every operator has one input and one output, those of `tokens` an output
only. `reduce` works on a copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

OPDIFF = (sys.executable, "-m", "opdiff")
MB = 1_000_000
STAMP = 20_240_130_064_151_000_000
TIME = 1_706_596_911_000_000


@dataclass(frozen=True, slots=True)
class Preset:
    """Number of ranks, tokens and operators, of elements per tensor, and the dumped tensors of each operator."""

    name: str
    ranks: int
    tokens: int
    operators: int
    elements: int
    slots: tuple[str, ...] = ("INPUT", "OUTPUT")


PRESETS = (Preset("ranks", 8, 4, 500, 1000), Preset("large", 1, 1, 20, 16_000_000))
TOKENS = Preset("tokens", 1, 500, 2000, 16, ("OUTPUT",))
SMOKE = (Preset("ranks", 2, 2, 5, 100), Preset("large", 1, 1, 2, 10_000), Preset("tokens", 1, 3, 5, 16, ("OUTPUT",)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [preset.name for preset in (*PRESETS, TOKENS)]
    parser.add_argument("--preset", choices=names, help="measure only this one")
    parser.add_argument("--smoke", action="store_true", help="tiny tensors and few of them: does it run?")
    parser.add_argument("--dir", help="where to put the data (5 GB); default: the folder for temporary files")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores")
    known = SMOKE if args.smoke else (*PRESETS, TOKENS) if args.preset else PRESETS
    for preset in known:
        if args.preset not in (None, preset.name):
            continue
        with tempfile.TemporaryDirectory(prefix="opdiff-bench-", dir=args.dir) as folder:
            write(preset, folder)
            measure(preset, folder)
    return 0


def write(preset: Preset, folder: str) -> None:
    from opdiff.sample.graph_text import TextNode, graph_text
    from opdiff.sample.names import DumpName, fx_name

    nodes = [TextNode("x", "Data")]
    nodes += [
        TextNode(f"Op_{n}", "Op", (f"Op_{n - 1}:0" if n else "x:0",), output_fx=(f"op_{n}-aten.op.OUTPUT.0",))
        for n in range(preset.operators)
    ]
    shared = None if preset.name == TOKENS.name else operator_files(preset, 0)
    for rank in range(preset.ranks):
        name = f"dynamo_original_graph_1_rank_{rank}_pid_{rank}_ts_{STAMP}.txt"
        put(os.path.join(folder, "ge", name), graph_text("graph_1", nodes).encode())
        level = f"worldsize{preset.ranks}_global_rank{rank}"
        for token in range(preset.tokens):
            ge = os.path.join(folder, "ge", level, "20240130064151", str(rank), "graph_1_0", "1", str(token))
            fx = os.path.join(folder, "fx", level, "graph_1", str(token))
            for number in range(preset.operators):
                # Files that are saved with their numbers must not be alike.
                content, array = shared or operator_files(preset, token * preset.operators + number)
                put(os.path.join(ge, str(DumpName("Op", f"Op_{number}", number, 6, TIME + number))), content)
                for slot in preset.slots:
                    put(os.path.join(fx, fx_name(f"op_{number}", "aten.op", slot, (0,), STAMP + number)), array)


def operator_files(preset: Preset, seed: int) -> tuple[bytes, bytes]:
    """Return the dump of an operator and the golden file of each of its tensors."""
    import numpy as np

    from opdiff.sample.golden import npy_file
    from opdiff.sample.graph_mode import ge_dump

    golden = np.random.default_rng(seed).normal(size=preset.elements).astype(np.float32)
    target = golden.astype(np.float16)
    return ge_dump([target] * (len(preset.slots) - 1), [target]), npy_file(golden)


def put(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def measure(preset: Preset, folder: str) -> None:
    rows = preset.ranks * preset.tokens * preset.operators * len(preset.slots)
    nbytes = rows * preset.elements * 6
    print(f"{preset.name:<8} {rows} tensors, {nbytes / MB:,.0f} MB on both sides")
    sides = [os.path.join(folder, side) for side in ("ge", "fx")]
    if preset.name == TOKENS.name:
        measure_forms(folder, sides, rows, nbytes)
        return
    for mode in ("real", "statistics", "md5"):
        command = [*OPDIFF, "compare", *sides, "-m", "torchair", "--data_mode", mode, "-o", os.path.join(folder, "out")]
        report(f"compare {mode}", command, rows, nbytes)
    shutil.copytree(sides[0], os.path.join(folder, "copy"))
    report(
        "reduce", [*OPDIFF, "reduce", os.path.join(folder, "copy"), "--settle", "0"], rows, rows * preset.elements * 2
    )


def measure_forms(folder: str, sides: list[str], rows: int, nbytes: int) -> None:
    """Measure a comparison with the files of all forms, and their sizes."""
    out = os.path.join(folder, "out")
    report("all forms", [*OPDIFF, "compare", *sides, "-m", "torchair", "-o", out, "--parquet"], rows, nbytes)
    for name in sorted(os.listdir(out)):
        size = os.path.getsize(os.path.join(out, name))
        print(f"  {name:<52} {size / MB:,.1f} MB, {size / rows:,.0f} bytes a row")


def report(name: str, command: list[str], rows: int, nbytes: int) -> None:
    started = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    speed = f"{rows / wall_s:,.0f} tensors/s, {nbytes / wall_s / MB:,.0f} MB/s"
    cpu_s = usage.ru_utime + usage.ru_stime
    print(f"  {name:<20} {wall_s:.2f} s ({cpu_s:.2f} s CPU), {speed}, {usage.ru_maxrss * 1024 / MB:.0f} MB at most")


if __name__ == "__main__":
    sys.exit(main())
