"""Which ranks, graphs and texts of two trees belong together."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.dump import GraphKind
from opdiff.core.errors import InputError, UsageError
from opdiff.core.graph import TextGraph
from opdiff.core.reasons import because, quoted
from opdiff.core.tensor import file_safe_name
from opdiff.pair.graph.token import fx_operator_names
from opdiff.read.filename import DumpName, FxName
from opdiff.read.graph.tree import merge_groups
from opdiff.read.rules.graph_text import read_graph_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.read.graph.tree import GraphFile, GraphFolders, GraphTree

_MAX_LISTED = 8


class RankPair(NamedTuple):
    """A rank of both sides; `rank` is what it is called, `None` where there are no ranks."""

    rank: int | None
    target: tuple[GraphFolders, ...]
    golden: tuple[GraphFolders, ...]


class GraphUnit(NamedTuple):
    """One graph of one rank: its text, the folders of both sides by token; `graph` only where there are several."""

    rank: int | None
    graph: int | None
    number: int
    text: TextGraph
    target: GraphFolders
    golden: GraphFolders | None


def pair_ranks(
    target: GraphTree, golden: GraphTree, rank: int | None
) -> tuple[tuple[RankPair, ...], tuple[Reason, ...]]:
    """Return the ranks that both sides have, and notes about the others.

    Raises:
        UsageError: it has to be said which rank is meant.
        InputError: there is no common rank.
    """
    ours, theirs = _wanted(target, rank), _wanted(golden, rank)
    if target.has_ranks == golden.has_ranks and (target.has_ranks or len(theirs) > 1):
        common = [number for number in ours if number in theirs]
        if not common:
            raise InputError(
                golden.root, f"no common rank: the target has {_listed(ours)}, the golden {_listed(theirs)}"
            )
        notes = [_one_sided_rank(number, "target") for number in ours if number not in theirs]
        notes += [_one_sided_rank(number, "golden") for number in theirs if number not in ours]
        shown = target.has_ranks or len(ours) > 1
        pairs = [RankPair(number if shown else None, target.ranks[number], golden.ranks[number]) for number in common]
        return tuple(pairs), tuple(notes)
    several = next((tree for tree, found in ((target, ours), (golden, theirs)) if len(found) > 1), None)
    if several is not None:
        other = golden if several is target else target
        numbers = ours if several is target else theirs
        problem = f"has ranks {_listed(numbers)}, but {other.root} does not tell ranks; choose one with --rank"
        raise UsageError(f"{several.root} {problem}")
    name = ours[0] if target.has_ranks else None
    return (RankPair(name, target.ranks[ours[0]], golden.ranks[theirs[0]]),), ()


def _one_sided_rank(rank: int, side: str) -> Reason:
    return because("pair.rank_on_one_side", rank=rank, side=side)


def _wanted(tree: GraphTree, rank: int | None) -> list[int]:
    numbers = list(tree.ranks)
    # Without rank folders devices stand for ranks, and a single one is whatever rank is meant.
    if rank is None or (not tree.has_ranks and len(numbers) == 1):
        return numbers
    if rank not in numbers:
        raise InputError(tree.root, f"there is no rank {rank} here, only {_listed(numbers)}")
    return [rank]


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _MAX_LISTED} more" if len(numbers) > _MAX_LISTED else ""
    return ", ".join(map(str, numbers[:_MAX_LISTED])) + more


class GraphTexts:
    """The texts of the target's graphs, read when they are needed, each once."""

    def __init__(self, target: GraphTree, golden: GraphTree) -> None:
        self.notes: list[Reason] = []
        self._files = target.texts
        if not self._files and golden.texts:
            self._files = golden.texts
            self.notes.append(because("pair.golden_graph_texts", path=target.root))
        self._read: dict[str, TextGraph | None] = {}
        self._known: dict[bytes, TextGraph] = {}
        if not self._files and golden.kind is GraphKind.FX:
            problem = (
                "no graph text dynamo_original_graph_*.txt (or dynamo_optimized_graph_*.txt) is here; without it "
                "operators cannot be assigned to FX"
            )
            raise InputError(target.root, problem)
        if not self._files:
            self.notes.append(because("pair.no_graph_texts"))

    def of_rank(self, rank: int | None) -> list[GraphFile]:
        """One file for each graph: of this rank if there is one, original before optimized, newest first."""
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

    def read(self, file: GraphFile) -> TextGraph | None:
        """The graph of a file; `None`, and a note, when it cannot be used."""
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


def find_units(ranks: Iterable[RankPair], golden: GraphKind, texts: GraphTexts, notes: list[Reason]) -> list[GraphUnit]:
    """Every graph of every rank with what belongs to it."""
    units: list[GraphUnit] = []
    for pair in ranks:
        units += _units_of_rank(pair, golden, texts, notes)
    return units


def _units_of_rank(pair: RankPair, golden: GraphKind, texts: GraphTexts, notes: list[Reason]) -> list[GraphUnit]:
    files = texts.of_rank(pair.rank)
    found: list[Reason] = []
    graphs = {file.number: graph for file in files if (graph := texts.read(file)) is not None}
    if not graphs:
        graphs = {0: TextGraph("", {})}
    ours, strangers = _assigned(pair.target, graphs, _own_names)
    found += [because("pair.target_without_text", graph=group.label) for group in strangers]
    theirs, strangers = _assigned(pair.golden, graphs, fx_operator_names if golden is GraphKind.FX else _own_names)
    found += [because("pair.golden_without_text", graph=group.label) for group in strangers]
    units = []
    for number, graph in graphs.items():
        if number not in ours:
            if number in theirs:
                found.append(because("pair.graph_not_in_target", graph=number))
            continue
        if number not in theirs:
            found.append(because("pair.graph_not_in_golden", graph=number))
        golden_folders = merge_groups(theirs[number]) if number in theirs else None
        shown = number if len(graphs) > 1 else None
        units.append(GraphUnit(pair.rank, shown, number, graph, merge_groups(ours[number]), golden_folders))
    notes += (in_rank(note, pair.rank) for note in found)
    return units


def in_rank(note: Reason, rank: int | None) -> Reason:
    """Return a note with its rank, where there are ranks."""
    return note if rank is None else because("pair.in_rank", rank=rank, note=note)


def _own_names(graph: TextGraph) -> frozenset[str]:
    return frozenset(file_safe_name(name) for name in graph.operators)


def _assigned(
    groups: Sequence[GraphFolders], graphs: dict[int, TextGraph], names: Callable[[TextGraph], frozenset[str]]
) -> tuple[dict[int, list[GraphFolders]], list[GraphFolders]]:
    """Folders by graph, and those that belong to none.

    Numbers decide where names tell them and one of them is that of a graph; else the operators that both have, else
    the order.
    """
    found: dict[int, list[GraphFolders]] = {}
    strangers: list[GraphFolders] = []
    by_number = any(group.number in graphs for group in groups)
    for place, group in enumerate(groups):
        if by_number and group.number is not None:
            if group.number in graphs:
                found.setdefault(group.number, []).append(group)
            else:
                strangers.append(group)
        else:
            found.setdefault(_likeliest(group, place, graphs, names), []).append(group)
    return found, strangers


def _likeliest(
    group: GraphFolders, place: int, graphs: dict[int, TextGraph], names: Callable[[TextGraph], frozenset[str]]
) -> int:
    in_order = sorted(graphs)[min(place, len(graphs) - 1)]
    if len(graphs) == 1:
        return in_order
    own = _operators(group)
    first, second = Counter({number: len(own & names(graph)) for number, graph in graphs.items()}).most_common(2)
    return first[0] if first[1] > second[1] else in_order


def _operators(group: GraphFolders) -> frozenset[str]:
    """The names of a group's operators, from the names of its files."""
    entries = (entry for folders in group.tokens.values() for folder in folders for entry in folder.entries)
    return frozenset(entry.parsed.op_name for entry in entries if isinstance(entry.parsed, DumpName | FxName))
