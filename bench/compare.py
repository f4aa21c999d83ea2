"""Measure `opdiff compare` from the command line to the written table, each time in a fresh process.

network      120 operators of a residual network, about 200 MB of golden data
small        3,000 operators of a few kilobytes
large        6 operators of 256 MB of golden data each

Targets are float16 in NC1HWC0, golden arrays are float32. Runs are interleaved and medians are taken, so that the
ratios hold on a busy machine. Beside it: a process that only reads the same files and, when OPDIFF_VENDOR tells how to
start it, the vendor's tool. OPDIFF_VENDOR is a command that takes the documented options (`/opt/vendor/bin/msprobe`),
or one with the places marked: `msaccucmp compare -m {target} -g {golden} -f {rules} -out {output}`.
"""

from __future__ import annotations

import argparse
import csv
import glob
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opdiff.elements import AnyArray
    from opdiff.model import Shape
    from opdiff.sample.container import EncodedTensor

OPDIFF = (sys.executable, "-m", "opdiff")
DOCUMENTED = ("compare", "-m", "offline_data", "-tp", "{target}", "-gp", "{golden}", "-fr", "{rules}", "-o", "{output}")
READ_ALL = """
import os, sys
for folder in sys.argv[1:]:
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
"""
VENDOR = "OPDIFF_VENDOR"
TIME = 1_700_000_000_000_000
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Preset:
    """How many operators, and the shapes (NCHW) of their outputs, which repeat."""

    name: str
    operators: int
    shapes: tuple[Shape, ...]


PRESETS = (
    Preset("network", 120, (
        (2, 64, 56, 56), (2, 256, 56, 56), (2, 128, 28, 28), (2, 512, 28, 28),
        (2, 256, 14, 14), (2, 1024, 14, 14), (2, 512, 7, 7), (2, 2048, 7, 7),
    )),
    Preset("small", 3000, ((1, 16, 4, 4), (1, 24, 8, 8), (1, 3, 16, 16), (1, 64, 8, 8), (1, 64, 14, 14))),
    Preset("large", 6, ((16, 256, 128, 128),)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A preset on disk."""

    preset: Preset
    folder: str

    def path(self, name: str) -> str:
        """A file or folder of the case."""
        return os.path.join(self.folder, name)

    def command(self, words: tuple[str, ...]) -> list[str]:
        """The words with `{target}`, `{golden}`, `{rules}` and `{output}` filled in."""
        places = {name: self.path(name) for name in ("target", "golden", "output")}
        return [word.format(**places, rules=self.path("rules.json")) for word in words]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process and those that it waited for: seconds by the clock and of work, and bytes at most."""

    wall_s: float
    cpu_s: float
    peak: int

    def __str__(self) -> str:
        return f"{self.wall_s:.2f} s ({self.cpu_s:.2f} s of work, {self.peak / MB:.0f} MB)"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--preset", choices=[preset.name for preset in PRESETS], action="append", help="default: all")
    parser.add_argument("--smoke", action="store_true", help="tiny tensors and few of them: does it run?")
    parser.add_argument("--dir", help="where to put the data (3 GB); default: the folder for temporary files")
    parser.add_argument("--write", metavar="FOLDER", help="only write the data of the one preset, and measure nothing")
    args = parser.parse_args(argv)
    chosen = [preset for preset in PRESETS if preset.name in (args.preset or [preset.name])]
    chosen = [smaller(preset) for preset in chosen] if args.smoke else chosen
    if args.write:
        write_case(Case(chosen[0], args.write))
        return 0
    if not has_compare():
        print("compare      this opdiff has no command `compare` yet: nothing to measure")
        return 0
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, numpy {version('numpy')}, {args.rounds} rounds")
    print(vendor_line(), end="\n\n")
    for preset in chosen:
        with tempfile.TemporaryDirectory(prefix="opdiff-bench-", dir=args.dir) as folder:
            write_apart(preset.name, folder, smoke=args.smoke)
            measure(Case(preset, folder), args.rounds)
    return 0


def has_compare() -> bool:
    done = subprocess.run([*OPDIFF, "compare", "--help"], capture_output=True, check=False)
    return done.returncode == 0


def smaller(preset: Preset) -> Preset:
    return replace(preset, operators=min(preset.operators, 5), shapes=((1, 24, 4, 4),))


# Measuring


def measure(case: Case, rounds: int) -> None:
    commands = {
        "opdiff": case.command((*OPDIFF, *DOCUMENTED)),
        "reading the files": [sys.executable, "-c", READ_ALL, case.path("target"), case.path("golden")],
    }
    if vendor := vendor_words():
        commands["vendor"] = case.command(vendor)
    costs = interleaved(case, commands, rounds)
    golden = folder_nbytes(case.path("golden")) / MB
    print(f"{case.preset.name:<12} {case.preset.operators} operators, {golden:,.0f} MB of golden data")
    own = costs["opdiff"].wall_s
    for name, cost in costs.items():
        print(f"  {name:<18} {cost}" + ("" if name == "opdiff" else f": {cost.wall_s / own:.2f} times opdiff"))


def interleaved(case: Case, commands: dict[str, list[str]], rounds: int) -> dict[str, Cost]:
    """The median cost of each command, run in turns; the first round warms up. A tool that fails is left out."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name in list(costs):
            cost, problem = run(case, commands[name], wants_table=name != "reading the files")
            if problem and name == "opdiff":
                raise SystemExit(f"opdiff failed on {case.preset.name!r}: {problem}")
            if problem:
                print(f"  {name} is left out: {problem}")
                del costs[name]
            elif turn:
                costs[name].append(cost)
    return {name: median(found) for name, found in costs.items()}


def run(case: Case, command: list[str], *, wants_table: bool) -> tuple[Cost, str]:
    """What a run cost, and what is wrong with it: a tool that compares nothing is fast and worth nothing."""
    shutil.rmtree(case.path("output"), ignore_errors=True)
    os.mkdir(case.path("output"))
    with open(case.path("log"), "w+b") as log:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=log, stderr=log, cwd=case.folder)
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        last = log.read().decode(errors="replace").strip().rpartition("\n")[2]
    cost = Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
    found = compared(case.path("output")) if wants_table else case.preset.operators
    if found < case.preset.operators:
        return cost, f"exit code {child.returncode}, {found} of {case.preset.operators} operators compared; {last}"
    return cost, ""


def compared(folder: str) -> int:
    """Rows with a cosine similarity in the table of results."""
    rows = 0
    for path in glob.glob(os.path.join(folder, "**", "result_*.csv"), recursive=True):
        with open(path, newline="", encoding="utf-8") as file:
            rows += sum(row["CosineSimilarity"] != "NaN" for row in csv.DictReader(file))
    return rows


def median(costs: list[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.cpu_s for cost in costs),
        round(statistics.median(cost.peak for cost in costs)),
    )


def vendor_words() -> tuple[str, ...]:
    """The vendor's command line, with its places marked; empty when it is not installed."""
    words = tuple(shlex.split(os.environ.get(VENDOR, "")))
    if not words or shutil.which(words[0]) is None:
        return ()
    return words if any("{target}" in word for word in words) else (*words, *DOCUMENTED)


def vendor_line() -> str:
    told = os.environ.get(VENDOR, "")
    if not told:
        return f"the vendor's tool is not measured: {VENDOR} does not tell how to start it"
    return f"the vendor's tool: {told}" if vendor_words() else f"the vendor's tool is not measured: no command {told!r}"


# Data


def write_apart(name: str, folder: str, *, smoke: bool) -> None:
    """Write the data in another process: the peak memory of a child is never below that of its parent."""
    options = ["--preset", name, "--write", folder, *(["--smoke"] if smoke else [])]
    subprocess.run([sys.executable, os.path.abspath(__file__), *options], check=True)


def write_case(case: Case) -> None:
    """Targets, golden arrays and the rule file of a preset. Tensors of one shape hold the same numbers."""
    preset = case.preset
    os.mkdir(case.path("target"))
    os.mkdir(case.path("golden"))
    tensors = {shape: encoded(shape) for shape in preset.shapes}
    ops = []
    for number in range(preset.operators):
        name = f"block{number // 10}_conv{number}"
        golden, target = tensors[preset.shapes[number % len(preset.shapes)]]
        write_operator(case, name, number, golden, target)
        ops.append(rule(name, number, target))
    with open(case.path("rules.json"), "w", encoding="utf-8") as file:
        json.dump({"name": preset.name, "graph": [{"name": preset.name, "op": ops}]}, file)


def encoded(shape: Shape) -> tuple[AnyArray, EncodedTensor]:
    """Golden numbers, half of them zero as behind a ReLU, and the target that differs by one part in a thousand."""
    import numpy as np

    from opdiff import dtypes
    from opdiff.sample.container import encode_tensor

    random = np.random.default_rng(1)
    golden = np.maximum(random.standard_normal(shape, dtype=np.float32), 0)
    noise = random.standard_normal(shape, dtype=np.float32)
    target = (golden * (1 + 1e-3 * noise)).astype(np.float16)
    return golden, encode_tensor(target, dtypes.FLOAT16, "NC1HWC0")


def write_operator(case: Case, name: str, number: int, golden: AnyArray, target: EncodedTensor) -> None:
    import numpy as np

    from opdiff.sample.container import EncodedDump, iter_standard
    from opdiff.sample.names import DumpName, golden_name

    dump_name = DumpName("Conv2D", name, number + 1, 3, TIME + number)
    dump = EncodedDump(outputs=(replace(target, address=20_618_000_384_000 + number * 512),), op_name=name)
    with open(os.path.join(case.path("target"), str(dump_name)), "wb") as file:
        file.writelines(iter_standard(dump))
    np.save(os.path.join(case.path("golden"), golden_name(name, 0, TIME)), golden)


def rule(name: str, number: int, target: EncodedTensor) -> dict[str, Any]:
    """What the rule file says about an operator."""
    origin = {
        "_datadump_origin_name": {"s": name},
        "_datadump_origin_output_index": {"i": 0},
        "_datadump_origin_format": {"s": "NCHW"},
        "origin_format": {"s": "NCHW"},
        "origin_shape": {"list": {"i": list(target.origin_shape)}},
    }
    output = {"dtype": "DT_FLOAT16", "layout": target.layout, "attr": attributes(origin)}
    originals = {"_datadump_original_op_names": {"list": {"s": [name]}}}
    return {"name": name, "type": "Conv2D", "id": number, "attr": attributes(originals), "output_desc": [output]}


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def folder_nbytes(folder: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder))


if __name__ == "__main__":
    sys.exit(main())
