"""Opening of input files: regular ones only, without blocking, and up to a size."""

from __future__ import annotations

import errno
import os
import stat


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


def read_input(path: str, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Raises:
        OSError: the file cannot be read, is not a regular one, or is larger.
    """
    with open(path, "rb", opener=regular_file) as file:
        nbytes = os.fstat(file.fileno()).st_size
        if nbytes > limit:
            raise OSError(errno.EFBIG, f"{nbytes} bytes are more than the limit of {limit}", path)
        return file.read(nbytes)
