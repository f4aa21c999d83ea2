"""The columns of graph mode: the documented block, then further ones. See docs/formats/torchair-csv.md."""

from __future__ import annotations

from math import inf, isnan
from typing import TYPE_CHECKING

from opdiff.core.graphmode import DataMode, FurtherFigures, differences
from opdiff.core.reasons import render, render_all
from opdiff.report.cells import escape_formula

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.graphmode import GraphRow, SideFacts, Verdict
    from opdiff.core.tensor import Shape

    Judged = Sequence[tuple[GraphRow, Verdict]]
    Cell = str | float | int | None
    # Operator type, element type and shape, as cells.
    Kinds = dict[tuple[str, str, Shape | None], tuple[str, str, str]]

NOT_KNOWN = "N/A"
"""What stands in a documented column where nothing could be computed."""

_METRICS = {
    DataMode.REAL: (
        "Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandth Err Ratio",
    ),
    DataMode.STATISTICS: (
        "Max diff", "Min diff", "Mean diff", "L2norm diff",
        "MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr",
    ),
    DataMode.MD5: ("NPU MD5", "BENCH MD5"),
}  # fmt: skip
_FURTHER = (
    "token_id", "data_id",
    "golden_data_path", "golden_op_type", "golden_dtype", "golden_shape",
    "golden_max_value", "golden_min_value", "golden_mean_value",
    "my_data_path", "my_op_type", "my_dtype", "my_shape", "my_max_value", "my_min_value", "my_mean_value",
    "cosine_similarity", "max_relative_error", "mean_relative_error", "max_absolute_error", "mean_absolute_error",
    "kl_divergence", "relative_euclidean_distance", "cmp_fail_reason",
)  # fmt: skip
# What tells rows apart stands beside the documented names, and again in its place among the further columns.
_KEY = ("token_id", "my_data_path")
_OURS = ("match_rule", "confidence", "color")
_NO_FURTHER = (None,) * len(FurtherFigures._fields)
# PyTorch shows these types as the next wider ones that it has.
_TORCH = {"uint16": "int32", "uint32": "int64"}


def header(mode: DataMode) -> tuple[str, ...]:
    """The headings of the table of one mode."""
    verdict = ("Requires_grad Consistent", "Result", "Accuracy Reached or Not", "Err_message")
    return ("API Name", "Stack Info", "Data Name", *_KEY, *_METRICS[mode], *verdict, *_FURTHER, *_OURS)


def iter_cells(judged: Judged, mode: DataMode) -> Iterator[tuple[Cell, ...]]:
    """The cells of every row; formulas in texts are escaped, numbers are numbers, NaN and infinity are words."""
    kinds: Kinds = {}
    for number, (row, verdict) in enumerate(judged):
        target, golden = _side(row.target, kinds), _side(row.golden, kinds)
        yield (
            escape_formula(api_name(row)),
            escape_formula(row.stack or NOT_KNOWN),
            escape_formula(f"[{_base(row.target)}, {_base(row.golden)}]"),
            row.token,
            target[0],
            *[value if type(value) is float and abs(value) < inf else _shown(value) for value in _metrics(row, mode)],
            # Dumps of inference do not record which tensors need a gradient.
            NOT_KNOWN,
            verdict.result,
            verdict.reached,
            escape_formula(_message(row, verdict)),
            row.token,
            number,
            *golden,
            *target,
            *(row.further or _NO_FURTHER),
            escape_formula(_fail_reason(row)),
            escape_formula(render(row.evidence)),
            row.confidence,
            str(verdict.colour),
        )


def _message(row: GraphRow, verdict: Verdict) -> str:
    """What is to be known about a row, each thing once."""
    if not row.notes and not verdict.why:
        return render(row.reason)
    return render_all(reason for reason in (row.reason, *row.notes, *verdict.why) if reason is not None)


def api_name(row: GraphRow) -> str:
    """`Add_1.output.0`; the operator alone where the row is about all of it."""
    if row.golden_only:
        return NOT_KNOWN
    return row.op if row.slot is None else f"{row.op}.{row.slot}.{row.index}"


def _base(side: SideFacts | None) -> str:
    return NOT_KNOWN if side is None else side.path.rpartition("/")[2]


def _metrics(row: GraphRow, mode: DataMode) -> tuple[Cell, ...]:
    if mode is DataMode.MD5:
        return tuple(side.figures.crc32 or None if side else None for side in (row.target, row.golden))
    if mode is DataMode.STATISTICS:
        found = differences(row).values()
        return (*(item.absolute for item in found), *(_percent(item.relative) for item in found))
    return row.real or (None,) * len(_METRICS[mode])


def _percent(value: float | None) -> Cell:
    """`1.5%`; what is not finite stays a word, and nothing off is 0."""
    if value is None or value == 0 or isnan(value) or abs(value) == inf:
        return 0 if value == 0 else value
    return f"{value * 100!r}%"


def _shown(value: Cell) -> Cell:
    if value is None:
        return NOT_KNOWN
    if isinstance(value, float) and not abs(value) < inf:
        return "NaN" if isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _side(side: SideFacts | None, kinds: Kinds) -> tuple[Cell, ...]:
    """The cells of one side; `kinds` remembers those that many rows have."""
    if side is None:
        return ("",) * 7
    figures = side.figures
    kind = side.op_type, figures.dtype, figures.shape
    if kind not in kinds:
        kinds[kind] = _kind(*kind)
    low, high, mean = figures.minimum, figures.maximum, figures.mean
    return (escape_formula(side.path), *kinds[kind], _blank(high), _blank(low), _blank(mean))


def _kind(op_type: str, dtype: str, shape: Shape | None) -> tuple[str, str, str]:
    extents = "" if shape is None else f"[{', '.join(map(str, shape))}]"
    return escape_formula(op_type), escape_formula(f"torch.{_TORCH.get(dtype, dtype)}" if dtype else ""), extents


def _blank(value: float | None) -> Cell:
    """A figure of the further columns: NaN leaves the cell empty."""
    return None if value is None or isnan(value) else _shown(value)


def _fail_reason(row: GraphRow) -> str:
    """Why the further metrics are missing; empty where they are there, or where nothing is wrong."""
    if row.reason:
        return render(row.reason)
    is_lost = row.mode is DataMode.REAL and row.real is not None and row.further is None
    return render_all(row.notes) or "the numbers are too large for these metrics" if is_lost else ""
