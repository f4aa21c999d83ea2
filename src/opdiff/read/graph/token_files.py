"""Operators of one token: files of the graph engine or of FX, with data, reduced, or with statistics."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.dtypes import name_in_graph
from opdiff.core.dump import GraphKind, GraphOp, SideTensor, SkippedPath, TokenDump
from opdiff.core.errors import DumpError
from opdiff.core.filesystem import read_ahead
from opdiff.core.metrics import TensorStats
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot, TensorKey
from opdiff.read import read_operator
from opdiff.read.directory import is_statistics
from opdiff.read.filename import DumpName, FxName, operator_name
from opdiff.read.folder import are_inputs_and_outputs, may_be_one_execution, read_newest
from opdiff.read.reduced import read_reduced
from opdiff.read.statistics import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor
    from opdiff.read.directory import Entry, Folder
    from opdiff.read.statistics import StatisticsLine

# Columns of statistics files; writers use different headings.
_MAX, _MIN, _MEAN = ("Max Value", "max"), ("Min Value", "min"), ("Avg Value", "mean", "avg")
_NORM, _NANS = ("l2norm", "L2norm", "L2 Norm"), ("Nan Count",)
_INFS = ("Negative Inf Count", "Positive Inf Count")


def read_token(folders: Sequence[Folder], kind: GraphKind) -> TokenDump:
    """Read the operators in the folders of one token, oldest first."""
    entries = sorted(
        (entry for folder in folders for entry in folder.entries),
        key=lambda entry: (entry.parsed.timestamp or 0, entry.path),
    )
    return _read_fx(entries) if kind is GraphKind.FX else _read_ge(entries)


# Graph engine


def _read_ge(entries: Iterable[Entry]) -> TokenDump:
    groups: dict[str, list[Entry]] = defaultdict(list)
    skipped: list[SkippedPath] = []
    for entry in entries:
        parsed = entry.parsed
        if not isinstance(parsed, DumpName):
            skipped.append(SkippedPath(entry.path, because("read.other_kind")))
        elif not parsed.is_debug:
            groups[operator_name(parsed.op_name) or parsed.op_name].append(entry)
    operators: dict[str, GraphOp] = {}
    duplicates: list[tuple[GraphOp, Reason]] = []
    for name, group in read_ahead([*groups.items()], lambda item: (entry.path for entry in item[1])):
        operators[name], others = _read_group(name, group)
        if others:
            reason = because("read.dumped_again", op=name, count=len(others) + 1)
            duplicates += [(other, reason) for other in others]
    return TokenDump(GraphKind.GE, operators, tuple(duplicates), tuple(skipped))


def _read_group(name: str, group: list[Entry]) -> tuple[GraphOp, list[GraphOp]]:
    """Read an operator from its files, oldest first, and its other executions.

    All slices are joined. Otherwise it is the largest file that has data, with the file of its inputs or outputs if
    they were dumped separately.
    """
    if len(group) == 1:
        return _ge_operator(name, group), []
    paths = {entry.path for entry in group}
    group = [entry for entry in group if entry.path.removesuffix("_min_max.npz") not in paths - {entry.path}]
    named = [(entry, entry.parsed) for entry in group]
    slices = [entry for entry, name in named if isinstance(name, DumpName) and name.is_slice and not name.suffix]
    if len(slices) > 1:
        return _ge_operator(name, slices), [_ge_operator(name, [entry]) for entry in group if entry not in slices]
    executions: list[tuple[bool, int, GraphOp]] = []
    for number, entry in enumerate(group):
        op, nbytes = _ge_operator(name, [entry]), entry.nbytes
        has_data = not entry.parsed.reduced and not is_statistics(entry)
        if number and may_be_one_execution(group[number - 1], entry) and are_inputs_and_outputs(executions[-1][2], op):
            _, nbytes_before, before = executions.pop()
            op, nbytes = replace(op, inputs=before.inputs), nbytes_before + nbytes
        executions.append((has_data, nbytes, op))
    best = max(executions, key=itemgetter(0, 1))[2]
    return best, [op for _, _, op in executions if op is not best]


def _ge_operator(name: str, entries: Sequence[Entry]) -> GraphOp:
    newest = entries[-1]
    parsed = newest.parsed
    op_type = parsed.op_type if isinstance(parsed, DumpName) else ""
    head = (name, op_type, parsed.timestamp or 0, newest.path)
    try:
        if is_statistics(newest) or parsed.reduced:
            return GraphOp(*head, *_split_by_slot(_statistics_tensors(name, newest)))
        dump, _ = read_newest(entries)
    except DumpError as error:
        return GraphOp(*head, problem=error.brief)
    inputs = _side_tensors(name, Slot.INPUT, newest.path, dump.inputs)
    return GraphOp(*head, inputs, _side_tensors(name, Slot.OUTPUT, newest.path, dump.outputs), dump.op_name)


def _side_tensors(name: str, slot: Slot, path: str, tensors: Sequence[Tensor]) -> tuple[SideTensor, ...]:
    if not tensors:
        return ()
    return tuple(
        [
            SideTensor(TensorKey(name, slot, index), path, _location(slot, index), tensor)
            for index, tensor in enumerate(tensors)
        ]
    )


def _statistics_tensors(name: str, entry: Entry) -> list[SideTensor]:
    """Return the tensors of an operator that was dumped as statistics or reduced to them."""
    if is_statistics(entry):
        found = [(line.slot, line.index, _line_stats(line)) for line in read_statistics(entry.path)]
    else:
        reduced = read_reduced(entry.path, entry.name)
        found = [(slot, index, stats) for slot in Slot for index, stats in enumerate(reduced[slot])]
    return [
        SideTensor(TensorKey(name, slot, index), entry.path, _location(slot, index), stats=stats)
        for slot, index, stats in found
    ]


@lru_cache(maxsize=64)
def _location(slot: Slot, index: int) -> str:
    return f",{slot}s,{index}"


def _split_by_slot(tensors: Sequence[SideTensor]) -> tuple[tuple[SideTensor, ...], tuple[SideTensor, ...]]:
    """Return inputs and outputs."""
    inputs: list[SideTensor] = []
    outputs: list[SideTensor] = []
    for tensor in tensors:
        (inputs if tensor.key.slot is Slot.INPUT else outputs).append(tensor)
    return tuple(inputs), tuple(outputs)


def _line_stats(line: StatisticsLine) -> TensorStats:
    values = dict(line.values)

    def find(names: tuple[str, ...]) -> float | None:
        return next((values[name] for name in names if values.get(name) is not None), None)

    infs = [values[name] for name in _INFS if values.get(name) is not None]
    nans = find(_NANS)
    return TensorStats(
        find(_MIN),
        find(_MAX),
        find(_MEAN),
        find(_NORM),
        None if nans is None else int(nans),
        int(sum(number or 0 for number in infs)) if infs else None,
        dtype=name_in_graph(line.dtype),
        shape=line.shape or None,
    )


# FX


def _read_fx(entries: Iterable[Entry]) -> TokenDump:
    groups: dict[str, dict[tuple[Slot, int, int], tuple[FxName, Entry]]] = defaultdict(dict)
    skipped: list[SkippedPath] = []
    for entry in entries:
        parsed = entry.parsed
        if not isinstance(parsed, FxName):
            skipped.append(SkippedPath(entry.path, because("read.other_kind")))
            continue
        key = (parsed.slot, parsed.index, -1 if parsed.element is None else parsed.element)
        files = groups[parsed.op_name]
        older = files.get(key)
        if older is None or _supersedes(parsed, older[0]):
            files[key] = (parsed, entry)
    ahead = read_ahead([*groups.items()], lambda item: (entry.path for _, entry in item[1].values()))
    operators = {name: _fx_operator(name, files) for name, files in ahead}
    by_time = dict(sorted(operators.items(), key=lambda item: item[1].timestamp))
    tensors = (tensor for op in by_time.values() for tensor in (*op.inputs, *op.outputs))
    skipped += (SkippedPath(tensor.path, tensor.problem) for tensor in tensors if tensor.problem)
    return TokenDump(GraphKind.FX, by_time, skipped=tuple(skipped))


def _supersedes(new: FxName, old: FxName) -> bool:
    """Return whether a file replaces another of the same tensor: data over reduced data, then the later execution.

    Of two folders with files of the same time, the last one counts.
    """
    if new.timestamp == old.timestamp:
        return old.reduced or not new.reduced
    return new.timestamp > old.timestamp


def _fx_operator(name: str, files: dict[tuple[Slot, int, int], tuple[FxName, Entry]]) -> GraphOp:
    # By index and element; inputs and outputs are separated later.
    ordered = sorted(files.items(), key=lambda item: item[0][1:])
    tensors = [_fx_tensor(name, parsed, entry) for _, (parsed, entry) in ordered]
    parsed, entry = ordered[0][1]
    return GraphOp(name, parsed.target, parsed.timestamp, entry.path, *_split_by_slot(tensors))


def _fx_tensor(name: str, parsed: FxName, entry: Entry) -> SideTensor:
    key = TensorKey(name, parsed.slot, parsed.index)
    try:
        if parsed.reduced:
            (stats,) = read_reduced(entry.path, entry.name)[Slot.OUTPUT]
            return SideTensor(key, entry.path, stats=stats)
        (tensor,) = read_operator(entry.path, entry.name).outputs
    except DumpError as error:
        return SideTensor(key, entry.path, problem=error.brief)
    except ValueError:
        return SideTensor(key, entry.path, problem=because("read.not_one_tensor"))
    return SideTensor(key, entry.path, "", tensor)
