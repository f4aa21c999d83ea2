"""Opening of input files: regular ones only, without blocking, and up to a size."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from opdiff.core.remote.urls import is_remote

if TYPE_CHECKING:
    from io import BufferedReader


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
