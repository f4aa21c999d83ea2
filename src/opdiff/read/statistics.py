"""Statistics dumps: CSV files with one line per tensor instead of its data. See docs/formats/statistics-dump.md."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import DumpError
from opdiff.core.filesystem import open_input
from opdiff.core.reasons import Status, because
from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from opdiff.core.tensor import Shape

_MAX_BYTES = 64 << 20
_MISSING_VALUES = frozenset({"", "NA", "-", "N/A"})
# All other columns are statistics.
_DESCRIPTION_COLUMNS = frozenset({"Input/Output", "Index", "Data Size", "Data Type", "Format", "Shape"})


class StatisticsLine(Struct, frozen=True):
    """One tensor of a statistics file; `values` has the statistics by the headings of their columns."""

    slot: Slot
    index: int
    nbytes: int | None
    dtype: str
    layout: str
    shape: Shape
    values: tuple[tuple[str, float | None], ...]


def read_statistics(path: str) -> tuple[StatisticsLine, ...]:
    """Read the lines of a statistics file. Columns are found by heading, because writers choose them.

    Raises:
        DumpError: the file is not a statistics file.
    """
    try:
        with open_input(path) as file:
            lines = file.read(_MAX_BYTES).decode(errors="replace").splitlines()
        return tuple(_line(row, path) for row in csv.DictReader(lines))
    except OSError as error:
        raise DumpError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    except csv.Error as error:
        raise DumpError(path, because("read.not_csv", error=str(error))) from error


def _line(row: dict[str, str], path: str) -> StatisticsLine:
    if None in row.values():
        # The missing column is unknown, so that the others cannot be trusted.
        raise DumpError(path, because("read.not_statistics", error="a line has fewer columns than the headings"))
    try:
        slot, index = Slot(row["Input/Output"].strip().lower()), int(row["Index"])
        nbytes = row.get("Data Size") or ""
        shape = row.get("Shape") or ""
        return StatisticsLine(
            slot,
            index,
            None if nbytes in _MISSING_VALUES else int(nbytes),
            row.get("Data Type") or "",
            row.get("Format") or "",
            () if shape in _MISSING_VALUES else tuple(int(dim) for dim in shape.split("x")),
            tuple((name, _number(text)) for name, text in row.items() if name and name not in _DESCRIPTION_COLUMNS),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise DumpError(path, because("read.not_statistics", error=str(error))) from error


def _number(text: str | None) -> float | None:
    return None if text is None or text.strip() in _MISSING_VALUES else float(text)
