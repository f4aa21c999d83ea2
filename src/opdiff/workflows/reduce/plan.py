"""Which files of a tree can be reduced, and which of them are finished."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.errors import InputError
from opdiff.read.directory import is_debug, is_statistics, scan
from opdiff.read.filename import DumpName, FxName

if TYPE_CHECKING:
    from opdiff.read.directory import Entry

# The names of drafts, as `files.whole_file` gives them.
_DRAFT = re.compile(r"\.(\d{1,10})\.\d{1,10}\.[0-9a-f]{8}\.part")


class Stamp(NamedTuple):
    """How a file looked: whatever is written to it changes one of these."""

    inode: int
    nbytes: int
    modified_ns: int


class Candidate(NamedTuple):
    """A file that can be reduced, and how it looked."""

    path: str
    name: str
    is_fx: bool
    stamp: Stamp

    @property
    def result(self) -> str:
        """Where its reduced form goes."""
        return f"{self.path.removesuffix('.npy')}_min_max.npy" if self.is_fx else f"{self.path}_min_max.npz"


@dataclass(slots=True)
class Settled:
    """Remembers how files looked, to tell those that are finished from those that are still being written."""

    settle_s: float
    _seen: dict[str, tuple[Stamp, float]] = field(default_factory=dict)

    def is_settled(self, candidate: Candidate) -> bool:
        """Whether nothing was written to the file for long enough, and nobody has it open for writing."""
        now = time.monotonic()
        stamp, since = self._seen.get(candidate.path, (None, now))
        if stamp != candidate.stamp:
            since = now
            self._seen[candidate.path] = (candidate.stamp, now)
        # The clock of a file server may be ahead of ours; then only watching tells.
        age_s = time.time() - candidate.stamp.modified_ns / 1e9
        is_old = age_s >= self.settle_s or now - since >= self.settle_s
        return is_old and not is_open_for_writing(candidate.path)

    def forget(self, present: set[str]) -> None:
        """Drop what is not there any more."""
        self._seen = {path: seen for path, seen in self._seen.items() if path in present}


def find_candidates(root: str) -> list[Candidate]:
    """Every file below a root that can be reduced, finished or not; dumps of the graph engine and of FX.

    Raises:
        InputError: the root is not a readable directory.
    """
    if not os.path.isdir(root):
        raise InputError(root, "no such directory")
    found = []
    for entry in scan(root).entries():
        candidate = _candidate(entry)
        if candidate is not None:
            found.append(candidate)
    return found


def stamp_of(path: str) -> Stamp | None:
    """How a file looks now; `None` when it is not there, or not a file of its own."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


def is_open_for_writing(path: str) -> bool:
    """Whether a process has the file open for writing, as far as the system tells.

    A read lease is granted only on files that nobody writes to. File systems and owners for which there are no leases
    leave the question open; then the answer is no, and the settling time has to do.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False


def remove_drafts(root: str) -> int:
    """Remove what processes that are gone left half written; returns how many files that were."""
    removed = 0
    for folder, _, names in os.walk(root):
        for name in names:
            match = _DRAFT.fullmatch(name)
            if match and not _is_alive(int(match[1])):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))
                    removed += 1
    return removed


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _candidate(entry: Entry) -> Candidate | None:
    parsed = entry.parsed
    is_fx = isinstance(parsed, FxName)
    # The figures of slices cannot be joined to those of the operator, so slices stay.
    is_ge = isinstance(parsed, DumpName) and not (parsed.suffix or parsed.is_slice or is_debug(entry))
    if parsed.reduced or is_statistics(entry) or not (is_fx or is_ge) or os.path.islink(entry.path):
        return None
    stamp = stamp_of(entry.path)
    return None if stamp is None else Candidate(entry.path, entry.name, is_fx, stamp)
