"""Interrupted and killed comparisons, in separate processes: no partial file gets a final name."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from command_line import COMMAND
from dump_files import TIME
from made_dumps import Case, assert_measured, perturbed, read_result, rule
from opdiff.core import dtypes
from opdiff.sample.container import EncodedDump, EncodedTensor, iter_standard
from opdiff.sample.names import DumpName, golden_name
from waiting import wait_until
from workflows.compare.many_operators import GOLDEN, write_many, write_metric, write_slow

# A metric that kills its worker.
DEADLY = """
import os, signal
def compare(my, golden, args):
    if ".victim." in args.my_output_dump_file:
        os.kill(os.getpid(), signal.SIGKILL)
    return "1", ""
"""


def start(case: Case, *options: object) -> subprocess.Popen[bytes]:
    words = ["compare", case.target, case.golden, "-o", case.out, *options]
    return subprocess.Popen(
        [*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def interrupt(process: subprocess.Popen[bytes]) -> str:
    """Send SIGINT to the whole process group, as Ctrl-C does."""
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    return err.decode()


@pytest.mark.parametrize("workers", [1, 2], ids=["one worker", "two workers"])
def test_interrupt(case: Case, workers: int) -> None:
    mark, options = write_slow(case, 300, seconds=0.1)
    process = start(case, *options, "-j", workers)
    wait_until(mark.exists)
    message = interrupt(process)
    assert process.returncode == 130, message
    assert "opdiff: interrupted" in message
    assert "Traceback" not in message
    assert case.leftovers() == []


def write_sparse(case: Case, count: int, extent: int) -> Path:
    """Write large tensors of zeros as sparse files."""
    payload = bytes(4 * extent)
    output = EncodedTensor(dtypes.FLOAT32, (extent,), "ND", payload, origin_shape=(extent,))
    header = next(iter_standard(EncodedDump(outputs=(output,))))
    case.golden.mkdir()
    for number in range(count):
        path = case.add(case.target, str(DumpName("Op", f"op{number}", number, 3, TIME)), header)
        os.truncate(path, len(header) + len(payload))
        np.lib.format.open_memmap(case.golden / golden_name(f"op{number}", 0, TIME), "w+", np.float32, (extent,))
    return case.rules(*(rule(f"op{number}") for number in range(count)))


def test_interrupt_with_large_tensors(case: Case) -> None:
    rules = write_sparse(case, 60, 4 << 20)
    process = start(case, "-fr", rules, "-j", 2)
    # Large tensors are mapped to be measured.
    maps = Path(f"/proc/{process.pid}/maps")
    wait_until(lambda: str(case.golden) in maps.read_text())
    message = interrupt(process)
    assert process.returncode == 130, message
    assert case.leftovers() == []


def test_killed_worker_costs_only_its_row(case: Case) -> None:
    write_many(case, 3)
    case.npu("victim", GOLDEN)
    case.npy("victim", GOLDEN)
    rules = case.rules(rule("op0"), rule("victim"), rule("op1"), rule("op2"))
    process = start(case, "-fr", rules, "-c", write_metric(case, DEADLY), "-j", 2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    (path,) = case.results()
    result = read_result(path)
    assert [row["NPUDump"] for row in result.rows] == ["op0", "victim", "op1", "op2"]
    assert "the worker process died" in result.row("victim:output:0")["CompareFailReason"]
    for number in range(3):
        row = result.row(f"op{number}:output:0")
        assert_measured(row, perturbed(GOLDEN, seed=number), GOLDEN)
        assert row["Own"] == "1"


def test_killed_run_leaves_no_result(case: Case) -> None:
    mark, options = write_slow(case, 300, seconds=0.1)
    process = start(case, *options, "-j", 2)
    wait_until(mark.exists)
    process.kill()
    process.communicate(timeout=30)
    assert case.results() == []


def _few_bytes() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


def test_file_size_limit(case: Case) -> None:
    rules = write_many(case, 40)
    words = ["compare", case.target, case.golden, "-fr", rules, "-o", case.out, "-j", 1]
    done = subprocess.run(
        [*COMMAND, *map(str, words)], capture_output=True, check=False, timeout=60, preexec_fn=_few_bytes
    )
    assert done.returncode == 3, done
    assert b"File too large" in done.stderr
    assert case.leftovers() == []
