"""The temporary file of the rows of a long comparison, to which several processes append."""

from __future__ import annotations

import errno
import os

from msgspec import Struct

from opdiff.core.atomic_file import make_folder

# Writing in part is rare: the disk is nearly full.
_MAX_WRITES = 3


class Extent(Struct, frozen=True):
    """Some bytes of the file of the rows."""

    offset: int
    nbytes: int

    def read(self, descriptor: int) -> bytearray:
        """Return the bytes."""
        data = bytearray(self.nbytes)
        done = 0
        while done < len(data):
            got = os.preadv(descriptor, [memoryview(data)[done:]], self.offset + done)
            if not got:
                raise EOFError("the temporary file of rows is incomplete")
            done += got
        return data


class RowsFile:
    """A file without a name, created when it is needed, and closed when this object is not used any more.

    `folder` is where it is; empty for the folder for temporary files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    @property
    def descriptor(self) -> int:
        """The descriptor of this process, for reading and appending."""
        if self._descriptor is None:
            self._descriptor = self._create()
        return self._descriptor

    @property
    def path(self) -> str:
        """A path by which other processes of the same user open the file while this process exists."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def append(self, data: bytes) -> Extent:
        """Write bytes behind all others."""
        try:
            return append_bytes(self.descriptor, data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._folder) from error

    def _create(self) -> int:
        import tempfile
        import weakref

        if self._folder:
            make_folder(self._folder)
        own, path = tempfile.mkstemp(prefix=".opdiff-rows-", dir=self._folder or None)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        finally:
            os.close(own)
            os.unlink(path)
        weakref.finalize(self, os.close, descriptor)
        return descriptor


def append_bytes(descriptor: int, data: bytes) -> Extent:
    """Write bytes behind all others in one step: other processes may append at the same time.

    `descriptor` is that of a file opened for appending. Bytes that are written in part are written again as a whole.
    """
    for _ in range(_MAX_WRITES):
        written = os.write(descriptor, data)
        if written == len(data):
            return Extent(os.lseek(descriptor, 0, os.SEEK_CUR) - written, written)
    raise OSError(errno.EIO, os.strerror(errno.EIO))
