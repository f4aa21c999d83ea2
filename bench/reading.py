"""Lower bound of any comparison: reading all files once, in chunks that stay in the cache."""

from __future__ import annotations

import errno
import mmap
import os
import time
from threading import Thread
from typing import NamedTuple

_CHUNK = 1 << 18
# Bytes of a file that a thread takes at a time.
_PIECE = 1 << 25


class Files(NamedTuple):
    """Files and their sizes."""

    paths: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, *folders: str) -> Files:
        """Return all files of the folders."""
        found = sorted((entry.path, entry.stat().st_size) for folder in folders for entry in os.scandir(folder))
        return cls(tuple(path for path, _ in found), tuple(size for _, size in found))

    @property
    def nbytes(self) -> int:
        """Total size."""
        return sum(self.sizes)


def read(files: Files, threads: int) -> float:
    """Read all files once and return the seconds."""
    pieces = [
        (path, start, min(size - start, _PIECE))
        for path, size in zip(files.paths, files.sizes, strict=True)
        for start in range(0, max(size, 1), _PIECE)
    ]
    workers = [Thread(target=_read_pieces, args=(pieces,)) for _ in range(threads - 1)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    _read_pieces(pieces)
    for worker in workers:
        worker.join()
    return time.perf_counter() - started


def _read_pieces(pieces: list[tuple[str, int, int]]) -> None:
    # Page-aligned: copies to other addresses are several times slower on some processors.
    with mmap.mmap(-1, _CHUNK) as chunk, memoryview(chunk) as room:
        while pieces:
            try:
                path, start, nbytes = pieces.pop()
            except IndexError:
                return
            file = os.open(path, os.O_RDONLY)
            end = start + nbytes
            while start < end:
                start += os.preadv(file, [room], start) or nbytes
            os.close(file)


def drop(files: Files) -> bool:
    """Drop the files from the page cache and return whether that worked."""
    for path in files.paths:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    return all(map(_is_cold, files.paths[:: max(len(files.paths) // 16, 1)]))


def _is_cold(path: str) -> bool:
    """Return whether a non-blocking read fails."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(file)
    return False
