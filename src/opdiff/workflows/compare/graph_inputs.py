"""Inputs of a comparison in graph mode: every token of every graph of every rank, paired in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.comparison import DataMode, Mode, ModelGraph, Pairing, Side
from opdiff.core.dump import DumpKind, GraphKind, Unit
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot
from opdiff.pair.graph.token import pair_token
from opdiff.pair.graph.token_graph import token_graph
from opdiff.read.graph.token_files import read_token
from opdiff.read.graph.tree import read_graph_tree
from opdiff.workflows.compare.environments import graph_differences
from opdiff.workflows.compare.graph_units import GraphTexts, find_units, pair_ranks
from opdiff.workflows.compare.input_checks import graph_problems, refuse_certain, refuse_fx_target
from opdiff.workflows.compare.inputs import Batch, Inputs
from opdiff.workflows.compare.job import data_mode
from opdiff.workflows.compare.shards import Division, Shards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.comparison import Pair
    from opdiff.core.dump import GraphOp
    from opdiff.core.reasons import Reason
    from opdiff.workflows.compare.graph_units import RankGraph
    from opdiff.workflows.compare.options import CompareOptions

# Enough pairs to use all workers, few enough for their descriptions to fit in memory.
_PAIRS_PER_BATCH = 20_000
_SCENARIOS = {
    GraphKind.FX: because("pair.scenario_graph_fx"),
    GraphKind.GE: because("pair.scenario_graph_fusion_off"),
}
_SLOT_ORDER = {None: -1, Slot.INPUT: 0, Slot.OUTPUT: 1}


def read_graph_inputs(options: CompareOptions) -> Inputs:
    """Find the ranks, graphs and tokens of both sides; dump files are opened when a batch is requested.

    Raises:
        InputError: a side is not a dump of graph mode, or the sides have nothing in common.
        UsageError: the rank must be selected.
    """
    target, golden = read_graph_tree(options.target), read_graph_tree(options.golden)
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
        number = "" if options.graph is None else f" {options.graph}"
        raise InputError(target.root, f"no graph{number} to compare is here")
    return Inputs(
        Mode.GRAPH,
        "",
        Side(target.root, DumpKind.NPU, quantized=False),
        Side(golden.root, DumpKind.ARRAYS if golden.kind is GraphKind.FX else DumpKind.NPU, quantized=False),
        _SCENARIOS[golden.kind],
        _batches(units, golden.kind, target.root, options, division),
        tuple(dict.fromkeys((*notes, *texts.notes))),
        warnings=warnings,
        differences=tuple(graph_differences(target, golden, texts.first_of(target), texts.first_of(golden))),
    )


def _batches(
    units: list[RankGraph], golden_kind: GraphKind, root: str, options: CompareOptions, division: Division | None
) -> Iterator[Batch]:
    """Yield the pairs of all graphs in batches of complete graphs."""
    batch = Batch(())
    is_empty = True
    for unit in units:
        found = _pair_unit(unit, golden_kind, options, division)
        batch = Batch(batch.pairs + found.pairs, batch.graphs + found.graphs, batch.notes + found.notes)
        is_empty = is_empty and not found.pairs
        if sum(isinstance(pair, Pairing) for pair in batch.pairs) >= _PAIRS_PER_BATCH:
            yield batch
            batch = Batch(())
    if is_empty:
        raise InputError(root, f"no token {options.token} is here")
    yield batch


def _pair_unit(unit: RankGraph, golden_kind: GraphKind, options: CompareOptions, division: Division | None) -> Batch:
    """Pair the tokens of one graph of one rank."""
    pairs: list[Pair] = []
    notes: list[Reason] = []
    operators: dict[str, GraphOp] = {}
    units: list[Unit] = []
    golden_tokens = unit.golden.tokens if unit.golden is not None else {}
    for token, folders in unit.target.tokens.items():
        if options.token not in (None, token):
            continue
        target = read_token(folders, GraphKind.GE)
        golden = read_token(golden_tokens[token], golden_kind) if token in golden_tokens else None
        units.append(Unit(unit.rank, token, unit.graph))
        found = pair_token(units[-1], target, golden, unit.text)
        pairs += found if division is None else division.divide(found, unit, token)
        operators |= {name: op for name, op in target.operators.items() if name not in operators}
        if golden is None:
            notes.append(because("compare.token_of_target_only", token=token))
        skipped = [*target.skipped, *(golden.skipped if golden else ())]
        if skipped:
            path, why = skipped[0].path, skipped[0].reason
            notes.append(because("compare.token_files_left_out", token=token, count=len(skipped), path=path, why=why))
    notes += [
        because("compare.token_of_golden_only", token=token)
        for token in golden_tokens
        if token not in unit.target.tokens and options.token in (None, token)
    ]
    nodes = token_graph(operators.values(), unit.text)
    return Batch(
        _numbered(sorted(pairs, key=_row_order), options),
        (ModelGraph(nodes, tuple(units)),) if nodes else (),
        tuple(note if unit.rank is None else because("compare.of_rank", rank=unit.rank, note=note) for note in notes),
    )


def _row_order(pair: Pair) -> tuple[int, bool, int, str, int, int]:
    """Sort by token, unused golden operators last, then by time and operator, inputs before outputs."""
    token = pair.unit.token if pair.unit else 0
    is_golden = not isinstance(pair, Pairing) and pair.golden_only
    slot, index = (pair.key.slot, pair.key.index) if pair.key else (None, 0)
    return token, is_golden, pair.timestamp, pair.label.target, _SLOT_ORDER[slot], index


def _numbered(pairs: list[Pair], options: CompareOptions) -> tuple[Pair, ...]:
    """Number the pairs within their table; each `DataMode` has its own table."""
    counts = dict.fromkeys(DataMode, 0)
    numbered: list[Pair] = []
    for pair in pairs:
        mode = data_mode(pair, options.data_mode)
        numbered.append(replace(pair, label=replace(pair.label, index=counts[mode])))
        counts[mode] += 1
    return tuple(numbered)
