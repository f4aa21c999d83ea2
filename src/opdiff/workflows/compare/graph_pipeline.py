"""The way of a comparison in graph mode: read → pair → align → measure → judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Pairing, Unit
from opdiff.core.errors import InputError
from opdiff.core.graphmode import SCENARIOS, DataMode, GraphKind, GraphRow, SideFacts, row_order
from opdiff.core.reasons import because, quoted
from opdiff.judge.graph.criteria import judge_rows
from opdiff.pair.graph.token import pair_token
from opdiff.pair.graph.token_graph import token_graph
from opdiff.read.graph.token_files import read_token
from opdiff.read.graph.tree import read_graph_tree
from opdiff.run import Work, fitting_workers, run, usable_cores
from opdiff.workflows.compare.graph_job import GraphJob, described, died, measure_graph_job, measure_real_jobs, mode_of
from opdiff.workflows.compare.graph_units import GraphTexts, GraphUnit, find_units, in_rank, pair_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.comparison import GraphNode, Unpaired
    from opdiff.core.dump import SideTensor
    from opdiff.core.graphmode import Figures, GraphOp, Verdict
    from opdiff.core.reasons import Reason
    from opdiff.workflows.compare.graph_job import Measurement

    Progress = Callable[[int, int], None]
    Row = Pairing | Unpaired

# Pairs that are measured together: enough to keep all workers busy, few enough to hold in memory.
_BATCH = 20_000


class GraphOptions(NamedTuple):
    """What to compare and how; `None` is everything."""

    target: str = ""
    golden: str = ""
    output: str = "."
    rank: int | None = None
    token: int | None = None
    graph: int | None = None
    mode: DataMode = DataMode.AUTO
    xlsx: bool = False
    workers: int = 0
    memory: int = 0
    in_process: bool = False


class GraphPlan(NamedTuple):
    """What belongs together, and what is to be known about that."""

    target: str
    golden: str
    golden_kind: GraphKind
    units: tuple[GraphUnit, ...]
    notes: tuple[Reason, ...]

    @property
    def scenario(self) -> Reason:
        """What is compared with what."""
        return SCENARIOS[self.golden_kind]


class GraphResult(NamedTuple):
    """One graph of one rank, compared."""

    rank: int | None
    graph: int | None
    rows: tuple[GraphRow, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[Reason, ...] = ()
    defects: tuple[str, ...] = ()
    nodes: tuple[GraphNode, ...] = ()


@dataclass(slots=True)
class _Pending:
    """A graph whose pairs wait to be measured."""

    unit: GraphUnit
    rows: tuple[Row, ...]
    notes: tuple[Reason, ...]
    nodes: tuple[GraphNode, ...] = ()
    measured: dict[int, Measurement] = field(default_factory=dict)


def plan_graphs(options: GraphOptions) -> GraphPlan:
    """Find what belongs together; dump files are not opened for that.

    Raises:
        InputError: a side is not a dump of graph mode, or nothing belongs together.
        UsageError: it has to be said which rank is meant.
    """
    target, golden = read_graph_tree(options.target), read_graph_tree(options.golden)
    if target.kind is GraphKind.FX:
        raise InputError(target.root, "this is an FX dump; the target is a dump of the graph engine, FX is the golden")
    ranks, notes = pair_ranks(target, golden, options.rank)
    texts = GraphTexts(target, golden)
    found = [*target.notes, *golden.notes, *notes]
    units = find_units(ranks, golden.kind, texts, found)
    if options.graph is not None:
        units = [unit for unit in units if unit.number == options.graph]
    if not units:
        wanted = "" if options.graph is None else f" {options.graph}"
        raise InputError(target.root, f"no graph{wanted} to compare is here")
    return GraphPlan(target.root, golden.root, golden.kind, tuple(units), tuple(dict.fromkeys((*found, *texts.notes))))


def compare_graphs(plan: GraphPlan, options: GraphOptions, progress: Progress) -> Iterator[GraphResult]:
    """Every graph of every rank, compared.

    Raises:
        InputError: the token that is asked for is not there.
    """
    waiting: list[_Pending] = []
    pairs = 0
    found = False
    for unit in plan.units:
        pending = _paired(unit, plan.golden_kind, options)
        found = found or bool(pending.rows)
        pairs += sum(isinstance(row, Pairing) for row in pending.rows)
        waiting.append(pending)
        if pairs >= _BATCH:
            yield from _measured(waiting, options, progress)
            waiting, pairs = [], 0
    if not found:
        raise InputError(plan.target, f"no token {options.token} is here")
    yield from _measured(waiting, options, progress)


def _paired(unit: GraphUnit, golden_kind: GraphKind, options: GraphOptions) -> _Pending:
    rows: list[Row] = []
    notes: list[Reason] = []
    dumped: dict[str, GraphOp] = {}
    theirs = unit.golden.tokens if unit.golden is not None else {}
    for token, folders in unit.target.tokens.items():
        if options.token not in (None, token):
            continue
        target = read_token(folders, GraphKind.GE)
        golden = read_token(theirs[token], golden_kind) if token in theirs else None
        rows += pair_token(Unit(unit.rank, token, unit.graph), target, golden, unit.text)
        dumped |= {name: op for name, op in target.operators.items() if name not in dumped}
        if golden is None:
            notes.append(because("pair.token_not_in_golden", token=token))
        left_out = [*target.left_out, *(golden.left_out if golden else ())]
        if left_out:
            path, problem = left_out[0]
            notes.append(because("pair.files_left_out", token=token, count=len(left_out), path=path, problem=problem))
    notes += [
        because("pair.token_only_in_golden", token=token)
        for token in theirs
        if token not in unit.target.tokens and options.token in (None, token)
    ]
    notes = [in_rank(note, unit.rank) for note in notes]
    return _Pending(unit, tuple(rows), tuple(notes), token_graph(dumped.values(), unit.text))


def _measured(waiting: Sequence[_Pending], options: GraphOptions, progress: Progress) -> Iterator[GraphResult]:
    jobs: list[GraphJob] = []
    owners: list[tuple[_Pending, int]] = []
    for pending in waiting:
        for place, row in enumerate(pending.rows):
            if isinstance(row, Pairing):
                mode = mode_of(row.target, row.golden, options.mode)
                jobs.append(GraphJob(len(jobs), row.target, row.golden, mode))
                owners.append((pending, place))
    total = sum(job.weight for job in jobs)
    measured, left = measure_real_jobs(jobs, options.workers or usable_cores(), lambda nbytes: progress(nbytes, total))
    for job, measurement in measured:
        pending, place = owners[job.number]
        pending.measured[place] = measurement
    done = total - sum(job.weight for job in left)
    progress(done, total)
    work = Work(measure_graph_job, died, lambda job: job.nbytes, in_process=options.in_process)
    workers = fitting_workers(options.workers, options.memory, (job.nbytes for job in left))
    for job, measurement in run(work, left, workers):
        pending, place = owners[job.number]
        pending.measured[place] = measurement
        done += job.weight
        progress(done, total)
    for pending in waiting:
        yield _result(pending, options)


def _result(pending: _Pending, options: GraphOptions) -> GraphResult:
    rows = [
        _row(row, pending.measured[place], options) if isinstance(row, Pairing) else _unpaired_row(row, options)
        for place, row in enumerate(pending.rows)
    ]
    rows.sort(key=row_order)
    defects = tuple(measurement.defect for measurement in pending.measured.values() if measurement.defect)
    unit = pending.unit
    verdicts = tuple(judge_rows(rows))
    return GraphResult(unit.rank, unit.graph, tuple(rows), verdicts, pending.notes, defects, pending.nodes)


def _row(pairing: Pairing, measured: Measurement, options: GraphOptions) -> GraphRow:
    target, golden = pairing.target, pairing.golden
    doubt = because("pair.low_confidence", confidence=pairing.confidence, evidence=pairing.evidence)
    return GraphRow(
        _token(pairing),
        pairing.label.target,
        pairing.key.slot,
        pairing.key.index,
        pairing.timestamp,
        mode_of(target, golden, options.mode),
        _facts(target, pairing.label.op_type, measured.target),
        _facts(golden, pairing.golden_type, measured.golden),
        measured.real,
        measured.further,
        measured.metrics,
        (*map(quoted, measured.notes), *([doubt] if pairing.confidence < 1 else [])),
        quoted(measured.reason) if measured.reason else None,
        pairing.evidence,
        pairing.confidence,
        pairing.stack,
    )


def _token(row: Row) -> int:
    return row.unit.token if row.unit else 0


def _facts(tensor: SideTensor, op_type: str, figures: Figures) -> SideFacts:
    return SideFacts(tensor.path + tensor.location, op_type, figures)


def _unpaired_row(row: Unpaired, options: GraphOptions) -> GraphRow:
    op_type, tensor = row.label.op_type, row.target
    facts = SideFacts(row.path, op_type) if tensor is None else _facts(tensor, op_type, described(tensor))
    return GraphRow(
        _token(row),
        row.label.target,
        row.key and row.key.slot,
        row.key and row.key.index,
        row.timestamp,
        _unpaired_mode(row, options.mode),
        None if row.golden_only else facts,
        facts if row.golden_only else None,
        reason=row.reason,
        stack=row.stack,
        golden_only=row.golden_only,
    )


def _unpaired_mode(row: Unpaired, wanted: DataMode) -> DataMode:
    """Return the mode whose table has the row: that of its operator's data."""
    if wanted is not DataMode.AUTO:
        return wanted
    return DataMode.REAL if row.has_data else DataMode.STATISTICS
