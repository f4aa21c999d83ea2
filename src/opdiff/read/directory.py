"""Dump files of a directory tree: their real names, and the rank, device, model and step of each folder.

One pass over the tree, in which only `mapping.csv` is opened. See docs/formats/directories.md.
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, overload

from msgspec import Struct, field

from opdiff.core import filesystem
from opdiff.core.dump import SkippedPath
from opdiff.core.errors import InputError
from opdiff.core.filesystem import natural_key, open_input
from opdiff.core.reasons import Status, because
from opdiff.read.filename import COMPANIONS, DumpName, FileName, FxName, is_hashed, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.filesystem import DirEntry
    from opdiff.core.reasons import Reason
    from opdiff.core.row_store import MapJobs

TAKEN_FOLDER = ".opdiff-taken"
"""Folder into which `opdiff reduce` moves a file while it reduces the file."""

_MAX_DEPTH = 64
_MAX_MAPPING_NBYTES = 100 << 20
# Length of a real name; Python refuses numbers of more than 4300 digits.
_MAX_NAME_LENGTH = 4096
_RANK = r"(?:.*?/)?(?:worldsize\d+_(?:global_)?rank(?P<rank>\d{1,18})/)?"
_NUMBER = r"\d{1,18}"
_FOLDER_PATTERNS = tuple(
    _RANK + rest
    for rest in (
        rf"(?:(?P<time>\d{{14}})/)?(?P<device>{_NUMBER})/(?P<model>[^/]*[^/\d][^/]*)/(?P<model_id>{_NUMBER})/(?P<step>{_NUMBER})",
        rf"graph_(?P<graph>{_NUMBER})/(?P<step>{_NUMBER})",
        rf"(?P<next_step>{_NUMBER})/gm_\d+_dump",
        rf"(?P<time>\d{{14}})/(?P<device>{_NUMBER})",
    )
)
# Files of a tree from which on only their names are kept; a parsed one takes about 600 bytes.
_MAX_ENTRIES_IN_MEMORY = 100_000


class Location(Struct, frozen=True):
    """Position of a folder in a run; `None` for parts that its path does not have."""

    rank: int | None = None
    time: str | None = None
    device: int | None = None
    model: str | None = None
    model_id: int | None = None
    graph: int | None = None
    step: int | None = None


class Entry(Struct, frozen=True, gc=False):
    """One dump file: its path, its real base name, and the parsed name."""

    path: str
    name: str
    parsed: FileName

    @property
    def nbytes(self) -> int:
        """The present size of the file; 0 if it does not exist any more."""
        try:
            return filesystem.getsize(self.path)
        except OSError:
            return 0


class PackedEntries(Sequence[Entry]):
    """Dump files of one folder of a large tree: names as compressed text, parsed each time they are needed."""

    def __init__(self, folder: str, entries: Sequence[Entry]) -> None:
        names = "\0".join([f"{entry.path.rpartition(os.sep)[2]}\0{entry.name}" for entry in entries])
        self._folder, self._count = folder, len(entries)
        self._names = zlib.compress(names.encode(errors="surrogateescape"), 1)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        parts = zlib.decompress(self._names).decode(errors="surrogateescape").split("\0")
        folder = os.path.join(self._folder, "")
        for name, real in zip(parts[::2], parts[1::2], strict=True):
            parsed = parse_name(real)
            if parsed is not None:
                yield Entry(folder + name, real, parsed)

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...

    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        return tuple(self)[index]


class Folder(Struct, frozen=True):
    """A folder with dump files, oldest first.

    Attributes:
        path: its path.
        location: its position in the run.
        entries: its dump files.
        name_types: types of the names of its dump files, except of those with overflow debug records.
        repeated_count: number of FX files whose tensors were dumped before, at another time.
    """

    path: str
    location: Location
    entries: Sequence[Entry]
    name_types: frozenset[type[FileName]] = frozenset()
    repeated_count: int = 0

    @property
    def run_path(self) -> str:
        """The folder with the steps of the same run; this folder if there are no steps."""
        if self.location.step is None:
            return self.path
        parent, name = os.path.split(self.path)
        return os.path.dirname(parent) if name.startswith("gm_") else parent


class Tree(Struct, frozen=True):
    """Files of a directory tree.

    Attributes:
        root: the scanned directory.
        folders: folders with dump files, in the order of the run.
        graphs: graph texts.
        unrecognized: files whose names fit no pattern of dump files.
        problems: files and folders that could not be examined.
        taken: folders of files that `opdiff reduce` has taken and not put back; they are problems, too.
    """

    root: str
    folders: tuple[Folder, ...]
    graphs: tuple[str, ...]
    unrecognized: tuple[str, ...]
    problems: tuple[SkippedPath, ...]
    taken: tuple[SkippedPath, ...] = ()

    def entries(self) -> Iterator[Entry]:
        """All dump files."""
        return (entry for folder in self.folders for entry in folder.entries)


class _TreeBuilder(Struct):
    """Files found so far."""

    root: str
    folders: list[Folder] = field(default_factory=list)
    graphs: list[str] = field(default_factory=list)
    unrecognized: list[str] = field(default_factory=list)
    problems: list[SkippedPath] = field(default_factory=list)
    taken: list[SkippedPath] = field(default_factory=list)
    count: int = 0

    def add(self, part: _TreeBuilder) -> None:
        """Add the files of further folders."""
        self.folders += part.folders
        self.graphs += part.graphs
        self.unrecognized += part.unrecognized
        self.problems += part.problems
        self.taken += part.taken


class ScanJob(Struct, frozen=True):
    """A folder of a very large tree, to be listed by this process or another one: real path of the root, and depth."""

    root: str
    folder: str
    depth: int


def scan(root: str, map_jobs: MapJobs = map) -> Tree:
    """List the dump files of a directory tree. Links to targets outside of it are not followed.

    Args:
        root: the directory.
        map_jobs: a `map` that may use other processes; used for the folders after the first 100,000 files.

    Raises:
        InputError: the root is not a readable directory.
    """
    if not filesystem.isdir(root):
        raise InputError(root, because("core.no_such_directory"))
    found = _TreeBuilder(filesystem.realpath(root))
    pending = _scan_folders(found, [(root, 0)], _MAX_ENTRIES_IN_MEMORY)
    for part in map_jobs(scan_part, [ScanJob(found.root, *folder) for folder in reversed(pending)]):
        found.add(part)
    found.folders.sort(key=lambda folder: natural_key(folder.path))
    graphs, unrecognized = (tuple(sorted(paths, key=natural_key)) for paths in (found.graphs, found.unrecognized))
    problems = (*found.problems, *found.taken)
    return Tree(root, tuple(found.folders), graphs, unrecognized, problems, tuple(found.taken))


def scan_part(job: ScanJob) -> _TreeBuilder:
    """List one folder of a very large tree, and all folders below it."""
    found = _TreeBuilder(job.root, count=_MAX_ENTRIES_IN_MEMORY)
    _scan_folders(found, [(job.folder, job.depth)])
    return found


def _scan_folders(
    found: _TreeBuilder, pending: list[tuple[str, int]], max_files: int = sys.maxsize
) -> list[tuple[str, int]]:
    """List folders, each with its depth, the last one first; return those that are left after so many files."""
    while pending and found.count <= max_files:
        path, depth = pending.pop()
        if depth > _MAX_DEPTH:
            found.problems.append(SkippedPath(path, because("read.too_deep", limit=_MAX_DEPTH)))
            continue
        pending += [(folder, depth + 1) for folder in _scan_folder(path, found, is_root=depth == 0)]
    return pending


def locate(path: str) -> Location:
    """Return the position in a run that a folder's path describes."""
    text = filesystem.abspath(path)
    name = os.path.basename(text)
    if not name.isdecimal() and not name.startswith("gm_"):  # all patterns end with one of these
        return Location()
    match = next((match for pattern in _FOLDER_PATTERNS if (match := re.fullmatch(pattern, text))), None)
    if match is None:
        return Location()
    found = match.groupdict()
    numbers = {key: int(found[key]) for key in ("rank", "device", "model_id", "graph", "step") if found.get(key)}
    if found.get("next_step"):
        # These writers increment the counter before the step runs, so that folder names are one ahead.
        numbers["step"] = int(found["next_step"]) - 1
    return Location(time=found.get("time"), model=found.get("model"), **numbers)


def _scan_folder(path: str, found: _TreeBuilder, *, is_root: bool) -> list[str]:
    """Add the files of one folder; return its sub-folders."""
    try:
        items = filesystem.list_folder(path)
    except OSError as error:
        if is_root:
            raise InputError(path, because("core.cannot_list", error=error.strerror)) from error
        found.problems.append(SkippedPath(path, because("core.cannot_list", error=error.strerror)))
        return []
    subfolders = [item for item in items if item.is_dir(follow_symlinks=False)]
    files = [item for item in items if not item.is_dir(follow_symlinks=False)] if subfolders else items
    mapping = next((_read_mapping(item, found) for item in files if item.name == "mapping.csv"), {})
    entries = [entry for item in files if (entry := _entry(item, mapping, found))]
    if entries:
        found.count += len(entries)
        in_order = _oldest_first(entries)
        listed = PackedEntries(path, in_order) if found.count > _MAX_ENTRIES_IN_MEMORY else in_order
        folder = Folder(path, locate(path), listed, _name_types(entries), _repeated_count(in_order))
        found.folders.append(folder)
    for item in subfolders:
        if item.name == TAKEN_FOLDER:
            _count_taken(item.path, found)
    return [item.path for item in subfolders if item.name != TAKEN_FOLDER]


def _count_taken(path: str, found: _TreeBuilder) -> None:
    """Record the number of taken files; they are not listed, since the name of one may have a newer file."""
    with suppress(OSError):
        count = sum(not item.name.startswith(".") for item in filesystem.list_folder(path))
        if count:
            found.taken.append(SkippedPath(path, because("read.taken_files", count=count)))


def _name_types(entries: Sequence[Entry]) -> frozenset[type[FileName]]:
    types = {type(entry.parsed) for entry in entries}
    if DumpName in types and all(is_debug(entry) for entry in entries if isinstance(entry.parsed, DumpName)):
        types.remove(DumpName)
    return frozenset(types)


def _repeated_count(entries: Sequence[Entry]) -> int:
    """Return how many FX files have tensors of other files."""
    times: dict[tuple[object, ...], int] = {}
    count = 0
    for entry in entries:
        name = entry.parsed
        if isinstance(name, FxName):
            count += times.setdefault(name.tensor, name.timestamp) != name.timestamp
    return count


def _oldest_first(entries: list[Entry]) -> tuple[Entry, ...]:
    """Sort by timestamp, then by name."""
    times = {entry.parsed.timestamp or 0 for entry in entries}
    if len(times) == len(entries):
        return tuple(sorted(entries, key=lambda entry: entry.parsed.timestamp or 0))
    return tuple(sorted(entries, key=lambda entry: (entry.parsed.timestamp or 0, natural_key(entry.name))))


def _entry(item: DirEntry, mapping: dict[str, str], found: _TreeBuilder) -> Entry | None:
    """Return a directory entry as a dump file; `None` for other files, which are recorded in `found`."""
    name = item.name
    if name in COMPANIONS or name.startswith("."):
        return None
    problem = _problem(item, found.root)
    if problem is not None:
        found.problems.append(SkippedPath(item.path, problem))
        return None
    if is_hashed(name) and name not in mapping:
        found.problems.append(SkippedPath(item.path, because("read.hash_not_mapped"), is_hash=True))
        return None
    if name.startswith("dynamo_") and re.fullmatch(r"dynamo_\w+\.txt", name):
        found.graphs.append(item.path)
        return None
    name = _real_name(name, mapping) if mapping else name
    parsed = parse_name(name)
    if parsed is None:
        found.unrecognized.append(item.path)
        return None
    return Entry(item.path, name, parsed)


def _real_name(name: str, mapping: dict[str, str]) -> str:
    """Return the real name of a file; a reduced file has the hash of its original file and an additional suffix."""
    for suffix, original in (("_min_max.npz", ""), ("_min_max.npy", ".npy")):
        hashed = name.removesuffix(suffix) + original
        if name.endswith(suffix) and hashed in mapping:
            return mapping[hashed].removesuffix(original) + suffix
    return mapping.get(name, name)


def _problem(item: DirEntry, root: str) -> Reason | None:
    """Return why a directory entry is skipped, before its name is parsed."""
    if item.is_symlink():
        return _link_problem(item, root)
    if not item.is_file():
        is_unsafe = getattr(item, "kind", None) == "unsafe"
        return because("read.unsafe_name") if is_unsafe else because("core.not_regular_file")
    return None


def _link_problem(item: DirEntry, root: str) -> Reason | None:
    real = filesystem.realpath(item.path)
    if not real.startswith(root.rstrip(os.sep) + os.sep):
        return because("read.link_outside")
    if filesystem.isdir(real):
        return because("read.link_to_folder")
    return None if filesystem.isfile(real) else because("read.broken_link")


def _read_mapping(item: DirEntry, found: _TreeBuilder) -> dict[str, str]:
    """Read real names by hashed name; malformed lines are recorded as one problem."""
    problem = _link_problem(item, found.root) if item.is_symlink() else None
    if problem is None and not item.is_file():
        problem = because("core.not_regular_file")
    names: dict[str, str] = {}
    malformed: list[int] = []
    if problem is None:
        try:
            names, malformed = parse_mapping(item.path)
        except OSError as error:
            problem = because("core.cannot_read", Status.NOT_HERE, error=error.strerror)
    if malformed:
        problem = because("read.mapping_lines", count=len(malformed), line=malformed[0])
    if problem is not None:
        found.problems.append(SkippedPath(item.path, problem))
    return names


def parse_mapping(path: str) -> tuple[dict[str, str], list[int]]:
    """Return the real names in a `mapping.csv` by hashed name, and the numbers of lines that are not `digits,name`."""
    names: dict[str, str] = {}
    malformed: list[int] = []
    with open_input(path) as file:
        lines = file.read(_MAX_MAPPING_NBYTES).decode(errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        hashed, comma, real = line.strip().partition(",")
        if comma and real and len(real) <= _MAX_NAME_LENGTH and "," not in real and "/" not in real:
            names[hashed] = real
        elif line.strip():
            malformed.append(number)
    return names, malformed


def real_name(path: str) -> str:
    """Return the base name of a file; for a hashed name, the one in the `mapping.csv` of the same folder."""
    name = os.path.basename(path)
    mapping = os.path.join(os.path.dirname(path), "mapping.csv")
    if not is_hashed(name.replace("_min_max", "").removesuffix(".npz")) or not filesystem.isfile(mapping):
        return name
    with suppress(OSError):
        return _real_name(name, parse_mapping(mapping)[0])
    return name


def is_debug(entry: Entry) -> bool:
    """Return whether a file has overflow debug records instead of an operator's data."""
    return isinstance(entry.parsed, DumpName) and entry.parsed.is_debug


def is_statistics(entry: Entry) -> bool:
    """Return whether a file has statistics of tensors instead of their data."""
    return isinstance(entry.parsed, DumpName) and entry.parsed.statistics
