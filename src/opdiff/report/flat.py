"""Flat table of all rows with a column for every number, for workbooks, Parquet and data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.comparison import Mode
from opdiff.core.dump import Unit
from opdiff.core.metrics import STATISTICS, DocumentedMetrics, Metrics, TensorStats
from opdiff.core.reasons import render, render_all
from opdiff.core.row_store import custom_names
from opdiff.report.cells import shape_text
from opdiff.report.offline_table import reason_text
from opdiff.report.parts import field_columns, map_distinct, part_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msgspec import Struct

    from opdiff.core.comparison import Comparison, Row
    from opdiff.report.parts import RowPart

    Value = str | float | int | bool | None
    # Columns by name; all are as long as there are rows.
    FlatTable = dict[str, Sequence[Value]]

MAX_ROWS_PER_PART = 1 << 13
"""Number of rows of which writers hold all cells at a time."""

METRICS = tuple(
    name for name in Metrics.__struct_fields__ if name not in ("notes", "relative_histogram", "ulp_histogram")
)
"""The numbers of `Metrics`."""

_SIDES = ("target", "golden")
_UNIT_COLUMNS = ("rank", "token", "graph")
_DOCUMENTED = tuple(f"documented_{name}" for name in DocumentedMetrics.__struct_fields__)
_SIDE_STATISTICS = {f"{side}_statistic_{name}": (side, name) for side in _SIDES for name in STATISTICS}
NUMBERS = frozenset((*METRICS, *_DOCUMENTED, *_SIDE_STATISTICS, "confidence"))
"""Columns of numbers."""


def flat_table(comparison: Comparison) -> FlatTable:
    """Return a comparison as columns; missing values are `None`."""
    return next(iter_flat_tables(comparison, max(len(comparison.rows), 1)))


def iter_flat_tables(comparison: Comparison, max_rows: int = MAX_ROWS_PER_PART) -> Iterator[FlatTable]:
    """Yield the table of `flat_table` in parts with the same columns; one part if there are no rows."""
    custom = custom_names(comparison.rows)
    count = len(comparison.rows)
    for start in range(0, max(count, 1), max_rows):
        numbers = range(start, min(start + max_rows, count))
        yield flat_part(part_reference(comparison, numbers).load(), comparison.mode, custom)


def flat_part(part: RowPart, mode: Mode, custom: Sequence[str]) -> FlatTable:
    """Return the table of some rows; `custom` has the names of the custom metrics of all rows."""
    rows, verdicts, results = part.rows, part.verdicts, part.results
    columns: FlatTable = {
        "level": [str(verdict.level) for verdict in verdicts],
        "origin": [str(verdict.origin) for verdict in verdicts],
        "decided_by": map_distinct(render, [verdict.rule for verdict in verdicts]),
    }
    in_graph_mode = mode is Mode.GRAPH
    if in_graph_mode:
        columns |= _fields([row.unit for row in rows], Unit, _UNIT_COLUMNS)
        columns["data_mode"] = [str(row.data_mode) for row in rows]
        columns["result"] = [result.result for result in results]
    columns |= _first_columns(rows)
    columns |= _fields([row.metrics for row in rows], Metrics, METRICS)
    if in_graph_mode:
        columns |= _graph_columns(rows)
    columns |= _last_columns(rows)
    for name in custom:
        columns[f"custom_{name}"] = [next((value for own, value, _ in row.custom if own == name), None) for row in rows]
    return columns


def _first_columns(rows: Sequence[Row]) -> FlatTable:
    return {
        "index": [row.label.index for row in rows],
        "op_type": [row.label.op_type for row in rows],
        "target": [row.label.target for row in rows],
        "golden": [row.label.golden for row in rows],
        "tensor": ["" if row.key is None else str(row.key) for row in rows],
        "golden_tensor": ["" if row.golden_key is None else str(row.golden_key) for row in rows],
        "target_dtype": [row.target_dtype for row in rows],
        "golden_dtype": [row.golden_dtype for row in rows],
        "shape": ["" if row.shape is None else shape_text(row.shape) for row in rows],
    }


def _graph_columns(rows: Sequence[Row]) -> FlatTable:
    documented = _fields([row.documented for row in rows], DocumentedMetrics, DocumentedMetrics.__struct_fields__)
    columns = dict(zip(_DOCUMENTED, documented.values(), strict=True))
    sides = zip(_SIDES, ([row.target_stats for row in rows], [row.golden_stats for row in rows]), strict=True)
    stats = {side: _fields(found, TensorStats, (*STATISTICS.values(), "crc32")) for side, found in sides}
    columns |= {name: stats[side][STATISTICS[field]] for name, (side, field) in _SIDE_STATISTICS.items()}
    return columns | {f"{side}_crc32": stats[side]["crc32"] for side in _SIDES}


def _last_columns(rows: Sequence[Row]) -> FlatTable:
    return {
        "overflow": [row.overflow for row in rows],
        "reason": [reason_text(row) for row in rows],
        "match_rule": map_distinct(render, [row.evidence for row in rows]),
        "confidence": [row.confidence for row in rows],
        "conversion": map_distinct(render_all, [row.steps for row in rows]),
        "target_path": [row.target_path for row in rows],
        "golden_path": [row.golden_path for row in rows],
    }


def _fields(values: Sequence[Struct | None], kind: type[Struct], names: Sequence[str]) -> FlatTable:
    """Return some fields of values of one class as columns; `None` for missing values."""
    found = dict(zip(kind.__struct_fields__, field_columns(values, kind), strict=True))
    return {name: found[name] for name in names}
