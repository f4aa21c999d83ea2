"""Flat table of all rows with a column for every number, for workbooks, Parquet and data frames."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.comparison import Mode
from opdiff.core.metrics import DocumentedMetrics, Metrics
from opdiff.core.reasons import render, render_all
from opdiff.core.tensor_stats import STATISTICS
from opdiff.report.cells import shape_text
from opdiff.report.offline_table import reason_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.comparison import Comparison, Row

    Value = str | float | int | bool | None

MAX_ROWS_PER_PART = 1 << 14
"""Number of rows of which writers hold all cells at a time."""

METRICS = tuple(
    name for name in Metrics.__struct_fields__ if name not in ("notes", "relative_histogram", "ulp_histogram")
)
"""The numbers of `Metrics`."""


def _metric(name: str, row: Row) -> Value:
    return None if row.metrics is None else getattr(row.metrics, name)


def _documented(name: str, row: Row) -> Value:
    return None if row.documented is None else getattr(row.documented, name)


def _statistic(side: str, name: str, row: Row) -> Value:
    info = row.target if side == "target" else row.golden
    return None if info is None or info.stats is None else getattr(info.stats, name)


def _of_unit(name: str, row: Row) -> Value:
    return None if row.unit is None else getattr(row.unit, name)


_SIDES = ("target", "golden")
_UNIT_COLUMNS: dict[str, Callable[[Row], Value]] = {
    **{name: partial(_of_unit, name) for name in ("rank", "token", "graph")},
    "data_mode": lambda row: str(row.data_mode),
}
_FIRST_COLUMNS: dict[str, Callable[[Row], Value]] = {
    "index": lambda row: row.label.index,
    "op_type": lambda row: row.label.op_type,
    "target": lambda row: row.label.target,
    "golden": lambda row: row.label.golden,
    "tensor": lambda row: "" if row.key is None else str(row.key),
    "golden_tensor": lambda row: "" if row.golden_key is None else str(row.golden_key),
    "target_dtype": lambda row: row.target_dtype,
    "golden_dtype": lambda row: row.golden_dtype,
    "shape": lambda row: "" if row.shape is None else shape_text(row.shape),
    **{name: partial(_metric, name) for name in METRICS},
}
_GRAPH_NUMBERS: dict[str, Callable[[Row], Value]] = {
    **{f"documented_{name}": partial(_documented, name) for name in DocumentedMetrics.__struct_fields__},
    **{
        f"{side}_statistic_{name}": partial(_statistic, side, field)
        for side in _SIDES
        for name, field in STATISTICS.items()
    },
}
_GRAPH_COLUMNS = _GRAPH_NUMBERS | {f"{side}_crc32": partial(_statistic, side, "crc32") for side in _SIDES}
_LAST_COLUMNS: dict[str, Callable[[Row], Value]] = {
    "overflow": lambda row: row.overflow,
    "reason": reason_text,
    "match_rule": lambda row: render(row.evidence) if row.evidence else "",
    "confidence": lambda row: row.confidence,
    "conversion": lambda row: render_all(row.steps),
    "target_path": lambda row: row.target_path,
    "golden_path": lambda row: row.golden_path,
}
NUMBERS = frozenset((*METRICS, *_GRAPH_NUMBERS, "confidence"))
"""Columns of numbers."""


class FlatTable(Struct, frozen=True):
    """Names of columns, and the columns; all are as long as there are rows."""

    names: tuple[str, ...]
    columns: tuple[list[Value], ...]


def flat_table(comparison: Comparison) -> FlatTable:
    """Return a comparison as columns; missing values are `None`."""
    return next(iter_flat_tables(comparison, max(len(comparison.rows), 1)))


def iter_flat_tables(comparison: Comparison, max_rows: int = MAX_ROWS_PER_PART) -> Iterator[FlatTable]:
    """Yield the table of `flat_table` in parts with the same columns; one part if there are no rows."""
    rows = comparison.rows
    custom = tuple(dict.fromkeys(name for row in rows for name, _, _ in row.custom))
    for start in range(0, max(len(rows), 1), max_rows):
        yield _table(comparison, slice(start, start + max_rows), custom)


def _table(comparison: Comparison, part: slice, custom: tuple[str, ...]) -> FlatTable:
    rows, judgement = comparison.rows[part], comparison.judgement
    columns: dict[str, list[Value]] = {
        "level": [str(verdict.level) for verdict in judgement.verdicts[part]],
        "origin": [str(verdict.origin) for verdict in judgement.verdicts[part]],
        "decided_by": [render(verdict.rule) for verdict in judgement.verdicts[part]],
    }
    getters = _FIRST_COLUMNS | _LAST_COLUMNS
    if comparison.mode is Mode.GRAPH:
        columns |= {name: [get(row) for row in rows] for name, get in _UNIT_COLUMNS.items()}
        columns["result"] = [result.result for result in judgement.documented[part]]
        getters = _FIRST_COLUMNS | _GRAPH_COLUMNS | _LAST_COLUMNS
    columns |= {name: [get(row) for row in rows] for name, get in getters.items()}
    for name in custom:
        columns[f"custom_{name}"] = [next((value for own, value, _ in row.custom if own == name), None) for row in rows]
    return FlatTable(tuple(columns), tuple(columns.values()))
