"""Questions about paths, their natural order, and reading of input files up to a size.

Paths are those of this machine or URLs of remote files.

Questions are named after the functions of `os` and `os.path`. For URLs they raise an InputError if the server cannot be
asked. Input files are regular ones, opened without blocking.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import TYPE_CHECKING, Protocol, TypeVar

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.core.remote.urls import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from io import BufferedReader

    from opdiff.core.remote.listing import Item

Thing = TypeVar("Thing")

_WHOLE_NUMBER = re.compile(r"([0-9]+)")
# Items whose files are read ahead at once.
_FILES_AHEAD = 512


class DirEntry(Protocol):
    """The part of `os.DirEntry` that items of remote folders have, too."""

    @property
    def name(self) -> str:
        """Last part of the path."""

    @property
    def path(self) -> str:
        """The whole path."""

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        """Return whether it is a folder."""

    def is_file(self) -> bool:
        """Return whether it is a regular file."""

    def is_symlink(self) -> bool:
        """Return whether it is a link."""


def exists(path: str) -> bool:
    """Return whether there is a file or folder."""
    return _find(path) is not None if is_remote(path) else os.path.exists(path)


def isdir(path: str) -> bool:
    """Return whether there is a folder."""
    if not is_remote(path):
        return os.path.isdir(path)
    found = _find(path)
    return found is not None and found.is_dir()


def isfile(path: str) -> bool:
    """Return whether there is a regular file."""
    if not is_remote(path):
        return os.path.isfile(path)
    found = _find(path)
    return found is not None and found.is_file()


def islink(path: str) -> bool:
    """Return whether a path is a link."""
    if not is_remote(path):
        return os.path.islink(path)
    from opdiff.core.remote.stores import store_of

    folder, _, name = path.rpartition("/")
    item = store_of(path).items(folder).get(name)
    return item is not None and item.is_symlink()


def getsize(path: str) -> int:
    """Return the size of a file in bytes.

    Raises:
        OSError: there is no such file.
    """
    if not is_remote(path):
        return os.path.getsize(path)
    found = _find(path)
    if found is None:
        raise FileNotFoundError(path)
    return found.nbytes


def version(path: str) -> str:
    """Return a value that changes when a file does: its size, and its time or tag; empty if there is no file.

    If a server has neither, no two values are equal.
    """
    if is_remote(path):
        found = _find(path)
        return f"{found.nbytes} {found.version or os.urandom(8).hex()}" if found is not None else ""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"


def samefile(one: str, other: str) -> bool:
    """Return whether two paths are those of one folder or file."""
    if is_remote(one) or is_remote(other):
        return one.rstrip("/") == other.rstrip("/")
    return os.path.samefile(one, other)


def realpath(path: str) -> str:
    """Return a path without links."""
    if not is_remote(path):
        return os.path.realpath(path)
    from opdiff.core.remote.stores import store_of

    return store_of(path).real_path(path.rstrip("/"))


def abspath(path: str) -> str:
    """Return a path from the root; URLs as they are."""
    return path if is_remote(path) else os.path.abspath(path)


def list_folder(path: str) -> list[DirEntry]:
    """Return the items of a folder, sorted by name.

    Raises:
        OSError: it cannot be listed.
    """
    if not is_remote(path):
        with os.scandir(path) as listing:
            return sorted(listing, key=lambda item: item.name)
    from opdiff.core.remote.stores import store_of

    items = store_of(path).items(path.rstrip("/"))
    return [items[name] for name in sorted(items)]


def walk_names(path: str) -> Iterator[str]:
    """Yield the names of all files below a folder; folders that cannot be listed have none."""
    pending = [path]
    while pending:
        try:
            items = list_folder(pending.pop())
        except OSError:
            continue
        pending += [item.path for item in items if item.is_dir(follow_symlinks=False)]
        yield from (item.name for item in items if not item.is_dir(follow_symlinks=False))


def natural_key(name: str) -> list[int | str]:
    """Return a sort key by which step 9 comes before step 10."""
    # Strings and numbers alternate, so that only items of one type are compared.
    parts: list[int | str] = [*_WHOLE_NUMBER.split(name)]
    parts[1::2] = map(int, parts[1::2])
    return parts


def read_ahead(items: Sequence[Thing], paths_of: Callable[[Thing], Iterable[str]]) -> Iterator[Thing]:
    """Yield items of one store; before, the first bytes of their remote files are read in parallel."""
    if not is_remote(next((path for item in items for path in paths_of(item)), "")):
        yield from items
        return
    from opdiff.core.remote.stores import store_of

    for start in range(0, len(items), _FILES_AHEAD):
        some = items[start : start + _FILES_AHEAD]
        paths = [path for item in some for path in paths_of(item)]
        for store in {store_of(path) for path in paths}:
            store.preload(path for path in paths if store_of(path) is store)
        yield from some


def start_run(paths: Iterable[str], cache: str = "", memory: int = 0) -> None:
    """Prepare reading remote files, if there are some: forget what is known of them, because they may have changed.

    Args:
        paths: the inputs of the run.
        cache: folder of copies on this machine; empty for none.
        memory: bytes of remote data of one tensor that may be in memory; 0 for half of the machine's.
    """
    if any(map(is_remote, paths)):
        from opdiff.core.remote.stores import start_run as start

        start(cache, memory)


def _find(path: str) -> Item | None:
    from opdiff.core.remote.stores import store_of

    try:
        return store_of(path).find(path.rstrip("/"))
    except OSError as error:
        raise InputError(path, because("core.cannot_reach", error=error.strerror)) from error


# Input files


def regular_file(path: str, flags: int = os.O_RDONLY) -> int:
    """Return the descriptor of a regular file; usable as the `opener` of `open`.

    Raises:
        OSError: the file cannot be opened, or is a directory, a pipe, a socket or a device.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "not a regular file", path)


def open_input(path: str) -> BufferedReader:
    """Open a regular file of this machine, or a remote one, for reading.

    Raises:
        OSError: the file cannot be opened, or is not a regular one.
    """
    if is_remote(path):
        from opdiff.core.remote.stores import open_remote

        return open_remote(path)
    return open(path, "rb", opener=regular_file)


def size_of(file: BufferedReader) -> int:
    """Return the size of an open file in bytes; its position is then at the start."""
    nbytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    return nbytes


def read_input(path: str, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Raises:
        OSError: the file cannot be read, is not a regular one, or is larger.
    """
    with open_input(path) as file:
        nbytes = size_of(file)
        if nbytes > limit:
            raise OSError(errno.EFBIG, f"{nbytes} bytes are more than the limit of {limit}", path)
        return file.read(nbytes)
