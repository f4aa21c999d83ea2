"""Inputs of a comparison in graph mode: every token of every graph of every rank, paired in batches."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.comparison import DataMode, Mode, ModelGraph, Side
from opdiff.core.dump import DumpKind, GraphKind
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.core.rows_file import RowsFile
from opdiff.pair.graph.names import token_graph
from opdiff.run import usable_cores
from opdiff.workflows.compare.environments import graph_differences
from opdiff.workflows.compare.graph_tokens import choose_workers, in_row_order, token_jobs, tokens_per_job
from opdiff.workflows.compare.graph_units import GraphTexts, as_rank, find_units, pair_ranks
from opdiff.workflows.compare.input_checks import graph_problems, refuse_certain, refuse_fx_target
from opdiff.workflows.compare.inputs import Inputs, PairBatch
from opdiff.workflows.compare.shards import Division, Shards

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.dump import Unit
    from opdiff.core.reasons import Reason
    from opdiff.pair.graph.names import DumpedOperator
    from opdiff.read.graph.tree import GraphTree
    from opdiff.workflows.compare.graph_tokens import TokenPairs, TokenRows
    from opdiff.workflows.compare.graph_units import RankGraph
    from opdiff.workflows.compare.input_reader import InputReader
    from opdiff.workflows.compare.measuring import Measuring
    from opdiff.workflows.compare.options import CompareOptions

# Enough pairs to use all workers, few enough for their descriptions to fit in memory.
_PAIRS_PER_BATCH = 20_000
_SCENARIOS = {
    GraphKind.FX: because("pair.scenario_graph_fx"),
    GraphKind.GE: because("pair.scenario_graph_fusion_off"),
}


class _TokenReader(Struct, frozen=True):
    """How tokens are read, how they are measured where they are read, and the file for the rows of these tokens."""

    reader: InputReader
    measuring: Measuring | None
    rows_file: RowsFile


def read_graph_inputs(options: CompareOptions, reader: InputReader, measuring: Measuring | None = None) -> Inputs:
    """Find the ranks, graphs and tokens of both sides; dump files are opened when a batch is requested.

    Raises:
        InputError: a side is not a dump of graph mode, or the sides have nothing in common.
        UsageError: the rank must be selected.
    """
    token_reader = _TokenReader(reader, measuring, RowsFile(options.output))
    if options.ranks:
        return _read_ranks(options, token_reader)
    target, golden = reader.graph_trees([options.target, options.golden], _listing_workers(options))
    return _pair_trees(target, golden, options, token_reader)


def _listing_workers(options: CompareOptions) -> int:
    return 1 if options.in_process else options.workers or usable_cores()


def _read_ranks(options: CompareOptions, token_reader: _TokenReader) -> Inputs:
    """Find the graphs and tokens of ranks whose directories a table has."""
    from opdiff.read.declarations import read_rank_table

    table = read_rank_table(options.ranks)
    chosen = {rank: sides for rank, sides in table.items() if options.rank in (None, rank)}
    if not chosen:
        raise InputError(options.ranks, because("compare.no_rank", rank=options.rank))
    paths = [path for sides in chosen.values() for path in (sides.target, sides.golden)]
    trees = token_reader.reader.graph_trees(paths, _listing_workers(options))
    sides = [(as_rank(next(trees), rank), as_rank(next(trees), rank)) for rank in chosen]
    found = [_pair_trees(target, golden, options, token_reader) for target, golden in sides]
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


def _pair_trees(target: GraphTree, golden: GraphTree, options: CompareOptions, token_reader: _TokenReader) -> Inputs:
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
        _batches(units, golden.kind, options, division, token_reader),
        tuple(dict.fromkeys((*notes, *texts.notes, because("compare.no_requires_grad")))),
        warnings=warnings,
        differences=tuple(graph_differences(target, golden, texts.first_of(target), texts.first_of(golden))),
    )


def _batches(
    units: list[RankGraph],
    golden_kind: GraphKind,
    options: CompareOptions,
    division: Division | None,
    token_reader: _TokenReader,
) -> Iterator[PairBatch]:
    """Yield the pairs of all graphs in batches of complete tokens; a network comes with its last token.

    Many tokens are measured by the processes that read them, unless their pairs depend on other ranks.
    """
    reader, measuring, rows_file = token_reader.reader, token_reader.measuring, token_reader.rows_file
    max_tokens = tokens_per_job(units, options.workers or usable_cores())
    jobs = [token_jobs(unit, golden_kind, options.token, max_tokens) for unit in units]
    all_jobs = [job for some in jobs for job in some]
    workers = choose_workers(all_jobs, options)
    if workers > 1 and division is None and measuring is not None and measuring.fits_workers:
        measured = reader.measure_tokens(all_jobs, workers, measuring, rows_file.path)
        file_counts = [job.file_count for job in all_jobs]
        done = nbytes = 0
        for unit, some in zip(units, jobs, strict=True):
            for batch, measured_nbytes in _measured_batches(unit, islice(measured, len(some)), rows_file, options):
                done += batch.measured is not None
                nbytes += measured_nbytes
                # Files of further tokens are assumed to be as large as the files of earlier tokens.
                total = nbytes * sum(file_counts) // max(sum(file_counts[:done]), 1)
                yield replace(batch, progress=(nbytes, total))
        return
    results = reader.pair_tokens(all_jobs, workers)
    batch = PairBatch(())
    is_empty = True
    for unit, some in zip(units, jobs, strict=True):
        tokens = chain.from_iterable(islice(results, len(some)))
        for found in _iter_tokens(unit, tokens, options, division):
            batch = PairBatch(batch.pairs + found.pairs, batch.graphs + found.graphs, batch.notes + found.notes)
            is_empty = is_empty and not found.pairs
            if len(batch.pairs) >= _PAIRS_PER_BATCH:
                yield batch
                batch = PairBatch(())
    if is_empty:
        raise InputError(options.target, because("compare.no_token", token=options.token))
    yield batch


def _measured_batches(
    unit: RankGraph, results: Iterable[TokenRows], rows_file: RowsFile, options: CompareOptions
) -> Iterator[tuple[PairBatch, int]]:
    """Yield the rows of the tokens of one graph of one rank with their bytes, then the network, and notes."""
    notes: list[Reason] = []
    operators: dict[str, DumpedOperator] = {}
    units: list[Unit] = []
    first = dict.fromkeys(DataMode, 0)
    for found in results:
        numbered = replace(found.rows.rows, first=dict(first), file=rows_file)
        yield PairBatch((), measured=replace(found.rows, rows=numbered)), found.nbytes
        for mode, count in found.counts.items():
            first[mode] += count
        units += found.units
        operators |= {name: op for name, op in found.operators.items() if name not in operators}
        notes += found.notes
    yield _network_batch(unit, units, operators, notes, options), 0


def _iter_tokens(
    unit: RankGraph, tokens: Iterable[TokenPairs], options: CompareOptions, division: Division | None
) -> Iterator[PairBatch]:
    """Yield the pairs of each token of one graph of one rank, then the network of all tokens, and notes."""
    notes: list[Reason] = []
    operators: dict[str, DumpedOperator] = {}
    units: list[Unit] = []
    counts = dict.fromkeys(DataMode, 0)
    for found in tokens:
        units.append(found.unit)
        pairs = found.pairs if division is None else division.divide(found.pairs, unit, found.unit.token)
        operators |= {name: op for name, op in found.operators.items() if name not in operators}
        notes += found.notes
        yield PairBatch(in_row_order(pairs, options.data_mode, counts))
    yield _network_batch(unit, units, operators, notes, options)


def _network_batch(
    unit: RankGraph,
    units: Sequence[Unit],
    operators: Mapping[str, DumpedOperator],
    notes: Sequence[Reason],
    options: CompareOptions,
) -> PairBatch:
    """Return the network of the tokens of one graph of one rank, and notes about the tokens."""
    golden_tokens = unit.golden.tokens if unit.golden is not None else {}
    golden_only = [
        because("compare.token_of_golden_only", token=token)
        for token in golden_tokens
        if token not in unit.target.tokens and options.token in (None, token)
    ]
    nodes = token_graph(operators.values(), unit.text)
    found = (*notes, *golden_only)
    if unit.rank is not None:
        found = tuple(because("compare.of_rank", rank=unit.rank, note=note) for note in found)
    return PairBatch((), (ModelGraph(nodes, tuple(units)),) if nodes else (), found)
