"""What reports need of a comparison, without the tensors: one value for all of them, and the one that is saved.

Comparison ──saved──► SavedComparison ──► csv, text, json
                             ▲              │
                             └─────load─────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Comparison, Measured, Unpaired
from opdiff.core.reasons import quoted

if TYPE_CHECKING:
    from opdiff.core.comparison import GraphNode, Judgement, Metrics, OpLabel, Pairing, Profile, Row
    from opdiff.core.dump import Dump, DumpKind
    from opdiff.core.graphmode import GraphRow
    from opdiff.core.graphmode import Verdict as GraphVerdict
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape, Tensor, TensorKey


class Side(NamedTuple):
    """One of the two dumps: where it is and who wrote it."""

    path: str
    kind: DumpKind
    quantized: bool


class Environment(NamedTuple):
    """Who compared: versions and machine, and when; empty in comparisons that older versions saved."""

    opdiff: str = ""
    python: str = ""
    system: str = ""
    kernel: str = ""
    time: str = ""


class ReportRow(NamedTuple):
    """One row of every report.

    Attributes:
        label: what it has in common with the other rows of its operator.
        key: the target's tensor; `None` when the row is about a whole operator.
        golden_key: the golden tensor; `None` when there is none.
        target_path: the target's file; empty when there is none.
        golden_path: the golden file; empty when there is none.
        target_dtype: the target's element type; empty when not known.
        golden_dtype: the golden element type; empty when not known.
        target_address: the target's device address; 0 when the dump records none, `None` without a tensor.
        golden_address: the same of the golden tensor.
        shape: the shape in which they were compared, or the target's stored shape; `None` without a tensor.
        steps: what was done to bring both to one layout.
        metrics: the numbers; `None` when there are none.
        custom: metrics of the user's own: name, value, message.
        overflow: whether the target saturated; `None` when not looked at.
        reason: why there are no metrics, or a reservation about them.
        evidence: why the two tensors belong together; `None` where nothing was paired.
        confidence: how sure that is; `None` where nothing was paired.
    """

    label: OpLabel
    key: TensorKey | None = None
    golden_key: TensorKey | None = None
    target_path: str = ""
    golden_path: str = ""
    target_dtype: str = ""
    golden_dtype: str = ""
    target_address: int | None = None
    golden_address: int | None = None
    shape: Shape | None = None
    steps: tuple[Reason, ...] = ()
    metrics: Metrics | None = None
    custom: tuple[tuple[str, str, str], ...] = ()
    overflow: bool | None = None
    reason: Reason | None = None
    evidence: Reason | None = None
    confidence: float | None = None


class Unit(NamedTuple):
    """One token of one graph of one rank; `None` where there are no ranks, or one graph only.

    `network` is the number of its network in `GraphMode.networks`, and -1 where none is known.
    """

    rank: int | None
    token: int
    graph: int | None
    network: int = -1

    def __str__(self) -> str:
        parts = (("rank", self.rank), ("token", self.token), ("graph", self.graph))
        return ", ".join(f"{name} {number}" for name, number in parts if number is not None)


class Spot(NamedTuple):
    """What graph mode knows of a row: the number of its unit, the row itself, and PASS or FAIL."""

    unit: int
    row: GraphRow
    verdict: GraphVerdict


class GraphMode(NamedTuple):
    """What only comparisons of graph mode have.

    Attributes:
        units: everything that was compared, in the order of the rows.
        spots: one for each row.
        networks: the graphs whose edges are known; units that have the same one share it.
        found: for each finding of the judgement the numbers of the units that have it, the first one first.
        notes: what is to be known about the two dumps.
    """

    units: tuple[Unit, ...]
    spots: tuple[Spot, ...]
    networks: tuple[tuple[GraphNode, ...], ...] = ()
    found: tuple[tuple[int, ...], ...] = ()
    notes: tuple[Reason, ...] = ()


class SavedComparison(NamedTuple):
    """A comparison without its tensors; rows in the order of the report, and how the user wanted the table.

    `graph` is the target's network as far as it is known, `judgement` what is thought of the rows, `profiles` where the
    errors of the worst tensors are. `graph_mode` is not saved with them: graph mode has files of its own, of which all
    of this is made again.
    """

    target: Side
    golden: Side
    scenario: Reason
    rows: tuple[ReportRow, ...]
    metrics: str = "all"
    sequence: bool = False
    overflow: bool = False
    graph: tuple[GraphNode, ...] = ()
    judgement: Judgement | None = None
    environment: Environment = Environment()
    profiles: tuple[Profile, ...] = ()
    graph_mode: GraphMode | None = None

    def places(self) -> list[str]:
        """For each row, which rank, token and graph it is of; empty outside of graph mode."""
        if self.graph_mode is None:
            return [""] * len(self.rows)
        names = [str(unit) for unit in self.graph_mode.units]
        return [names[spot.unit] for spot in self.graph_mode.spots]


def saved(comparison: Comparison | SavedComparison) -> SavedComparison:
    """What is kept of a comparison; one that was loaded is that already."""
    if isinstance(comparison, SavedComparison):
        return comparison
    return SavedComparison(
        _side(comparison.target),
        _side(comparison.golden),
        comparison.scenario,
        tuple(report_row(row) for row in comparison.rows),
        comparison.metrics,
        comparison.sequence,
        comparison.overflow,
        comparison.graph,
    )


def report_row(row: Row | Pairing) -> ReportRow:
    """The row of a tensor or an operator; a pairing that was not measured has no numbers and no reason."""
    if isinstance(row, Unpaired):
        return _unpaired(row)
    return _measured(row) if isinstance(row, Measured) else _paired(row)


def _side(dump: Dump) -> Side:
    return Side(dump.path, dump.kind, dump.quantized)


def _unpaired(row: Unpaired) -> ReportRow:
    target = row.target.data if row.target else None
    return ReportRow(
        row.label,
        row.key,
        target_path=target.source.path if target else "",
        target_dtype=target.spec.dtype.name if target else "",
        target_address=_address(target),
        shape=target.spec.shape if target else None,
        reason=row.reason,
    )


def _paired(pairing: Pairing) -> ReportRow:
    target, golden = pairing.target.data.spec, pairing.golden.data.spec
    return _measured(Measured(pairing, target.dtype.name, golden.dtype.name, target.shape))


def _measured(row: Measured) -> ReportRow:
    pairing = row.pairing
    target, golden = pairing.target.data, pairing.golden.data
    return ReportRow(
        pairing.label,
        pairing.key,
        pairing.golden_key,
        target.source.path,
        golden.source.path,
        row.target_dtype,
        row.golden_dtype,
        target.spec.address or 0,
        golden.spec.address or 0,
        row.shape,
        row.steps,
        row.metrics,
        row.custom,
        row.overflow,
        quoted(row.reason) if row.reason else None,
        pairing.evidence,
        pairing.confidence,
    )


def _address(tensor: Tensor | None) -> int | None:
    return (tensor.spec.address or 0) if tensor else None
