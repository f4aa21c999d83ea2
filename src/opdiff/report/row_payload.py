"""Columns of consecutive rows for the HTML page: one block, which the page reads when it needs one of them.

web/src/block.ts reads it. Numbers of rows are counted from the first row of the block.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import structs

from opdiff.core.comparison import DataMode
from opdiff.core.metrics import DocumentedMetrics, differences
from opdiff.core.reasons import quoted
from opdiff.report.offline_table import reservations
from opdiff.report.page_text import page_text
from opdiff.report.parts import map_distinct

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from opdiff.core.comparison import Row
    from opdiff.core.judgement import DocumentedResult, Verdict
    from opdiff.core.metrics import TensorStats
    from opdiff.core.reasons import Reason
    from opdiff.report.packing import Packer
    from opdiff.report.parts import RowPart

# Fields of `Metrics` that the page shows: in single precision, in double precision, and as integers.
_SINGLE_PRECISION = (
    "max_absolute_error", "accumulated_relative_error", "relative_euclidean_distance", "kl_divergence", "target_mean",
    "target_std", "golden_mean", "golden_std", "mean_absolute_error", "root_mean_square_error", "max_relative_error",
    "mean_relative_error", "centred_cosine", "snr_db", "error_bias", "over_1_permille", "over_5_permille", "max_ulp",
    "fit_scale", "fit_offset", "fit_distance", "zero_golden",
)  # fmt: skip
_DOUBLE_PRECISION = (
    "cosine", "norm_ratio", "finite_cosine", "worst_target", "worst_golden", "target_min", "target_max", "golden_min",
    "golden_max", "worst_index", "worst_relative_index", "worst_relative_target", "worst_relative_golden",
    "first_special_mismatch",
)  # fmt: skip
_COUNTS = (
    "count", "finite_count", "target_nans", "target_infs", "golden_nans", "golden_infs", "special_mismatches",
    "is_equal",
)  # fmt: skip
_STATISTICS = ("maximum", "minimum", "mean", "norm", "nans", "infs")
_PERMILLE = 1000


def pack_rows(part: RowPart, packer: Packer) -> bytes:
    """Return the compressed columns of a block."""
    rows = part.rows
    document = {
        "rows": _rows(rows, packer) | _verdicts(part.verdicts, packer),
        "metrics": _metrics(rows, packer),
        "custom": _custom(rows, packer),
    }
    if part.results:
        document["graphMode"] = _graph_mode(rows, part.results, packer)
    return packer.packed(document)


def _rows(rows: Sequence[Row], packer: Packer) -> dict[str, Any]:
    labels = [row.label for row in rows]
    keys = [row.key for row in rows]
    strings, integers = packer.texts, packer.integers
    target_folder, target_file = _paths([row.target_path for row in rows])
    golden_folder, golden_file = _paths([row.golden_path for row in rows])
    return {
        "index": integers([label.index for label in labels]),
        "sequence": integers([label.sequence for label in labels]),
        "type": strings([label.op_type for label in labels]),
        "target": strings([label.target for label in labels]),
        "golden": strings([label.golden for label in labels]),
        "operator": strings(["" if key is None else key.op for key in keys]),
        "number": integers([0 if key is None else key.index for key in keys]),
        "goldenTensor": strings(["" if row.golden_key is None else str(row.golden_key) for row in rows]),
        "targetFolder": strings(target_folder),
        "targetFile": strings(target_file),
        "goldenFolder": strings(golden_folder),
        "goldenFile": strings(golden_file),
        "targetType": strings([row.target_dtype for row in rows]),
        "goldenType": strings([row.golden_dtype for row in rows]),
        "targetAddress": packer.exact([row.target_address for row in rows]),
        "goldenAddress": packer.exact([row.golden_address for row in rows]),
        "shape": strings(
            map_distinct(lambda shape: "" if shape is None else str(list(shape)), [row.shape for row in rows])
        ),
        "steps": packer.reasons([row.steps for row in rows]),
        "reason": packer.reasons([row_reasons(row) for row in rows]),
        "rule": packer.reasons([(row.evidence,) if row.evidence else () for row in rows]),
        "confidence": integers(map_distinct(_permille, [row.confidence for row in rows])),
        "overflow": integers([-1 if row.overflow is None else int(row.overflow) for row in rows]),
    }


def row_reasons(row: Row) -> tuple[Reason, ...]:
    """Return the reservations about a row, and the messages of its custom metrics."""
    return (*reservations(row), *(quoted(message) for _, _, message in row.custom if message))


def _paths(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    parts = [path.rpartition("/") for path in paths]
    return [folder for folder, _, _ in parts], [name for _, _, name in parts]


def _permille(share: float | None) -> int:
    return round(share * _PERMILLE) if share is not None and 0 <= share <= 1 else -1


def _verdicts(verdicts: Sequence[Verdict], packer: Packer) -> dict[str, Any]:
    return {
        "why": packer.reasons([(verdict.rule,) for verdict in verdicts]),
        "excess": packer.floats([verdict.excess for verdict in verdicts]),
    }


def _metrics(rows: Sequence[Row], packer: Packer) -> dict[str, Any]:
    """Return the numbers of the measured rows, and the columns of their metrics."""
    numbers = [number for number, row in enumerate(rows) if row.metrics is not None]
    found = [row.metrics for row in rows if row.metrics is not None]
    # Field by field: all fields at once would take more memory than the metrics themselves.
    columns = {name: packer.floats(list(map(attrgetter(name), found))) for name in _SINGLE_PRECISION}
    columns |= {name: packer.exact(list(map(attrgetter(name), found))) for name in _DOUBLE_PRECISION}
    columns |= {name: packer.integers(list(map(attrgetter(name), found))) for name in _COUNTS}
    return {
        "rows": packer.integers(numbers),
        "columns": columns,
        "relative": _histograms([metrics.relative_histogram for metrics in found], packer),
        "ulp": _histograms([metrics.ulp_histogram for metrics in found], packer),
    }


def _histograms(histograms: Sequence[tuple[int, ...]], packer: Packer) -> list[dict[str, Any]]:
    """Return a column for each bin; zeros for tensors without a histogram."""
    longest = max(map(len, histograms), default=0)
    filled = [histogram + (0,) * (longest - len(histogram)) for histogram in histograms]
    return [packer.integers(column) for column in zip(*filled, strict=True)]


def _custom(rows: Sequence[Row], packer: Packer) -> list[dict[str, Any]]:
    """Return names and columns of the custom metrics."""
    names = dict.fromkeys(name for row in rows for name, _, _ in row.custom)
    values = [{name: value for name, value, _ in row.custom} for row in rows] if names else []
    return [
        {"name": page_text(name), "values": packer.texts([value.get(name, "") for value in values])} for name in names
    ]


# Graph mode: each group of columns contains only the rows that have its values


def _graph_mode(rows: Sequence[Row], results: Sequence[DocumentedResult], packer: Packer) -> dict[str, Any]:
    """Return the columns of a block of rows."""
    return {
        "marks": packer.reasons([result.why for result in results]),
        "stack": packer.texts([row.stack for row in rows]),
        "real": _real(rows, packer),
        "statistics": _statistics(rows, packer),
        "checksums": _checksums(rows, packer),
    }


def _real(rows: Sequence[Row], packer: Packer) -> dict[str, Any]:
    """Return the documented metrics of rows that were compared by data."""
    found = [(number, row.documented) for number, row in enumerate(rows) if row.documented is not None]
    values = zip(*(structs.astuple(metrics) for _, metrics in found), strict=True)
    columns = zip(DocumentedMetrics.__struct_fields__, values, strict=False)
    return {
        "rows": packer.integers([number for number, _ in found]),
        "columns": {name: packer.exact(column) for name, column in columns},
    }


def _statistics(rows: Sequence[Row], packer: Packer) -> dict[str, Any]:
    """Return the statistics of both sides and their relative differences, for rows that were compared by statistics."""
    found = [
        (number, row) for number, row in enumerate(rows) if row.data_mode is DataMode.STATISTICS and row.is_compared
    ]
    stats = [(row.target_stats, row.golden_stats) for _, row in found]
    columns: dict[str, Any] = {}
    for side, name in enumerate(("target", "golden")):
        for field in _STATISTICS:
            columns[f"{name}_{field}"] = packer.exact([getattr(pair[side], field, None) for pair in stats])
    found_differences = [differences(*pair) for pair in stats]
    for name in ("max", "min", "mean", "norm"):
        columns[f"{name}_relative"] = packer.exact([item[name].relative for item in found_differences])
    return {"rows": packer.integers([number for number, _ in found]), "columns": columns}


def _checksums(rows: Sequence[Row], packer: Packer) -> dict[str, Any]:
    """Return CRC-32 of both sides, for rows that have at least one."""
    pairs = [(_checksum(row.target_stats), _checksum(row.golden_stats)) for row in rows]
    found = [(number, *pair) for number, pair in enumerate(pairs) if any(pair)]
    return {
        "rows": packer.integers([number for number, _, _ in found]),
        "target": packer.texts([target for _, target, _ in found]),
        "golden": packer.texts([golden for _, _, golden in found]),
    }


def _checksum(stats: TensorStats | None) -> str:
    return stats.crc32 if stats else ""
