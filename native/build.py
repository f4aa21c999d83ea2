"""Build native code with the C++ compiler of this machine: python native/build.py OUTPUT [FLAG ...].

An OUTPUT that ends in `.abi3.so` is the extension module `opdiff._native`, any other the measuring kernel.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    # Reductions are vectorized where a pragma allows reordering. NaN semantics are kept; nothing reads errno or traps.
    "-fopenmp-simd",
    "-fno-math-errno",
    "-fno-trapping-math",
)
LINK = ("-shared", "-static-libstdc++", "-static-libgcc", "-pthread")
# Suffix of an extension module that works with all later versions of Python.
MODULE_SUFFIX = ".abi3.so"
# Flags of the further variants of the measuring loops; the kernel selects one at run time.
VARIANTS = {"x86_64": (("-march=x86-64-v3",), ("-march=x86-64-v4", "-mprefer-vector-width=512"))}
# The same levels in the spelling of zig.
ZIG_VARIANTS = {"x86_64": (("-march=x86_64_v3",), ("-march=x86_64_v4",))}
ZIG = (sys.executable, "-m", "ziglang", "c++", "-target")
# Oldest glibc that a wheel runs with; also the version in its manylinux tag.
GLIBC = (2, 17)

Sources = list[tuple[Path, tuple[str, ...]]]


class BuildError(Exception):
    """No compiler was found, or it failed."""


class Toolchain(NamedTuple):
    """A compiler, the machine it compiles for, its flags, and the flags of each variant of the measuring loops."""

    compiler: tuple[str, ...]
    machine: str
    flags: tuple[str, ...] = ()
    variants: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def here(cls, flags: tuple[str, ...] = ()) -> Toolchain:
        """Return the compiler of this machine: `CXX`, else the first of c++, g++ and clang++.

        Raises:
            BuildError: none was found.
        """
        wanted = os.environ.get("CXX", "").split()
        found = wanted or [name for name in ("c++", "g++", "clang++") if shutil.which(name)][:1]
        if not found:
            raise BuildError("no C++ compiler was found; set CXX to the command of one")
        return cls(tuple(found), platform.machine(), flags, VARIANTS.get(platform.machine(), ()))

    @classmethod
    def manylinux(cls, machine: str, flags: tuple[str, ...] = ()) -> Toolchain:
        """Return the clang of the package `ziglang`, which compiles for any machine and for an old glibc.

        It links the C++ library statically; `-s` leaves out the debug information of that library.
        """
        target = f"{machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
        return cls((*ZIG, target), machine, ("-s", *flags), ZIG_VARIANTS.get(machine, ()))


def build(output: Path, tools: Toolchain) -> None:
    """Build the kernel or the extension module.

    Raises:
        BuildError: the compiler failed, or Python's headers are missing.
    """
    if output.name.endswith(MODULE_SUFFIX):
        _build(_module_sources(), output, tools)
        return
    sources: Sources = [(path, ()) for path in sorted(HERE.glob("*.cpp"))]
    _build(sources + [(HERE / "kernel.cpp", flags) for flags in tools.variants], output, tools)


def _module_sources() -> Sources:
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").is_file():
        raise BuildError(f"Python's headers are not in {headers}; install them (Debian: python3-dev)")
    return [(path, ("-isystem", str(headers))) for path in sorted((HERE / "python").glob("*.cpp"))]


def _build(sources: Sources, output: Path, tools: Toolchain) -> None:
    """Compile and link the sources. `output` is replaced only by a complete file."""
    with tempfile.TemporaryDirectory() as folder:
        objects = [str(Path(folder) / f"{number}.o") for number in range(len(sources))]

        def compile_one(number: int) -> None:
            path, extra = sources[number]
            _run([*tools.compiler, *FLAGS, *extra, *tools.flags, "-c", str(path), "-o", objects[number]])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, range(len(sources))))
        draft = output.with_name(f".{output.name}.draft")
        _run([*tools.compiler, *tools.flags, *objects, *LINK, "-o", str(draft)])
        draft.replace(output)


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except OSError as error:
        raise BuildError(f"{command[0]}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{' '.join(command)} failed:\n{error.stderr}") from error


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]), Toolchain.here(tuple(sys.argv[2:])))
    except BuildError as problem:
        sys.exit(str(problem))
