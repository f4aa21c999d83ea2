"""Units of a dump of graph mode (rank, token, graph), each with the text of its optimized graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.dump import GraphKind, Unit
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read.declarations import read_rank_table
from opdiff.read.graph.tree import read_graph_tree
from opdiff.workflows.compare.graph_units import GraphTexts, RankPair, as_rank, find_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opdiff.read.directory import Folder
    from opdiff.read.graph.tree import GraphTree


class GraphUnit(Struct, frozen=True):
    """One token of one graph of one rank.

    Attributes:
        unit: rank, token and graph.
        folders: folders of its dump files.
        text: text of its graph; empty if there is none.
        earlier: folders of the same graph and rank at the token before; empty if there is none.
    """

    unit: Unit
    folders: tuple[Folder, ...]
    text: str = ""
    earlier: tuple[Folder, ...] = ()

    def is_chosen(self, rank: int | None, token: int | None, graph: int | None) -> bool:
        """Return whether this unit is the wanted unit; `None` stands for any number, on either side."""
        pairs = ((self.unit.rank, rank), (self.unit.token, token), (self.unit.graph, graph))
        return all(wanted in (None, own) or own is None for own, wanted in pairs)


def is_graph_dump(target: str) -> bool:
    """Return whether a directory is a dump of graph mode, or a part of one: it has graph texts, or a parent has."""
    try:
        return bool(read_graph_tree(target).texts)
    except (InputError, OSError):
        return False


def read_units(target: str) -> list[GraphUnit]:
    """Find the units of a dump, or of all dumps of a table of ranks, the earliest tokens first.

    Raises:
        InputError: the directory is not a dump of graph mode, or is a dump of FX.
    """
    if filesystem.isfile(target) and target.endswith(".toml"):
        table = read_rank_table(target)
        trees = [as_rank(read_graph_tree(sides.target), rank) for rank, sides in table.items()]
    else:
        trees = [read_graph_tree(target)]
    found = [unit for tree in trees for unit in _units_of(tree)]
    return sorted(found, key=lambda each: each.unit.order)


def find_unit(units: Iterable[GraphUnit], wanted: Unit) -> GraphUnit | None:
    """Return the unit of a comparison, whose numbers are `None` where there is one only; `None` if several fit."""
    found = [unit for unit in units if unit.is_chosen(wanted.rank, wanted.token, wanted.graph)]
    return found[0] if len(found) == 1 else None


def _units_of(tree: GraphTree) -> Iterator[GraphUnit]:
    if tree.kind is GraphKind.FX:
        raise InputError(tree.root, because("replay.fx_dump"))
    is_shown = tree.has_ranks or len(tree.ranks) > 1
    ranks = [RankPair(rank if is_shown else None, folders, ()) for rank, folders in tree.ranks.items()]
    for graph in find_units(ranks, GraphKind.GE, GraphTexts(tree, tree), []):
        text = _optimized_text(tree, graph.rank, graph.number)
        earlier: tuple[Folder, ...] = ()
        for token, folders in sorted(graph.target.tokens.items()):
            yield GraphUnit(Unit(graph.rank, token, graph.graph), folders, text, earlier)
            earlier = folders


def _optimized_text(tree: GraphTree, rank: int | None, number: int) -> str:
    """Return the newest text of an optimized graph of this rank; empty if there is none, or if ranks are unclear."""
    texts = [text for text in tree.texts if text.number == number and not text.is_original]
    own = [text for text in texts if text.rank == rank or text.rank is None]
    if rank is None and len({text.rank for text in texts}) == 1:
        own = texts
    return max(own, key=lambda text: text.timestamp).path if own else ""
