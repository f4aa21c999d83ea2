"""Measure opdiff: `make bench`. Values are ratios or rates of one run: medians of interleaved rounds.

start-up     `opdiff --help` relative to an empty Python
headers      files described per second, over many small files
convert      bytes per second relative to a plain copy of the same files
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import dtypes
from opdiff.read import read_operator
from opdiff.read.directory import scan
from opdiff.sample.container import EncodedDump, encode_tensor, iter_standard
from opdiff.sample.names import DumpName

if TYPE_CHECKING:
    from collections.abc import Callable

OPDIFF = (sys.executable, "-m", "opdiff")
MIB = 1 << 20
TIMESTAMP = 1_700_000_000_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=3000, help="small files")
    parser.add_argument("--mib", type=int, default=192, help="size of each of four large files")
    parser.add_argument("--dir", help="where to put the data; default: the folder for temporary files")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="opdiff-bench-", dir=args.dir) as folder:
        print(
            f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, numpy {np.__version__}, {args.rounds} rounds\n"
        )
        start_up(args.rounds)
        small = os.path.join(folder, "small")
        write_many(small, args.files, 2048)
        headers(small, args.rounds)
        conversions(folder, small, args)
    return 0


def start_up(rounds: int) -> None:
    def command(*words: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)

    empty, with_help, version = medians(
        [command("-c", "pass"), command("-m", "opdiff", "--help"), command("-m", "opdiff", "--version")], rounds * 3
    )
    print(f"start-up     opdiff --help {with_help * 1e3:.0f} ms, --version {version * 1e3:.0f} ms,"
          f" an empty Python {empty * 1e3:.0f} ms: {with_help / empty:.1f} times")  # fmt: skip


def headers(folder: str, rounds: int) -> None:
    paths = [entry.path for entry in scan(folder).entries()]
    listing, reading, plain = medians(
        [lambda: scan(folder), lambda: [read_operator(path) for path in paths], lambda: [raw(path) for path in paths]],
        rounds,
    )
    print(f"scan         {len(paths)} files in {listing * 1e3:.0f} ms")
    print(f"headers      {len(paths) / reading:,.0f} files/s; opening and reading them alone {len(paths) / plain:,.0f}"
          f" files/s: {reading / plain:.1f} times")  # fmt: skip


def conversions(folder: str, small: str, args: argparse.Namespace) -> None:
    large, tiled = os.path.join(folder, "large"), os.path.join(folder, "tiled")
    write_many(large, 4, args.mib * MIB)
    write_tiled(tiled, args.mib * MIB)
    for name, source, options in (
        ("small files", small, ()),
        ("large files", large, ()),
        ("NC1HWC0 to NCHW", tiled, ("--format", "NCHW")),
    ):
        convert(name, source, os.path.join(folder, "out"), options, args.rounds)


def convert(name: str, source: str, output: str, options: tuple[str, ...], rounds: int) -> None:
    def run() -> None:
        command = [*OPDIFF, "convert", source, "-out", output, "-q", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    remove = partial(shutil.rmtree, output, ignore_errors=True)
    copying, converting = medians([lambda: shutil.copytree(source, output), run], rounds, remove)
    nbytes = sum(entry.nbytes for entry in scan(source).entries())
    rates = [f"{nbytes / MIB / seconds:.0f} MiB/s" for seconds in (converting, copying)]
    print(f"convert      {name}: {rates[0]}, a plain copy {rates[1]}: {copying / converting:.2f} of it")


def write_many(folder: str, files: int, nbytes: int) -> None:
    """Write standard dumps with one float16 output of `nbytes` bytes each; the values repeat after 1 MiB."""
    os.makedirs(folder)
    block = np.random.default_rng(0).normal(size=min(MIB, nbytes) // 2).astype(np.float16)
    output = encode_tensor(np.resize(block, nbytes // 2), dtypes.FLOAT16)
    for number in range(files):
        name = DumpName("Add", f"block{number // 100}/add_{number}", number, 3, TIMESTAMP + number)
        dump = EncodedDump(outputs=(output,), op_name=name.op_name, dump_time=name.timestamp)
        with open(os.path.join(folder, str(name)), "wb") as file:
            file.writelines(iter_standard(dump))


def write_tiled(folder: str, nbytes: int) -> None:
    os.makedirs(folder)
    side = int((nbytes / 2 / 64) ** 0.5)
    array = np.random.default_rng(1).standard_normal((1, 64, side, side)).astype(np.float16)
    dump = EncodedDump(outputs=(encode_tensor(array, dtypes.FLOAT16, "NC1HWC0"),))
    for number in range(4):
        with open(os.path.join(folder, f"Conv2D.conv{number}.{number}.0.1671234567890{number:03}"), "wb") as file:
            file.writelines(iter_standard(dump))


def medians(actions: list[Callable[[], object]], rounds: int, before: Callable[[], None] = lambda: None) -> list[float]:
    """Return the median time of each action, measured in interleaved rounds."""
    times: list[list[float]] = [[] for _ in actions]
    for turn in range(rounds + 1):
        for action, taken in zip(actions, times, strict=True):
            before()
            started = time.perf_counter()
            action()
            if turn:  # the first round only warms up
                taken.append(time.perf_counter() - started)
    return [statistics.median(taken) for taken in times]


def raw(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(65536)


if __name__ == "__main__":
    sys.exit(main())
