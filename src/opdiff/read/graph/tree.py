"""Ranks, graphs and tokens of a dump tree of graph mode. See docs/formats/directories.md.

Directory layouts are recognized by their structure, because dumps do not record the version of their writer.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.dump import GraphKind
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read.directory import Folder, scan
from opdiff.read.filename import DumpName, FxName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opdiff.core.reasons import Reason
    from opdiff.core.row_store import MapJobs
    from opdiff.read.directory import Location, Tree

_TEXT = re.compile(
    r"dynamo_(?P<stage>original|optimized)_graph_(?P<graph>\d{1,18})"
    r"(?:_rank_(?P<rank>\d{1,18}))?(?:_pid_(?P<pid>\d{1,18}))?(?:_ts_(?P<ts>\d{1,30}))?.*\.txt"
)
_OTHER_KIND = {GraphKind.GE: GraphKind.FX, GraphKind.FX: GraphKind.GE}
_DUMP_NAMES = ("msprobe_ge_dump", "msprobe_fx_dump", "data_dump")
# Folders between the root of a dump and its files: rank, time, device, model, id, token.
_MAX_FOLDER_LEVELS = 6
_MODEL_GRAPH = re.compile(r"(?:^|_)graph_(\d{1,18})(?:_|$)")


class GraphFile(Struct, frozen=True):
    """File with the text of one graph of one process."""

    path: str
    number: int
    rank: int | None
    process: str
    timestamp: int
    is_original: bool


class GraphFolders(Struct, frozen=True):
    """Folders of one graph by token, its label in messages, and its number if folder names have it."""

    label: str
    number: int | None
    tokens: Mapping[int, tuple[Folder, ...]]


class GraphTree(Struct, frozen=True):
    """A dump of a run in graph mode.

    Attributes:
        root: real path of the directory.
        kind: the writer of the dump.
        has_ranks: whether folder names have ranks.
        ranks: the graphs of each rank; without ranks, of each device or of key 0.
        texts: files of graph texts, original graphs before optimized ones.
        notes: remarks about the tree.
        other_kind: folder of the dumps of the other kind, which are not read; empty if there are none.
        rivals: directories of two dumps of the same token at the same time; empty if there are none.
    """

    root: str
    kind: GraphKind
    has_ranks: bool
    ranks: Mapping[int, tuple[GraphFolders, ...]]
    texts: tuple[GraphFile, ...]
    notes: tuple[Reason, ...] = ()
    other_kind: str = ""
    rivals: tuple[str, ...] = ()

    def folders(self) -> Iterator[Folder]:
        """Yield the folders with dump files."""
        for graphs in self.ranks.values():
            for graph in graphs:
                yield from (folder for folders in graph.tokens.values() for folder in folders)


def read_graph_tree(root: str, map_jobs: MapJobs = map) -> GraphTree:
    """Find the ranks, graphs and tokens of a tree; dump files are not opened.

    Args:
        root: the directory.
        map_jobs: a `map` that may use other processes, for trees of very many files.

    Raises:
        InputError: the tree has no dumps of graph mode.
    """
    if filesystem.isfile(root):
        raise InputError(root, because("read.file_for_graph_dump"))
    tree = scan(filesystem.realpath(root), map_jobs)
    kind = _kind(tree)
    folders = [folder for folder in tree.folders if _has_dumps_of(kind, folder)]
    if not folders:
        counted = sum(len(folder.entries) for folder in tree.folders) + len(tree.unrecognized)
        hint = because("read.offline_hint") if counted else None
        raise InputError(root, because("read.no_graph_dumps", count=counted, hint=hint))
    notes = [because("core.in_file", path=item.path, problem=item.reason) for item in tree.taken]
    has_ranks = any(folder.location.rank is not None for folder in folders)
    texts = _texts(tree.graphs)
    if kind is GraphKind.GE and not texts:
        texts = _texts_above(tree.root)
        if texts:
            notes.append(because("read.texts_above", root=tree.root, folder=os.path.dirname(texts[0].path)))
    ranks: dict[int, tuple[GraphFolders, ...]] = {}
    for rank, members in sorted(_by_rank(folders, kind, has_ranks=has_ranks).items()):
        ranks[rank] = _graphs(members, kind, notes)
    notes += _mixed_runs(texts)
    others = [folder.path for folder in tree.folders if _has_dumps_of(_OTHER_KIND[kind], folder)]
    # FX dumps without graph numbers have a folder for each graph of a token.
    rivals = _rivals(folder for folder in folders if kind is GraphKind.GE or folder.location.graph is not None)
    return GraphTree(
        tree.root,
        kind,
        has_ranks,
        ranks,
        texts,
        tuple(dict.fromkeys(notes)),
        dump_root(others) if others else "",
        rivals,
    )


def dump_root(folders: Iterable[str]) -> str:
    """Return the directory of a dump that has these folders: the one with a usual name, else their common parent."""
    common = os.sep.join(_common_parts(folders))
    return _named_parent(common) or common


def _common_parts(folders: Iterable[str]) -> list[str]:
    """Return the parts of paths or addresses that all of them start with."""
    parts = zip(*(folder.split(os.sep) for folder in folders), strict=False)
    return [names[0] for names in takewhile(lambda names: len(set(names)) == 1, parts)]


def _named_parent(folder: str) -> str:
    """Return the directory of a usual name that is or contains a folder; empty for none."""
    parts = folder.split(os.sep)
    named = next((number for number, part in enumerate(parts) if part in _DUMP_NAMES), None)
    return "" if named is None else os.sep.join(parts[: named + 1])


def _rivals(folders: Iterable[Folder]) -> tuple[str, ...]:
    """Return the directories of two dumps that have the same token, graph, rank, device and time."""
    found: dict[Location, str] = {}
    for folder in folders:
        other = found.setdefault(folder.location, folder.path)
        if other != folder.path and folder.location.step is not None:
            return _separate(other, folder.path)
    return ()


def _separate(*folders: str) -> tuple[str, ...]:
    """Return the directories of the dumps of two folders: of usual names, else below their common parent."""
    named = tuple(map(_named_parent, folders))
    if all(named) and len(set(named)) == len(named):
        return named
    below = len(_common_parts(folders)) + 1
    return tuple(os.sep.join(folder.split(os.sep)[:below]) for folder in folders)


def _kind(tree: Tree) -> GraphKind:
    """Return FX if most files are FX tensors, unless there are graph texts, which only the graph engine writes."""
    types = frozenset[type]().union(*(folder.name_types for folder in tree.folders))
    if FxName not in types or (tree.graphs and DumpName in types):
        return GraphKind.GE
    if DumpName not in types:
        return GraphKind.FX
    counts = Counter(type(entry.parsed) for entry in tree.entries())
    return GraphKind.FX if counts[FxName] > counts[DumpName] else GraphKind.GE


def _has_dumps_of(kind: GraphKind, folder: Folder) -> bool:
    name_type = FxName if kind is GraphKind.FX else DumpName
    return name_type in folder.name_types


def _by_rank(folders: Iterable[Folder], kind: GraphKind, *, has_ranks: bool) -> dict[int, list[Folder]]:
    """Group folders by rank; without rank folders by device, because each process has its own."""
    found: dict[int, list[Folder]] = defaultdict(list)
    for folder in folders:
        location = folder.location
        device = location.device if kind is GraphKind.GE and not has_ranks else None
        found[location.rank if location.rank is not None else (device or 0)].append(folder)
    return found


def _graphs(folders: list[Folder], kind: GraphKind, notes: list[Reason]) -> tuple[GraphFolders, ...]:
    groups: dict[tuple[int | None, str], dict[int, list[Folder]]] = {}
    for folder, key in _name_fx_graphs(folders) if kind is GraphKind.FX else _name_ge_graphs(folders, notes):
        groups.setdefault(key, defaultdict(list))[folder.location.step or 0].append(folder)
    graphs = [
        GraphFolders(label, number, {token: tuple(members) for token, members in sorted(tokens.items())})
        for (number, label), tokens in groups.items()
    ]
    return tuple(sorted(graphs, key=lambda graph: (graph.number is None, graph.number or 0)))


def _name_fx_graphs(folders: list[Folder]) -> Iterator[tuple[Folder, tuple[int | None, str]]]:
    """Yield folders with number and label of their graphs.

    Without a number, the first folders of all tokens are one graph, the second ones another.
    """
    by_token: Counter[int] = Counter()
    for folder in folders:
        graph, token = folder.location.graph, folder.location.step or 0
        by_token[token] += graph is None
        yield folder, (graph, f"graph folder {by_token[token]}" if graph is None else f"graph {graph}")


def _name_ge_graphs(folders: list[Folder], notes: list[Reason]) -> Iterator[tuple[Folder, tuple[int | None, str]]]:
    """Yield folders with number and label of their graphs: by the model name, else by model and id.

    Of two dump times the newer one is used.
    """
    newest: dict[tuple[str | None, int | None, int | None, int], Folder] = {}
    for folder in folders:
        location = folder.location
        key = (location.model, location.model_id, location.device, location.step or 0)
        older = newest.get(key)
        if older is not None and (older.location.time or "") != (location.time or ""):
            times = sorted((older.location.time or "", location.time or ""))
            dumped = {"first": times[0], "second": times[1]}
            notes.append(because("read.token_dumped_twice", token=location.step or 0, model=location.model, **dumped))
        if older is None or (location.time or "") >= (older.location.time or ""):
            newest[key] = folder
    for folder in newest.values():
        location = folder.location
        match = _MODEL_GRAPH.search(location.model or "")
        number = int(match[1]) if match else None
        label = f"graph {number}" if match else f"model {location.model or 'without name'}/{location.model_id or 0}"
        yield folder, (number, label)


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
    """Return the graph texts of the nearest parent folder that has some."""
    for _ in range(_MAX_FOLDER_LEVELS):
        root = os.path.dirname(root)
        try:
            names = [item.name for item in filesystem.list_folder(root)]
        except OSError:
            return ()
        found = _texts(os.path.join(root, name) for name in names)
        if found:
            return found
    return ()


def _mixed_runs(texts: Iterable[GraphFile]) -> list[Reason]:
    """Return a note if the texts of a graph are from several processes, hence from several runs."""
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
    """Merge groups of folders: the graph engine splits graphs, and each part has its own folders."""
    listed = list(groups)
    tokens: dict[int, list[Folder]] = defaultdict(list)
    for group in listed:
        for token, folders in group.tokens.items():
            tokens[token] += folders
    label = ", ".join(group.label for group in listed)
    return GraphFolders(label, listed[0].number, {token: tuple(tokens[token]) for token in sorted(tokens)})
