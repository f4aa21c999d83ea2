"""Report as a Parquet file with a column for every number. Needs pyarrow: `pip install opdiff[parquet]`."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from opdiff.core.reasons import render
from opdiff.core.row_store import custom_names
from opdiff.report.flat import NUMBERS, flat_part
from opdiff.report.parts import PartWriter, RowPart, write_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from opdiff.core.comparison import Comparison, Mode
    from opdiff.core.row_store import MapJobs
    from opdiff.report.flat import Value

_COUNTS = frozenset({
    "count", "target_nans", "target_infs", "golden_nans", "golden_infs", "special_mismatches",
    "first_special_mismatch", "finite_count", "worst_index", "worst_relative_index",
})  # fmt: skip
_INTEGERS = _COUNTS | {"index", "rank", "token", "graph"}
_INT64_LIMIT = 2**63
_BOOLS = frozenset({"is_equal", "overflow"})


def write_parquet(comparison: Comparison, path: str, map_jobs: MapJobs = map) -> None:
    """Write the table; values that were not measured are null, a measured NaN stays NaN."""
    with open_parquet(comparison, path) as file:
        write_parts(comparison, [file], map_jobs)


@contextmanager
def open_parquet(comparison: Comparison, path: str) -> Iterator[PartWriter]:
    """A table that all rows of a comparison are added to."""
    import pyarrow as pa
    from pyarrow import parquet

    metadata = _metadata(comparison)
    with ExitStack() as stack:
        writers: list[parquet.ParquetWriter] = []

        def add(data: bytes) -> None:
            with pa.ipc.open_stream(data) as reader:
                table = reader.read_all().replace_schema_metadata(metadata)
            if not writers:
                # Most numbers are different: a dictionary of them takes more time and space.
                repeated = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
                writer = parquet.ParquetWriter(path, table.schema, use_dictionary=repeated)
                writers.append(stack.enter_context(writer))
            writers[0].write_table(table)

        yield PartWriter(partial(arrow_table, mode=comparison.mode, custom=custom_names(comparison.rows)), add)


def arrow_table(parts: Sequence[RowPart], *, mode: Mode, custom: Sequence[str]) -> bytes:
    """Return the table of some rows in the stream format of Arrow."""
    import pyarrow as pa

    table = flat_part(RowPart.joined(parts), mode, custom)
    columns = [_array(column, _kind(name)) for name, column in table.items()]
    batch = pa.record_batch(columns, names=[_text(name) for name in table])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _array(column: Sequence[Value], kind: str) -> pa.Array:
    import pyarrow as pa

    types = {"string": pa.string(), "integer": pa.int64(), "bool": pa.bool_(), "float": pa.float64()}
    try:
        return pa.array(column, types[kind])
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        # Large integers, and names that are not UTF-8.
        return pa.array([_plain(value, kind) for value in column], types[kind])


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
