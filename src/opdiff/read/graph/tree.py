"""Which tokens of which graphs of which ranks a tree holds. See docs/formats/directories.md.

Layouts are told by their structure, not by versions: nothing in the data says which version wrote it.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.dump import GraphKind
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read.directory import Folder, is_debug, scan
from opdiff.read.filename import DumpName, FxName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opdiff.core.reasons import Reason
    from opdiff.read.directory import Tree

_TEXT = re.compile(
    r"dynamo_(?P<stage>original|optimized)_graph_(?P<graph>\d{1,18})"
    r"(?:_rank_(?P<rank>\d{1,18}))?(?:_pid_(?P<pid>\d{1,18}))?(?:_ts_(?P<ts>\d{1,30}))?.*\.txt"
)
# How deep dump files lie: rank, time, device, model, id, token.
_LEVELS = 6
_MODEL_GRAPH = re.compile(r"(?:^|_)graph_(\d{1,18})(?:_|$)")


class GraphFile(NamedTuple):
    """The text of one graph of one process."""

    path: str
    number: int
    rank: int | None
    process: str
    timestamp: int
    is_original: bool


class GraphFolders(NamedTuple):
    """The folders of one graph by token; `number` is the graph's, where names tell it, `label` what to call it."""

    label: str
    number: int | None
    tokens: Mapping[int, tuple[Folder, ...]]


class GraphTree(NamedTuple):
    """A dump of a run in graph mode.

    Attributes:
        root: the directory, without links.
        kind: who wrote it.
        has_ranks: whether folders tell ranks.
        ranks: the graphs of each rank; without ranks the one key is the device, or 0.
        texts: texts of graphs, originals before optimized ones.
        notes: what is odd about the tree.
    """

    root: str
    kind: GraphKind
    has_ranks: bool
    ranks: Mapping[int, tuple[GraphFolders, ...]]
    texts: tuple[GraphFile, ...]
    notes: tuple[Reason, ...] = ()


@dataclass(slots=True)
class _Groups:
    """Folders of one rank, by graph and token, while they are collected."""

    graphs: dict[tuple[int | None, str], dict[int, list[Folder]]] = field(default_factory=dict)

    def add(self, key: tuple[int | None, str], token: int, folder: Folder) -> None:
        self.graphs.setdefault(key, defaultdict(list))[token].append(folder)


def read_graph_tree(root: str) -> GraphTree:
    """Look through a tree; no dump file is opened.

    Raises:
        InputError: there are no dumps of graph mode in it.
    """
    if os.path.isfile(root):
        raise InputError(root, "not a directory, but a file; give the directory of the dump")
    tree = scan(os.path.realpath(root))
    kind = _kind(tree)
    folders = [folder for folder in tree.folders if any(_belongs(folder, entry_kind=kind))]
    if not folders:
        counted = sum(len(folder.entries) for folder in tree.folders) + len(tree.unrecognized)
        raise InputError(root, f"no dump files of graph mode here ({counted} other files)")
    notes: list[Reason] = []
    has_ranks = any(folder.location.rank is not None for folder in folders)
    texts = _texts(tree.graphs)
    if kind is GraphKind.GE and not texts:
        texts = _texts_above(tree.root)
        if texts:
            notes.append(because("read.texts_above", root=tree.root, folder=os.path.dirname(texts[0].path)))
    ranks: dict[int, tuple[GraphFolders, ...]] = {}
    for rank, members in sorted(_by_rank(folders, kind, has_ranks=has_ranks).items()):
        ranks[rank] = _graphs(members, kind, notes)
    notes += _mixed(texts)
    return GraphTree(tree.root, kind, has_ranks, ranks, texts, tuple(dict.fromkeys(notes)))


def _kind(tree: Tree) -> GraphKind:
    """FX where tensors of FX are, and no graph text says that the graph engine wrote the tree."""
    counts = {GraphKind.FX: 0, GraphKind.GE: 0}
    for entry in tree.entries():
        if isinstance(entry.parsed, FxName):
            counts[GraphKind.FX] += 1
        elif isinstance(entry.parsed, DumpName):
            counts[GraphKind.GE] += 1
    if tree.graphs and counts[GraphKind.GE]:
        return GraphKind.GE
    return GraphKind.FX if counts[GraphKind.FX] > counts[GraphKind.GE] else GraphKind.GE


def _belongs(folder: Folder, entry_kind: GraphKind) -> Iterable[bool]:
    wanted = FxName if entry_kind is GraphKind.FX else DumpName
    return (isinstance(entry.parsed, wanted) and not is_debug(entry) for entry in folder.entries)


def _by_rank(folders: Iterable[Folder], kind: GraphKind, *, has_ranks: bool) -> dict[int, list[Folder]]:
    """Folders by rank; without rank folders a device stands for one, since each process has its own."""
    found: dict[int, list[Folder]] = defaultdict(list)
    for folder in folders:
        place = folder.location
        stand_in = place.device if kind is GraphKind.GE and not has_ranks else None
        found[place.rank if place.rank is not None else (stand_in or 0)].append(folder)
    return found


def _graphs(folders: list[Folder], kind: GraphKind, notes: list[Reason]) -> tuple[GraphFolders, ...]:
    groups = _Groups()
    if kind is GraphKind.FX:
        _group_fx(folders, groups)
    else:
        _group_ge(folders, groups, notes)
    made = [
        GraphFolders(label, number, {token: tuple(members) for token, members in sorted(tokens.items())})
        for (number, label), tokens in groups.graphs.items()
    ]
    return tuple(sorted(made, key=lambda graph: (graph.number is None, graph.number or 0)))


def _group_fx(folders: list[Folder], groups: _Groups) -> None:
    """By number; where folders do not tell one, the first of every token is one graph, the second the next."""
    by_token: dict[int, int] = defaultdict(int)
    for folder in folders:
        place = folder.location
        token = place.step or 0
        if place.graph is not None:
            groups.add((place.graph, f"graph {place.graph}"), token, folder)
            continue
        by_token[token] += 1
        groups.add((None, f"graph folder {by_token[token]}"), token, folder)


def _group_ge(folders: list[Folder], groups: _Groups, notes: list[Reason]) -> None:
    """By the graph's number in the name of the model, else by model and id; of two times, the newer one."""
    newest: dict[tuple[str | None, int | None, int | None, int], Folder] = {}
    for folder in folders:
        place = folder.location
        key = (place.model, place.model_id, place.device, place.step or 0)
        older = newest.get(key)
        if older is not None and (older.location.time or "") != (place.time or ""):
            times = sorted((older.location.time or "", place.time or ""))
            dumped = {"first": times[0], "second": times[1]}
            notes.append(because("read.token_dumped_twice", token=place.step or 0, model=place.model, **dumped))
        if older is None or (place.time or "") >= (older.location.time or ""):
            newest[key] = folder
    for folder in newest.values():
        place = folder.location
        match = _MODEL_GRAPH.search(place.model or "")
        number = int(match[1]) if match else None
        label = f"graph {number}" if match else f"model {place.model or 'without name'}/{place.model_id or 0}"
        groups.add((number, label), place.step or 0, folder)


def _texts(paths: Iterable[str]) -> tuple[GraphFile, ...]:
    found = []
    for path in paths:
        match = _TEXT.fullmatch(os.path.basename(path))
        if match:
            rank = int(match["rank"]) if match["rank"] else None
            timestamp = int(match["ts"] or 0)
            is_original = match["stage"] == "original"
            found.append(GraphFile(path, int(match["graph"]), rank, match["pid"] or "", timestamp, is_original))
    return tuple(sorted(found, key=lambda text: (not text.is_original, text.number, text.rank or 0, -text.timestamp)))


def _texts_above(root: str) -> tuple[GraphFile, ...]:
    """The texts of the dump that a folder of it belongs to: those of the nearest folder above that has some."""
    for _ in range(_LEVELS):
        root = os.path.dirname(root)
        try:
            names = os.listdir(root)
        except OSError:
            return ()
        found = _texts(os.path.join(root, name) for name in names)
        if found:
            return found
    return ()


def _mixed(texts: Iterable[GraphFile]) -> list[Reason]:
    """Signs of two runs in one directory."""
    processes: dict[tuple[int, int | None], set[str]] = defaultdict(set)
    for text in texts:
        if text.is_original:
            processes[text.number, text.rank].add(text.process)
    mixed = [key for key, found in processes.items() if len(found) > 1]
    if not mixed:
        return []
    number, rank = mixed[0]
    if rank is None:
        return [because("read.mixed_runs", graph=number)]
    return [because("read.mixed_runs_of_rank", graph=number, rank=rank)]


def merge_groups(groups: Iterable[GraphFolders]) -> GraphFolders:
    """Several groups as one: the graph engine splits graphs, and each part has folders of its own."""
    listed = list(groups)
    tokens: dict[int, list[Folder]] = defaultdict(list)
    for group in listed:
        for token, folders in group.tokens.items():
            tokens[token] += folders
    label = ", ".join(group.label for group in listed)
    return GraphFolders(label, listed[0].number, {token: tuple(tokens[token]) for token in sorted(tokens)})
