"""Conversion by several processes: the same results as by one, even if a worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import COMMAND
from conversions import Convert
from dump_files import TIME, add, dump, numbered, tensor
from opdiff.core import dtypes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("options", ["", "-t npz", "-t bin -f NHWC"], ids=["npy", "npz", "converted"])
def test_two_processes_write_the_same_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    # Otherwise a single process would convert all files.
    monkeypatch.setattr("opdiff.run._MIN_PARALLEL_BYTES", 0)
    for number in range(40):
        values = tensor(np.full((2, 3 + number % 7, 2, 2), number), dtypes.FLOAT16, "NC1HWC0")
        add(tmp_path / "in" / str(number % 3), f"Add.add{number}.1.2.{TIME}", dump(values))
    add(tmp_path / "in", "bad", b"")
    add(tmp_path / "in", "n" * 250, numbered(2))
    found = []
    for jobs in ("1", "2"):
        convert = Convert(tmp_path / "in", tmp_path / jobs, capsys)
        outcome = convert(convert.source, "-j", jobs, "--json", *options.split())
        assert outcome.code == 0
        found.append((outcome.out.replace(str(convert.out), ""), convert.contents()))
    assert found[0] == found[1]


def script(folder: Path, body: str, source: str = "ND", target: str = "NCHW") -> str:
    """Write a folder with one custom conversion."""
    lines = f"import os, signal, time\n\ndef convert(shape_from, shape_to, array):\n    {body}\n    return array\n"
    add(folder / "format_convert", f"convert_{source}_to_{target}.py", lines.encode())
    return str(folder)


def test_a_killed_worker_is_a_failure_of_one_file(tmp_path: Path, convert: Convert) -> None:
    """As if the system ran out of memory; the other files are converted."""
    custom = script(tmp_path / "own", "array[0] == 13 and os.kill(os.getpid(), signal.SIGKILL)")
    for number in range(60):
        convert.add(numbered(3, start=number), f"Add.add{number}.1.2.{TIME}")
    outcome = convert(convert.source, "-c", custom, "-f", "NCHW", "-j", 2, "--strict")
    assert outcome.code == 1
    bad = f"{convert.source}/Add.add13.1.2.{TIME}"
    assert outcome.err.splitlines()[0] == f"failed: {bad}: the worker process died"
    assert outcome.out.startswith("59 of 60 files converted: 59 results ")
    assert (convert.out / "convert_failed_file_list.txt").read_text() == f"{bad}\n"


# Interrupts of slow conversions


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    custom = script(tmp_path / "own", "time.sleep(0.01)")
    for number in range(400):
        add(tmp_path / "in", f"Add.add{number}.1.2.{TIME}", numbered(1000))
    command = [*COMMAND, "convert", str(tmp_path / "in"), "-out", str(tmp_path / "out"), "-c", custom, "-f", "NCHW"]
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while len(list((tmp_path / "out").glob("*.npy"))) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("jobs", ["1", "2"], ids=["alone", "two_processes"])
def test_interrupt_leaves_complete_files(tmp_path: Path, jobs: str) -> None:
    process = start(tmp_path, "-j", jobs)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "opdiff: interrupted; all existing results are complete\n")
    names = os.listdir(tmp_path / "out")
    assert 5 <= len(names) < 400
    # The interrupt may come when a file exists and is not counted yet.
    assert int(out.split()[0]) in (len(names), len(names) - 1)
    for name in names:
        assert name.endswith(".output.0.1000.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "out" / name), np.arange(1, 1001))


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)])
def test_workers_do_not_outlive_their_parent(tmp_path: Path, how: signal.Signals, code: int) -> None:
    process = start(tmp_path, "-j", "2")
    os.kill(process.pid, how)
    # The pipes close when the last process has ended.
    process.communicate(timeout=10)
    assert process.returncode == code
    assert len(os.listdir(tmp_path / "out")) < 400
