"""The library that makes system calls fail: compiled, preloaded, and armed in the process of a command."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from enum import IntEnum
from pathlib import Path

_SOURCE = Path(__file__).with_name("faults.c")
_FLAGS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")


class Kind(IntEnum):
    """Kinds of calls, numbered as in faults.c."""

    OPEN = 1
    READ = 2
    WRITE = 3
    SYNC = 4
    RENAME = 5
    UNLINK = 6
    MMAP = 7
    ALLOC = 8
    SEMAPHORE = 9


def compile_library(folder: Path) -> Path:
    """Compile the library with the C compiler of this machine."""
    library = folder / "faults.so"
    command = [os.environ.get("CC", "cc"), *_FLAGS, "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


def preload(library: Path, *command: str) -> int:
    """Run a Python program with the library, and return its exit code."""
    return subprocess.run(
        [sys.executable, *command], env=os.environ | {"LD_PRELOAD": str(library)}, check=False
    ).returncode


class Fault:
    """One fault of one process: the n-th call of a kind, or each call from the n-th on.

    Calls on files count below `root` only, so that faults hit data and results, and not the modules of Python.
    """

    def __init__(self, kind: Kind, number: int, root: Path, *, lasting: bool = False) -> None:
        self.kind, self.number, self.lasting = kind, number, lasting
        self._root = root
        self._reading, self._report = os.pipe()

    def arm(self) -> None:
        """Arm the fault in this process."""
        library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        arguments = (int(self.kind), ctypes.c_long(self.number), int(self.lasting))
        library.arm(*arguments, os.fsencode(self._root), self._report)

    def has_struck(self) -> bool:
        """Return whether a call failed, and close the fault."""
        os.close(self._report)
        with open(self._reading, "rb") as file:
            return bool(file.read())

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} {self.number}{' and later' if self.lasting else ''}"
