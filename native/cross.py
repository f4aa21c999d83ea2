"""Builds the kernel with clang for several machines, and runs what it can: python native/cross.py FOLDER [FLAG ...]."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from build import HERE, BuildError, Toolchain, build

# Machines, and what this compiler calls the newer ones among them.
MACHINES = {"x86_64": (("-march=x86_64_v3",), ("-march=x86_64_v4",)), "aarch64": ()}
COMPILER = (sys.executable, "-m", "ziglang", "c++", "-target")
# What is linked into the self-check needs no library of the other machine.
STATIC = ("-std=c++17", "-O2", "-Wno-pass-failed", "-fopenmp-simd", "-static", "-pthread", f"-I{HERE}")


def emulator(machine: str) -> list[str] | None:
    """What runs a program of a machine: nothing on that machine itself, else QEMU where it is installed."""
    if machine == platform.machine():
        return []
    found = shutil.which(f"qemu-{machine}") or shutil.which(f"qemu-{machine}-static")
    return [found] if found else None


def check(machine: str, folder: Path) -> None:
    """Run the self-check, if that can be done here."""
    runner = emulator(machine)
    if runner is None:
        print(f"{machine}: compiled; not run, there is no qemu-{machine} here")
        return
    program = folder / f"selfcheck-{machine}"
    sources = [str(HERE / "check" / "selfcheck.cpp"), *map(str, sorted(HERE.glob("*.cpp")))]
    # The loops for newer machines are left out: one kernel in one program.
    target = (*COMPILER, f"{machine}-linux-musl")
    subprocess.run([*target, *STATIC, "-DOPDIFF_BASELINE_ONLY", *sources, "-o", str(program)], check=True)
    subprocess.run([*runner, str(program)], check=True)


def main(folder: Path, flags: tuple[str, ...]) -> None:
    """Build for every machine."""
    for machine, newer in MACHINES.items():
        target = (*COMPILER, f"{machine}-linux-gnu.2.17")
        build(folder / f"kernel-{machine}.so", Toolchain(target, machine, flags, newer))
        check(machine, folder)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), tuple(sys.argv[2:]))
    except (BuildError, subprocess.CalledProcessError) as problem:
        sys.exit(str(problem))
