"""Report as a Parquet file with a column for every number. Needs pyarrow: `pip install opdiff[parquet]`."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from msgspec import structs

from opdiff.core.reasons import render
from opdiff.report.flat import NUMBERS, iter_flat_tables

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.report.flat import Value

_COUNTS = frozenset({
    "count", "target_nans", "target_infs", "golden_nans", "golden_infs", "special_mismatches",
    "first_special_mismatch", "finite_count", "worst_index", "worst_relative_index",
})  # fmt: skip
_INTEGERS = _COUNTS | {"index", "rank", "token", "graph"}
_INT64_LIMIT = 2**63
_BOOLS = frozenset({"is_equal", "overflow"})


def write_parquet(comparison: Comparison, path: str) -> None:
    """Write the table; values that were not measured are null, a measured NaN stays NaN."""
    import pyarrow as pa
    from pyarrow import parquet

    parts = iter_flat_tables(comparison)
    first = next(parts)
    types = {"string": pa.string(), "integer": pa.int64(), "bool": pa.bool_(), "float": pa.float64()}
    kinds = [_kind(name) for name in first.names]
    fields = [(_text(name), types[kind]) for name, kind in zip(first.names, kinds, strict=True)]
    schema = pa.schema(fields, _metadata(comparison))
    with parquet.ParquetWriter(path, schema) as writer:
        for table in chain((first,), parts):
            columns = [
                pa.array([_plain(value, kind) for value in column], types[kind])
                for kind, column in zip(kinds, table.columns, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _metadata(comparison: Comparison) -> dict[str, str]:
    facts = {
        "scenario": render(comparison.scenario),
        "target": comparison.target.path,
        "golden": comparison.golden.path,
    }
    facts |= {f"made_{name}": value for name, value in structs.asdict(comparison.environment).items()}
    return {f"opdiff.{name}": _text(value) for name, value in facts.items()}


def _kind(name: str) -> str:
    if name in _BOOLS:
        return "bool"
    if name in _INTEGERS:
        return "integer"
    return "float" if name in NUMBERS else "string"


def _plain(value: Value, kind: str) -> Value:
    if value is None or kind == "bool":
        return value
    if kind == "integer":
        # Ids of rule files may exceed 64 bits.
        return value if -_INT64_LIMIT <= int(value) < _INT64_LIMIT else None
    return _text(value) if kind == "string" else float(value)


def _text(value: object) -> str:
    return str(value).encode(errors="backslashreplace").decode()
