"""What a file or a directory of dumps holds: the way of `opdiff inspect`."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.errors import DumpError, OpdiffError
from opdiff.core.tensor import Slot
from opdiff.read import read_operator
from opdiff.read.directory import real_name, scan
from opdiff.read.filename import DumpName, parse_dump_name, parse_name
from opdiff.read.folder import read_folder
from opdiff.read.overflow import read_overflow, to_json
from opdiff.read.reduced import read_reduced
from opdiff.read.statistics import TensorStatistics, read_statistics
from opdiff.workflows.inspect.checks import Depth, Finding, FolderRecord, Patient, examine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opdiff.core.graphmode import Figures
    from opdiff.core.tensor import Container, OpDump, Shape, Tensor
    from opdiff.measure.statistics import Statistics
    from opdiff.read.directory import Entry, Tree

_PADDED = "statistics are those of the stored data, padding included"


class TensorReport(NamedTuple):
    """One tensor of a file. `statistics` or, where they cannot be had, `problem` is given when they were asked for."""

    slot: Slot
    index: int  # type: ignore[assignment]  # hides tuple.index
    name: str
    dtype: str
    layout: str
    shape: Shape
    origin_shape: Shape
    groups: int
    offset: int | None
    nbytes: int
    address: int | None
    notes: tuple[str, ...]
    statistics: Statistics | None = None
    problem: str = ""


class FileReport(NamedTuple):
    """One file: its header and tensors; of an overflow debug file also its records."""

    path: str
    nbytes: int
    container: Container
    op_type: str
    op_name: str
    version: str
    dump_time: int | None
    tensors: tuple[TensorReport, ...]
    buffers: tuple[int, ...]
    spaces: tuple[int, ...]
    records: tuple[dict[str, object], ...] = ()


class StatisticsReport(NamedTuple):
    """A file with statistics instead of data, made by the runtime or by reducing a dump."""

    path: str
    nbytes: int
    tensors: tuple[TensorStatistics, ...]


class RunReport(NamedTuple):
    """One run in a tree: its place, its steps and how many operators the fullest of them has."""

    place: str
    steps: tuple[int, ...]
    operators: int
    files: int
    nbytes: int


class TreeReport(NamedTuple):
    """A directory: what kind of dump it is, how much there is, and what the doctor says."""

    path: str
    kind: str
    files: int
    nbytes: int
    operators: int
    tensors: int
    folders: int
    steps: tuple[int, ...]
    ranks: tuple[int, ...]
    devices: tuple[int, ...]
    models: tuple[str, ...]
    graphs: tuple[int, ...]
    graph_texts: int
    dtypes: tuple[tuple[str, int], ...]
    layouts: tuple[tuple[str, int], ...]
    op_types: tuple[tuple[str, int], ...]
    runs: tuple[RunReport, ...]
    findings: tuple[Finding, ...]


def inspect_file(path: str, *, statistics: bool = False) -> FileReport | StatisticsReport:
    """Describe one file; `statistics` reads its tensors.

    Raises:
        DumpError: the file cannot be read.
    """
    name = real_name(path)
    parsed = parse_dump_name(name)
    if parsed is not None and parsed.statistics:
        return StatisticsReport(path, os.path.getsize(path), read_statistics(path))
    if (name_says := parse_name(name)) is not None and name_says.reduced:
        return StatisticsReport(path, os.path.getsize(path), _reduced_lines(path, name))
    operator = read_operator(path, name)
    return FileReport(
        path=path,
        nbytes=os.path.getsize(path),
        container=operator.container,
        op_type=parsed.op_type if parsed else "",
        op_name=operator.op_name or (parsed.op_name if parsed else ""),
        version=operator.version,
        dump_time=operator.dump_time or (parsed.timestamp if parsed else None),
        tensors=tuple(_tensor_report(operator, slot, index, statistics=statistics) for slot, index in _keys(operator)),
        buffers=tuple(blob.source.nbytes for blob in operator.buffers),
        spaces=tuple(blob.source.nbytes for blob in operator.spaces),
        records=tuple(to_json(record) for record in read_overflow(operator)) if parsed and parsed.is_debug else (),
    )


def inspect_tree(
    path: str, *, depth: Depth = Depth.SAMPLES, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> TreeReport:
    """Describe a directory tree and examine it. `progress` is told files read and files in all.

    Raises:
        InputError: the directory cannot be read.
    """
    tree = scan(path)
    total = sum(len(folder.entries) for folder in tree.folders)
    records: list[FolderRecord] = []
    done = 0
    for folder in tree.folders:
        records.append(FolderRecord(folder, *read_folder(folder)))
        done += len(folder.entries)
        progress(done, total)
    return _tree_report(Patient(tree, tuple(records), depth))


def _reduced_figures(entry: Entry) -> list[Figures]:
    """What a reduced file tells of its tensors; nothing where it is damaged, which the doctor reports."""
    try:
        return [known for figures in read_reduced(entry.path, entry.name).values() for known in figures]
    except DumpError:
        return []


def _reduced_lines(path: str, name: str) -> tuple[TensorStatistics, ...]:
    return tuple(
        TensorStatistics(slot, index, None, known.dtype, "", known.shape or (), _named(known))
        for slot, figures in read_reduced(path, name).items()
        for index, known in enumerate(figures)
    )


def _named(known: Figures) -> tuple[tuple[str, float | None], ...]:
    return (
        ("min", known.minimum), ("max", known.maximum), ("mean", known.mean), ("l2norm", known.norm),
        ("NaN", known.nans), ("inf", known.infs),
    )  # fmt: skip


def _keys(operator: OpDump) -> list[tuple[Slot, int]]:
    return [(slot, index) for slot in Slot for index in range(len(operator.tensors(slot)))]


def _tensor_report(operator: OpDump, slot: Slot, index: int, *, statistics: bool) -> TensorReport:
    tensor = operator.tensors(slot)[index]
    spec = tensor.spec
    found, problem, notes = _statistics(tensor) if statistics else (None, "", ())
    return TensorReport(
        slot, index, tensor.name, spec.dtype.name, spec.layout, spec.shape, spec.origin_shape, spec.groups,
        getattr(tensor.source, "offset", None), tensor.source.nbytes, spec.address, (*tensor.notes, *notes),
        found, problem,
    )  # fmt: skip


def _statistics(tensor: Tensor) -> tuple[Statistics | None, str, tuple[str, ...]]:
    """Statistics of the logical tensor; of the stored one, padding and all, where the logical one cannot be had."""
    from opdiff.align import LAYOUTS, convert
    from opdiff.align.permute import is_plain
    from opdiff.measure.statistics import describe

    spec = tensor.spec
    try:
        codes = tensor.codes()
        # Without an origin shape nobody knows what is padding.
        notes = () if spec.origin_shape or is_plain(LAYOUTS.find(spec.layout)) else (_PADDED,)
        try:
            codes = convert(codes, spec, "ND").codes
        except OpdiffError:
            notes = (_PADDED,)
        return describe(codes, spec.dtype), "", notes
    except OpdiffError as error:
        return None, str(error.brief), ()


def _tree_report(patient: Patient) -> TreeReport:
    tree, records = patient.tree, patient.records
    entries = list(tree.entries())
    places = [folder.location for folder in tree.folders]
    # The arrays of a reduced file are not the tensors that the model had.
    reduced = {entry.path for entry in entries if entry.parsed.reduced}
    tensors = [tensor for record in records for _, tensor in record.tensors() if tensor.source.path not in reduced]
    figures = [known for entry in entries if entry.path in reduced for known in _reduced_figures(entry)]
    operators = [operator for record in records for operator in record.operators]
    return TreeReport(
        path=tree.root,
        kind=dump_kind(tree),
        files=len(entries),
        nbytes=sum(entry.nbytes for entry in entries),
        operators=len({operator.name for operator in operators}),
        tensors=len(tensors) + len(figures),
        folders=len(tree.folders),
        steps=_present(place.step for place in places),
        ranks=_present(place.rank for place in places),
        devices=_present(place.device for place in places),
        models=tuple(sorted({place.model for place in places if place.model})),
        graphs=_present(place.graph for place in places),
        graph_texts=len(tree.graphs),
        dtypes=_counts(
            (*(tensor.spec.dtype.name for tensor in tensors), *(known.dtype or "not recorded" for known in figures))
        ),
        layouts=_counts(tensor.spec.layout for tensor in tensors),
        op_types=_counts(op_type for _, op_type in dict.fromkeys((op.name, op.op_type) for op in operators) if op_type),
        runs=_runs(patient),
        findings=examine(patient),
    )


def dump_kind(tree: Tree) -> str:
    """What kind of dump a tree is, in words; how many there are of each where it is mixed."""
    kinds = Counter(_entry_kind(entry) for entry in tree.entries())
    if not kinds:
        return "no dump files"
    if len(kinds) == 1:
        return f"{next(iter(kinds))}s"
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in kinds.most_common())


def _entry_kind(entry: Entry) -> str:
    parsed = entry.parsed
    if parsed.reduced:
        return "reduced dump"
    if isinstance(parsed, DumpName):
        if parsed.statistics:
            return "NPU statistics file"
        return "overflow debug record" if parsed.is_debug else "NPU dump"
    return {"golden": "golden tensor", "fx": "FX tensor", "converted": "converted NPU tensor"}[parsed.kind]


def _present(numbers: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted({number for number in numbers if number is not None}))


def _counts(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(names).most_common())


def _runs(patient: Patient) -> tuple[RunReport, ...]:
    groups: dict[str, list[FolderRecord]] = {}
    for record in patient.records:
        groups.setdefault(os.path.relpath(record.folder.run_path, patient.tree.root), []).append(record)
    return tuple(
        RunReport(
            place,
            _present(record.folder.location.step for record in group),
            max(len({operator.name for operator in record.operators}) for record in group),
            sum(len(record.folder.entries) for record in group),
            sum(entry.nbytes for record in group for entry in record.folder.entries),
        )
        for place, group in groups.items()
    )
