"""A comparison as a Parquet file, a column for every number. Needs pyarrow: `pip install opdiff[parquet]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.reasons import render
from opdiff.report.flat import NUMBERS, flat_table

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.report.flat import Value

_COUNTS = frozenset({
    "count", "target_nans", "target_infs", "golden_nans", "golden_infs", "special_mismatches",
    "first_special_mismatch", "finite_count", "worst_index", "worst_relative_index",
})  # fmt: skip
_WHOLE = _COUNTS | {"index", "rank", "token", "graph"}
_TOO_LARGE = 2**63
_TRUTHS = frozenset({"is_equal", "overflow"})


def write_parquet(comparison: Comparison, path: str) -> None:
    """Write the whole table; what was not measured is null, a measured NaN stays one."""
    import pyarrow as pa
    from pyarrow import parquet

    table = flat_table(comparison)
    kinds = {"text": pa.string(), "whole": pa.int64(), "truth": pa.bool_(), "number": pa.float64()}
    columns = [
        pa.array([_plain(value, _kind(name)) for value in column], kinds[_kind(name)])
        for name, column in zip(table.names, table.columns, strict=True)
    ]
    about = {
        "scenario": render(comparison.scenario),
        "target": comparison.target.path,
        "golden": comparison.golden.path,
    }
    about |= {f"made_{name}": value for name, value in comparison.environment._asdict().items()}
    metadata = {f"opdiff.{name}": _text(value) for name, value in about.items()}
    names = [_text(name) for name in table.names]
    parquet.write_table(pa.Table.from_arrays(columns, names).replace_schema_metadata(metadata), path)


def _kind(name: str) -> str:
    if name in _TRUTHS:
        return "truth"
    if name in _WHOLE:
        return "whole"
    return "number" if name in NUMBERS else "text"


def _plain(value: Value, kind: str) -> Value:
    if value is None or kind == "truth":
        return value
    if kind == "whole":
        # Numbers of rule files may be anything.
        return value if -_TOO_LARGE <= int(value) < _TOO_LARGE else None
    return _text(value) if kind == "text" else float(value)


def _text(value: object) -> str:
    return str(value).encode(errors="backslashreplace").decode()
