"""Description of a dump file or a directory of dumps: `opdiff inspect`."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial, reduce
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.errors import DumpError, InputError, OpdiffError
from opdiff.core.reasons import Reason, because
from opdiff.core.tensor import Slot
from opdiff.read import read_operator
from opdiff.read.directory import real_name
from opdiff.read.filename import ConvertedName, DumpName, FxName, GoldenName, parse_dump_name, parse_name
from opdiff.read.overflow import read_overflow, to_json
from opdiff.read.reduced import read_reduced
from opdiff.read.statistics import StatisticsLine, read_statistics
from opdiff.read.strangers import find_stranger
from opdiff.workflows.agreement import tensor_doubts
from opdiff.workflows.inspect.checks import CheckResult, run_checks
from opdiff.workflows.inspect.contents import Depth, read_tree, with_facts
from opdiff.workflows.inspect.model_report import ModelReport, describes_model, inspect_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opdiff.core.metrics import TensorStats
    from opdiff.core.tensor import Shape, Tensor
    from opdiff.measure.tensor_stats import FiniteStats
    from opdiff.read.directory import Entry, Tree
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.inspect.contents import DumpTree, FolderRecord

    Progress = Callable[[int, int], None]

_WITH_PADDING = Reason("inspect.with_padding")


class TensorReport(Struct, frozen=True):
    """One tensor of a file; with `statistics` if requested, or the `problem` that prevents statistics.

    `doubts` are contradictions in its description.
    """

    slot: Slot
    index: int
    name: str
    dtype: str
    layout: str
    shape: Shape
    origin_shape: Shape
    groups: int
    offset: int | None
    nbytes: int
    address: int | None
    notes: tuple[Reason, ...]
    statistics: FiniteStats | None = None
    problem: Reason | str = ""
    doubts: tuple[Reason, ...] = ()


class FileReport(Struct, frozen=True):
    """One file: header, tensors, and the records of an overflow debug file."""

    path: str
    nbytes: int
    container: str
    op_type: str
    op_name: str
    version: str
    dump_time: int | None
    tensors: tuple[TensorReport, ...]
    buffers: tuple[int, ...]
    spaces: tuple[int, ...]
    records: tuple[dict[str, object], ...] = ()


class StatisticsReport(Struct, frozen=True):
    """A file with statistics instead of data, written by the runtime or by `opdiff reduce`."""

    path: str
    nbytes: int
    tensors: tuple[StatisticsLine, ...]


class RunReport(Struct, frozen=True):
    """One run in a tree: its folder, its steps, and the largest number of operators in a step."""

    place: str
    steps: tuple[int, ...]
    operators: int
    files: int
    nbytes: int


class TreeReport(Struct, frozen=True):
    """A directory: kind of dump, amount of data, and findings of the checks."""

    path: str
    kind: Reason
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
    findings: tuple[CheckResult, ...]


Report = FileReport | StatisticsReport | ModelReport | TreeReport


def inspect_path(path: str, depth: Depth, progress: tuple[Progress, Progress], cluster: Cluster | None) -> Report:
    """Describe a file, a compiled model or a directory, by this process or on the workers of a cluster.

    Args:
        path: the file or directory.
        depth: which data is read; of a file, all values or none.
        progress: called for a directory with the files whose headers are read, then with the bytes that are looked at,
            and with the totals.
        cluster: workers that have the files; `None` for none.

    Raises:
        DumpError: the file cannot be read.
        InputError: the model, the directory or the cluster cannot be used, or it is a file of another kind.
    """
    if filesystem.isdir(path):
        on_files, on_bytes = progress
        return _tree_report(with_facts(read_tree(path, on_files, cluster), depth, on_bytes, cluster))
    try:
        if describes_model(path):
            return inspect_model(path)
        return inspect_file(path, statistics=depth is Depth.VALUES, cluster=cluster)
    except (DumpError, InputError) as error:
        stranger = find_stranger(path)
        if stranger is None:
            raise
        reason = because("inspect.stranger", seems=stranger.seems, instead=stranger.instead)
        raise InputError(path, reason) from error


def inspect_file(
    path: str, *, statistics: bool = False, cluster: Cluster | None = None
) -> FileReport | StatisticsReport:
    """Describe one file, by this process or on a worker that has the file; `statistics` reads its tensors.

    Raises:
        DumpError: the file cannot be read.
        InputError: the cluster cannot be used.
    """
    if cluster is not None:
        return next(cluster.map(partial(inspect_file, statistics=statistics), [path]))
    name = real_name(path)
    parsed = parse_dump_name(name)
    if parsed is not None and parsed.statistics:
        return StatisticsReport(path, filesystem.getsize(path), read_statistics(path))
    if (name_says := parse_name(name)) is not None and name_says.reduced:
        return StatisticsReport(path, filesystem.getsize(path), _reduced_lines(path, name))
    operator = read_operator(path, name)
    return FileReport(
        path=path,
        nbytes=filesystem.getsize(path),
        container=operator.container,
        op_type=parsed.op_type if parsed else "",
        op_name=operator.op_name or (parsed.op_name if parsed else ""),
        version=operator.version,
        dump_time=operator.dump_time or (parsed.timestamp if parsed else None),
        tensors=tuple(
            _tensor_report(slot, index, tensor, statistics=statistics)
            for slot in Slot
            for index, tensor in enumerate(operator.tensors(slot))
        ),
        buffers=tuple(blob.source.nbytes for blob in operator.buffers),
        spaces=tuple(blob.source.nbytes for blob in operator.spaces),
        records=tuple(to_json(record) for record in read_overflow(operator)) if parsed and parsed.is_debug else (),
    )


def inspect_tree(
    path: str, *, depth: Depth = Depth.SAMPLES, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> TreeReport:
    """Describe and check a directory tree. `progress` is called with the files read and the total.

    Raises:
        InputError: the directory cannot be read.
    """
    return _tree_report(with_facts(read_tree(path, progress), depth, lambda _done, _all: None))


def _reduced_lines(path: str, name: str) -> tuple[StatisticsLine, ...]:
    return tuple(
        StatisticsLine(slot, index, None, known.dtype, "", known.shape or (), _columns(known))
        for slot, stats in read_reduced(path, name).items()
        for index, known in enumerate(stats)
    )


def _columns(known: TensorStats) -> tuple[tuple[str, float | None], ...]:
    return (
        ("min", known.minimum), ("max", known.maximum), ("mean", known.mean), ("l2norm", known.norm),
        ("NaN", known.nans), ("inf", known.infs),
    )  # fmt: skip


def _tensor_report(slot: Slot, index: int, tensor: Tensor, *, statistics: bool) -> TensorReport:
    spec = tensor.spec
    found, problem, notes = _statistics(tensor) if statistics else (None, "", ())
    return TensorReport(
        slot, index, tensor.name, spec.dtype.name, spec.layout, spec.shape, spec.origin_shape, spec.groups,
        getattr(tensor.source, "offset", None), tensor.source.nbytes, spec.address, (*tensor.notes, *notes),
        found, problem, tensor_doubts(tensor),
    )  # fmt: skip


def _statistics(tensor: Tensor) -> tuple[FiniteStats | None, Reason | str, tuple[Reason, ...]]:
    """Return statistics of the logical tensor, or of the stored one with a note if its padding is unknown."""
    from opdiff.align import LAYOUTS, convert
    from opdiff.align.plain import is_plain
    from opdiff.measure.tensor_stats import finite_stats

    spec = tensor.spec
    try:
        codes = tensor.codes()
        # Without an origin shape, padding cannot be recognized.
        notes = () if spec.origin_shape or is_plain(LAYOUTS.find(spec.layout)) else (_WITH_PADDING,)
        try:
            codes = convert(codes, spec, "ND").codes
        except OpdiffError:
            notes = (_WITH_PADDING,)
        return finite_stats(codes, spec.dtype), "", notes
    except OpdiffError as error:
        return None, error.brief, ()


def _tree_report(dumps: DumpTree) -> TreeReport:
    """Summarize and check the contents of a directory."""
    tree, records = dumps.tree, dumps.records
    entries = list(tree.entries())
    locations = [folder.location for folder in tree.folders]
    # The arrays of a reduced file are not tensors of the model.
    reduced = {entry.path for entry in entries if entry.parsed.reduced}
    tensors = [tensor for record in records for _, tensor in record.tensors() if tensor.source.path not in reduced]
    reduced_dtypes = [dtype or "not recorded" for record in records for dtype in record.contents.reduced_dtypes]
    operators = [operator for record in records for operator in record.contents.operators]
    return TreeReport(
        path=tree.root,
        kind=dump_kind(tree),
        files=len(entries),
        nbytes=sum(record.contents.nbytes for record in records),
        operators=len({operator.name for operator in operators}),
        tensors=len(tensors) + len(reduced_dtypes),
        folders=len(tree.folders),
        steps=_present(location.step for location in locations),
        ranks=_present(location.rank for location in locations),
        devices=_present(location.device for location in locations),
        models=tuple(sorted({location.model for location in locations if location.model})),
        graphs=_present(location.graph for location in locations),
        graph_texts=len(tree.graphs),
        dtypes=_counts((*(tensor.spec.dtype.name for tensor in tensors), *reduced_dtypes)),
        layouts=_counts(tensor.spec.layout for tensor in tensors),
        op_types=_counts(op_type for _, op_type in dict.fromkeys((op.name, op.op_type) for op in operators) if op_type),
        runs=_runs(dumps),
        findings=run_checks(dumps),
    )


def dump_kind(tree: Tree) -> Reason:
    """Return the kind of dump, or the number of files of each kind if there are several."""
    kinds = Counter(_entry_kind(entry) for entry in tree.entries())
    if not kinds:
        return because("inspect.no_dump_files")
    if len(kinds) == 1:
        return Reason(f"inspect.{next(iter(kinds))}s")
    counted = (Reason(f"inspect.{kind}", (("count", count),)) for kind, count in kinds.most_common())
    return reduce(lambda first, second: because("inspect.kinds", first=first, second=second), counted)


def _entry_kind(entry: Entry) -> str:
    """Return the kind of a file, by which it is counted."""
    parsed = entry.parsed
    if parsed.reduced:
        return "reduced_dump"
    if isinstance(parsed, DumpName):
        if parsed.statistics:
            return "npu_statistics_file"
        return "overflow_debug_record" if parsed.is_debug else "npu_dump"
    return {GoldenName: "golden_tensor", FxName: "fx_tensor", ConvertedName: "converted_npu_tensor"}[type(parsed)]


def _present(numbers: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted({number for number in numbers if number is not None}))


def _counts(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(names).most_common())


def _runs(dumps: DumpTree) -> tuple[RunReport, ...]:
    groups: dict[str, list[FolderRecord]] = {}
    for record in dumps.records:
        groups.setdefault(os.path.relpath(record.folder.run_path, dumps.tree.root), []).append(record)
    return tuple(
        RunReport(
            place,
            _present(record.folder.location.step for record in group),
            max(len({operator.name for operator in record.contents.operators}) for record in group),
            sum(len(record.folder.entries) for record in group),
            sum(record.contents.nbytes for record in group),
        )
        for place, group in groups.items()
    )
