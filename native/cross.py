"""Build the kernel with clang for several machines and run its self-check: python native/cross.py FOLDER [FLAG ...]."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from build import HERE, ZIG, BuildError, Toolchain, build

MACHINES = ("x86_64", "aarch64")
# A static program needs no library of the other machine.
STATIC = ("-std=c++17", "-O2", "-Wno-pass-failed", "-fopenmp-simd", "-static", "-pthread", f"-I{HERE}")


def emulator(machine: str) -> list[str] | None:
    """Return the command that runs programs of a machine, empty for this one; `None` if QEMU is not installed."""
    if machine == platform.machine():
        return []
    found = shutil.which(f"qemu-{machine}") or shutil.which(f"qemu-{machine}-static")
    return [found] if found else None


def check(machine: str, folder: Path) -> None:
    """Run the self-check of the kernel if this machine can."""
    runner = emulator(machine)
    if runner is None:
        print(f"{machine}: compiled, not run: qemu-{machine} is not installed")
        return
    program = folder / f"selfcheck-{machine}"
    sources = [str(HERE / "check" / "selfcheck.cpp"), *map(str, sorted(HERE.glob("*.cpp")))]
    # The sources are compiled together, so there is room for one variant of the loops.
    target = (*ZIG, f"{machine}-linux-musl")
    subprocess.run([*target, *STATIC, "-DOPDIFF_BASELINE_ONLY", *sources, "-o", str(program)], check=True)
    subprocess.run([*runner, str(program)], check=True)


def main(folder: Path, flags: tuple[str, ...]) -> None:
    """Build and check the kernel for every machine."""
    for machine in MACHINES:
        build(folder / f"kernel-{machine}.so", Toolchain.manylinux(machine, flags))
        check(machine, folder)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), tuple(sys.argv[2:]))
    except (BuildError, subprocess.CalledProcessError) as problem:
        sys.exit(str(problem))
