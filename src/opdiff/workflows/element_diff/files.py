"""Files of one tensor: both arrays, tables of elements, and a summary. See docs/commands/op.md."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.align.pairs import LAYOUT_BY_RANK
from opdiff.core import codes as elements
from opdiff.core.atomic_file import open_atomic
from opdiff.core.dtypes import Kind
from opdiff.core.filesystem import open_input
from opdiff.core.formatting import escape_controls, format_number
from opdiff.workflows.convert.byte_copy import npy_header
from opdiff.workflows.convert.result_names import MAX_NAME_BYTES, shorten
from opdiff.workflows.element_diff.blocks import iter_blocks, iter_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.align.element_reader import ElementReader, PairReader
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.pairing import OpLabel
    from opdiff.core.tensor import Shape, TensorKey
    from opdiff.measure.detail import Detail, Element, ElementBlock

_LONGEST_ENDING = "_relative_error_topn.csv"
_MAPPING_FILE = "simple_op_mapping.csv"
_SEPARATORS = str.maketrans("/\\\0\r\n", "_____")
# Positions of smaller rank are padded with zeros.
_MIN_POSITION_AXES = 4


class FileNames(Struct, frozen=True):
    """Names of the files of one tensor; `full_stem` is the stem if the stem is too long for a file name, else empty."""

    folder: str
    stem: str
    full_stem: str = ""

    def path(self, ending: str) -> str:
        """Return the path of the file with this ending."""
        return os.path.join(self.folder, f"{self.stem}{ending}")


def file_names(folder: str, key: TensorKey) -> FileNames:
    """Return `conv_1_output_0`, slashes replaced; or a hash if names would be too long for a file system."""
    full = f"{key.op.translate(_SEPARATORS)}_{key.slot}_{key.index}"
    if len(os.fsencode(full + _LONGEST_ENDING)) < MAX_NAME_BYTES:
        return FileNames(folder, full)
    return FileNames(folder, shorten(full.replace(".", "\x01").ljust(MAX_NAME_BYTES)), full)


class RowFormat(Struct, frozen=True):
    """Format of table rows: title and number of axes of the position, and formats of the values."""

    position: str
    axes: int
    target: str
    golden: str
    absolute: str

    @classmethod
    def of(cls, axis_labels: str, shape: Shape, target: DType, golden: DType) -> RowFormat:
        """Return the format for tensors of a shape; `axis_labels` may be empty."""
        rank = len(shape)
        if len(axis_labels) != rank:
            axis_labels = LAYOUT_BY_RANK.get(rank, "NCHW" if rank < _MIN_POSITION_AXES else "")
        position = " ".join(axis_labels or (f"axis{axis}" for axis in range(rank))) if rank else "ID"
        axes = max(rank, _MIN_POSITION_AXES) if rank else 0
        absolute = "%d" if _is_integer(target) and _is_integer(golden) else "%.9g"
        return cls(position, axes, _value_format(target), _value_format(golden), absolute)

    @property
    def header(self) -> str:
        """The documented column titles."""
        return f"Index,{self.position},NPUDump,GroundTruth,AbsoluteError,RelativeError\r\n"

    def rows(self, numbers: AnyArray, shape: Shape, columns: Sequence[Sequence[object]]) -> str:
        """Format rows: row-major numbers of the elements, then columns target, golden and both errors."""
        if shape:
            position = [index.tolist() for index in np.unravel_index(numbers, shape)]
            position += [[0] * len(numbers)] * (self.axes - len(position))
        else:
            position = [numbers.tolist()]
        cells = tuple(cell for row in zip(numbers.tolist(), *position, *columns, strict=True) for cell in row)
        at = " ".join(["%d"] * self.axes) if self.axes else "%d"
        return f"%d,{at},{self.target},{self.golden},{self.absolute},%.9g\r\n" * len(numbers) % cells


def _is_integer(dtype: DType) -> bool:
    return dtype.kind in (Kind.INTEGER, Kind.BOOL)


def _value_format(dtype: DType) -> str:
    """Return a format with enough digits to distinguish all values of a type."""
    if _is_integer(dtype):
        return "%s"
    return "%.17g" if dtype.bits >= 64 and dtype.name != "complex64" else "%.9g"


class ElementFiles(Struct, frozen=True):
    """Writer of all files of one tensor."""

    pair: PairReader
    detail: Detail
    names: FileNames
    axis_labels: str

    @property
    def row_format(self) -> RowFormat:
        """Format of the rows of all tables."""
        return RowFormat.of(self.axis_labels, self.detail.shape, self.pair.target.dtype, self.pair.golden.dtype)

    def write(self, label: OpLabel, max_rows: int) -> tuple[str, ...]:
        """Write all files and return their paths; with `max_rows` 0 there are no tables of all elements."""
        remove_old_tables(self.names)
        if self.names.full_stem:
            write_mapping(self.names)
        worst = (("absolute", self.detail.worst_absolute), ("relative", self.detail.worst_relative))
        return (
            self._write_array(".npy", self.pair.target),
            self._write_array("_golden.npy", self.pair.golden),
            *(self._write_worst(f"_{kind}_error_topn.csv", found) for kind, found in worst),
            self._write_summary(label),
            *(self._write_tables(max_rows) if max_rows else ()),
        )

    def _write_array(self, ending: str, reader: ElementReader) -> str:
        path = self.names.path(ending)
        empty = elements.decode(reader.block(0, 0), reader.dtype)
        with open_atomic(path) as file:
            file.write(npy_header(empty.dtype.str, reader.shape))
            for values in iter_values(reader):
                file.write(values.tobytes())
        return path

    def _write_worst(self, ending: str, found: tuple[Element, ...]) -> str:
        columns = [[item[field] for item in found] for field in range(2, 6)]
        numbers = np.array([item.index for item in found], np.intp)
        rows = [self.row_format.rows(numbers, self.detail.shape, columns)] if found else []
        return self._write_table(ending, rows)

    def _write_summary(self, label: OpLabel) -> str:
        """Write the documented summary: a line per fact."""
        detail = self.detail
        facts = {
            "TotalCount": str(detail.count),
            "NPUDump": escape_controls(label.target.replace(",", " ")),
            "GroundTruth": escape_controls(label.golden.replace(",", " ")),
            "Format": self.row_format.position,
            "MinAbsoluteError": format_number(detail.min_absolute),
            "MaxAbsoluteError": format_number(detail.max_absolute),
            "MinRelativeError": format_number(detail.min_relative),
            "MaxRelativeError": format_number(detail.max_relative),
        }
        path = self.names.path("_summary.txt")
        with open_atomic(path) as file:
            file.write("".join(f"{name}:{value}\n" for name, value in facts.items()).encode(errors="surrogateescape"))
        return path

    def _write_tables(self, max_rows: int) -> Iterator[str]:
        """Write all elements, in files of at most `max_rows` rows."""
        parts = len(self.detail.shape) - len(self.pair.shape) + 1
        step = max_rows // parts
        for start in range(0, self.pair.target.count, step):
            blocks = iter_blocks(self.pair, start, start + step)
            yield self._write_table(f"_{start * parts}.csv", (self._block_rows(block) for block in blocks))

    def _write_table(self, ending: str, rows: Iterable[str]) -> str:
        path = self.names.path(ending)
        with open_atomic(path) as file:
            file.write(self.row_format.header.encode())
            for text in rows:
                file.write(text.encode())
        return path

    def _block_rows(self, block: ElementBlock) -> str:
        target, golden = block.target.to_list(), block.golden.to_list()
        absolute: list[float] | list[int] = block.absolute.tolist()
        if block.target.are_integers and block.golden.are_integers:
            absolute = [abs(int(x) - int(y)) for x, y in zip(target, golden, strict=True)]
        numbers: AnyArray = np.arange(block.start, block.start + len(target))
        return self.row_format.rows(numbers, self.detail.shape, [target, golden, absolute, block.relative.tolist()])


def write_mapping(names: FileNames) -> None:
    """Add the full stem of a hash to the mapping file, once."""
    path = os.path.join(names.folder, _MAPPING_FILE)
    line = f"{escape_controls(f'{names.stem},{names.full_stem}')}\n".encode(errors="surrogateescape")
    known = b""
    with suppress(FileNotFoundError), open_input(path) as file:
        known = file.read()
    if line not in known.splitlines(keepends=True):
        with open_atomic(path) as file:
            file.write(known + line)


def remove_old_tables(names: FileNames) -> None:
    """Remove the tables of an earlier run for the same tensor; an earlier run may have written more tables."""
    table = re.compile(rf"{re.escape(names.stem)}_[0-9]+\.csv")
    for name in os.listdir(names.folder):
        if table.fullmatch(name):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(names.folder, name))
