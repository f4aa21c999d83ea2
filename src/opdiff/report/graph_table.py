"""The result tables of graph mode: documented columns and those of the vendor's tool. See docs/formats/torchair-csv.md.

There is a table for each graph of each rank and each `DataMode`.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from opdiff.core.comparison import DataMode
from opdiff.core.metrics import DocumentedMetrics, ExtraMetrics, TensorStats, differences
from opdiff.core.reasons import render, render_all
from opdiff.core.row_store import runs_of
from opdiff.report.cells import csv_lines, full_numbers, title_line
from opdiff.report.parts import PartWriter, field_columns
from opdiff.report.table import Columns, JudgedRow, JudgedRows, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.comparison import Comparison, Row, SideInfo
    from opdiff.core.row_store import Run
    from opdiff.core.tensor import Shape
    from opdiff.report.cells import Cell
    from opdiff.report.parts import RowPart

NOT_KNOWN = "N/A"
"""Documented cell of a value that could not be computed."""

_NO_STATS = TensorStats()
# PyTorch lacks these types and shows the next wider ones.
_TORCH_TYPES = {"uint16": "int32", "uint32": "int64"}


class TableKey(Struct, frozen=True):
    """Identity of a table."""

    rank: int | None
    graph: int | None
    data_mode: DataMode


def graph_tables(comparison: Comparison) -> dict[TableKey, Table]:
    """Return the tables of a comparison in graph mode; those of one graph are in the order of `DataMode`."""
    found: dict[TableKey, list[range]] = {}
    for run, numbers in runs_of(comparison.rows):
        key = _table_key(run)
        if key is not None:
            found.setdefault(key, []).append(numbers)
    graphs = list(dict.fromkeys((key.rank, key.graph) for key in found))
    modes = list(DataMode)
    keys = sorted(found, key=lambda key: (graphs.index((key.rank, key.graph)), modes.index(key.data_mode)))
    return {key: graph_table(JudgedRows(comparison, found[key]), key.data_mode) for key in keys}


def tables_writer(paths: Mapping[TableKey, str]) -> PartWriter:
    """Return the writer of all tables, which creates their files and writes them as `write_csv` does."""
    for key, path in paths.items():
        with open(path, "xb") as file:
            file.write(title_line(graph_table((), key.data_mode).header()))

    def add(lines: Sequence[tuple[TableKey, bytes]]) -> None:
        # Files are opened for each part: there may be more tables than files that a process may have open.
        for key, some in lines:
            with open(paths[key], "ab") as file:
                file.write(some)

    return PartWriter(table_lines, add)


def table_lines(parts: Sequence[RowPart]) -> list[tuple[TableKey, bytes]]:
    """Return the lines of some rows by table; a table may be there several times."""
    found: list[tuple[TableKey, bytes]] = []
    for part in parts:
        rows = (JudgedRow(*each) for each in zip(part.rows, part.verdicts, part.results, strict=True))
        for key, some in groupby(rows, key=lambda judged: _table_key(judged.row)):
            if key is not None:
                table = graph_table(list(some), key.data_mode)
                found += ((key, csv_lines(columns, full_numbers)) for columns in table.parts())
    return found


def _table_key(rows: Row | Run) -> TableKey | None:
    unit = rows.unit
    return None if unit is None else TableKey(unit.rank, unit.graph, rows.data_mode)


def graph_table(rows: Iterable[JudgedRow], data_mode: DataMode) -> Table:
    """Return the table of rows that were compared in the same `DataMode`."""
    return Table(tuple(_columns(data_mode)), rows, full_numbers)


def _columns(data_mode: DataMode) -> Iterator[Columns]:
    yield Columns(("API Name", "Stack Info", "Data Name"), _names)
    # Scripts for the vendor's tables find its columns in their order, and each column is there once.
    yield Columns.by_row(("token_id", "data_id"), lambda judged: (_token(judged.row), judged.row.label.index))
    yield Columns(_side_titles("golden"), lambda rows: _sides([judged.row.golden for judged in rows]))
    yield Columns(_side_titles("my"), lambda rows: _sides([judged.row.target for judged in rows]))
    yield _METRICS[data_mode]
    yield Columns.by_row(
        ("Requires_grad Consistent", "Result", "Accuracy Reached or Not", "Err_message"), _result_cells
    )
    yield Columns(_EXTRA_TITLES, _extra_metrics)
    yield Columns.by_row(("match_rule", "confidence", "color"), _pair_cells)


def _token(row: Row) -> int:
    return row.unit.token if row.unit else 0


def _names(rows: Sequence[JudgedRow]) -> Iterator[Sequence[Cell]]:
    yield [api_name(judged.row) for judged in rows]
    yield [judged.row.stack or NOT_KNOWN for judged in rows]
    yield [f"[{_base_name(judged.row.target)}, {_base_name(judged.row.golden)}]" for judged in rows]


def api_name(row: Row) -> str:
    """Return `Add_1.output.0`; the operator alone for a row about the whole operator."""
    if row.golden_only:
        return NOT_KNOWN
    return row.label.target if row.key is None else f"{row.key.op}.{row.key.slot}.{row.key.index}"


def _base_name(side: SideInfo | None) -> str:
    return NOT_KNOWN if side is None else side.path.rpartition("/")[2]


def _result_cells(judged: JudgedRow) -> Sequence[Cell]:
    # Dumps of inference do not record which tensors need a gradient.
    row, result = judged.row, judged.result
    if result is None:
        return (NOT_KNOWN,) * 4
    reasons = [*([row.reason] if row.reason else ()), *row.notes, *result.why]
    return NOT_KNOWN, result.result, result.reached, render_all(reasons)


# Metrics


def _documented_metrics(rows: Sequence[JudgedRow]) -> Iterator[Sequence[Cell]]:
    return map(_shown_column, field_columns([judged.row.documented for judged in rows], DocumentedMetrics))


def _statistics_cells(judged: JudgedRow) -> Sequence[Cell]:
    found = differences(judged.row.target_stats, judged.row.golden_stats).values()
    values = (*(item.absolute for item in found), *(_percent(item.relative) for item in found))
    return [_shown(value) for value in values]


def _checksum_cells(judged: JudgedRow) -> Sequence[Cell]:
    sides = judged.row.target, judged.row.golden
    return [(side.stats.crc32 if side and side.stats else "") or NOT_KNOWN for side in sides]


_METRICS = {
    DataMode.REAL: Columns(
        ("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandth Err Ratio"),
        _documented_metrics,
    ),
    DataMode.STATISTICS: Columns.by_row(
        (
            "Max diff", "Min diff", "Mean diff", "L2norm diff",
            "MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr",
        ),
        _statistics_cells,
    ),
    DataMode.MD5: Columns.by_row(("NPU MD5", "BENCH MD5"), _checksum_cells),
}  # fmt: skip


def _percent(value: float | None) -> Cell:
    """Return `1.5%`; zero, NaN and infinities are not changed."""
    if value is None or value == 0 or isnan(value) or abs(value) == inf:
        return 0 if value == 0 else value
    return f"{value * 100!r}%"


def _shown(value: Cell) -> Cell:
    if value is None:
        return NOT_KNOWN
    if isinstance(value, float) and not abs(value) < inf:
        return "NaN" if isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _shown_column(values: Sequence[Cell]) -> Sequence[Cell]:
    return values if _are_finite(values) else [_shown(value) for value in values]


def _are_finite(values: Sequence[Cell]) -> bool:
    return set(map(type, values)) == {float} and all(map(isfinite, cast("Sequence[float]", values)))


# Further columns


def _side_titles(prefix: str) -> tuple[str, ...]:
    names = ("data_path", "op_type", "dtype", "shape", "max_value", "min_value", "mean_value")
    return tuple(f"{prefix}_{name}" for name in names)


def _sides(sides: Sequence[SideInfo | None]) -> Iterator[Sequence[Cell]]:
    yield [side.path if side else "" for side in sides]
    yield [side.op_type if side else "" for side in sides]
    yield from zip(*[_type_cells(side.dtype, side.shape) if side else ("", "") for side in sides], strict=True)
    stats = [(side.stats if side else None) or _NO_STATS for side in sides]
    for values in ([each.maximum for each in stats], [each.minimum for each in stats], [each.mean for each in stats]):
        yield values if _are_finite(values) else [_blank(value) for value in values]


@cache
def _type_cells(dtype: str, shape: Shape | None) -> tuple[str, str]:
    extents = "" if shape is None else f"[{', '.join(map(str, shape))}]"
    return f"torch.{_TORCH_TYPES.get(dtype, dtype)}" if dtype else "", extents


def _blank(value: float | None) -> Cell:
    """Return a statistic of the further columns; NaN leaves the cell empty."""
    return None if value is None or isnan(value) else _shown(value)


_EXTRA_TITLES = (
    "cosine_similarity", "max_relative_error", "mean_relative_error", "max_absolute_error", "mean_absolute_error",
    "kl_divergence", "relative_euclidean_distance", "cmp_fail_reason",
)  # fmt: skip


def _extra_metrics(rows: Sequence[JudgedRow]) -> Iterator[Sequence[Cell]]:
    yield from field_columns([judged.row.extra for judged in rows], ExtraMetrics)
    yield [_failure(judged.row) for judged in rows]


def _failure(row: Row) -> str:
    """Return why the further metrics are missing; empty if they are present or not applicable."""
    if row.reason is not None:
        return render(row.reason)
    if row.data_mode is not DataMode.REAL or row.documented is None or row.extra is not None:
        return ""
    return render_all(row.notes) or "the numbers are too large for these metrics"


def _pair_cells(judged: JudgedRow) -> Sequence[Cell]:
    row, colour = judged.row, judged.result.colour if judged.result else ""
    return render(row.evidence) if row.evidence else "", row.confidence, str(colour)
