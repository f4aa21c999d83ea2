"""The rows as one flat table with a column for every figure, for spreadsheets and data frames."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Metrics
from opdiff.core.graphmode import STATISTICS, RealFigures
from opdiff.core.reasons import render, render_all
from opdiff.report.cells import shape_text
from opdiff.report.csv_table import reason_text
from opdiff.report.judged import judged

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.graphmode import GraphRow
    from opdiff.report.rows import GraphMode, ReportRow, SavedComparison

    Value = str | float | int | bool | None

FIGURES = tuple(name for name in Metrics._fields if name not in ("notes", "relative_histogram", "ulp_histogram"))
"""The numbers of `Metrics`."""


def _documented(name: str, row: GraphRow) -> Value:
    return None if row.real is None else getattr(row.real, name)


def _figure(side: str, name: str, row: GraphRow) -> Value:
    facts = row.target if side == "target" else row.golden
    return None if facts is None else getattr(facts.figures, name)


# Columns that are texts or whole numbers, and how they are got from a row.
_BEFORE: dict[str, Callable[[ReportRow], Value]] = {
    "index": lambda row: row.label.index,
    "op_type": lambda row: row.label.op_type,
    "target": lambda row: row.label.target,
    "golden": lambda row: row.label.golden,
    "tensor": lambda row: "" if row.key is None else str(row.key),
    "golden_tensor": lambda row: "" if row.golden_key is None else str(row.golden_key),
    "target_dtype": lambda row: row.target_dtype,
    "golden_dtype": lambda row: row.golden_dtype,
    "shape": lambda row: "" if row.shape is None else shape_text(row.shape),
}
_AFTER: dict[str, Callable[[ReportRow], Value]] = {
    "overflow": lambda row: row.overflow,
    "reason": reason_text,
    "match_rule": lambda row: render(row.evidence),
    "confidence": lambda row: row.confidence,
    "conversion": lambda row: render_all(row.steps),
    "target_path": lambda row: row.target_path,
    "golden_path": lambda row: row.golden_path,
}


_SIDES = ("target", "golden")
# What graph mode has besides: the documented metrics, and what is known of both sides where there are no data.
_OF_GRAPHS: dict[str, Callable[[GraphRow], Value]] = {
    **{f"documented_{name}": partial(_documented, name) for name in RealFigures._fields},
    **{
        f"{side}_statistic_{name}": partial(_figure, side, field)
        for side in _SIDES
        for name, field in STATISTICS.items()
    },
    **{f"{side}_crc32": partial(_figure, side, "crc32") for side in _SIDES},
}
GRAPH_FIGURES = tuple(name for name in _OF_GRAPHS if not name.endswith("crc32"))
"""The numbers among them."""


class FlatTable(NamedTuple):
    """Names of columns, and the columns; all are as long as there are rows."""

    names: tuple[str, ...]
    columns: tuple[list[Value], ...]


def flat_table(kept: SavedComparison) -> FlatTable:
    """A comparison as columns; what is not there is `None`."""
    rows, thoughts = kept.rows, judged(kept)
    columns: dict[str, list[Value]] = {
        "level": [*thoughts.levels],
        "origin": [*thoughts.origins],
        "decided_by": [*map(str, thoughts.rules)],
    }
    spots = kept.graph_mode.spots if kept.graph_mode else ()
    columns |= _places(kept.graph_mode)
    columns |= {name: [get(row) for row in rows] for name, get in _BEFORE.items()}
    columns |= {name: [None if row.metrics is None else getattr(row.metrics, name) for row in rows] for name in FIGURES}
    columns |= {name: [get(spot.row) for spot in spots] for name, get in _OF_GRAPHS.items() if spots}
    columns |= {name: [get(row) for row in rows] for name, get in _AFTER.items()}
    for name in dict.fromkeys(name for row in rows for name, _, _ in row.custom):
        columns[f"custom_{name}"] = [next((value for own, value, _ in row.custom if own == name), None) for row in rows]
    return FlatTable(tuple(columns), tuple(columns.values()))


def _places(about: GraphMode | None) -> dict[str, list[Value]]:
    """Where each row of graph mode is, by what it was compared, and whether it passes."""
    if about is None:
        return {}
    units = [about.units[spot.unit] for spot in about.spots]
    return {
        "rank": [unit.rank for unit in units],
        "token": [unit.token for unit in units],
        "graph": [unit.graph for unit in units],
        "data_mode": [str(spot.row.mode) for spot in about.spots],
        "result": [spot.verdict.result for spot in about.spots],
    }
