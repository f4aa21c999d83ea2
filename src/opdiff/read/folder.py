"""Operators of one folder: slices are joined, and of several dumps of one operator the newest is used."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.dump import SkippedPath
from opdiff.core.errors import DumpError
from opdiff.core.filesystem import read_ahead
from opdiff.read import read_operator
from opdiff.read.directory import is_debug, is_statistics
from opdiff.read.filename import ConvertedName, DumpName, FxName, operator_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.tensor import OpDump
    from opdiff.read.directory import Entry, Folder


class Operator(Struct, frozen=True):
    """An operator of a folder and its files, oldest first.

    Golden, FX and converted files have one tensor each and are listed as one operator each.
    """

    name: str
    op_type: str
    dump: OpDump
    files: tuple[Entry, ...]


def read_folder(folder: Folder) -> tuple[tuple[Operator, ...], tuple[SkippedPath, ...]]:
    """Read the operators of a folder, oldest first; also return the files that could not be read.

    Files with overflow debug records or statistics are left out.
    """
    groups: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in folder.entries:
        if not is_statistics(entry) and not is_debug(entry):
            groups[_key(entry)].append(entry)
    operators: list[Operator] = []
    problems: list[SkippedPath] = []
    for key, entries in read_ahead([*groups.items()], lambda group: (entry.path for entry in group[1])):
        newest = entries[-1].parsed
        op_type = newest.op_type if isinstance(newest, DumpName) else ""
        try:
            operators.append(Operator(key[0], op_type, read_newest(entries), tuple(entries)))
        except DumpError as error:
            problems.append(SkippedPath(error.path, error.brief))
    return tuple(operators), tuple(problems)


def _key(entry: Entry) -> tuple[str, ...]:
    """Return the operator of a file, and the tensor if it has only one."""
    parsed = entry.parsed
    if isinstance(parsed, DumpName):
        return (operator_name(parsed.op_name) or parsed.op_name,)
    if isinstance(parsed, ConvertedName):
        return (parsed.op_name, parsed.slot, str(parsed.index))
    if isinstance(parsed, FxName):
        return (parsed.op_name, parsed.slot, str(parsed.index), str(parsed.element))
    return (parsed.op_name, "output", str(parsed.index))


def read_newest(entries: Sequence[Entry]) -> OpDump:
    """Read an operator from its files, oldest first: its slices joined, or its newest file.

    Raises:
        DumpError: it cannot be read.
    """
    if len(entries) == 1:
        return read_operator(entries[0].path, entries[0].name)
    named = [(entry.parsed, entry) for entry in entries]
    slices = [(name, entry) for name, entry in named if isinstance(name, DumpName) and name.is_slice]
    if len(slices) > 1:
        from opdiff.read.slices import join_slices

        return join_slices([(name, read_operator(entry.path, entry.name, sliced=False)) for name, entry in slices])
    return read_operator(entries[-1].path, entries[-1].name)
