"""The table of pairs: files that are compared with each other, and the evidence. Nothing is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.comparison import listed_row
from opdiff.core.reasons import render
from opdiff.report.cells import NOT_GIVEN, columns_of_rows, write_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.comparison import Row
    from opdiff.core.pairing import PairingResult
    from opdiff.report.cells import Cell

_COLUMNS = (
    "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath",
    "MatchRule", "Confidence", "Reason",
)  # fmt: skip


def write_mapping(pairs: Iterable[PairingResult], path: str, *, sequence: bool = False) -> None:
    """Write the table in the order of the pairs; `sequence` adds the column `OpSequence`."""
    numbers = ("Index", "OpSequence") if sequence else ("Index",)
    rows = (_cells(listed_row(pair), sequence=sequence) for pair in pairs)
    write_table(path, (*numbers, *_COLUMNS), columns_of_rows(rows))


def _cells(row: Row, *, sequence: bool) -> tuple[Cell, ...]:
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
        render(row.evidence) if row.evidence else "",
        row.confidence,
        render(row.reason) if row.reason else "",
    )
