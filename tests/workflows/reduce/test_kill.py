"""Killing `opdiff reduce` at any moment, next to a writer: every tensor is complete, or reduced correctly."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from command_line import COMMAND
from opdiff.core.tensor import Slot
from opdiff.read.directory import TAKEN_FOLDER
from opdiff.read.reduced import read_reduced
from opdiff.sample.graph_mode import ge_dump

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "dynamo_original_graph_1_rank_0_pid_1_ts_2.txt"
ROUNDS = 10
BUDGET_S = 9.0
FILES = 400
# Writes slowly, in pieces, as a runtime does; the data of every file has its number.
WRITER = """
import sys, time, numpy as np
from opdiff.sample.graph_mode import ge_dump
for number in range(int(sys.argv[2])):
    content = ge_dump([np.full(20_000, number, np.float32)], [np.full(10, number, np.float32)])
    with open(f"{sys.argv[1]}/Add.Add_{number}.1.6.{1706596911000001 + number}", "wb", buffering=0) as file:
        for start in range(0, len(content), 30_000):
            file.write(content[start:start + 30_000])
            time.sleep(0.002)
"""


def test_no_data_is_lost_when_killed(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / TEXT).touch()
    watch = [*COMMAND, "reduce", str(folder), "--watch", "--settle", "0.01", "--interval", "0", "--load", "100"]
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(FILES)])
    end = time.monotonic() + BUDGET_S
    rounds = 0
    chance = random.Random(1)
    while rounds < ROUNDS and time.monotonic() < end:
        reducer = subprocess.Popen(watch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.35 + chance.random() * 0.3)
        reducer.kill()
        reducer.wait()
        rounds += 1
    written = len(list(folder.glob("Add.*")))
    writer.kill()
    writer.wait()
    assert rounds >= 3
    assert written > 50
    subprocess.run([*COMMAND, "reduce", str(folder), "--recover"], check=True, timeout=60)
    assert not (folder / TAKEN_FOLDER).exists()
    assert_nothing_lost(folder)
    done = subprocess.run(
        [*COMMAND, "reduce", str(folder), "--settle", "0"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "reduced: " in done.stdout
    assert not [name for name in os.listdir(folder) if name.startswith(".")]
    complete, reduced = assert_nothing_lost(folder)
    # The writer may have been killed within a file.
    assert len(complete) <= 1
    assert reduced == set(range(len(complete) + len(reduced))) - complete


def assert_nothing_lost(folder: Path) -> tuple[set[int], set[int]]:
    """Check that every started file exists, complete or reduced, with its number; return both kinds."""
    names = [path.name for path in folder.glob("Add.*")]
    complete = {_number(name) for name in names if not name.endswith(".npz")}
    reduced = {_number(name) for name in names if name.endswith(".npz")}
    assert complete | reduced == set(range(max(complete | reduced) + 1))
    for name in names:
        number = _number(name)
        if name.endswith(".npz"):
            stats = read_reduced(str(folder / name))
            (found,), (output,) = stats[Slot.INPUT], stats[Slot.OUTPUT]
            assert (found.minimum, found.maximum, found.shape) == (number, number, (20_000,))
            assert output.maximum == number
        elif number != max(complete | reduced):
            arrays = [np.full(20_000, number, np.float32)], [np.full(10, number, np.float32)]
            assert (folder / name).read_bytes() == ge_dump(*arrays)
    return complete, reduced


def _number(name: str) -> int:
    return int(name.split(".")[1].removeprefix("Add_"))
