"""Rows of long comparisons: in memory up to a number, beyond it in a temporary file, of which parts are read.

    RowStore.add ──► blocks of rows in an unlinked file ──► StoredRows: a sequence that decodes one block at a time
                                                                │ part
                                                                ▼
                                           StoredPart: some rows, small and picklable, loaded by any process

Reports go over the rows in their order, so that a block is decoded once. Verdicts of stored rows are in the same file.
Processes that measure or judge append their blocks to the file themselves.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.comparison import DataMode, Row
from opdiff.core.dump import Unit  # noqa: TC001  msgspec reads it
from opdiff.core.rows_file import Extent, RowsFile, append_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

_T = TypeVar("_T")
_V = TypeVar("_V")

MAX_ROWS_IN_MEMORY = 50_000
"""Number of rows up to which all of them are in memory; one takes about 5 KB there."""

_ROWS_PER_BLOCK = 2_000
# Blocks that are decoded at the same time: a report that goes over rows and their neighbours needs two.
_MAX_DECODED_BLOCKS = 2


class Run(Struct, frozen=True):
    """Number of consecutive rows of one unit that were compared by the same data."""

    unit: Unit | None
    data_mode: DataMode
    count: int


class Block(Struct, frozen=True):
    """Some values.

    Attributes:
        content: the encoded values, where they are stored, or the values themselves if they have integers or names that
            cannot be encoded.
        count: number of values.
        runs: runs of rows.
        custom: names of the custom metrics of rows.
        codes: a byte for each value, such as `verdict_code`; empty for none.
    """

    content: bytes | Extent | tuple[Any, ...]
    count: int
    runs: tuple[Run, ...] = ()
    custom: tuple[str, ...] = ()
    codes: bytes = b""


class EncodedRows(Struct, frozen=True):
    """Rows in blocks; `first` is added to the number of each row in its table, `file` has blocks that are stored."""

    blocks: tuple[Block, ...]
    first: Mapping[DataMode, int] = {}
    file: RowsFile | None = None


def encode_blocks(values: Sequence[Any], code: Callable[[Any], int] | None = None) -> Iterator[Block]:
    """Yield the blocks of some values; `code` returns the code of a value."""
    encode = msgspec.msgpack.Encoder().encode
    for start in range(0, len(values), _ROWS_PER_BLOCK):
        for some, content in _encoded(values[start : start + _ROWS_PER_BLOCK], encode):
            yield Block(content, len(some), codes=bytes(map(code, some)) if code else b"")


def _encoded(
    values: Sequence[Any], encode: Callable[[Sequence[Any]], bytes]
) -> Iterator[tuple[Sequence[Any], bytes | tuple[Any, ...]]]:
    """Yield some values at a time with their encoding; those that cannot be encoded, such as large integers, alone."""
    try:
        yield values, encode(values)
    except (OverflowError, UnicodeEncodeError):
        if len(values) == 1:
            yield values, tuple(values)
            return
        middle = len(values) // 2
        yield from _encoded(values[:middle], encode)
        yield from _encoded(values[middle:], encode)


def store_blocks(blocks: Iterable[Block], path: str) -> tuple[Block, ...]:
    """Append blocks to a `RowsFile` of another process; a block that cannot be stored is returned as it is."""
    blocks = tuple(blocks)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except OSError:
        return blocks
    try:
        return tuple([_stored(block, descriptor) for block in blocks])
    finally:
        os.close(descriptor)


def _stored(block: Block, descriptor: int) -> Block:
    if not isinstance(block.content, bytes):
        return block
    try:
        return replace(block, content=append_bytes(descriptor, block.content))
    except OSError:
        return block


def encode_rows(rows: Sequence[Row]) -> Iterator[Block]:
    """Yield the blocks of some rows, with their runs and custom metrics."""
    start = 0
    for block in encode_blocks(rows):
        some = rows[start : start + block.count]
        yield replace(block, runs=tuple(_runs(some)), custom=custom_names(some))
        start += block.count


def _runs(rows: Iterable[Row]) -> Iterator[Run]:
    for (unit, data_mode), some in groupby(rows, key=attrgetter("unit", "data_mode")):
        yield Run(unit, data_mode, sum(1 for _ in some))


def runs_of(rows: Sequence[Row]) -> Iterator[tuple[Run, range]]:
    """Yield the runs of all rows with the numbers of their rows; stored rows are not decoded for it."""
    start = 0
    for run in rows.runs if isinstance(rows, StoredRows) else _runs(rows):
        yield run, range(start, start + run.count)
        start += run.count


def custom_names(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the names of the custom metrics of all rows; stored rows are not decoded for it."""
    if isinstance(rows, StoredRows):
        return tuple(rows.custom)
    return tuple(dict.fromkeys(name for row in rows for name, _, _ in row.custom))


class RowStore:
    """Rows of a comparison that is being made; `finish` returns them.

    `folder` is where the temporary file is created, which has no name and disappears with the process; empty for the
    folder for temporary files.
    """

    def __init__(self, folder: str = "") -> None:
        self._folder = folder
        self._rows: list[Row] = []
        self._stored: StoredRows | None = None

    def add(self, rows: Iterable[Row] | EncodedRows) -> None:
        """Append rows; those that are encoded go to the file at once."""
        if isinstance(rows, EncodedRows):
            stored = self._flush(len(self._rows), rows.file)
            stored.append(_blocks_for(stored, rows), rows.first)
            return
        self._rows += rows
        if self._stored is not None or len(self._rows) > MAX_ROWS_IN_MEMORY:
            self._flush(len(self._rows) - len(self._rows) % _ROWS_PER_BLOCK)

    def finish(self) -> Sequence[Row]:
        """Return all rows."""
        return tuple(self._rows) if self._stored is None else self._flush(len(self._rows))

    def _flush(self, count: int, file: RowsFile | None = None) -> StoredRows:
        """Move the first rows from memory to the file; to this one if there is none yet."""
        if self._stored is None:
            self._stored = StoredRows(file or RowsFile(self._folder), Row)
        self._stored.append(encode_rows(self._rows[:count]))
        del self._rows[:count]
        return self._stored


def _blocks_for(stored: StoredRows, rows: EncodedRows) -> Iterator[Block]:
    """Yield blocks for the file of some rows; the data of those that are stored in another file is read."""
    for block in rows.blocks:
        if not isinstance(block.content, Extent) or rows.file is None or stored.file is rows.file:
            yield block
        else:
            yield replace(block, content=bytes(block.content.read(rows.file.descriptor)))


class _StoredBlock(Struct, frozen=True):
    """A block in a file, or its values if they cannot be encoded; `first` is that of `EncodedRows`."""

    content: Extent | tuple[Any, ...]
    first: Mapping[DataMode, int]

    def read(self, descriptor: int, kind: type[_T]) -> tuple[_T, ...]:
        """Return the values."""
        if isinstance(self.content, tuple):
            return _numbered(self.content, self.first)
        values = msgspec.msgpack.decode(self.content.read(descriptor), type=tuple[kind, ...])  # type: ignore[valid-type]  # a type at run time
        return _numbered(values, self.first)


def _numbered(values: tuple[Any, ...], first: Mapping[DataMode, int]) -> tuple[Any, ...]:
    if not any(first.values()):
        return values
    return tuple(
        replace(row, label=replace(row.label, index=row.label.index + first.get(row.data_mode, 0))) for row in values
    )


class StoredPart(Struct, Generic[_T], frozen=True):
    """Some consecutive stored values, which any process of the same user loads; small and picklable."""

    path: str
    kind: type[_T]
    blocks: tuple[_StoredBlock, ...]
    skipped: int
    count: int

    def load(self) -> tuple[_T, ...]:
        """Return the values."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            values = chain.from_iterable(block.read(descriptor, self.kind) for block in self.blocks)
            return tuple(islice(values, self.skipped, self.skipped + self.count))
        finally:
            os.close(descriptor)


class StoredValues(Sequence[_T]):
    """Values in `file`. Pickled as a tuple."""

    def __init__(self, file: RowsFile, kind: type[_T]) -> None:
        self.file = file
        self._kind = kind
        self._blocks: list[_StoredBlock] = []
        self._starts = [0]
        self._decoded: dict[int, tuple[_T, ...]] = {}
        self._codes = bytearray()

    @property
    def codes(self) -> bytes:
        """The code of each value, see `Block`; empty if not all have one."""
        return bytes(self._codes) if len(self._codes) == len(self) else b""

    @property
    def path(self) -> str:
        """The file to which other processes append blocks, by `store_blocks`."""
        return self.file.path

    def append(self, blocks: Iterable[Block], first: Mapping[DataMode, int] | None = None) -> None:
        """Append encoded values, which may be stored in the file already; `first` is that of `EncodedRows`."""
        for block in blocks:
            content = self.file.append(block.content) if isinstance(block.content, bytes) else block.content
            self._blocks.append(_StoredBlock(content, first or {}))
            self._starts.append(self._starts[-1] + block.count)
            self._codes += block.codes

    def beside(self, kind: type[_V]) -> StoredValues[_V]:
        """Return an empty sequence of other values in the same file."""
        return StoredValues(self.file, kind)

    def part(self, start: int, stop: int) -> StoredPart[_T]:
        """Return some consecutive values to be loaded elsewhere."""
        first, last = self._block_of(start), self._block_of(max(start, stop - 1))
        blocks = tuple(self._blocks[first : last + 1])
        return StoredPart(self.file.path, self._kind, blocks, start - self._starts[first], stop - start)

    def _block_of(self, number: int) -> int:
        return bisect_right(self._starts, number) - 1

    def _block(self, number: int) -> tuple[_T, ...]:
        if number not in self._decoded:
            while len(self._decoded) >= _MAX_DECODED_BLOCKS:
                del self._decoded[next(iter(self._decoded))]
            self._decoded[number] = self._blocks[number].read(self.file.descriptor, self._kind)
        return self._decoded[number]

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[_T]:
        for number in range(len(self._blocks)):
            yield from self._block(number)

    @overload
    def __getitem__(self, index: int) -> _T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[_T]: ...

    def __getitem__(self, index: int | slice) -> _T | Sequence[_T]:
        if not isinstance(index, slice):
            return self._one(range(len(self))[index])
        numbers = range(len(self))[index]
        if numbers.step != 1 or not numbers:
            return tuple(map(self._one, numbers))
        first, last = self._block_of(numbers[0]), self._block_of(numbers[-1])
        values = chain.from_iterable(map(self._block, range(first, last + 1)))
        return tuple(islice(values, numbers.start - self._starts[first], numbers.stop - self._starts[first]))

    def _one(self, number: int) -> _T:
        block = self._block_of(number)
        return self._block(block)[number - self._starts[block]]

    def __reduce__(self) -> tuple[type[tuple[_T, ...]], tuple[tuple[_T, ...]]]:
        return tuple, (tuple(self),)


class StoredRows(StoredValues[Row]):
    """Rows in a file; `runs` says to which units they belong, `custom` has the names of their custom metrics."""

    def __init__(self, file: RowsFile, kind: type[Row]) -> None:
        super().__init__(file, kind)
        self.runs: list[Run] = []
        self.custom: dict[str, None] = {}

    def append(self, blocks: Iterable[Block], first: Mapping[DataMode, int] | None = None) -> None:
        """Append encoded rows, one block at a time; `first` is that of `EncodedRows`."""
        for block in blocks:
            super().append([block], first)
            self.runs += block.runs
            self.custom |= dict.fromkeys(block.custom)


MapJobs = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Calls a function for each job, in this process or in others; results are in the order of the jobs."""

Part = StoredPart[_T] | tuple[_T, ...]
"""Some consecutive values for another process: where they are stored, or the values themselves."""


def part_of(values: Sequence[_T], numbers: range) -> Part[_T]:
    """Return consecutive values for another process."""
    if isinstance(values, StoredValues):
        return values.part(numbers.start, numbers.stop)
    return tuple(values[numbers.start : numbers.stop])


def load_part(part: Part[_T]) -> tuple[_T, ...]:
    """Return the values of a part."""
    return part if isinstance(part, tuple) else part.load()
