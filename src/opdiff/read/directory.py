"""What a directory tree holds: files by folder, their real names, and where in the run each folder belongs.

One pass, no file is opened but `mapping.csv`. See docs/formats/directories.md.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.dump import SkippedPath
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read.filename import COMPANIONS, DumpName, FileName, is_hashed, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.reasons import Reason

_MAX_DEPTH = 64
_MAX_MAPPING = 100 << 20
_RANK = r"(?:.*?/)?(?:worldsize\d+_(?:global_)?rank(?P<rank>\d{1,18})/)?"
_NUMBER = r"\d{1,18}"
_PLACES = tuple(
    _RANK + rest
    for rest in (
        rf"(?:(?P<time>\d{{14}})/)?(?P<device>{_NUMBER})/(?P<model>[^/]*[^/\d][^/]*)/(?P<model_id>{_NUMBER})/(?P<step>{_NUMBER})",
        rf"graph_(?P<graph>{_NUMBER})/(?P<step>{_NUMBER})",
        rf"(?P<next_step>{_NUMBER})/gm_\d+_dump",
        rf"(?P<time>\d{{14}})/(?P<device>{_NUMBER})",
    )
)
_WHOLE_NUMBER = re.compile(r"([0-9]+)")


class Location(NamedTuple):
    """Where in a run a folder belongs; what its path does not tell is `None`."""

    rank: int | None = None
    time: str | None = None
    device: int | None = None
    model: str | None = None
    model_id: int | None = None
    graph: int | None = None
    step: int | None = None


class Entry(NamedTuple):
    """One dump file: its path, its real base name, and what the name says."""

    path: str
    name: str
    parsed: FileName

    @property
    def nbytes(self) -> int:
        """The size of the file when this is asked for; 0 when it has gone away since it was found."""
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0


class Folder(NamedTuple):
    """A folder with dump files, oldest first."""

    path: str
    location: Location
    entries: tuple[Entry, ...]

    @property
    def run_path(self) -> str:
        """The folder that has the steps of the same run; the folder itself where there are no steps."""
        if self.location.step is None:
            return self.path
        parent, name = os.path.split(self.path)
        return os.path.dirname(parent) if name.startswith("gm_") else parent


class Tree(NamedTuple):
    """Everything below a root.

    Attributes:
        root: the directory that was scanned.
        folders: those with dump files, in the order of the run.
        graphs: graph texts.
        unrecognized: files whose names fit no pattern of dump files.
        problems: what could not be looked at, and why.
    """

    root: str
    folders: tuple[Folder, ...]
    graphs: tuple[str, ...]
    unrecognized: tuple[str, ...]
    problems: tuple[SkippedPath, ...]

    def entries(self) -> Iterator[Entry]:
        """All dump files."""
        return (entry for folder in self.folders for entry in folder.entries)


class _Findings:
    """What was found so far."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.folders: list[Folder] = []
        self.graphs: list[str] = []
        self.unrecognized: list[str] = []
        self.problems: list[SkippedPath] = []


def scan(root: str) -> Tree:
    """Look through a directory tree. Links that leave it are not followed.

    Raises:
        InputError: the root itself is not a readable directory.
    """
    if not os.path.isdir(root):
        raise InputError(root, "no such directory")
    found = _Findings(os.path.realpath(root))
    pending = [(root, 0)]
    while pending:
        path, depth = pending.pop()
        if depth > _MAX_DEPTH:
            found.problems.append(SkippedPath(path, because("read.too_deep", limit=_MAX_DEPTH)))
            continue
        pending += [(below, depth + 1) for below in _scan_folder(path, found, is_root=path == root)]
    found.folders.sort(key=lambda folder: natural_key(folder.path))
    graphs, unrecognized = (tuple(sorted(paths, key=natural_key)) for paths in (found.graphs, found.unrecognized))
    return Tree(root, tuple(found.folders), graphs, unrecognized, tuple(found.problems))


def locate(path: str) -> Location:
    """Where in a run the folder at this path belongs."""
    text = os.path.abspath(path)
    name = os.path.basename(text)
    if not name.isdecimal() and not name.startswith("gm_"):  # what all places end with, and few other folders
        return Location()
    match = next((match for pattern in _PLACES if (match := re.fullmatch(pattern, text))), None)
    if match is None:
        return Location()
    found = match.groupdict()
    numbers = {key: int(found[key]) for key in ("rank", "device", "model_id", "graph", "step") if found.get(key)}
    if found.get("next_step"):
        # These writers raised the counter before the run: the folder is one ahead of the step.
        numbers["step"] = int(found["next_step"]) - 1
    return Location(time=found.get("time"), model=found.get("model"), **numbers)


def natural_key(text: str) -> list[int | str]:
    """A key that sorts numbers inside names by their value: step 9 comes before step 10."""
    # Texts, the first of which may be empty, and numbers by turns: what is compared is always of one type.
    parts: list[int | str] = [*_WHOLE_NUMBER.split(text)]
    parts[1::2] = map(int, parts[1::2])
    return parts


def _scan_folder(path: str, found: _Findings, *, is_root: bool) -> list[str]:
    """Take in one folder; returns the folders below it."""
    try:
        with os.scandir(path) as listing:
            items = sorted(listing, key=attrgetter("name"))
    except OSError as error:
        if is_root:
            raise InputError(path, f"cannot be listed: {error.strerror}") from error
        found.problems.append(SkippedPath(path, because("core.cannot_list", error=error.strerror)))
        return []
    below: list[str] = []
    files: list[os.DirEntry[str]] = []
    for item in items:
        if item.is_dir(follow_symlinks=False):
            below.append(item.path)
        else:
            files.append(item)
    mapping = next((_read_mapping(item, found) for item in files if item.name == "mapping.csv"), {})
    entries = [entry for item in files if (entry := _entry(item, mapping, found))]
    if entries:
        found.folders.append(Folder(path, locate(path), _oldest_first(entries)))
    return below


def _oldest_first(entries: list[Entry]) -> tuple[Entry, ...]:
    """By time, and those of one time by name."""
    times = {entry.parsed.timestamp or 0 for entry in entries}
    if len(times) == len(entries):
        return tuple(sorted(entries, key=lambda entry: entry.parsed.timestamp or 0))
    return tuple(sorted(entries, key=lambda entry: (entry.parsed.timestamp or 0, natural_key(entry.name))))


def _entry(item: os.DirEntry[str], mapping: dict[str, str], found: _Findings) -> Entry | None:
    """The dump file that a directory entry is, if it is one."""
    name = item.name
    if name in COMPANIONS or name.startswith("."):
        return None
    problem = _problem(item, mapping, found.root)
    if problem is not None:
        found.problems.append(SkippedPath(item.path, problem))
        return None
    if name.startswith("dynamo_") and re.fullmatch(r"dynamo_\w+\.txt", name):
        found.graphs.append(item.path)
        return None
    name = _mapped(name, mapping)
    parsed = parse_name(name)
    if parsed is None:
        found.unrecognized.append(item.path)
        return None
    return Entry(item.path, name, parsed)


def _mapped(name: str, mapping: dict[str, str]) -> str:
    """The real name of a file; a reduced file has the hash of what it was made from, and an ending of its own."""
    for ending, original in (("_min_max.npz", ""), ("_min_max.npy", ".npy")):
        hashed = name.removesuffix(ending) + original
        if name.endswith(ending) and hashed in mapping:
            return mapping[hashed].removesuffix(original) + ending
    return mapping.get(name, name)


def _problem(item: os.DirEntry[str], mapping: dict[str, str], root: str) -> Reason | None:
    """Why an entry cannot be taken, whatever it holds."""
    if item.is_symlink():
        return _link_problem(item, root)
    if not item.is_file():
        return because("core.not_regular_file")
    if is_hashed(item.name) and item.name not in mapping:
        return because("read.hash_not_mapped")
    return None


def _link_problem(item: os.DirEntry[str], root: str) -> Reason | None:
    real = os.path.realpath(item.path)
    if not real.startswith(root.rstrip(os.sep) + os.sep):
        return because("read.link_outside")
    if os.path.isdir(real):
        return because("read.link_to_folder")
    return None if os.path.isfile(real) else because("read.broken_link")


def _read_mapping(item: os.DirEntry[str], found: _Findings) -> dict[str, str]:
    """Real names by hashed name; lines that are not `digits,name` are reported, in one problem, and ignored."""
    problem = _link_problem(item, found.root) if item.is_symlink() else None
    if problem is None and not item.is_file():
        problem = because("core.not_regular_file")
    names: dict[str, str] = {}
    odd: list[int] = []
    if problem is None:
        try:
            names, odd = parse_mapping(item.path)
        except OSError as error:
            problem = because("core.cannot_read", error=error.strerror)
    if odd:
        problem = because("read.mapping_lines", count=len(odd), line=odd[0])
    if problem is not None:
        found.problems.append(SkippedPath(item.path, problem))
    return names


def parse_mapping(path: str) -> tuple[dict[str, str], list[int]]:
    """The real names in a `mapping.csv` by hashed name, and the numbers of the lines that are not `digits,name`."""
    names: dict[str, str] = {}
    odd: list[int] = []
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read(_MAX_MAPPING).splitlines()
    for number, line in enumerate(lines, 1):
        hashed, comma, real = line.strip().partition(",")
        if comma and real and "," not in real and "/" not in real:
            names[hashed] = real
        elif line.strip():
            odd.append(number)
    return names, odd


def real_name(path: str) -> str:
    """The base name of a file; where that is a hash, the name that the `mapping.csv` beside it gives."""
    name = os.path.basename(path)
    mapping = os.path.join(os.path.dirname(path), "mapping.csv")
    if not is_hashed(name.replace("_min_max", "").removesuffix(".npz")) or not os.path.isfile(mapping):
        return name
    with suppress(OSError):
        return _mapped(name, parse_mapping(mapping)[0])
    return name


def is_debug(entry: Entry) -> bool:
    """Whether the file has overflow debug records instead of an operator's data."""
    return isinstance(entry.parsed, DumpName) and entry.parsed.is_debug


def is_statistics(entry: Entry) -> bool:
    """Whether the file has statistics of tensors instead of their data."""
    return isinstance(entry.parsed, DumpName) and entry.parsed.statistics
