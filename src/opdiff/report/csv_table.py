"""The table of results: the documented columns in the documented order, then ours. See docs/formats/result-csv.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.dump import DumpKind
from opdiff.core.reasons import render
from opdiff.report.cells import NOT_GIVEN, escape_formula, shape_text, write_formatted_table
from opdiff.report.columns import EXTRA_COLUMNS, extra_cells
from opdiff.report.rows import saved

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison, Verdict
    from opdiff.report.cells import Cell
    from opdiff.report.columns import MetricColumn
    from opdiff.report.rows import ReportRow, SavedComparison

_OVERFLOW = {True: "YES", False: "NO", None: NOT_GIVEN}


class ReportColumns(NamedTuple):
    """What the table shall have.

    Attributes:
        metrics: the documented metrics that were asked for, in order.
        custom: the names of the user's own metrics, in order; those that rows have are added.
        sequence: whether some operators only were asked for, and `OpSequence` tells which.
        overflow: whether overflow was looked for; arrays have none and never get the column.
    """

    metrics: tuple[MetricColumn, ...]
    custom: tuple[str, ...] = ()
    sequence: bool = False
    overflow: bool = False


def write_csv(comparison: Comparison | SavedComparison, path: str, columns: ReportColumns) -> None:
    """Write the whole table, or nothing when it cannot be written."""
    kept = saved(comparison)
    table = _Table(kept, columns)
    verdicts = kept.judgement.verdicts if kept.judgement else (None,) * len(kept.rows)
    pairs = zip(kept.rows, verdicts, strict=True)
    write_formatted_table(path, table.header(), (table.cells(row, verdict) for row, verdict in pairs))


class _Table:
    """Which columns there are in this comparison, and the cells of its rows."""

    def __init__(self, comparison: SavedComparison, columns: ReportColumns) -> None:
        self._columns = columns
        self._target_address = comparison.target.kind is DumpKind.NPU
        self._golden_address = comparison.golden.kind is DumpKind.NPU
        self._overflow = columns.overflow and self._target_address
        seen = (name for row in comparison.rows for name, _, _ in row.custom)
        self._custom = tuple(dict.fromkeys((*columns.custom, *seen)))

    def header(self) -> list[str]:
        return [
            "Index",
            *_when("OpSequence", self._columns.sequence),
            *("OpType", "NPUDump", "DataType"),
            *_when("Address", self._target_address),
            *("GroundTruth", "DataType"),
            *_when("Address", self._golden_address),
            *("TensorIndex", "Shape"),
            *_when("OverFlow", self._overflow),
            *(column.name for column in self._columns.metrics),
            *(escape_formula(name) for name in self._custom),
            "CompareFailReason",
            *EXTRA_COLUMNS,
        ]

    def cells(self, row: ReportRow, verdict: Verdict | None) -> list[Cell]:
        label, metrics = row.label, row.metrics
        cells: list[Cell] = [label.index]
        if self._columns.sequence:
            cells.append(label.sequence)
        cells += (label.op_type or NOT_GIVEN, label.target, _dtype(row, row.target_dtype))
        if self._target_address:
            cells.append(_given(row.target_address))
        cells += (label.golden, _dtype(row, row.golden_dtype))
        if self._golden_address:
            cells.append(_given(row.golden_address))
        cells += (NOT_GIVEN if row.key is None else str(row.key), shape_text(row.shape))
        if self._overflow:
            cells.append(_OVERFLOW[row.overflow])
        cells += [NOT_GIVEN if metrics is None else _given(column.value(metrics)) for column in self._columns.metrics]
        if self._custom:
            own = {name: value for name, value, _ in row.custom}
            cells += [own.get(name) or NOT_GIVEN for name in self._custom]
        cells.append(reason_text(row))
        return cells + extra_cells(row, verdict)


def reason_text(row: ReportRow) -> str:
    """Why there are no numbers, and what is to be known about those that there are; each thing once."""
    notes = row.metrics.notes if row.metrics else ()
    if not notes and not row.custom:
        return render(row.reason)
    messages = (message for _, _, message in row.custom)
    said: list[str] = []
    for part in (render(row.reason), *notes, *messages):
        if part and not any(part in earlier for earlier in said):
            said.append(part)
    return " ".join(said)


def _when(cell: str, wanted: bool) -> tuple[str, ...]:  # noqa: FBT001  a cell and its condition, side by side
    return (cell,) if wanted else ()


def _dtype(row: ReportRow, dtype: str) -> str:
    """The element type, of tensors that were compared."""
    return dtype if dtype and row.metrics is not None else NOT_GIVEN


def _given(cell: Cell) -> Cell:
    return NOT_GIVEN if cell is None else cell
