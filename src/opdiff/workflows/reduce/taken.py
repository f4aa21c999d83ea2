"""Taking: a file is moved to a private folder before it is looked at, and put back unless it was reduced.

    NAME ──take──► .opdiff-taken/NAME ──► removed, once its reduced form is on disk
                          └──put_back──► NAME, unless a newer file has this name

No process can open a taken file by its name: one that writes to it must have opened it before, and one that writes NAME
makes another file, which is never touched. A taken file of a killed process is put back by the next run.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from zlib import crc32

from msgspec import Struct, field

from opdiff.core.atomic_file import is_alive
from opdiff.core.errors import InputError
from opdiff.core.reasons import because, quoted
from opdiff.read.directory import TAKEN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.reasons import Reason

# Names of drafts, as made by `atomic_file.open_atomic`.
_DRAFT = re.compile(r"\.(\d{1,10})\.\d{1,10}\.[0-9a-f]{8}\.part")
_LOCK = re.compile(r"\.[0-9a-f]{8}\.lock")
# Errors of file systems without locks.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}


class Recovered(Struct):
    """Taken files of killed processes: put back, superseded by a newer file and removed, and not put back."""

    files: int = 0
    superseded: int = 0
    problems: dict[str, Reason] = field(default_factory=dict)

    @property
    def is_any(self) -> bool:
        """Whether there were any."""
        return bool(self.files or self.superseded or self.problems)


@contextmanager
def locked(path: str) -> Iterator[str | None]:
    """Exclude other processes from reducing a file; yield the path to which it is taken.

    Yields `None` if another process reduces the file. Where the file system has no locks, none is excluded.
    """
    folder, name = os.path.split(path)
    place = os.path.join(folder, TAKEN_FOLDER)
    with _lock(place, f".{crc32(os.fsencode(name)):08x}.lock") as is_held:
        yield os.path.join(place, name) if is_held else None


@contextmanager
def _lock(place: str, name: str) -> Iterator[bool]:
    """Hold a lock file in a folder, which is made for it and removed when it is empty."""
    path = os.path.join(place, name)
    descriptor = _hold(place, path)
    if descriptor is None:
        yield False
        return
    try:
        yield True
    finally:
        # Removed while it is locked: a process that has opened it already sees that it has lost its name.
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.close(descriptor)
        with suppress(OSError):  # other processes use the folder
            os.rmdir(place)


def _hold(place: str, path: str) -> int | None:
    """Return a locked descriptor of the lock file; `None` if another process holds the lock."""
    while True:
        _make_place(place)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:  # the folder was removed by the process that used it last
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return descriptor
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                return descriptor
        os.close(descriptor)


def _make_place(place: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(place)
    # The folder of a stranger may have a link here, whose target is none of our business.
    if os.path.islink(place):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place)


def take(path: str, taken: str) -> None:
    """Move a file to its private name.

    Raises:
        OSError: it cannot be moved, or could not be put back.
    """
    # Some users may rename a file but not link it, and some file systems have no links: tried before it is moved.
    os.link(path, taken, follow_symlinks=False)
    os.unlink(taken)
    os.rename(path, taken)


def put_back(taken: str, path: str) -> bool:
    """Give a taken file its name back; return whether it has it.

    A newer file of this name stays and supersedes the taken one, which is removed, as if the newer one had been
    renamed over it.

    Raises:
        OSError: it cannot have it, since a folder or a link has this name, for example; it stays where it is.
    """
    while True:
        try:
            os.link(taken, path, follow_symlinks=False)
            is_back = True
        except FileExistsError:
            try:
                newer = os.lstat(path)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(newer.st_mode):
                raise
            # Both are one file if a process was killed after linking.
            is_back = os.path.samestat(os.lstat(taken), newer)
        os.unlink(taken)
        return is_back


def recover(root: str) -> Recovered:
    """Put back the files that killed processes have taken, and remove their drafts.

    Raises:
        InputError: the root is not a directory.
    """
    if not os.path.isdir(root):
        raise InputError(root, because("core.no_such_directory"))
    found = Recovered()
    # Dump files are not looked for: the only one of a folder may be the taken one.
    for folder, below, names in os.walk(root):
        for name in names:
            match = _DRAFT.fullmatch(name)
            if match and not is_alive(int(match[1])):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))
        if TAKEN_FOLDER in below:
            below.remove(TAKEN_FOLDER)
            _recover_folder(folder, found)
    return found


def _recover_folder(folder: str, found: Recovered) -> None:
    place = os.path.join(folder, TAKEN_FOLDER)
    try:
        _make_place(place)
        names = sorted(os.listdir(place))
    except OSError as error:
        found.problems[place] = quoted(error.strerror or str(error))
        return
    for name in names:
        try:
            if _LOCK.fullmatch(name):  # of a process that was killed without a taken file
                with _lock(place, name):
                    pass
            else:
                _recover_file(os.path.join(folder, name), found)
        except FileNotFoundError:  # reduced, or put back by another process
            pass
        except OSError as error:
            found.problems[os.path.join(place, name)] = quoted(error.strerror or str(error))
    with suppress(OSError):
        os.rmdir(place)


def _recover_file(path: str, found: Recovered) -> None:
    with locked(path) as taken:
        if taken is None:  # being reduced
            return
        if stat.S_ISREG(os.lstat(taken).st_mode):
            is_back = put_back(taken, path)
            found.files += is_back
            found.superseded += not is_back
        else:
            found.problems[taken] = because("core.not_regular_file")
