"""What the page of a report shows of graph mode alone: ranks, tokens and graphs, PASS and FAIL, statistics, checksums.

Of everything that was not measured there is nothing here: statistics are those of rows that were compared by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.graphmode import DataMode, RealFigures, differences
from opdiff.core.reasons import render_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from opdiff.core.comparison import Finding, GraphNode
    from opdiff.core.graphmode import GraphRow, SideFacts
    from opdiff.report.packing import Packer
    from opdiff.report.rows import GraphMode, ReportRow, Spot

MODES = (DataMode.REAL, DataMode.STATISTICS, DataMode.MD5)
_RESULTS = ("PASS", "FAIL", "N/A")
_FIGURES = ("maximum", "minimum", "mean", "norm", "nans", "infs")


def graph_mode_columns(about: GraphMode, packer: Packer, network: Callable[[Sequence[GraphNode]], Any]) -> Any:  # noqa: ANN401  what JSON has
    """The columns of all rows; `network` packs a graph."""
    spots = about.spots
    return {
        "units": [[unit.rank, unit.token, unit.graph, unit.network] for unit in about.units],
        "networks": [network(nodes) for nodes in about.networks],
        "notes": [str(note).encode(errors="backslashreplace").decode() for note in about.notes],
        "unit": packer.integers([spot.unit for spot in spots]),
        "mode": packer.integers([MODES.index(spot.row.mode) for spot in spots]),
        "result": packer.integers([_result(spot) for spot in spots]),
        "marks": packer.texts([render_all(spot.verdict.why) for spot in spots]),
        "stack": packer.texts([spot.row.stack for spot in spots]),
        "real": _real(spots, packer),
        "statistics": _statistics(spots, packer),
        "checksums": _checksums(spots, packer),
    }


def finding_places(about: GraphMode, rows: Sequence[ReportRow], findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """For each finding its units, and its row in the first of them."""
    firsts = {units[0] for units in about.found}
    places = {
        (spot.unit, str(row.key)): number
        for number, (spot, row) in enumerate(zip(about.spots, rows, strict=True))
        if spot.unit in firsts
    }
    return [
        {"units": list(units), "row": places.get((units[0], finding.tensor), -1)}
        for finding, units in zip(findings, about.found, strict=True)
    ]


def _result(spot: Spot) -> int:
    """PASS, FAIL, or that nothing was compared."""
    return _RESULTS.index("N/A" if spot.row.reason else spot.verdict.result)


def _real(spots: Sequence[Spot], packer: Packer) -> dict[str, Any]:
    """The documented metrics of data."""
    rows = [(number, spot.row.real) for number, spot in enumerate(spots) if spot.row.real is not None]
    columns = zip(RealFigures._fields, zip(*(figures for _, figures in rows), strict=True), strict=False)
    return {
        "rows": packer.integers([number for number, _ in rows]),
        "columns": {name: packer.exact(column) for name, column in columns},
    }


def _statistics(spots: Sequence[Spot], packer: Packer) -> dict[str, Any]:
    """What both sides' statistics are, and how far they are off; of rows that were compared by them."""
    rows = [(number, spot.row) for number, spot in enumerate(spots) if _is_by_statistics(spot.row)]
    columns: dict[str, Any] = {}
    for side in ("target", "golden"):
        found = [getattr(row, side) for _, row in rows]
        for name in _FIGURES:
            values = [None if facts is None else getattr(facts.figures, name) for facts in found]
            columns[f"{side}_{name}"] = packer.exact(values)
    off = [differences(row) for _, row in rows]
    for name in ("max", "min", "mean", "norm"):
        columns[f"{name}_relative"] = packer.exact([item[name].relative for item in off])
    return {"rows": packer.integers([number for number, _ in rows]), "columns": columns}


def _is_by_statistics(row: GraphRow) -> bool:
    return row.mode is DataMode.STATISTICS and not row.reason


def _checksums(spots: Sequence[Spot], packer: Packer) -> dict[str, Any]:
    """CRC-32 of both sides, where one is known."""
    found = [(_checksum(spot.row.target), _checksum(spot.row.golden)) for spot in spots]
    rows = [number for number, sums in enumerate(found) if any(sums)]
    return {
        "rows": packer.integers(rows),
        "target": packer.texts([found[number][0] for number in rows]),
        "golden": packer.texts([found[number][1] for number in rows]),
    }


def _checksum(side: SideFacts | None) -> str:
    return "" if side is None else side.figures.crc32
