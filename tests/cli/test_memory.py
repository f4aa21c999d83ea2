"""Memory that commands take for large files, and for files that claim to be large."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dump_files import TIME, add

if TYPE_CHECKING:
    from pathlib import Path

LIMITED = (
    "import resource, sys\n"
    "from opdiff.cli import main\n"
    "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
    "sys.exit(main(sys.argv[1:]))\n"
)


def run_limited(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command with a limit of 1 GiB of memory."""
    command = [sys.executable, "-c", LIMITED, *map(str, arguments)]
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)


def sparse(path: str, nbytes: int) -> None:
    """Extend a file sparsely."""
    with open(path, "ab") as file:
        file.truncate(nbytes)


def header_of(nbytes: int, count: int, number: int) -> bytes:
    """Return the header of a dump with one output of `nbytes` bytes and `count` elements; `number` is its type."""
    from opdiff.core import wire

    shape = wire.block(3, wire.packed(1, (count,)))
    header = wire.block(3, wire.number(1, number) + wire.number(2, 2) + shape + wire.number(6, nbytes))
    return len(header).to_bytes(8, "little") + header


GIB = 1 << 30
BFLOAT16, UINT1, FLOAT32 = 27, 29, 1
CLAIMS: dict[str, tuple[bytes, int, str, str]] = {
    "size": (header_of(1 << 50, 1 << 48, FLOAT32), 100, "npy", "bytes of data start here"),
    "shape": (header_of(100, 1 << 60, FLOAT32), 100, "npy", f"needs {1 << 60} elements of float32, but 25 are stored"),
    "bits": (header_of(100, 1 << 62, UINT1), 100, "npy", "elements of uint1, but 800 are stored"),
    "header": (GIB.to_bytes(8, "little") + bytes(99), 2 * GIB, "npy", f"a header of {GIB} bytes is not credible"),
    "too_large_to_map": (header_of(4 * GIB, GIB, FLOAT32), 4 * GIB, "npz", "cannot be read: Cannot allocate memory"),
    "too_large_to_widen": (header_of(GIB // 2, GIB // 4, BFLOAT16), GIB // 2, "npy", "not enough memory"),
    "too_large_to_unpack": (header_of(GIB // 4, 2 * GIB, UINT1), GIB // 4, "npy", "not enough memory"),
}


@pytest.mark.parametrize(("content", "nbytes", "form", "reason"), CLAIMS.values(), ids=CLAIMS)
def test_large_declared_sizes_do_not_allocate_memory(
    tmp_path: Path, content: bytes, nbytes: int, form: str, reason: str
) -> None:
    path = add(tmp_path, f"Add.a.1.2.{TIME}", content)
    sparse(path, len(content) + nbytes)
    done = run_limited("convert", path, "-out", tmp_path / "out", "-t", form)
    assert (done.returncode, done.stdout.split(":")[0]) == (3, "0 of 1 file converted")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("arguments", [["--stats"], []], ids=["stats", "header"])
def test_large_tensor_is_not_copied_for_inspection(tmp_path: Path, arguments: list[str]) -> None:
    content = header_of(GIB // 2, GIB // 8, FLOAT32)
    path = add(tmp_path, f"Add.a.1.2.{TIME}", content)
    sparse(path, len(content) + GIB // 2)
    done = run_limited("inspect", path, *arguments)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("limit", [30 << 20, 100 << 20, 150 << 20], ids=["30_MiB", "100_MiB", "150_MiB"])
def test_too_little_memory_for_numpy_is_said(tmp_path: Path, limit: int) -> None:
    """OpenBLAS would end the process with exit code 1, which stands for a violated gate."""
    add(tmp_path, f"Add.a.1.2.{TIME}")
    done = subprocess.run(
        ["/usr/bin/prlimit", f"--as={limit}", sys.executable, "-m", "opdiff", "inspect", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    size = f"{limit / (1 << 20):.1f} MiB"
    assert done.stderr == f"opdiff: a limit of {size} of memory (`ulimit -v`) is too low for numpy and opdiff\n"
    assert (done.returncode, done.stdout) == (3, "")


# Exceptions of libraries that mean a shortage, and what is said.
SHORTAGES = {
    "memory": ("raise MemoryError", "there is not enough memory"),
    "thread": ('raise RuntimeError("can\'t start new thread")', "can't start new thread"),
    "library": ("raise ImportError('failed to map segment', path='/x/a.so')", "failed to map segment"),
}


@pytest.mark.parametrize(("failure", "problem"), SHORTAGES.values(), ids=SHORTAGES)
def test_a_shortage_is_not_called_a_defect(failure: str, problem: str) -> None:
    program = f"import sys, opdiff.cli as cli\ndef fail(*_):\n    {failure}\ncli.require_memory = fail\n"
    command = [sys.executable, "-c", f"{program}sys.exit(cli.main(['inspect', '.']))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    said = f"opdiff: the system refused what the command needs: {problem} (`ulimit -a` shows the limits)\n"
    assert (done.returncode, done.stderr) == (3, said)
