"""Measure `opdiff compare --mode torchair` and `opdiff reduce`, each time in a fresh process.

ranks   8 ranks x 4 tokens x 500 operators of small tensors
large   20 operators of 64 MB of golden data each
tokens  500 tokens x 2,000 operators of tiny tensors: a million rows, in two million files (8 GB on disk). Only with
        --preset tokens; with CSV, JSON, page and Parquet, and without `reduce`

    bench/torchair.py --preset tokens --tokens 50 --write DIR   only write the data, of fewer tokens
    bench/torchair.py --preset tokens --data DIR                measure on data that was written before, which is kept

CPU time and memory are those of all processes of a run, sampled every half second: memory is the largest sum of
proportional set sizes. The last half second of each process is not in its CPU time.

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
from dataclasses import dataclass, replace
from pathlib import Path

OPDIFF = (sys.executable, "-m", "opdiff")
MB = 1_000_000
STAMP = 20_240_130_064_151_000_000
TIME = 1_706_596_911_000_000
SECONDS_PER_SAMPLE = 0.5


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
    parser.add_argument("--tokens", type=int, help="tokens of the preset `tokens`; default: 500")
    parser.add_argument("--write", metavar="DIR", help="only write the data of --preset here")
    parser.add_argument("--data", metavar="DIR", help="measure on data that --write has written; it is kept")
    args = parser.parse_args()
    if args.write or args.data:
        return on_kept_data(args)
    print(f"{os.cpu_count()} cores")
    known = SMOKE if args.smoke else (*PRESETS, TOKENS) if args.preset else PRESETS
    for preset in known:
        if args.preset not in (None, preset.name):
            continue
        with tempfile.TemporaryDirectory(prefix="opdiff-bench-", dir=args.dir) as folder:
            write(preset, folder)
            measure(preset, folder, folder)
    return 0


def on_kept_data(args: argparse.Namespace) -> int:
    """Write data to be kept, or measure on such data."""
    preset = next((preset for preset in (*PRESETS, TOKENS) if preset.name == args.preset), None)
    if preset is None:
        raise SystemExit("--write and --data need --preset")
    if args.write:
        write(replace(preset, tokens=args.tokens or preset.tokens), args.write)
        return 0
    tokens = len(os.listdir(next(Path(args.data).glob("fx/*/graph_1"))))
    with tempfile.TemporaryDirectory(prefix="opdiff-bench-", dir=args.dir) as folder:
        measure(replace(preset, tokens=tokens), args.data, folder)
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


def measure(preset: Preset, data: str, folder: str) -> None:
    rows = preset.ranks * preset.tokens * preset.operators * len(preset.slots)
    nbytes = rows * preset.elements * 6
    print(f"{preset.name:<8} {rows} tensors, {nbytes / MB:,.0f} MB on both sides")
    sides = [os.path.join(data, side) for side in ("ge", "fx")]
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
    largest_kb = 0
    cpu_s: dict[int, float] = {}
    while child.poll() is None:
        processes = family(child.pid)
        largest_kb = max(largest_kb, sum(map(proportional_kb, processes)))
        cpu_s |= {pid: seconds for pid in processes if (seconds := cpu_seconds(pid))}
        time.sleep(SECONDS_PER_SAMPLE)
    wall_s = time.perf_counter() - started
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    speed = f"{rows / wall_s:,.0f} tensors/s, {nbytes / wall_s / MB:,.0f} MB/s"
    total_s, memory = sum(cpu_s.values()), largest_kb * 1024 / MB
    print(f"  {name:<20} {wall_s:.2f} s ({total_s:.2f} s CPU), {speed}, {memory:.0f} MB at most")


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for each in found:
        try:
            children = [Path(path).read_text() for path in Path(f"/proc/{each}/task").glob("*/children")]
        except OSError:
            continue
        found += (int(child) for text in children for child in text.split())
    return found


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def proportional_kb(pid: int) -> int:
    """Return the memory of a process, of shared pages its part; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    sys.exit(main())
