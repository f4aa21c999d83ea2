"""Byte ranges of remote files: neighbours are requested together, and long ones in pieces."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PIECE_NBYTES = 8 << 20
"""Size of one request; after a failure only the pieces that are missing are requested again."""

# Bytes between two ranges that cost less than another request.
_MAX_GAP_NBYTES = 1 << 16


class ByteRange(Struct, frozen=True, order=True):
    """The bytes from `start` to `stop` of a file."""

    url: str
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.stop - self.start

    def holds(self, other: ByteRange) -> bool:
        """Return whether another range is a part of this one."""
        return self.url == other.url and self.start <= other.start and other.stop <= self.stop


def merge(ranges: Iterable[ByteRange]) -> list[ByteRange]:
    """Return ranges that hold all given ones; ranges of a file that are close together become one."""
    merged: list[ByteRange] = []
    for url, group in groupby(sorted(ranges), key=attrgetter("url")):
        first, *others = group
        start, stop = first.start, first.stop
        for other in others:
            if other.start > stop + _MAX_GAP_NBYTES:
                merged.append(ByteRange(url, start, stop))
                start, stop = other.start, other.stop
            stop = max(stop, other.stop)
        merged.append(ByteRange(url, start, stop))
    return merged


def pieces(whole: ByteRange) -> Iterator[ByteRange]:
    """Yield the requests for a range."""
    for start in range(whole.start, whole.stop, PIECE_NBYTES):
        yield ByteRange(whole.url, start, min(start + PIECE_NBYTES, whole.stop))
