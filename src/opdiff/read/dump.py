"""One side of a comparison: the dump files of a folder as operators by name."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.dump import Dump, DumpedOp, DumpKind, SkippedPath
from opdiff.core.errors import DumpError, InputError
from opdiff.core.graph import QUANTIZATION_TYPES
from opdiff.core.reasons import all_of, because
from opdiff.core.tensor import Slot
from opdiff.read import read_operator
from opdiff.read.directory import Folder, scan
from opdiff.read.filename import ConvertedName, DumpName, FxName, GoldenName, operator_name, without_slices
from opdiff.read.folder import read_newest, unused_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor
    from opdiff.read.directory import Entry, Tree

# Name parts of operators that quantization tools insert; does not match `_quantity`.
_QUANT_NAME = r"AscendQuant|AscendWeightQuant|AntiQuant|AscendDequant|_(?:weight_|anti_|de)?quant(?:iz[a-z]*)?(?![a-z])"
_MAX_LISTED_FOLDERS = 5


def read_dump(path: str, *, with_rules: bool = False) -> Dump:
    """Read the dump in a directory, or in the only folder below it that has dump files.

    Args:
        path: the directory.
        with_rules: keep sub-graph prefixes of names, because the fusion rule file has them.

    Raises:
        InputError: there is no dump, or more than one.
    """
    if filesystem.isfile(path):
        raise InputError(path, because("read.file_for_dump"))
    tree = scan(path)
    dump = read_folder_dump(_only_dump_folder(tree), with_rules=with_rules)
    unknown = because("read.unknown_name")
    skipped = [*tree.problems, *(SkippedPath(path, unknown) for path in tree.unrecognized)]
    here = tuple(item for item in skipped if os.path.dirname(item.path) == dump.path)
    return replace(dump, skipped=dump.skipped + here)


def read_folder_dump(folder: Folder, *, with_rules: bool = False) -> Dump:
    """Read the dump in one folder of a tree."""
    entries = [entry for entry in folder.entries if _is_data(entry)]
    kind = _kind(folder, entries)
    groups = _group_by_operator(entries, with_rules=with_rules)
    redundant = dict.fromkeys(entry for group in groups.values() for entry in _redundant(group))
    if redundant:
        groups = {name: [entry for entry in group if entry not in redundant] for name, group in groups.items()}
    unused: list[SkippedPath] = []
    operators = {name: _read(name, group, unused) for name, group in filesystem.read_ahead([*groups.items()], _paths)}
    by_time = dict(sorted(operators.items(), key=lambda item: item[1].timestamp))
    skipped = tuple(SkippedPath(entry.path, because("read.converted_twice")) for entry in redundant)
    quantized = any(map(is_quantization, by_time.values()))
    return Dump(folder.path, kind, quantized, by_time, skipped, tuple(unused))


def _paths(group: tuple[str, Iterable[Entry]]) -> Iterable[str]:
    return (entry.path for entry in group[1])


def is_quantization(operator: DumpedOp) -> bool:
    """Return whether a quantization tool inserted an operator."""
    if operator.op_type in QUANTIZATION_TYPES:
        return True
    return "uant" in operator.name and re.search(_QUANT_NAME, operator.name) is not None


def _group_by_operator(entries: Iterable[Entry], *, with_rules: bool) -> dict[str, list[Entry]]:
    """Group files by operator. Names are shortened only if different operators keep different names."""
    short: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        short[_name(entry, with_rules=with_rules)].append(entry)
    groups: dict[str, list[Entry]] = {}
    for name, group in short.items():
        whole: dict[str, list[Entry]] = defaultdict(list)
        for entry in group if len(group) > 1 else ():
            whole[without_slices(entry.parsed.op_name)].append(entry)
        if len(whole) > 1:
            groups |= whole
        else:
            groups[name] = group
    return groups


def _redundant(group: Sequence[Entry]) -> Sequence[Entry]:
    """Return the converted tensors of an operator whose dump is there, too."""
    if len(group) == 1 or not any(isinstance(entry.parsed, DumpName) for entry in group):
        return ()
    return [entry for entry in group if isinstance(entry.parsed, ConvertedName)]


def _only_dump_folder(tree: Tree) -> Folder:
    folders = [folder for folder in tree.folders if any(_is_data(entry) for entry in folder.entries)]
    own = [folder for folder in folders if filesystem.samefile(folder.path, tree.root)]
    chosen = own or folders
    if not chosen:
        count = sum(len(folder.entries) for folder in tree.folders) + len(tree.unrecognized)
        if not count and not tree.problems:
            raise InputError(tree.root, because("read.no_files"))
        raise InputError(tree.root, because("read.no_dumps", count=count, left_out=len(tree.problems)))
    if len(chosen) > 1:
        listed = ", ".join(os.path.relpath(folder.path, tree.root) for folder in chosen[:_MAX_LISTED_FOLDERS])
        left = len(chosen) - _MAX_LISTED_FOLDERS
        more = because("core.and_more", count=left) if left > 0 else None
        raise InputError(tree.root, because("read.several_folders", folders=listed, more=more))
    return chosen[0]


def _is_data(entry: Entry) -> bool:
    parsed = entry.parsed
    if isinstance(parsed, DumpName):
        return not (parsed.statistics or parsed.reduced or parsed.is_debug)
    return not parsed.reduced and not isinstance(parsed, FxName)


def _kind(folder: Folder, entries: Sequence[Entry]) -> DumpKind:
    kinds = {DumpKind.ARRAYS if isinstance(entry.parsed, GoldenName) else DumpKind.NPU for entry in entries}
    if not kinds:
        raise InputError(folder.path, because("read.no_tensor_data"))
    if len(kinds) > 1:
        arrays = sum(isinstance(entry.parsed, GoldenName) for entry in entries)
        problem = because("read.kinds_mixed", dumps=len(entries) - arrays, arrays=arrays)
        raise InputError(folder.path, problem)
    return kinds.pop()


def _name(entry: Entry, *, with_rules: bool) -> str:
    parsed = entry.parsed
    if isinstance(parsed, DumpName):
        return operator_name(parsed.op_name, with_rules=with_rules) or parsed.op_name
    return parsed.op_name


def _read(name: str, entries: Sequence[Entry], unused: list[SkippedPath]) -> DumpedOp:
    """Read an operator, and add its files of other executions to `unused`."""
    newest = entries[-1]
    parsed = newest.parsed
    dumped = parsed.dump if isinstance(parsed, ConvertedName) else parsed
    op_type = dumped.op_type if isinstance(dumped, DumpName) else ""
    head = (name, op_type, parsed.timestamp or 0, newest.path)
    if not isinstance(parsed, DumpName):
        return DumpedOp(*head, *_read_arrays(entries, unused))
    try:
        dump, others = read_newest(entries)
    except DumpError as error:
        return DumpedOp(*head, problem=error.brief)
    unused += others
    return DumpedOp(*head, dict(enumerate(dump.inputs)), dict(enumerate(dump.outputs)))


def _read_arrays(
    entries: Iterable[Entry], unused: list[SkippedPath]
) -> tuple[dict[int, Tensor], dict[int, Tensor], Reason | None]:
    """Read inputs and outputs with a file each, and the problems of others; the newest file of a tensor is used."""
    files: dict[tuple[Slot, int], list[Entry]] = defaultdict(list)
    for entry in entries:
        parsed = entry.parsed
        if isinstance(parsed, GoldenName):
            files[Slot.OUTPUT, parsed.index].append(entry)
        elif isinstance(parsed, ConvertedName):
            files[parsed.slot, parsed.index].append(entry)
    newest = {tensor: group[-1] for tensor, group in files.items()}
    unused += (other for group in files.values() for other in unused_files(group[:-1], group[-1]))
    found: dict[Slot, dict[int, Tensor]] = {slot: {} for slot in Slot}
    problems: list[Reason] = []
    for slot, index in sorted(newest):
        entry, problem = newest[slot, index], because("read.no_tensor")
        outputs: tuple[Tensor, ...] = ()
        try:
            outputs = read_operator(entry.path, entry.name).outputs
        except DumpError as error:
            problem = error.brief
        if outputs:
            found[slot][index] = outputs[0]
        else:
            problems.append(because("core.in_file", path=entry.name, problem=problem))
    return found[Slot.INPUT], found[Slot.OUTPUT], all_of(problems) if problems else None
