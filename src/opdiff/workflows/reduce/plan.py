"""Files of a tree that can be reduced and are finished."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from typing import TYPE_CHECKING

from msgspec import Struct, field

from opdiff.read.directory import is_debug, is_statistics, scan
from opdiff.read.filename import DumpName, FxName
from opdiff.workflows.compare.options import is_graph_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.read.directory import Entry


class Stamp(Struct, frozen=True):
    """State of a file; any write to the file changes one of the fields."""

    inode: int
    nbytes: int
    modified_ns: int


class ReducibleFile(Struct, frozen=True):
    """A file that can be reduced, and its state."""

    path: str
    name: str
    is_fx: bool
    stamp: Stamp

    @property
    def result(self) -> str:
        """Path of its reduced form."""
        return f"{self.path.removesuffix('.npy')}_min_max.npy" if self.is_fx else f"{self.path}_min_max.npz"


class SettleTracker(Struct):
    """History of file states, to distinguish finished files from files that are still being written."""

    settle_s: float
    _seen: dict[str, tuple[Stamp, float]] = field(default_factory=dict)

    def is_settled(self, file: ReducibleFile) -> bool:
        """Return whether the file was not written to for long enough, and is not open for writing."""
        now = time.monotonic()
        stamp, since = self._seen.get(file.path, (None, now))
        if stamp != file.stamp:
            since = now
            self._seen[file.path] = (file.stamp, now)
        # The clock of a file server may be ahead; then only observation helps.
        age_s = time.time() - file.stamp.modified_ns / 1e9
        is_old = age_s >= self.settle_s or now - since >= self.settle_s
        return is_old and not is_open_for_writing(file.path)

    def forget(self, present: set[str]) -> None:
        """Drop the history of files that no longer exist."""
        self._seen = {path: seen for path, seen in self._seen.items() if path in present}


class FoundFiles(Struct, frozen=True):
    """Files of a tree that are not reduced yet.

    Attributes:
        waiting: all files.
        ready: finished files.
        tracker: the history of their states.
        offline: folders of offline dumps, which are not reduced.
    """

    waiting: tuple[ReducibleFile, ...]
    ready: tuple[ReducibleFile, ...]
    tracker: SettleTracker
    offline: tuple[str, ...]


def find_ready(root: str, tracker: SettleTracker, done: Mapping[str, Stamp]) -> FoundFiles:
    """Find the files that can be reduced; files in `done` are left out until they change.

    Raises:
        InputError: the root is not a readable directory.
    """
    found, offline = find_reducible(root)
    tracker.forget({file.path for file in found})
    waiting = tuple(file for file in found if done.get(file.path) != file.stamp)
    return FoundFiles(waiting, tuple(file for file in waiting if tracker.is_settled(file)), tracker, tuple(offline))


def find_reducible(root: str) -> tuple[list[ReducibleFile], list[str]]:
    """Return the files below a root that can be reduced, finished or not, and the folders of offline dumps.

    GE files are named like offline dumps, which nothing can compare once they are reduced. As `compare` does, they are
    told apart by graph texts, which must be in the same folder or in one above it, up to the root.

    Raises:
        InputError: the root is not a readable directory.
    """
    tree = scan(root)
    graph_dumps = tuple({os.path.join(os.path.dirname(path), "") for path in tree.graphs if is_graph_text(path)})
    found: list[ReducibleFile] = []
    offline: list[str] = []
    for folder in tree.folders:
        files = [file for entry in folder.entries if (file := _find_reducible(entry)) is not None]
        if not os.path.join(folder.path, "").startswith(graph_dumps):
            if not all(file.is_fx for file in files):
                offline.append(folder.path)
            files = [file for file in files if file.is_fx]
        found += files
    return found, offline


def stamp_of(path: str) -> Stamp | None:
    """Return the state of a file, or `None` if it does not exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


def is_open_for_writing(path: str) -> bool:
    """Return whether a process has the file open for writing, as far as the system knows.

    A read lease is granted only on files without writers. Where the file system or the owner permits no leases, the
    answer is no, and only the settling time protects the file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        # The system sends a signal when a process opens the file meanwhile; the default signal would end this process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False


def _find_reducible(entry: Entry) -> ReducibleFile | None:
    parsed = entry.parsed
    is_fx = isinstance(parsed, FxName)
    # Statistics of slices cannot be merged to statistics of the operator, so that slices are not reduced.
    is_ge = isinstance(parsed, DumpName) and not (parsed.suffix or parsed.is_slice or is_debug(entry))
    if parsed.reduced or is_statistics(entry) or not (is_fx or is_ge) or os.path.islink(entry.path):
        return None
    stamp = stamp_of(entry.path)
    return None if stamp is None else ReducibleFile(entry.path, entry.name, is_fx, stamp)
