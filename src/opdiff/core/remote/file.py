"""A remote file as a binary file object, whose ranges are read when they are needed."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING

from opdiff.core.remote.stores import store_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER_NBYTES = 1 << 20


class _RemoteFile(io.RawIOBase):
    def __init__(self, url: str, nbytes: int) -> None:
        self._url = url
        self._nbytes = nbytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._nbytes}[whence]
        if origin + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self._url)
        self._position = origin + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        nbytes = max(min(len(target), self._nbytes - self._position), 0)
        data = store_of(self._url).read(self._url, self._position, nbytes) if nbytes else b""
        target[: len(data)] = data
        self._position += len(data)
        return len(data)


def open_remote(url: str) -> io.BufferedReader:
    """Open a remote file for reading.

    Raises:
        OSError: it does not exist, cannot be reached, or is not a regular file.
    """
    item = store_of(url).find(url)
    if item is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    if item.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), url)
    if not item.is_file():
        raise OSError(errno.EINVAL, "not a regular file", url)
    return io.BufferedReader(_RemoteFile(url, item.nbytes), _BUFFER_NBYTES)
