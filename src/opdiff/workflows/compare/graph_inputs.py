"""Inputs of a comparison in graph mode: every token of every graph of every rank, paired in batches."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.comparison import DataMode, Mode, ModelGraph, Pairing, Side
from opdiff.core.dump import DumpKind, GraphKind
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot
from opdiff.pair.graph.token_graph import token_graph
from opdiff.workflows.compare.environments import graph_differences
from opdiff.workflows.compare.graph_tokens import choose_workers, token_jobs
from opdiff.workflows.compare.graph_units import GraphTexts, as_rank, find_units, pair_ranks
from opdiff.workflows.compare.input_checks import graph_problems, refuse_certain, refuse_fx_target
from opdiff.workflows.compare.inputs import Batch, Inputs
from opdiff.workflows.compare.job import data_mode
from opdiff.workflows.compare.shards import Division, Shards

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opdiff.core.comparison import Pair
    from opdiff.core.dump import GraphOp, Unit
    from opdiff.core.reasons import Reason
    from opdiff.read.graph.tree import GraphTree
    from opdiff.workflows.compare.graph_tokens import TokenPairs
    from opdiff.workflows.compare.graph_units import RankGraph
    from opdiff.workflows.compare.input_reader import InputReader
    from opdiff.workflows.compare.options import CompareOptions

# Enough pairs to use all workers, few enough for their descriptions to fit in memory.
_PAIRS_PER_BATCH = 20_000
_SCENARIOS = {
    GraphKind.FX: because("pair.scenario_graph_fx"),
    GraphKind.GE: because("pair.scenario_graph_fusion_off"),
}
_SLOT_ORDER = {None: -1, Slot.INPUT: 0, Slot.OUTPUT: 1}


def read_graph_inputs(options: CompareOptions, reader: InputReader) -> Inputs:
    """Find the ranks, graphs and tokens of both sides; dump files are opened when a batch is requested.

    Raises:
        InputError: a side is not a dump of graph mode, or the sides have nothing in common.
        UsageError: the rank must be selected.
    """
    if options.ranks:
        return _read_ranks(options, reader)
    target, golden = reader.graph_trees([options.target, options.golden])
    return _pair_trees(target, golden, options, reader)


def _read_ranks(options: CompareOptions, reader: InputReader) -> Inputs:
    """Find the graphs and tokens of ranks whose directories a table has."""
    from opdiff.read.graph.rank_table import read_rank_table

    table = read_rank_table(options.ranks)
    chosen = {rank: sides for rank, sides in table.items() if options.rank in (None, rank)}
    if not chosen:
        raise InputError(options.ranks, because("compare.no_rank", rank=options.rank))
    trees = reader.graph_trees(path for sides in chosen.values() for path in (sides.target, sides.golden))
    found = [_pair_trees(as_rank(next(trees), rank), as_rank(next(trees), rank), options, reader) for rank in chosen]
    first = found[0]
    return replace(
        first,
        target=replace(first.target, path=options.ranks),
        golden=replace(first.golden, path=options.ranks),
        paired_batches=chain.from_iterable(inputs.paired_batches for inputs in found),
        notes=tuple(dict.fromkeys(note for inputs in found for note in inputs.notes)),
        warnings=tuple(dict.fromkeys(warning for inputs in found for warning in inputs.warnings)),
        differences=tuple(dict.fromkeys(each for inputs in found for each in inputs.differences)),
    )


def _pair_trees(target: GraphTree, golden: GraphTree, options: CompareOptions, reader: InputReader) -> Inputs:
    refuse_fx_target(target, golden)
    warnings = refuse_certain(graph_problems(target, golden), force=options.force)
    shards = Shards.of(options.shards, [*target.ranks]) if options.shards else None
    ranks, rank_notes = pair_ranks(target, golden, options.rank, shards.ranks if shards else ())
    texts = GraphTexts(target, golden)
    notes: list[Reason] = [*target.notes, *golden.notes, *rank_notes]
    units = find_units(ranks, golden.kind, texts, notes)
    division = Division(shards, units) if shards else None
    if shards and options.rank is not None:
        units = [unit for unit in units if unit.rank == options.rank]
    if options.graph is not None:
        units = [unit for unit in units if unit.number == options.graph]
    if not units:
        if options.graph is None:
            raise InputError(target.root, because("compare.no_graph"))
        raise InputError(target.root, because("compare.no_such_graph", number=options.graph))
    return Inputs(
        Mode.GRAPH,
        "",
        Side(target.root, DumpKind.NPU, quantized=False),
        Side(golden.root, DumpKind.ARRAYS if golden.kind is GraphKind.FX else DumpKind.NPU, quantized=False),
        _SCENARIOS[golden.kind],
        _batches(units, golden.kind, options, division, reader),
        tuple(dict.fromkeys((*notes, *texts.notes))),
        warnings=warnings,
        differences=tuple(graph_differences(target, golden, texts.first_of(target), texts.first_of(golden))),
    )


def _batches(
    units: list[RankGraph],
    golden_kind: GraphKind,
    options: CompareOptions,
    division: Division | None,
    reader: InputReader,
) -> Iterator[Batch]:
    """Yield the pairs of all graphs in batches of complete tokens; a network comes with its last token."""
    pairs: list[Pair] = []
    graphs: list[ModelGraph] = []
    notes: list[Reason] = []
    is_empty = True
    jobs = [token_jobs(unit, golden_kind, options.token) for unit in units]
    all_jobs = [job for some in jobs for job in some]
    results = reader.pair_tokens(all_jobs, choose_workers(all_jobs, options))
    for unit, some in zip(units, jobs, strict=True):
        tokens = chain.from_iterable(islice(results, len(some)))
        for found in _iter_tokens(unit, tokens, options, division):
            pairs += found.pairs
            graphs += found.graphs
            notes += found.notes
            is_empty = is_empty and not found.pairs
            if len(pairs) >= _PAIRS_PER_BATCH:
                yield Batch(tuple(pairs), tuple(graphs), tuple(notes))
                pairs, graphs, notes = [], [], []
    if is_empty:
        raise InputError(options.target, because("compare.no_token", token=options.token))
    yield Batch(tuple(pairs), tuple(graphs), tuple(notes))


def _iter_tokens(
    unit: RankGraph, tokens: Iterable[TokenPairs], options: CompareOptions, division: Division | None
) -> Iterator[Batch]:
    """Yield the pairs of each token of one graph of one rank, then the network of all tokens, and notes."""
    notes: list[Reason] = []
    operators: dict[str, GraphOp] = {}
    units: list[Unit] = []
    counts = dict.fromkeys(DataMode, 0)
    for found in tokens:
        units.append(found.unit)
        pairs = found.pairs if division is None else division.divide(found.pairs, unit, found.unit.token)
        operators |= {name: op for name, op in found.operators.items() if name not in operators}
        notes += found.notes
        yield Batch(_numbered(sorted(pairs, key=_row_order), options, counts))
    golden_tokens = unit.golden.tokens if unit.golden is not None else {}
    notes += [
        because("compare.token_of_golden_only", token=token)
        for token in golden_tokens
        if token not in unit.target.tokens and options.token in (None, token)
    ]
    nodes = token_graph(operators.values(), unit.text)
    yield Batch(
        (),
        (ModelGraph(nodes, tuple(units)),) if nodes else (),
        tuple(note if unit.rank is None else because("compare.of_rank", rank=unit.rank, note=note) for note in notes),
    )


def _row_order(pair: Pair) -> tuple[bool, int, str, int, int]:
    """Sort the pairs of a token: unused golden operators last, then by time and operator, inputs before outputs."""
    is_golden = not isinstance(pair, Pairing) and pair.golden_only
    slot, index = (pair.key.slot, pair.key.index) if pair.key else (None, 0)
    return is_golden, pair.timestamp, pair.label.target, _SLOT_ORDER[slot], index


def _numbered(pairs: list[Pair], options: CompareOptions, counts: dict[DataMode, int]) -> tuple[Pair, ...]:
    """Number the pairs within their table, from `counts` on; each `DataMode` has its own table."""
    numbered: list[Pair] = []
    for pair in pairs:
        mode = data_mode(pair, options.data_mode)
        numbered.append(replace(pair, label=replace(pair.label, index=counts[mode])))
        counts[mode] += 1
    return tuple(numbered)
