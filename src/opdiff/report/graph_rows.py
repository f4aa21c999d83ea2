"""Results of graph mode as the rows that all reports take: the parts of one run, put together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opdiff.core.comparison import OpLabel
from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError
from opdiff.core.graphmode import SCENARIOS, Figures, GraphKind, row_order
from opdiff.core.reasons import all_of
from opdiff.core.tensor import Slot, TensorKey
from opdiff.report.rows import GraphMode, ReportRow, SavedComparison, Side, Spot, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import GraphNode
    from opdiff.core.graphmode import GraphRow, SideFacts
    from opdiff.report.graph_json import SavedGraph

# `mm-aten.mm.default.OUTPUT.0.20240130064151000000.npy`: one file for each tensor of FX.
_FX_FILE = re.compile(r"(.+)\.(INPUT|OUTPUT)\.(\d{1,9})(?:\.\d+)*(?:_min_max)?\.np[yz]")
# `Add.Add_1.5.6.1706596911000000,outputs,0`: a place in the file of an operator of the graph engine.
_GE_FILE = re.compile(r"[\w-]+\.([\w-]+)(?:\.\d+){2,7}(?:_min_max)?(?:\.\w+)?,(inputs|outputs),(\d{1,9})")


def put_together(parts: Sequence[SavedGraph]) -> SavedComparison:
    """All parts of one run as one comparison, without a judgement; ranks, graphs and tokens one after the other.

    Raises:
        InputError: they are not of one run, or two are about the same.
    """
    if not parts:
        raise ValueError("a comparison has at least one part")
    _check(parts)
    first = parts[0]
    rows: list[ReportRow] = []
    spots: list[Spot] = []
    units: dict[Unit, int] = {}
    networks: dict[tuple[GraphNode, ...], int] = {}
    for group in _by_graph(parts):
        nodes = next((part.nodes for part in group if part.nodes), ())
        network = networks.setdefault(nodes, len(networks)) if nodes else -1
        judged = [(number, *item) for part in group for number, item in enumerate(part.rows)]
        if len(group) > 1:
            judged.sort(key=lambda item: row_order(item[1]))
        of_token: dict[int, int] = {}
        for number, row, verdict in judged:
            if row.token not in of_token:
                unit = Unit(group[0].rank, row.token, group[0].graph, network)
                of_token[row.token] = units.setdefault(unit, len(units))
            spots.append(Spot(of_token[row.token], row, verdict))
            rows.append(report_row(row, number))
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    golden_kind = DumpKind.ARRAYS if first.scenario == SCENARIOS[GraphKind.FX] else DumpKind.NPU
    return SavedComparison(
        Side(first.target, DumpKind.NPU, quantized=False),
        Side(first.golden, golden_kind, quantized=False),
        first.scenario,
        tuple(rows),
        environment=first.environment,
        graph_mode=GraphMode(tuple(units), tuple(spots), tuple(networks), notes=notes),
    )


def _check(parts: Sequence[SavedGraph]) -> None:
    first = parts[0]
    seen: set[tuple[object, ...]] = set()
    for part in parts:
        if (part.target, part.golden) != (first.target, first.golden):
            others = f"other files are about {first.target} and {first.golden}"
            raise InputError(part.target, f"was compared with {part.golden}, {others}; give the files of one run")
        which = part.rank, part.graph, part.mode
        if which in seen:
            named = f"rank {part.rank}, graph {part.graph}, {part.mode}"
            raise InputError(part.target, f"two of the files are about the same ({named}); give the files of one run")
        seen.add(which)


def _by_graph(parts: Sequence[SavedGraph]) -> list[list[SavedGraph]]:
    """The parts of one graph of one rank together, in the order of ranks and graphs."""
    groups: dict[tuple[int, int], list[SavedGraph]] = {}
    for part in parts:
        groups.setdefault((_number(part.rank), _number(part.graph)), []).append(part)
    return [groups[which] for which in sorted(groups)]


def _number(number: int | None) -> int:
    return -1 if number is None else number


def report_row(row: GraphRow, number: int) -> ReportRow:
    """The row of a tensor or an operator; `number` is its place in its table."""
    target, golden = row.target, row.golden
    ours = Figures() if target is None else target.figures
    theirs = Figures() if golden is None else golden.figures
    of = target or golden
    return ReportRow(
        OpLabel(number, 0, of.op_type if of else "", row.op, golden.op_type if golden else ""),
        None if row.slot is None else TensorKey(row.op, row.slot, row.index or 0),
        None if golden is None or row.golden_only else golden_key(golden, row),
        target.path if target else "",
        golden.path if golden else "",
        ours.dtype,
        theirs.dtype,
        shape=ours.shape if target else theirs.shape,
        metrics=row.metrics,
        reason=row.reason or (all_of(row.notes) if row.notes else None),
        evidence=row.evidence,
        confidence=row.confidence,
    )


def golden_key(golden: SideFacts, row: GraphRow) -> TensorKey:
    """The golden tensor by the name of its file; the whole name where that is none that is known."""
    name = golden.path.rpartition("/")[2]
    match = _FX_FILE.fullmatch(name) or _GE_FILE.fullmatch(name)
    if match is None:
        return TensorKey(name, row.slot or Slot.OUTPUT, row.index or 0)
    return TensorKey(match[1], Slot.INPUT if match[2].lower().startswith("input") else Slot.OUTPUT, int(match[3]))
