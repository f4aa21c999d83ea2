"""Rows of long comparisons: in memory up to a number, beyond it in a temporary file, of which parts are read.

    RowStore.add ──► blocks of rows in an unlinked file ──► StoredRows: a sequence that decodes one block at a time

Reports go over the rows in their order, so that a block is decoded once for each of them.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import msgspec

from opdiff.core.atomic_file import make_folder
from opdiff.core.comparison import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_ROWS_IN_MEMORY = 50_000
"""Number of rows up to which all of them are in memory; one takes about 5 KB there."""

_ROWS_PER_BLOCK = 2_000
# Blocks that are decoded at the same time: a report that goes over rows and their neighbours needs two.
_MAX_DECODED_BLOCKS = 2


class RowStore:
    """Rows of a comparison that is being made; `finish` returns them.

    `folder` is where the temporary file is created, which has no name and disappears with the process; empty for the
    folder for temporary files.
    """

    def __init__(self, folder: str = "") -> None:
        self._folder = folder
        self._rows: list[Row] = []
        self._stored: StoredRows | None = None

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows."""
        self._rows += rows
        if self._stored is None and len(self._rows) > MAX_ROWS_IN_MEMORY:
            self._stored = StoredRows(_open_unnamed(self._folder))
        if self._stored is not None:
            whole = len(self._rows) - len(self._rows) % _ROWS_PER_BLOCK
            self._stored.append(self._rows[:whole])
            del self._rows[:whole]

    def finish(self) -> Sequence[Row]:
        """Return all rows."""
        if self._stored is None:
            return tuple(self._rows)
        self._stored.append(self._rows)
        return self._stored


class StoredRows(Sequence[Row]):
    """Rows in a file, which is closed when this object is not used any more. Pickled as a tuple."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ends = [0]
        self._count = 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(tuple[Row, ...])
        self._decoded: dict[int, tuple[Row, ...]] = {}
        # Blocks with integers or names that the encoding cannot express.
        self._kept: dict[int, tuple[Row, ...]] = {}
        weakref.finalize(self, os.close, descriptor)

    def append(self, rows: Sequence[Row]) -> None:
        """Append blocks of rows; only the last one of all may be incomplete."""
        for start in range(0, len(rows), _ROWS_PER_BLOCK):
            block = rows[start : start + _ROWS_PER_BLOCK]
            try:
                data = self._encode(block)
            except (OverflowError, UnicodeEncodeError):
                self._kept[len(self._ends) - 1] = tuple(block)
                data = b""
            self._write(data)
        self._count += len(rows)

    def _write(self, data: bytes) -> None:
        start, done = self._ends[-1], 0
        while done < len(data):
            done += os.pwrite(self._descriptor, memoryview(data)[done:], start + done)
        self._ends.append(start + done)

    def _block(self, number: int) -> tuple[Row, ...]:
        if number in self._kept:
            return self._kept[number]
        if number not in self._decoded:
            while len(self._decoded) >= _MAX_DECODED_BLOCKS:
                del self._decoded[next(iter(self._decoded))]
            self._decoded[number] = self._read(number)
        return self._decoded[number]

    def _read(self, number: int) -> tuple[Row, ...]:
        start, end = self._ends[number : number + 2]
        data = bytearray(end - start)
        done = 0
        while done < len(data):
            got = os.preadv(self._descriptor, [memoryview(data)[done:]], start + done)
            if not got:
                raise EOFError("the temporary file of rows is incomplete")
            done += got
        return self._decoder.decode(data)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        for number in range(len(self._ends) - 1):
            yield from self._block(number)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return tuple(self._one(number) for number in range(self._count)[index])
        return self._one(range(self._count)[index])

    def _one(self, number: int) -> Row:
        block, place = divmod(number, _ROWS_PER_BLOCK)
        return self._block(block)[place]

    def __reduce__(self) -> tuple[type[tuple[Row, ...]], tuple[tuple[Row, ...]]]:
        return tuple, (tuple(self),)


def _open_unnamed(folder: str) -> int:
    if folder:
        make_folder(folder)
    descriptor, path = tempfile.mkstemp(prefix=".opdiff-rows-", dir=folder or None)
    os.unlink(path)
    return descriptor
