"""Data of graph mode for the HTML page: ranks, tokens and graphs, PASS and FAIL, statistics, checksums.

Each group of columns contains only the rows that have its values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from opdiff.core.comparison import DataMode
from opdiff.core.metrics import DocumentedMetrics, differences
from opdiff.core.reasons import because
from opdiff.report.network_payload import pack_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opdiff.core.comparison import Comparison, GraphNode, ModelGraph, Row, SideInfo
    from opdiff.core.dump import Unit
    from opdiff.core.judgement import DocumentedResult
    from opdiff.core.reasons import Reason
    from opdiff.report.packing import Packer
    from opdiff.report.row_summary import RowSummary

_STATISTICS = ("maximum", "minimum", "mean", "norm", "nans", "infs")


class Networks(Struct, frozen=True):
    """Packed networks, each once, and the number of each unit's network."""

    packed: tuple[dict[str, Any], ...]
    numbers: Mapping[Unit, int]


def pack_networks(comparison: Comparison, packer: Packer) -> Networks:
    """Return the networks of all units."""
    networks, numbers = _networks(comparison.graphs)
    return Networks(tuple(pack_nodes(nodes, packer) for nodes in networks), numbers)


def pack_graph_mode(comparison: Comparison, networks: Networks, summary: RowSummary, packer: Packer) -> dict[str, Any]:
    """Return the units and their networks, and the notes."""
    notes = *comparison.notes, *_empty_column_notes(summary)
    return {
        "units": [[*structs.astuple(unit), networks.numbers.get(unit, -1)] for unit in summary.units],
        "networks": networks.packed,
        "notes": packer.sentences(notes),
    }


def graph_mode_columns(rows: Sequence[Row], results: Sequence[DocumentedResult], packer: Packer) -> dict[str, Any]:
    """Return the columns of a block of rows."""
    return {
        "marks": packer.reasons([result.why for result in results]),
        "stack": packer.texts([row.stack for row in rows]),
        "real": _real(rows, packer),
        "statistics": _statistics(rows, packer),
        "checksums": _checksums(rows, packer),
    }


def _empty_column_notes(summary: RowSummary) -> Iterator[Reason]:
    """Yield why documented columns are not filled."""
    yield because("report.no_requires_grad")
    if summary.without_stack:
        yield because("report.no_stack", count=summary.without_stack, total=summary.count)


def _networks(graphs: Sequence[ModelGraph]) -> tuple[list[tuple[GraphNode, ...]], dict[Unit, int]]:
    """Return every network once, and the number of each unit's network."""
    networks: dict[tuple[GraphNode, ...], int] = {}
    numbers: dict[Unit, int] = {}
    for graph in graphs:
        number = networks.setdefault(graph.nodes, len(networks))
        numbers |= dict.fromkeys(graph.units, number)
    return list(networks), numbers


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
    pairs = [(_checksum(row.target), _checksum(row.golden)) for row in rows]
    found = [(number, *pair) for number, pair in enumerate(pairs) if any(pair)]
    return {
        "rows": packer.integers([number for number, _, _ in found]),
        "target": packer.texts([target for _, target, _ in found]),
        "golden": packer.texts([golden for _, _, golden in found]),
    }


def _checksum(side: SideInfo | None) -> str:
    return side.stats.crc32 if side and side.stats else ""
