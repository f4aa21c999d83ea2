"""The operators of one token: files of the graph engine or of FX, whole, reduced, or as tables of statistics."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from opdiff.core.dump import GraphKind, GraphOp, SideTensor, SkippedPath, TokenDump
from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot, TensorKey
from opdiff.core.tensor_stats import TensorStats
from opdiff.read import read_operator
from opdiff.read.directory import is_debug, is_statistics
from opdiff.read.filename import DumpName, FxName, operator_name
from opdiff.read.folder import read_newest
from opdiff.read.reduced import read_reduced
from opdiff.read.statistics import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.read.directory import Entry, Folder
    from opdiff.read.statistics import StatisticsLine

_PLACES = {Slot.INPUT: "inputs", Slot.OUTPUT: "outputs"}
# The columns of statistics files, by what they mean.
_MAX, _MIN, _MEAN = ("Max Value", "max"), ("Min Value", "min"), ("Avg Value", "mean", "avg")
_NORM, _NANS = ("l2norm", "L2norm", "L2 Norm"), ("Nan Count",)
_INFS = ("Negative Inf Count", "Positive Inf Count")
_TYPES = {"DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_BF16": "bfloat16"}


def read_token(folders: Sequence[Folder], kind: GraphKind) -> TokenDump:
    """The operators in the folders of one token, oldest first."""
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
        if isinstance(parsed, DumpName) and not is_debug(entry):
            groups[operator_name(parsed.op_name) or parsed.op_name].append(entry)
        elif not is_debug(entry):
            skipped.append(SkippedPath(entry.path, because("read.other_kind")))
    operators: dict[str, GraphOp] = {}
    duplicates: list[tuple[GraphOp, Reason]] = []
    for name, group in groups.items():
        chosen, others = _chosen(group)
        operators[name] = _ge_operator(name, chosen)
        if len(chosen) == 1:
            reason = because("read.dumped_again", op=name, count=len(others) + 1)
            duplicates += [(_ge_operator(name, [other]), reason) for other in others]
    return TokenDump(GraphKind.GE, operators, tuple(duplicates), tuple(skipped))


def _chosen(group: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The files that count, and those that stand back: slices belong together, else the largest whole one counts."""
    paths = {entry.path for entry in group}
    group = [entry for entry in group if entry.path.removesuffix("_min_max.npz") not in paths - {entry.path}]
    slices = [entry for entry in group if _is_whole_slice(entry)]
    if len(slices) > 1:
        return slices, []
    best = max(group, key=lambda entry: (not entry.parsed.reduced and not is_statistics(entry), entry.nbytes))
    return [best], [entry for entry in group if entry is not best]


def _is_whole_slice(entry: Entry) -> bool:
    parsed = entry.parsed
    return isinstance(parsed, DumpName) and parsed.is_slice and not parsed.suffix


def _ge_operator(name: str, entries: Sequence[Entry]) -> GraphOp:
    newest = entries[-1]
    parsed = newest.parsed
    op_type = parsed.op_type if isinstance(parsed, DumpName) else ""
    head = (name, op_type, parsed.timestamp or 0, newest.path)
    try:
        if is_statistics(newest):
            return GraphOp(*head, *_from_table(name, newest.path))
        if parsed.reduced:
            return GraphOp(*head, *_from_figures(name, newest))
        dump = read_newest(entries)
    except DumpError as error:
        return GraphOp(*head, problem=error.brief)
    inputs, outputs = (
        tuple(
            SideTensor(TensorKey(name, slot, index), newest.path, f",{_PLACES[slot]},{index}", tensor)
            for index, tensor in enumerate(dump.tensors(slot))
        )
        for slot in (Slot.INPUT, Slot.OUTPUT)
    )
    return GraphOp(*head, inputs, outputs, dump.op_name)


def _from_figures(name: str, entry: Entry) -> tuple[tuple[SideTensor, ...], tuple[SideTensor, ...]]:
    stats = read_reduced(entry.path, entry.name)
    inputs, outputs = (
        tuple(
            SideTensor(TensorKey(name, slot, index), entry.path, f",{_PLACES[slot]},{index}", stats=known)
            for index, known in enumerate(stats[slot])
        )
        for slot in (Slot.INPUT, Slot.OUTPUT)
    )
    return inputs, outputs


def _from_table(name: str, path: str) -> tuple[tuple[SideTensor, ...], tuple[SideTensor, ...]]:
    lines = read_statistics(path)
    inputs, outputs = (
        tuple(
            SideTensor(
                TensorKey(name, slot, line.index), path, f",{_PLACES[slot]},{line.index}", stats=_line_stats(line)
            )
            for line in lines
            if line.slot is slot
        )
        for slot in (Slot.INPUT, Slot.OUTPUT)
    )
    return inputs, outputs


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
        dtype=_TYPES.get(line.dtype, line.dtype.removeprefix("DT_").lower()),
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
        older = groups[parsed.op_name].get(key)
        if older is None or _counts_more(parsed, older[0]):
            groups[parsed.op_name][key] = (parsed, entry)
    operators = {name: _fx_operator(name, files) for name, files in groups.items()}
    by_time = dict(sorted(operators.items(), key=lambda item: item[1].timestamp))
    return TokenDump(GraphKind.FX, by_time, skipped=tuple(skipped))


def _counts_more(new: FxName, old: FxName) -> bool:
    """Of a tensor and its reduced form the tensor counts, of two executions the later one."""
    if new.timestamp == old.timestamp:
        return old.reduced and not new.reduced
    return new.timestamp > old.timestamp


def _fx_operator(name: str, files: dict[tuple[Slot, int, int], tuple[FxName, Entry]]) -> GraphOp:
    ordered = sorted(files.items(), key=lambda item: item[0][1:])
    tensors = [_fx_tensor(parsed, entry) for _, (parsed, entry) in ordered]
    parsed, entry = ordered[0][1]
    inputs, outputs = (
        tuple(tensor for tensor in tensors if tensor.key.slot is slot) for slot in (Slot.INPUT, Slot.OUTPUT)
    )
    return GraphOp(name, parsed.target, parsed.timestamp, entry.path, inputs, outputs)


def _fx_tensor(parsed: FxName, entry: Entry) -> SideTensor:
    key = TensorKey(parsed.op_name, parsed.slot, parsed.index)
    try:
        if parsed.reduced:
            (stats,) = read_reduced(entry.path, entry.name)[Slot.OUTPUT]
            return SideTensor(key, entry.path, stats=stats)
        (tensor,) = read_operator(entry.path, entry.name).outputs
    except DumpError as error:
        return SideTensor(key, entry.path, problem=error.brief)
    except ValueError:
        return SideTensor(key, entry.path, problem=because("read.not_one_tensor"))
    return SideTensor(key, entry.path, tensor=tensor)
