"""Ranks and graphs of graph mode: pairing of ranks, and assignment of dump folders to graph texts."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dump import GraphKind
from opdiff.core.errors import InputError, UsageError
from opdiff.core.graph import TextGraph
from opdiff.core.reasons import because, first_of, quoted
from opdiff.core.tensor import file_safe_name
from opdiff.pair.graph.token import fx_operator_names
from opdiff.read.filename import DumpName, FxName
from opdiff.read.graph.tree import merge_groups
from opdiff.read.rules.graph_text import read_graph_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.read.graph.tree import GraphFile, GraphFolders, GraphTree


class RankPair(Struct, frozen=True):
    """A rank of both sides; `rank` is its number, `None` if the dumps have no ranks."""

    rank: int | None
    target: tuple[GraphFolders, ...]
    golden: tuple[GraphFolders, ...]


class RankGraph(Struct, frozen=True):
    """One graph of one rank: its text, and the folders of both sides by token; `graph` is `None` for a single graph."""

    rank: int | None
    graph: int | None
    number: int
    text: TextGraph
    target: GraphFolders
    golden: GraphFolders | None


def as_rank(tree: GraphTree, rank: int) -> GraphTree:
    """Return a tree as the tree of one rank: of its only rank, or of the rank of this number.

    Raises:
        InputError: the tree has other ranks.
    """
    if rank not in tree.ranks and len(tree.ranks) > 1:
        raise InputError(tree.root, because("compare.other_ranks", rank=rank, ranks=first_of([*tree.ranks])))
    folders = tree.ranks[rank] if rank in tree.ranks else next(iter(tree.ranks.values()))
    return replace(tree, has_ranks=True, ranks={rank: folders})


def pair_ranks(
    target: GraphTree, golden: GraphTree, rank: int | None, shared: Sequence[int] = ()
) -> tuple[tuple[RankPair, ...], tuple[Reason, ...]]:
    """Return the ranks that both sides have, and notes about the others.

    With `shared`, all these ranks of the target are paired with the only rank of the golden side.

    Raises:
        UsageError: the rank must be selected.
        InputError: there is no common rank.
    """
    if shared:
        return _shared_ranks(target, golden, rank, shared)
    target_ranks, golden_ranks = _select_ranks(target, rank), _select_ranks(golden, rank)
    if target.has_ranks == golden.has_ranks and (target.has_ranks or len(golden_ranks) > 1):
        common = [number for number in target_ranks if number in golden_ranks]
        if not common:
            sides = {"target": first_of(target_ranks), "golden": first_of(golden_ranks)}
            raise InputError(golden.root, because("compare.no_common_rank", **sides))
        notes = [_one_sided_rank(number, "target") for number in target_ranks if number not in golden_ranks]
        notes += [_one_sided_rank(number, "golden") for number in golden_ranks if number not in target_ranks]
        is_shown = target.has_ranks or len(target_ranks) > 1
        pairs = [
            RankPair(number if is_shown else None, target.ranks[number], golden.ranks[number]) for number in common
        ]
        return tuple(pairs), tuple(notes)
    for tree, ranks, other in ((target, target_ranks, golden), (golden, golden_ranks, target)):
        if len(ranks) > 1:
            hint = because("compare.try_shards") if tree is target else None
            listed = first_of(ranks)
            raise UsageError(because("compare.choose_rank", path=tree.root, ranks=listed, other=other.root, hint=hint))
    number = target_ranks[0] if target.has_ranks else None
    return (RankPair(number, target.ranks[target_ranks[0]], golden.ranks[golden_ranks[0]]),), ()


def _shared_ranks(
    target: GraphTree, golden: GraphTree, rank: int | None, shared: Sequence[int]
) -> tuple[tuple[RankPair, ...], tuple[Reason, ...]]:
    if len(golden.ranks) > 1:
        raise UsageError(because("compare.golden_has_ranks", path=golden.root, ranks=first_of([*golden.ranks])))
    (whole,) = golden.ranks.values()
    if rank is not None and rank not in shared:
        raise InputError(target.root, because("compare.rank_not_sharing", rank=rank, ranks=first_of(shared)))
    left_out = tuple(because("pair.rank_not_shared", rank=number) for number in target.ranks if number not in shared)
    return tuple(RankPair(number, target.ranks[number], whole) for number in shared), left_out


def _one_sided_rank(rank: int, side: str) -> Reason:
    return because("pair.rank_on_one_side", rank=rank, side=side)


def _select_ranks(tree: GraphTree, rank: int | None) -> list[int]:
    numbers = list(tree.ranks)
    # Without rank folders ranks are numbers of devices; a single device matches any rank.
    if rank is None or (not tree.has_ranks and len(numbers) == 1):
        return numbers
    if rank not in numbers:
        raise InputError(tree.root, because("compare.other_ranks", rank=rank, ranks=first_of(numbers)))
    return [rank]


class GraphTexts:
    """The graph texts of the target, or of the golden side if the target has none; each is read once, when needed."""

    def __init__(self, target: GraphTree, golden: GraphTree) -> None:
        self.notes: list[Reason] = []
        self._files = target.texts
        if not self._files and golden.texts:
            self._files = golden.texts
            self.notes.append(because("pair.golden_graph_texts", path=target.root))
        self._read: dict[str, TextGraph | None] = {}
        self._known: dict[bytes, TextGraph] = {}
        if not self._files and golden.kind is GraphKind.FX:
            problem = because("compare.no_graph_text")
            raise InputError(target.root, problem)
        if not self._files:
            self.notes.append(because("pair.no_graph_texts"))

    def of_rank(self, rank: int | None) -> list[GraphFile]:
        """Return one readable file for each graph: preferably of this rank, original, and newest."""
        best: dict[int, GraphFile] = {}
        for file in sorted(
            self._files, key=lambda file: (file.rank not in (rank, None), not file.is_original, -file.timestamp)
        ):
            if self.read(file) is not None:
                best.setdefault(file.number, file)
        for file in best.values():
            if not file.is_original:
                self.notes.append(because("pair.optimized_graph", file=os.path.basename(file.path)))
        return [best[number] for number in sorted(best)]

    def first_of(self, tree: GraphTree) -> TextGraph | None:
        """Return the first graph of a side; `None` if the side has no text that can be used."""
        return next((graph for file in tree.texts if (graph := self.read(file)) is not None), None)

    def read(self, file: GraphFile) -> TextGraph | None:
        """Return the graph of a file; `None`, with a note, if the file cannot be used."""
        if file.path not in self._read:
            try:
                graph = read_graph_text(file.path, self._known)
            except InputError as error:
                self.notes.append(quoted(str(error)))
                self._read[file.path] = None
                return None
            self.notes += [
                because("pair.graph_text_problem", path=file.path, problem=problem) for problem in graph.problems
            ]
            self._read[file.path] = graph
        return self._read[file.path]


def find_units(ranks: Iterable[RankPair], golden: GraphKind, texts: GraphTexts, notes: list[Reason]) -> list[RankGraph]:
    """Return every graph of every rank with its text and folders."""
    units: list[RankGraph] = []
    for pair in ranks:
        units += _units_of_rank(pair, golden, texts, notes)
    return units


def _units_of_rank(pair: RankPair, golden: GraphKind, texts: GraphTexts, notes: list[Reason]) -> list[RankGraph]:
    files = texts.of_rank(pair.rank)
    found: list[Reason] = []
    graphs = {file.number: graph for file in files if (graph := texts.read(file)) is not None}
    if not graphs:
        graphs = {0: TextGraph("", {})}
    target_folders, unassigned = _assign(pair.target, graphs, _own_names)
    found += [because("pair.target_without_text", graph=group.label) for group in unassigned]
    golden_names = fx_operator_names if golden is GraphKind.FX else _own_names
    golden_folders, unassigned = _assign(pair.golden, graphs, golden_names)
    found += [because("pair.golden_without_text", graph=group.label) for group in unassigned]
    units = []
    for number, graph in graphs.items():
        if number not in target_folders:
            if number in golden_folders:
                found.append(because("pair.graph_not_in_target", graph=number))
            continue
        if number not in golden_folders:
            found.append(because("pair.graph_not_in_golden", graph=number))
        sides = (
            merge_groups(target_folders[number]),
            (merge_groups(golden_folders[number]) if number in golden_folders else None),
        )
        units.append(RankGraph(pair.rank, number if len(graphs) > 1 else None, number, graph, *sides))
    notes += (in_rank(note, pair.rank) for note in found)
    return units


def in_rank(note: Reason, rank: int | None) -> Reason:
    """Return a note with its rank; unchanged if there are no ranks."""
    return note if rank is None else because("pair.in_rank", rank=rank, note=note)


def _own_names(graph: TextGraph) -> frozenset[str]:
    return frozenset(file_safe_name(name) for name in graph.operators)


def _assign(
    groups: Sequence[GraphFolders], graphs: dict[int, TextGraph], names: Callable[[TextGraph], frozenset[str]]
) -> tuple[dict[int, list[GraphFolders]], list[GraphFolders]]:
    """Return folders by number of graph, and unassigned folders.

    Folders are assigned by number if a graph has one of the numbers; otherwise by common operators, otherwise in
    order.
    """
    found: dict[int, list[GraphFolders]] = {}
    unassigned: list[GraphFolders] = []
    by_number = any(group.number in graphs for group in groups)
    for position, group in enumerate(groups):
        if by_number and group.number is not None:
            if group.number in graphs:
                found.setdefault(group.number, []).append(group)
            else:
                unassigned.append(group)
        else:
            found.setdefault(_most_similar(group, position, graphs, names), []).append(group)
    return found, unassigned


def _most_similar(
    group: GraphFolders, position: int, graphs: dict[int, TextGraph], names: Callable[[TextGraph], frozenset[str]]
) -> int:
    """Return the number of the graph with most common operators; of the graph at this position if several have."""
    in_order = sorted(graphs)[min(position, len(graphs) - 1)]
    if len(graphs) == 1:
        return in_order
    operators = _operator_names(group)
    common = Counter({number: len(operators & names(graph)) for number, graph in graphs.items()})
    first, second = common.most_common(2)
    return first[0] if first[1] > second[1] else in_order


def _operator_names(group: GraphFolders) -> frozenset[str]:
    """Return the operators of a group of folders, by file names."""
    entries = (entry for folders in group.tokens.values() for folder in folders for entry in folder.entries)
    return frozenset(entry.parsed.op_name for entry in entries if isinstance(entry.parsed, DumpName | FxName))
