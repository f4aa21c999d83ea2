"""Replaces dump files at random while processes that reduce them are killed at random, and counts what is lost.

    python random_kills.py FOLDER REPLACEMENTS SEED

prints JSON: replacements, files, killed processes, files put back and superseded in between, and lost files. A file
holds the number of its version.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from opdiff.core.tensor import Slot
from opdiff.read.reduced import read_reduced
from opdiff.sample.graph_mode import ge_dump
from opdiff.workflows.reduce.taken import recover
from opdiff.workflows.reduce.watch import ReduceOptions, reduce_tree

_RECENT_FILES = 4
_MAX_LIFE_S = 0.15


class Never:
    """An event that never happens."""

    def is_set(self) -> bool:
        return False

    def wait(self, _seconds: float) -> bool:
        return False


def content(version: int) -> bytes:
    values = np.full(2000, version, np.float32)
    return ge_dump([values], [values])


def write_versions(folder: Path, count: int, chance: random.Random) -> dict[Path, int]:
    """Replace files by rename, or write them in place in two pieces; return the last version of each."""
    last: dict[Path, int] = {}
    for version in range(1, count + 1):
        number = max(version // 2 - chance.randrange(_RECENT_FILES), 0)  # each file has about two versions
        path = folder / f"Add.Add_{number}.1.6.1706596911000001"
        data = content(version)
        if chance.random() < 0.75:
            new = folder / ".new"
            new.write_bytes(data)
            os.replace(new, path)
        else:
            with path.open("wb", buffering=0) as file:
                file.write(data[:4000])
                time.sleep(0.001)
                file.write(data[4000:])
        last[path] = version
        time.sleep(chance.random() * 0.01)
    return last


def version_of(path: Path) -> int | None:
    """Return the version that a comparison would see."""
    reduced = f"{path}_min_max.npz"
    if path.exists():
        data = path.read_bytes()
        version = int(np.frombuffer(data[-4:], np.float32)[0])
        return version if data == content(version) else None
    return int(read_reduced(reduced)[Slot.OUTPUT][0].minimum or 0) if os.path.exists(reduced) else None


def reduce(root: Path, *, watch: bool = False) -> None:
    options = ReduceOptions(str(root), ("crc32",), watch=watch, settle_s=0, interval_s=0, load=1)
    for _ in reduce_tree(options, Never(), lambda _reached, _total: None):  # type: ignore[arg-type]
        pass


def main(root: Path, count: int, seed: int) -> None:
    """Write in one process; start, kill and recover in this one."""
    folder = root / "0"
    folder.mkdir(parents=True)
    (root / "dynamo_original_graph_1_rank_0_pid_1_ts_2.txt").touch()
    chance = random.Random(seed)
    write_versions(folder, 5, chance)
    reduce(root)  # imports everything
    ledger = root / "ledger.json"
    writer = os.fork()
    if not writer:
        last = write_versions(folder, count, chance)
        ledger.write_text(json.dumps({str(path): version for path, version in last.items()}))
        os._exit(0)
    killed = put_back = superseded = 0
    while os.waitpid(writer, os.WNOHANG) == (0, 0):
        reducers = []
        for _ in range(2):  # two at once
            child = os.fork()
            if not child:
                reduce(root, watch=True)
            reducers.append(child)
        time.sleep(chance.random() * _MAX_LIFE_S)
        for child in reducers:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        killed += len(reducers)
        if chance.random() < 0.5:
            found = recover(str(root))
            put_back, superseded = put_back + found.files, superseded + found.superseded
    reduce(root)
    last = {Path(path): version for path, version in json.loads(ledger.read_text()).items()}
    lost = [path.name for path, version in last.items() if version_of(path) != version]
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    counts = {"replaced": count, "files": len(last), "killed": killed, "put_back": put_back, "superseded": superseded}
    json.dump(counts | {"lost": lost, "left": left}, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
