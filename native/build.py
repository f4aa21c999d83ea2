"""Builds the native code with whatever C++ compiler is at hand: python native/build.py OUTPUT [FLAG ...].

An OUTPUT that ends in `.abi3.so` is the module for Python, any other one the measuring kernel.
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
    # Loops say by a pragma what may be added up in any order; NaNs are looked for, and no arithmetic traps.
    "-fopenmp-simd",
    "-fno-math-errno",
    "-fno-trapping-math",
)
LINK = ("-shared", "-static-libstdc++", "-static-libgcc", "-pthread")
# The end of the name of a module that fits every Python from a version on.
MODULE = ".abi3.so"
# The loops are compiled once for every machine of a kind, and again for the newer ones among them.
NEWER = {"x86_64": (("-march=x86-64-v3",), ("-march=x86-64-v4", "-mprefer-vector-width=512"))}

Sources = list[tuple[Path, tuple[str, ...]]]


class BuildError(Exception):
    """There is no compiler, or it failed; says why."""


class Toolchain(NamedTuple):
    """A compiler, for which machine it compiles, further flags, and those for newer machines of that kind."""

    compiler: tuple[str, ...]
    machine: str
    flags: tuple[str, ...] = ()
    newer: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def here(cls, flags: tuple[str, ...] = ()) -> Toolchain:
        """The compiler of this machine: `CXX`, else the first that is found.

        Raises:
            BuildError: there is none.
        """
        wanted = os.environ.get("CXX", "").split()
        found = wanted or [name for name in ("c++", "g++", "clang++") if shutil.which(name)][:1]
        if not found:
            raise BuildError("no C++ compiler was found; CXX may name one")
        return cls(tuple(found), platform.machine(), flags, NEWER.get(platform.machine(), ()))


def build(output: Path, tools: Toolchain) -> None:
    """Build the kernel, or the module for Python.

    Raises:
        BuildError: the compiler failed, or Python's headers are missing.
    """
    if output.name.endswith(MODULE):
        _build(_module_sources(), output, tools)
        return
    sources: Sources = [(path, ()) for path in sorted(HERE.glob("*.cpp"))]
    _build(sources + [(HERE / "kernel.cpp", flags) for flags in tools.newer], output, tools)


def _module_sources() -> Sources:
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").is_file():
        raise BuildError(f"Python's headers are not in {headers}; some systems have them in a package of their own")
    return [(path, ("-isystem", str(headers))) for path in sorted((HERE / "python").glob("*.cpp"))]


def _build(sources: Sources, output: Path, tools: Toolchain) -> None:
    """Compile all sources and link them to `output`, which appears whole or not at all."""
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
