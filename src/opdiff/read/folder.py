"""Operators of one folder, each from the files of one execution: its slices, its inputs and its outputs are joined.

Of several executions of an operator the newest is used, and the files of the others are named.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dump import SkippedPath
from opdiff.core.errors import DumpError
from opdiff.core.filesystem import read_ahead
from opdiff.core.reasons import because
from opdiff.read import read_operator
from opdiff.read.directory import is_debug, is_statistics
from opdiff.read.filename import ConvertedName, DumpName, FxName, operator_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.dump import GraphOp
    from opdiff.core.tensor import OpDump
    from opdiff.read.directory import Entry, Folder


class Operator(Struct, frozen=True):
    """An operator of a folder and its files, oldest first; `unused` are those of other executions.

    Golden, FX and converted files have one tensor each and are listed as one operator each.
    """

    name: str
    op_type: str
    dump: OpDump
    files: tuple[Entry, ...]
    unused: tuple[SkippedPath, ...] = ()


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
            dump, unused = read_newest(entries)
            operators.append(Operator(key[0], op_type, dump, tuple(entries), unused))
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


def read_newest(entries: Sequence[Entry]) -> tuple[OpDump, tuple[SkippedPath, ...]]:
    """Read the newest execution of an operator from its files, oldest first; also return the files of other executions.

    Raises:
        DumpError: it cannot be read.
    """
    named = [(entry.parsed, entry) for entry in entries]
    slices = [(name, entry) for name, entry in named if isinstance(name, DumpName) and name.is_slice]
    if len(slices) > 1:
        from opdiff.read.slices import join_slices

        dump = join_slices([(name, read_operator(entry.path, entry.name, sliced=False)) for name, entry in slices])
        newest_slices = {name.slice_number: entry.path for name, entry in slices}.values()
        return dump, unused_files([entry for entry in entries if entry.path not in newest_slices], slices[-1][1])
    newest = entries[-1]
    dump = read_operator(newest.path, newest.name)
    if len(entries) > 1 and may_be_one_execution(entries[-2], newest) and dump.outputs and not dump.inputs:
        before = entries[-2]
        try:
            first = read_operator(before.path, before.name)
        except DumpError as error:
            return dump, (*unused_files(entries[:-2], newest), SkippedPath(before.path, error.brief))
        if are_inputs_and_outputs(first, dump):
            return replace(dump, inputs=first.inputs), unused_files(entries[:-2], newest)
    return dump, unused_files(entries[:-1], newest)


def may_be_one_execution(first: Entry, second: Entry) -> bool:
    """Return whether two successive files have the same operator and task.

    The runtime dumps inputs of collective operators with dynamic shapes before, and outputs after the execution.
    """
    task, other = first.parsed, second.parsed
    if not isinstance(task, DumpName) or not isinstance(other, DumpName) or task.is_slice:
        return False
    return replace(task, timestamp=0, dump_number=None) == replace(other, timestamp=0, dump_number=None)


def are_inputs_and_outputs(first: OpDump | GraphOp, second: OpDump | GraphOp) -> bool:
    """Return whether the first has only inputs and the second only outputs; otherwise they are two executions."""
    return bool(first.inputs and second.outputs) and not first.outputs and not second.inputs


def unused_files(entries: Iterable[Entry], used: Entry) -> tuple[SkippedPath, ...]:
    """Return the files of other executions, or of the same tensor, than the one that is used."""
    reason = because("read.another_file_used", name=used.name)
    return tuple(SkippedPath(entry.path, reason) for entry in entries)
