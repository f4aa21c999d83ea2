"""Columns of all rows for the HTML page: what the overview, filters by level and the order of the table need.

They take a few bytes a row before compression; everything else about a row is in its block.
"""

from __future__ import annotations

from array import array
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.comparison import DataMode
from opdiff.core.judgement import LEVELS, Level, Origin
from opdiff.core.reasons import kind_of
from opdiff.core.tensor import Slot
from opdiff.report.page_text import page_text
from opdiff.report.row_payload import row_reasons
from opdiff.report.summary_text import has_no_counterpart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from opdiff.core.comparison import Row
    from opdiff.core.dump import Unit
    from opdiff.core.judgement import DocumentedResult, Finding
    from opdiff.core.reasons import Reason
    from opdiff.report.packing import Packer
    from opdiff.report.parts import RowPart

_SLOTS = {None: -1, Slot.INPUT: 0, Slot.OUTPUT: 1}
_LEVELS = {level: number for number, level in enumerate(LEVELS)}
_ORIGINS = {origin: number for number, origin in enumerate(Origin)}
_MODES = {mode: number for number, mode in enumerate((DataMode.REAL, DataMode.STATISTICS, DataMode.MD5))}
_RESULTS = {result: number for number, result in enumerate(("PASS", "FAIL", "N/A"))}


class PartSummary(Struct, frozen=True):
    """What the overview needs of a block of rows.

    Attributes:
        columns: a byte for each row.
        unit_runs: consecutive rows of one unit: the unit, and the number of rows.
        count: number of rows.
        without_stack: number of rows without a stack.
        op_types: types of operators.
        missing: the reasons of each row that was not compared.
        tensor_rows: rows of tensors that findings are about, by unit and name, counted from the first row of the block.
    """

    columns: Mapping[str, bytes]
    unit_runs: tuple[tuple[Unit, int], ...]
    count: int
    without_stack: int
    op_types: frozenset[str]
    missing: tuple[tuple[Reason, ...], ...]
    tensor_rows: Mapping[tuple[Unit | None, str], int]


def summarize(part: RowPart, findings: Sequence[Finding]) -> PartSummary:
    """Return the summary of a block of rows."""
    rows, verdicts = part.rows, part.verdicts
    columns = {
        "level": bytes([_LEVELS[verdict.level] for verdict in verdicts]),
        "origin": bytes([_ORIGINS[verdict.origin] for verdict in verdicts]),
        "slot": array("b", [_SLOTS[row.key.slot if row.key else None] for row in rows]).tobytes(),
        "alone": bytes([has_no_counterpart(row) for row in rows]),
        "mode": bytes([_MODES[row.data_mode] for row in rows]),
        "result": bytes([_result(*pair) for pair in zip(rows, part.results, strict=False)]),
    }
    missing = [
        row_reasons(row) for row, verdict in zip(rows, verdicts, strict=True) if verdict.level is Level.NOT_COMPARABLE
    ]
    return PartSummary(
        columns,
        tuple((unit, sum(1 for _ in of_unit)) for unit, of_unit in groupby(rows, attrgetter("unit")) if unit),
        len(rows),
        sum(not row.stack for row in rows),
        frozenset(row.label.op_type for row in rows),
        tuple(missing),
        _tensor_rows(rows, findings),
    )


def _tensor_rows(rows: Sequence[Row], findings: Sequence[Finding]) -> dict[tuple[Unit | None, str], int]:
    """Return the rows of the tensors that findings are about, in their first units."""
    operators = {(_unit_of(finding), finding.tensor.rsplit(":", 2)[0]) for finding in findings}
    found: dict[tuple[Unit | None, str], int] = {}
    for number, row in enumerate(rows if operators else ()):
        if row.key is not None and (row.unit, row.key.op) in operators:
            found.setdefault((row.unit, str(row.key)), number)
    return found


class RowSummary:
    """Collector of the summaries of all blocks.

    Attributes:
        units: the units of graph mode, in the order of the rows.
        count: number of rows.
        without_stack: number of rows without a stack.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.units: dict[Unit, int] = {}
        self.count = 0
        self.without_stack = 0
        self._columns = {name: bytearray() for name in ("level", "origin", "slot", "alone", "mode", "result")}
        # Consecutive rows of one unit: the number of the unit, and the number of rows.
        self._unit_runs: list[tuple[int, int]] = []
        self._block_lengths: list[int] = []
        self._op_types: set[str] = set()
        # Kinds of reasons of rows that were not compared: their numbers, and the reasons of the first row of each.
        self._kinds: dict[tuple[tuple[str, ...], ...], tuple[int, tuple[Reason, ...]]] = {}
        self._row_kinds: list[int] = []
        self._findings = findings
        self._tensor_rows: dict[tuple[Unit | None, str], int] = {}

    def add(self, part: PartSummary) -> None:
        """Add the next block."""
        for name, column in part.columns.items():
            self._columns[name] += column
        self._op_types |= part.op_types
        self.without_stack += part.without_stack
        self._unit_runs += ((self.units.setdefault(unit, len(self.units)), count) for unit, count in part.unit_runs)
        for reasons in part.missing:
            kind = tuple(map(kind_of, reasons))
            self._row_kinds.append(self._kinds.setdefault(kind, (len(self._kinds), reasons))[0])
        for tensor, number in part.tensor_rows.items():
            self._tensor_rows.setdefault(tensor, self.count + number)
        self.count += part.count
        self._block_lengths.append(part.count)

    def packed(self, packer: Packer) -> dict[str, Any]:
        """Return the columns."""
        return {
            "blocks": self._block_lengths,
            "rows": {name: packer.codes(bytes(column)) for name, column in self._columns.items()},
            "unitRuns": self._unit_runs,
            "types": sorted(map(page_text, filter(None, self._op_types))),
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
