"""The table of graph mode as CSV: no colours, and nothing that a spreadsheet would run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.report.cells import write_table
from opdiff.report.graph_columns import header, iter_cells

if TYPE_CHECKING:
    from opdiff.core.graphmode import DataMode
    from opdiff.report.graph_columns import Judged


def write_graph_csv(judged: Judged, mode: DataMode, path: str) -> None:
    """Write the whole table, or nothing when it cannot be written."""
    write_table(path, header(mode), iter_cells(judged, mode))
