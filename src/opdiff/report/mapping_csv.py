"""The table of pairs: which file is compared with which, and why. Nothing needs to be measured for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.reasons import render
from opdiff.report.cells import NOT_GIVEN, write_formatted_table
from opdiff.report.rows import report_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.comparison import Pairing, Row
    from opdiff.report.cells import Cell
    from opdiff.report.rows import ReportRow

_COLUMNS = (
    "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath",
    "MatchRule", "Confidence", "Reason",
)  # fmt: skip


def write_mapping(rows: Iterable[Row | Pairing], path: str, *, sequence: bool = False) -> None:
    """Write the whole table, rows in the given order; `sequence` adds `OpSequence`."""
    numbers = ("Index", "OpSequence") if sequence else ("Index",)
    cells = (_cells(report_row(row), sequence=sequence) for row in rows)
    write_formatted_table(path, (*numbers, *_COLUMNS), cells)


def _cells(row: ReportRow, *, sequence: bool) -> tuple[Cell, ...]:
    label = row.label
    numbers = (label.index, label.sequence) if sequence else (label.index,)
    return (
        *numbers,
        label.op_type or NOT_GIVEN,
        label.target,
        label.golden,
        NOT_GIVEN if row.key is None else str(row.key),
        row.target_path or NOT_GIVEN,
        row.golden_path or NOT_GIVEN,
        render(row.evidence),
        row.confidence,
        render(row.reason),
    )
