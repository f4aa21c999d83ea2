"""Measure `opdiff compare` from the command line to the written table, each time in a fresh process: `make bench`.

For comparison: NumPy instead of the native kernel, a plain read of the same files, the kernel without files; the
vendor's tool if OPDIFF_PEER has its command, with `{target}`, `{golden}`, `{rules}` and `{output}` in place of paths;
and another opdiff if OPDIFF_OTHER has the path of its executable. Runs are interleaved, and medians are taken: only
compare values of one run. See docs/performance.md.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rich.console import Console

import opdiff
from bench import kernel_alone
from bench.presets import COMPANIONS, PRESETS, preset
from bench.rounds import COMPANION_RUN, CORES, OTHER, VENDOR, Case, Progress, interleaved, runs_of
from bench.tables import Results, as_json, tables

if TYPE_CHECKING:
    from bench.rounds import Timings

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMPANION_OF = {"many-small": "twice-as-many", "few-large": "larger"}


def main(argv: list[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    names = [name for name in (*PRESETS, *COMPANIONS) if name in (args.preset or PRESETS)]
    if args.write:
        from bench import dumps

        for name in names:
            dumps.write(preset(name, smoke=args.smoke), os.path.join(args.write, name))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        measure_and_show(names, args)
    except KeyboardInterrupt:
        print("\ninterrupted; the data is removed", file=sys.stderr)
        return 130
    return 0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=[*PRESETS, *COMPANIONS], action="append", help="default: all of them")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5; what takes long is run less often")
    parser.add_argument("--smoke", action="store_true", help="few and tiny tensors: does it run?")
    parser.add_argument("--write", metavar="DIR", help="only write the data, to DIR/PRESET, and measure nothing")
    parser.add_argument("--json", metavar="FILE", help="file of the measurements; default: bench/results/TIME.json")
    parser.add_argument("--dir", help="where to put the data (up to 8 GB); default: the folder for temporary files")
    return parser


def measure_and_show(names: list[str], args: argparse.Namespace) -> None:
    # Otherwise the first process compiles, or every process if the directory is read-only.
    compileall.compile_dir(os.path.dirname(opdiff.__file__), quiet=2)
    machine = machine_facts(args)
    console = Console(width=None if sys.stdout.isatty() else 120)
    for name, fact in machine.items():
        console.print(f"{name}: {fact}", highlight=False)
    progress = Progress()
    if not machine["vendor's tool"]:
        progress.note(f"the vendor's tool is not measured: {VENDOR} is not set")
    found = {name: measure(name, args, progress) for name in names}
    results = Results(found, kernel_alone.measure(max(args.rounds, 3), progress, smoke=args.smoke))
    progress.note("done; values of --smoke are meaningless" if args.smoke else "done")
    for table in tables(results):
        console.print(table)
    path = args.json or os.path.join(ROOT, "bench", "results", time.strftime("%Y%m%d-%H%M%S.json"))
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(as_json(results, machine), file, indent=1)
    console.print(f"measurements: {path}", highlight=False, soft_wrap=True)


def measure(name: str, args: argparse.Namespace, progress: Progress) -> dict[str, Timings]:
    """Return the timings of one preset and its companion; the data is always removed."""
    with ExitStack() as stack:
        cases = []
        for one in (name, COMPANION_OF.get(name)):
            if one:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="opdiff-bench-", dir=args.dir))
                progress.step(f"{one}: writing its data")
                write_apart(one, folder, smoke=args.smoke)
                operators = len(preset(one, smoke=args.smoke).operators)
                cases.append(Case(one, os.path.join(folder, one), operators))
        work = [(cases[0], run) for run in runs_of(name)]
        # After the runs that they are compared with.
        work[2:2] = [(case, COMPANION_RUN) for case in cases[1:]]
        return interleaved(work, args.rounds, progress)


def write_apart(name: str, folder: str, *, smoke: bool) -> None:
    """Write the data in another process, to keep its memory separate."""
    options = ["--preset", name, "--write", folder, *(["--smoke"] if smoke else [])]
    subprocess.run([sys.executable, "-m", "bench.compare", *options], check=True, cwd=ROOT)


def machine_facts(args: argparse.Namespace) -> dict[str, Any]:
    from opdiff.measure.kernel.library import find_library

    library = find_library()
    return {
        "processor": processor(),
        "cores": CORES,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "kernel": library.od_instructions().decode() if library else "none: only numpy is measured",
        "rounds": args.rounds,
        "free disk, GB": shutil.disk_usage(args.dir or tempfile.gettempdir()).free // 1_000_000_000,
        "vendor's tool": os.environ.get(VENDOR, ""),
        "other opdiff": os.environ.get(OTHER, ""),
    }


def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
