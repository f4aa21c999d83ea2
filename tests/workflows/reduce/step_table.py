"""Disturbs a reduction before every single system call, and looks for the data afterwards.

    python step_table.py FOLDER START DISTURBANCE

prints JSON: the number of steps, and the steps after which data was lost. Steps are not listed anywhere: a profile
function sees every call of a C function that can be a system call, so that a new step is disturbed, too.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dump_files import npy_file
from opdiff.core.tensor import Slot
from opdiff.read.directory import TAKEN_FOLDER
from opdiff.read.reduced import read_reduced
from opdiff.sample.graph_mode import ge_dump
from opdiff.workflows.reduce.taken import recover
from opdiff.workflows.reduce.watch import ReduceOptions, Stop, reduce_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

# Modules whose functions, and methods of whose classes, can be system calls.
_SYSTEM_MODULES = {"posix", "fcntl", "_io", "mmap"}
# Those that stay in memory: disturbing them is disturbing the next step.
_NO_SYSTEM_CALLS = {
    "fspath", "getpid", "_path_normpath", "is_dir", "is_file", "is_symlink", "write", "tell", "seek",
    "seekable", "fileno",
}  # fmt: skip
_GE = "Add.Add_1.1.6.1706596911000001"
_FX = "add-aten.add.Tensor.OUTPUT.0.20240130064151000001.npy"
_OLD, _NEW = 1, 2


class Scene:
    """A dump with one file, in a folder of its own; the file has the old version of its data."""

    def __init__(self, root: Path, start: str) -> None:
        self.root = root
        self.path = root / "0" / (_FX if start == "fx" else _GE)
        self.keep = start == "keep"
        shutil.rmtree(root, ignore_errors=True)
        self.path.parent.mkdir(parents=True)
        (root / "dynamo_original_graph_1_rank_0_pid_1_ts_2.txt").touch()
        place = self.path
        if start == "taken":  # as a killed process leaves it
            place = self.path.parent / TAKEN_FOLDER / self.path.name
            place.parent.mkdir()
        place.write_bytes(self.content(_OLD))
        os.utime(place, (1e9, 1e9))

    def content(self, version: int) -> bytes:
        values = np.full(500, version, np.float32)
        return npy_file(values) if self.path.suffix == ".npy" else ge_dump([values], [values])

    def reduce(self) -> None:
        options = ReduceOptions(str(self.root), ("crc32",), keep=self.keep, settle_s=0, load=1)
        for _ in reduce_tree(options, Stop(), lambda _reached, _total: None):
            pass

    def version(self) -> int | None:
        """Return the version that a comparison would see; `None` if there is none, or one that is not complete."""
        if self.path.exists():
            found = self.path.read_bytes()
            return next((version for version in (_OLD, _NEW) if found == self.content(version)), None)
        is_fx = self.path.suffix == ".npy"
        reduced = f"{self.path.with_suffix('')}_min_max.npy" if is_fx else f"{self.path}_min_max.npz"
        if not os.path.exists(reduced):
            return None
        (stats,) = read_reduced(reduced)[Slot.OUTPUT]
        return int(stats.minimum or 0)


class Disturbance:
    """What another process does before a step, and the version of the data that must be there in the end."""

    def __init__(self, scene: Scene, at: int, *, gap: int = 0) -> None:
        self.scene, self.at, self.gap = scene, at, gap
        self.reached = 0
        self.where = ""
        self._writer = -1

    def run(self) -> None:
        """Reduce, with this disturbance."""
        sys.setprofile(self._look)
        try:
            self.scene.reduce()
        finally:
            sys.setprofile(None)
        if self._writer >= 0:
            self._write()

    def _look(self, _frame: FrameType, event: str, function: Any) -> None:
        if event != "c_call":
            return
        owner = getattr(function, "__self__", None)
        module = getattr(owner, "__name__", None) if type(owner).__name__ == "module" else type(owner).__module__
        if module not in _SYSTEM_MODULES or isinstance(owner, BytesIO) or function.__name__ in _NO_SYSTEM_CALLS:
            return
        self.reached += 1
        if self.reached == self.at:
            self.where = function.__qualname__
            self.act()
        elif self._writer >= 0 and self.reached == self.at + self.gap:
            self._write()

    def act(self) -> None:
        """Disturb."""
        raise NotImplementedError

    def open(self, flags: int) -> None:
        """Open the file for writing; at the next step if the kernel makes a writer wait for the holder of a lease."""
        try:
            self._writer = os.open(self.scene.path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | flags)
        except BlockingIOError:
            self.at += 1

    def _write(self) -> None:
        os.write(self._writer, self.scene.content(_NEW))
        os.close(self._writer)
        self._writer = -1


class Replaced(Disturbance):
    """A newer file is renamed over the file."""

    def act(self) -> None:
        new = self.scene.root / ".new"
        new.write_bytes(self.scene.content(_NEW))
        os.replace(new, self.scene.path)


class Rewritten(Disturbance):
    """The file is truncated and written again, at once."""

    def act(self) -> None:
        self.open(os.O_TRUNC)
        if self._writer >= 0:
            self._write()


class WrittenLate(Disturbance):
    """The file is opened for writing, and written to some steps later."""

    def act(self) -> None:
        self.open(0)


class Killed(Disturbance):
    """The process that reduces is killed."""

    def act(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


_END = 1_000_000
DISTURBANCES: dict[str, Callable[[Scene, int], Disturbance]] = {
    "replaced": Replaced,
    "rewritten": Rewritten,
    "written one step later": partial(WrittenLate, gap=1),
    "written five steps later": partial(WrittenLate, gap=5),
    "written at the end": partial(WrittenLate, gap=_END),
    "killed": Killed,
    "killed, then replaced": Killed,
}
STARTS = ("ge", "fx", "keep", "taken")


def lost_at(scene: Scene, at: int, name: str) -> str | None:
    """Disturb a step; return what was lost, empty for nothing, and `None` if the reduction has fewer steps."""
    disturbance = DISTURBANCES[name](scene, at)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        disturbance.run()
        os.write(writing, disturbance.where.encode())
        os._exit(0)
    os.close(writing)
    status = os.waitpid(child, 0)[1]
    with os.fdopen(reading) as pipe:
        where = pipe.read()
    is_killed = os.WIFSIGNALED(status)
    if not is_killed and os.WEXITSTATUS(status):
        return f"step {at}: the reduction failed"
    if not is_killed and not where:
        return None
    wanted = _OLD if is_killed else _NEW
    if name == "killed, then replaced":
        Replaced(scene, 0).act()
        wanted = _NEW
    found = []
    if is_killed:
        copy = Path(f"{scene.root}_recovered")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(scene.root, copy, copy_function=os.link)
        recover(str(copy))
        found += _findings(copy, scene, wanted, "after --recover")
    else:
        found += _findings(scene.root, scene, wanted, "at once")
    scene.reduce()
    found += _findings(scene.root, scene, wanted, "after the next run")
    return f"step {at} ({where}): {', '.join(found)}" if found else ""


def _findings(root: Path, scene: Scene, wanted: int, when: str) -> list[str]:
    looked_at = object.__new__(Scene)
    looked_at.root, looked_at.path = root, root / scene.path.relative_to(scene.root)
    version = looked_at.version()
    found = [] if version == wanted else [f"{when} version {version} instead of {wanted}"]
    hidden = [path.name for path in looked_at.path.parent.iterdir() if path.name.startswith(".")]
    return [*found, f"{when} there is {hidden}"] if hidden else found


def main(root: Path, start: str, name: str) -> None:
    """Disturb every step, each in a new folder and a new process."""
    Scene(root, start).reduce()  # imports everything
    lost: list[str] = []
    for at in itertools.count(1):
        found = lost_at(Scene(root, start), at, name)
        if found is None:
            json.dump({"steps": at - 1, "lost": lost}, sys.stdout)
            return
        lost += filter(None, [found])


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
