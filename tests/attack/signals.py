"""Signals at random moments of whole programs: `make attack`, or `python -m attack.signals [--tries N] [--seed N]`.

SIGINT and SIGTERM end a command with 130 and 143, without a traceback or half files, unless it has ended before. What
Python does with a signal before the first line of opdiff is counted apart. So is a SIGTERM that ends the process when
its work is done; a shell calls that 143, too.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from attack.results import broken_files
from dump_files import TIME, add

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_MAX_SECONDS = 600
# Enough small files that several processes convert them.
_FILES_FOR_PROCESSES = 210
# The installed program, which first makes a file.
_PROGRAM = """
import os, sys
from opdiff.__main__ import program
os.close(os.open(sys.argv.pop(1), os.O_CREAT))
sys.exit(program())
"""
_COMMANDS = (
    ("compare", "{root}/npu", "{root}/golden", "-fr", "{root}/rules/network.json", "-o", "{out}"),
    ("convert", "{root}/npu", "-out", "{out}/arrays", "-j", "2"),
    ("convert", "{root}/many", "-out", "{out}/archives", "-t", "npz", "-j", "2"),
    ("reduce", "{root}/graph", "--keep"),
    ("inspect", "{root}/npu", "--stats"),
    ("report", "{root}/saved.json", "-o", "{out}/report.html"),
)


class Trials:
    """Commands on a sample, ended by signals."""

    def __init__(self, folder: Path) -> None:
        self._root, self._out, self._begun = folder / "sample", folder / "out", folder / "begun"
        self._run(("demo", str(self._root)))
        (saved,) = (self._root / "result").glob("result_*.json")
        shutil.copyfile(saved, self._root / "saved.json")
        for number in range(_FILES_FOR_PROCESSES):
            add(self._root / "many", f"Add.a{number}.1.2.{TIME + number}")
        shutil.copytree(self._root / "many", self._root / "graph")
        (self._root / "graph/dynamo_original_graph_1_rank_0_pid_1_ts_2.txt").touch()
        self._seconds = {command: self._duration(command) for command in _COMMANDS}

    def run(self, seed: int) -> tuple[str, str]:
        """Run one command; return how it ended and what was wrong, if anything."""
        chance = random.Random(seed)
        command, sent = chance.choice(_COMMANDS), chance.choice(_ENDING_SIGNALS)
        code, err = self._run(command, chance.uniform(0, self._seconds[command]), sent)
        half = [
            name
            for folder in (self._out, self._out / "arrays", self._out / "archives", self._root / "graph")
            if folder.is_dir()
            for name in broken_files(folder)
        ]
        name = f"{command[0]}: {sent.name}"
        if half:
            return f"{name}: half files", ", ".join(half)
        if not self._begun.exists():
            return "before the first line of opdiff", ""
        if code == 0:
            return f"{name}: had ended before", ""
        if sent == signal.SIGTERM and code == -sent and not err:
            return f"{name}: after its work", ""
        is_right = code == 128 + sent and "Traceback" not in err
        return f"{name}: {code}", "" if is_right else err[-2000:] or "no sentence"

    def _duration(self, command: tuple[str, ...]) -> float:
        start = time.monotonic()
        self._run(command)
        return time.monotonic() - start

    def _run(self, command: tuple[str, ...], after_s: float = 0, sent: signal.Signals | None = None) -> tuple[int, str]:
        shutil.rmtree(self._out, ignore_errors=True)
        self._out.mkdir()
        self._begun.unlink(missing_ok=True)
        words = [word.format(root=self._root, out=self._out) for word in command]
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(self._begun), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if sent is not None:
            time.sleep(after_s)
            process.send_signal(sent)
        _, err = process.communicate(timeout=_MAX_SECONDS)
        return process.returncode, err


def main() -> int:
    """Run trials, and print how many ended how."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=1000, help="number of signals; default: 1000")
    parser.add_argument("--seed", type=int, help="seed of the first trial; default: random")
    args = parser.parse_args()
    # Shells let programs in the background ignore it, and those that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    first = random.randrange(1 << 40) if args.seed is None else args.seed
    findings = 0
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="opdiff-signals-") as folder:
        trials = Trials(Path(folder))
        for seed in range(first, first + args.tries):
            end, problem = trials.run(seed)
            ends[end] += 1
            if problem:
                findings += 1
                print(f"seed {seed}: {end}\n  {problem}", flush=True)
    for end, count in sorted(ends.items()):
        print(f"{count:5} {end}")
    print(f"{args.tries} signals from seed {first}, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
