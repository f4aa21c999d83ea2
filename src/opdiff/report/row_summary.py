"""Columns of all rows for the HTML page: what the overview, filters by level and the order of the table need.

They take a few bytes a row before compression; everything else about a row is in its block.
"""

from __future__ import annotations

from array import array
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from opdiff.core.comparison import DataMode
from opdiff.core.judgement import LEVELS, Level, Origin
from opdiff.core.reasons import kind_of
from opdiff.core.tensor import Slot
from opdiff.report.printable import printable
from opdiff.report.row_payload import row_reasons
from opdiff.report.summary_text import has_no_counterpart

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from opdiff.core.comparison import Row
    from opdiff.core.dump import Unit
    from opdiff.core.judgement import DocumentedResult, Finding
    from opdiff.core.reasons import Reason
    from opdiff.report.packing import Packer
    from opdiff.report.row_payload import RowPart

_SLOTS = {None: -1, Slot.INPUT: 0, Slot.OUTPUT: 1}
_LEVELS = {level: number for number, level in enumerate(LEVELS)}
_ORIGINS = {origin: number for number, origin in enumerate(Origin)}
_MODES = {mode: number for number, mode in enumerate((DataMode.REAL, DataMode.STATISTICS, DataMode.MD5))}
_RESULTS = {result: number for number, result in enumerate(("PASS", "FAIL", "N/A"))}


class RowSummary:
    """Collector of these columns.

    Attributes:
        units: the units of graph mode, in the order of the rows.
        count: number of rows.
        without_stack: number of rows without a stack.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.units: dict[Unit, int] = {}
        self.count = 0
        self.without_stack = 0
        self._columns = {name: array("b") for name in ("level", "origin", "slot", "alone", "mode", "result")}
        # Consecutive rows of one unit: the number of the unit, and the number of rows.
        self._unit_runs: list[tuple[int, int]] = []
        self._block_lengths: list[int] = []
        self._op_types: set[str] = set()
        # Kinds of reasons of rows that were not compared: their numbers, and the reasons of the first row of each.
        self._kinds: dict[tuple[tuple[str, ...], ...], tuple[int, tuple[Reason, ...]]] = {}
        self._row_kinds: list[int] = []
        self._findings = findings
        # The tensors that findings are about, in their first units: their operators and rows.
        self._operators = {(_unit_of(finding), finding.tensor.rsplit(":", 2)[0]) for finding in findings}
        self._tensor_rows: dict[tuple[Unit | None, str], int] = {}

    def add(self, part: RowPart) -> None:
        """Add the rows of a block."""
        rows, columns = part.rows, self._columns
        columns["level"].extend([_LEVELS[verdict.level] for verdict in part.verdicts])
        columns["origin"].extend([_ORIGINS[verdict.origin] for verdict in part.verdicts])
        columns["slot"].extend([_SLOTS[row.key.slot if row.key else None] for row in rows])
        columns["alone"].extend([has_no_counterpart(row) for row in rows])
        columns["mode"].extend([_MODES[row.data_mode] for row in rows])
        columns["result"].extend([_result(*pair) for pair in zip(rows, part.results, strict=False)])
        self._op_types.update([row.label.op_type for row in rows])
        self.without_stack += sum(not row.stack for row in rows)
        for unit, of_unit in groupby(rows, key=attrgetter("unit")):
            if unit is not None:
                self._unit_runs.append((self.units.setdefault(unit, len(self.units)), sum(1 for _ in of_unit)))
        for number, (row, verdict) in enumerate(zip(rows, part.verdicts, strict=True), self.count):
            if row.key is not None and (row.unit, row.key.op) in self._operators:
                self._tensor_rows.setdefault((row.unit, str(row.key)), number)
            if verdict.level is Level.NOT_COMPARABLE:
                self._add_kind(row_reasons(row))
        self.count += len(rows)
        self._block_lengths.append(len(rows))

    def _add_kind(self, reasons: tuple[Reason, ...]) -> None:
        kind = tuple(map(kind_of, reasons))
        self._row_kinds.append(self._kinds.setdefault(kind, (len(self._kinds), reasons))[0])

    def packed(self, packer: Packer) -> dict[str, Any]:
        """Return the columns."""
        return {
            "blocks": self._block_lengths,
            "rows": {name: packer.codes(column.tobytes()) for name, column in self._columns.items()},
            "unitRuns": self._unit_runs,
            "types": sorted(map(printable, filter(None, self._op_types))),
            "missing": {
                "kind": packer.integers(self._row_kinds),
                "kinds": [packer.sentences(reasons) for _, reasons in self._kinds.values()],
            },
            "findings": [
                {
                    "units": [self.units[unit] for unit in finding.units if unit in self.units],
                    "row": self._tensor_rows.get((_unit_of(finding), finding.tensor), -1),
                }
                for finding in self._findings
            ],
        }


def _unit_of(finding: Finding) -> Unit | None:
    return finding.units[0] if finding.units else None


def _result(row: Row, result: DocumentedResult) -> int:
    return _RESULTS["N/A" if row.reason else result.result]
