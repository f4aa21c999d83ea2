"""The kernel on another architecture: cross-compiled, and run by an emulator."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[3] / "native"
FLAGS = ("-std=c++17", "-O2", "-fopenmp-simd", "-Wall", "-Wextra", "-Werror", "-DOPDIFF_BASELINE_ONLY")


def test_the_kernel_works_on_aarch64(tmp_path: Path) -> None:
    compiler = shutil.which("aarch64-linux-gnu-g++")
    if compiler is None:
        pytest.skip("no compiler for aarch64 here: `apt-get install g++-aarch64-linux-gnu qemu-user`")
    program = tmp_path / "selfcheck"
    sources = [NATIVE / "check" / "selfcheck.cpp", *sorted(NATIVE.glob("*.cpp"))]
    subprocess.run([compiler, *FLAGS, "-static", "-pthread", f"-I{NATIVE}", *sources, "-o", program], check=True)
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if emulator is None:
        pytest.skip("the kernel compiles for aarch64; nothing runs it here: `apt-get install qemu-user`")
    done = subprocess.run([emulator, program], check=False, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("aarch64: 0 problems\n", 0)
