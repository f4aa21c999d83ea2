"""Checks of a directory of dumps before it is compared.

Each check is a function from a `DumpTree` to findings; the list at the end has all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import dtypes
from opdiff.core.errors import DumpError, OpdiffError
from opdiff.core.source import MAX_RANK, FileRange
from opdiff.core.tensor import Container, Slot, Tensor, TensorKey
from opdiff.read import read_operator
from opdiff.read.directory import is_debug, is_statistics
from opdiff.read.filename import DumpName, FxName
from opdiff.read.npy import NOT_NUMERIC
from opdiff.read.overflow import read_overflow
from opdiff.read.statistics import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.dump import SkippedPath
    from opdiff.core.reasons import Reason
    from opdiff.measure.tensor_stats import FiniteStats
    from opdiff.read.directory import Entry, Folder, Tree
    from opdiff.read.folder import Operator

# Bytes that are compared at the beginning, middle and end of tensors that share an address.
_SAMPLE_BYTES = 4096
# Tensors and steps listed per line of a finding; of the others only the number is given.
_MAX_LISTED = 5
# Runs with step numbers further apart are not checked for gaps.
_MAX_STEP_RANGE = 1 << 20
_TYPES_WITHOUT_INPUTS = frozenset(
    {"Data", "Const", "Constant", "Variable", "VariableV2", "Iterator", "IteratorV2", "RefData"}
)


class Severity(StrEnum):
    """Severity of a finding: data is lost, results may mislead, or for information."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Depth(IntEnum):
    """Data that is read: headers only, parts of tensors as needed, or all values."""

    HEADERS = 0
    SAMPLES = 1
    VALUES = 2


class CheckResult(Struct, frozen=True):
    """Result of a check, with every location where it applies."""

    severity: Severity
    code: str
    what: str
    where: tuple[str, ...]


class FolderRecord(Struct, frozen=True):
    """A folder with its operators, and the files that could not be read."""

    folder: Folder
    operators: tuple[Operator, ...]
    problems: tuple[SkippedPath, ...]

    def tensors(self) -> Iterator[tuple[TensorKey, Tensor]]:
        """Yield every tensor with its key."""
        for operator in self.operators:
            for slot in Slot:
                for index, tensor in enumerate(operator.dump.tensors(slot)):
                    yield _key(operator, slot, index), tensor


class DumpTree(Struct, frozen=True):
    """A directory tree, its contents, and the depth of the checks."""

    tree: Tree
    records: tuple[FolderRecord, ...]
    depth: Depth


def run_checks(dumps: DumpTree) -> tuple[CheckResult, ...]:
    """Run all checks; return the findings, most severe first."""
    findings = [finding for check in _CHECKS for finding in check(dumps) if finding.where]
    return tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))


def _unreadable(dumps: DumpTree) -> Iterator[CheckResult]:
    found = [(problem.path, problem.reason) for record in dumps.records for problem in record.problems]
    for record in dumps.records:
        found += [(entry.path, what) for entry in _unread_entries(record) if (what := _why_unreadable(entry))]
    # FX writes every argument of an operator, also None, types, devices and strings.
    fx = {entry.path for entry in dumps.tree.entries() if isinstance(entry.parsed, FxName)}
    arguments = {path for path, what in found if path in fx and what.code == NOT_NUMERIC}
    where = tuple(f"{path}: {what}" for path, what in found if path not in arguments)
    yield CheckResult(Severity.ERROR, "unreadable", "files that cannot be read", where)
    about = "arguments that are not tensors, such as None or a string; they are not compared"
    yield CheckResult(Severity.NOTE, "no-tensor", about, tuple(sorted(arguments)))


def _doubtful(dumps: DumpTree) -> Iterator[CheckResult]:
    operators = [operator for record in dumps.records for operator in record.operators]
    where = tuple(f"{operator.dump.path}: {anomaly}" for operator in operators for anomaly in operator.dump.anomalies)
    yield CheckResult(Severity.WARNING, "doubtful", "headers that are damaged or of a newer version", where)


def _unread_entries(record: FolderRecord) -> Iterator[Entry]:
    """Yield the files that were not read yet: debug records, statistics, and dumps superseded by newer ones."""
    seen = {problem.path for problem in record.problems}
    seen |= {entry.path for op in record.operators for entry in (op.files if _is_sliced(op) else op.files[-1:])}
    return (entry for entry in record.folder.entries if entry.path not in seen)


def _why_unreadable(entry: Entry) -> Reason | None:
    try:
        if is_statistics(entry):
            read_statistics(entry.path)
        elif is_debug(entry):
            read_overflow(read_operator(entry.path, entry.name))
        else:
            read_operator(entry.path, entry.name)
    except DumpError as error:
        return error.brief
    return None


def _skipped(dumps: DumpTree) -> Iterator[CheckResult]:
    where = tuple(f"{problem.path}: {problem.reason}" for problem in dumps.tree.problems)
    yield CheckResult(Severity.WARNING, "not-taken", "files and folders that were skipped", where)


def _unrecognized(dumps: DumpTree) -> Iterator[CheckResult]:
    paths = tuple(path for path in dumps.tree.unrecognized if not path.endswith(".json"))
    yield CheckResult(Severity.WARNING, "unreadable-name", "file names that match no known pattern; skipped", paths)


def _too_short(dumps: DumpTree) -> Iterator[CheckResult]:
    where = []
    for record, key, tensor in _all_tensors(dumps):
        shape, stored = tensor.spec.shape, tensor.source.nbytes
        if len(shape) > MAX_RANK:
            where.append(f"{_location(record, key)}: {len(shape)} axes")
        elif (needed := tensor.spec.dtype.nbytes(tensor.spec.count)) > stored:
            where.append(f"{_location(record, key)}: shape {list(shape)} needs {needed} bytes, {stored} are stored")
    yield CheckResult(Severity.ERROR, "too-short", "tensors shorter than their shape requires", tuple(where))


def _undecodable(dumps: DumpTree) -> Iterator[CheckResult]:
    where = tuple(
        f"{_location(record, key)}: {tensor.spec.dtype}: {tensor.spec.dtype.opaque}"
        for record, key, tensor in _all_tensors(dumps)
        if tensor.spec.dtype.kind is dtypes.Kind.OPAQUE
    )
    yield CheckResult(Severity.WARNING, "undecodable", "tensors whose element type cannot be decoded", where)


def _lost_types(dumps: DumpTree) -> Iterator[CheckResult]:
    where = tuple(
        _location(record, _key(operator, Slot.OUTPUT, index))
        for record, operator in _all_operators(dumps)
        if operator.dump.container in (Container.NPY, Container.NPZ)
        for index, tensor in enumerate(operator.dump.outputs)
        if tensor.spec.dtype is dtypes.BFLOAT16
    )
    what = "NumPy files without an element type (V2), read as bfloat16"
    yield CheckResult(Severity.WARNING, "lost-type", what, where)


def _constants(dumps: DumpTree) -> Iterator[CheckResult]:
    if dumps.depth < Depth.SAMPLES:
        return
    zero: list[str] = []
    constant: list[str] = []
    for record, key, tensor in _all_tensors(dumps):
        value = _constant(tensor)
        if value is not None:
            (constant if value else zero).append(_location(record, key) + (f": {value}" if value else ""))
    yield CheckResult(Severity.WARNING, "all-zero", "tensors in which all elements are zero", tuple(zero))
    yield CheckResult(Severity.NOTE, "constant", "tensors in which all elements are equal", tuple(constant))


def _not_finite(dumps: DumpTree) -> Iterator[CheckResult]:
    if dumps.depth < Depth.VALUES:
        return
    where = []
    for record, key, tensor in _all_tensors(dumps):
        found = _statistics(tensor)
        if found is not None and found.nans + found.infs:
            where.append(f"{_location(record, key)}: {found.nans} NaN and {found.infs} infinite of {found.count}")
    yield CheckResult(Severity.WARNING, "not-finite", "tensors with NaN or infinities", tuple(where))


def _shared_addresses(dumps: DumpTree) -> Iterator[CheckResult]:
    if dumps.depth < Depth.SAMPLES:
        return
    where = []
    for record in dumps.records:
        by_address: dict[int, list[tuple[TensorKey, Tensor]]] = defaultdict(list)
        for key, tensor in record.tensors():
            if tensor.spec.address is not None and isinstance(tensor.source, FileRange):
                by_address[tensor.spec.address].append((key, tensor))
        for address, sharers in by_address.items():
            if len({key.op for key, _ in sharers}) > 1 and len({_sample(tensor) for _, tensor in sharers}) > 1:
                where.append(f"{record.folder.path}: {address:#x}: {_list_first([key for key, _ in sharers])}")
    what = "device addresses with different contents in several operators: memory is reused there"
    yield CheckResult(Severity.NOTE, "shared-address", what, tuple(where))


def _repeated(dumps: DumpTree) -> Iterator[CheckResult]:
    several, same_time = [], []
    for record, operator in _all_operators(dumps):
        parsed = [entry.parsed for entry in operator.files]
        if len(parsed) < 2 or _is_sliced(operator):
            continue
        location = f"{record.folder.path}: {operator.name}: {len(parsed)} files"
        several.append(location)
        if len({name.timestamp for name in parsed}) < len(parsed):
            same_time.append(location)
    what = "operators that were dumped several times; the newest dump is used"
    yield CheckResult(Severity.NOTE, "several-dumps", what, tuple(several))
    what = "operators with several files of the same time; the newest is ambiguous"
    yield CheckResult(Severity.WARNING, "same-timestamp", what, tuple(same_time))


def _missing_tensors(dumps: DumpTree) -> Iterator[CheckResult]:
    for slot, severity in ((Slot.INPUT, Severity.NOTE), (Slot.OUTPUT, Severity.WARNING)):
        typed = [(record, operator) for record, operator in _all_operators(dumps) if operator.op_type]
        expected = [pair for pair in typed if slot is Slot.OUTPUT or pair[1].op_type not in _TYPES_WITHOUT_INPUTS]
        without = [pair for pair in expected if not pair[1].dump.tensors(slot)]
        if expected and len(without) == len(expected):
            where = tuple({record.folder.path: None for record, _ in without})
            yield CheckResult(severity, f"no-{slot}s", f"folders in which no operator has {slot}s", where)
        else:
            where = tuple(f"{record.folder.path}: {operator.name}" for record, operator in without)
            yield CheckResult(severity, f"no-{slot}s", f"operators without {slot}s", where)


def _missing_steps(dumps: DumpTree) -> Iterator[CheckResult]:
    runs: dict[str, dict[int, list[FolderRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in dumps.records:
        if record.folder.location.step is not None:
            runs[record.folder.run_path][record.folder.location.step].append(record)
    gaps: list[str] = []
    uneven: list[str] = []
    for path, steps in runs.items():
        first, last = min(steps), max(steps)
        missing = sorted(set(range(first, last)) - set(steps)) if last - first < _MAX_STEP_RANGE else []
        if missing:
            gaps.append(f"{path}: no step {_list_first(missing)}")
        uneven += _uneven_operators(path, steps)
    yield CheckResult(Severity.WARNING, "missing-steps", "gaps in the step numbers", tuple(gaps))
    yield CheckResult(Severity.WARNING, "uneven-steps", "operators that are missing in some steps", tuple(uneven))


def _uneven_operators(path: str, steps: dict[int, list[FolderRecord]]) -> Iterator[str]:
    names = [{operator.name for record in records for operator in record.operators} for records in steps.values()]
    for name, count in Counter(name for step in names for name in step).items():
        if count < len(steps):
            yield f"{path}: {name}: in {count} of {len(steps)} steps"


def _debug_files(dumps: DumpTree) -> Iterator[CheckResult]:
    overflows: list[str] = []
    without_overflow: list[str] = []
    statistics: list[str] = []
    for entry in dumps.tree.entries():
        if is_debug(entry):
            (overflows if _reports_overflow(entry) else without_overflow).append(entry.path)
        elif is_statistics(entry):
            statistics.append(entry.path)
    yield CheckResult(
        Severity.WARNING, "overflow-records", "overflow debug records that report an overflow", tuple(overflows)
    )
    yield CheckResult(
        Severity.NOTE, "no-overflow", "overflow debug records that report no overflow", tuple(without_overflow)
    )
    yield CheckResult(Severity.NOTE, "statistics", "files with statistics instead of data", tuple(statistics))


def _reports_overflow(entry: Entry) -> bool:
    """Return whether a debug file has a record of an overflow; assumed for unreadable files."""
    try:
        return any(record.overflowed for record in read_overflow(read_operator(entry.path, entry.name)))
    except OpdiffError:
        return True


def _all_operators(dumps: DumpTree) -> Iterator[tuple[FolderRecord, Operator]]:
    return ((record, operator) for record in dumps.records for operator in record.operators)


def _all_tensors(dumps: DumpTree) -> Iterator[tuple[FolderRecord, TensorKey, Tensor]]:
    return ((record, key, tensor) for record in dumps.records for key, tensor in record.tensors())


def _location(record: FolderRecord, key: TensorKey) -> str:
    return f"{record.folder.path}: {key}"


def _key(operator: Operator, slot: Slot, index: int) -> TensorKey:
    """Return the key of a tensor; a file with a single tensor has it in its name."""
    parsed = operator.files[-1].parsed
    if isinstance(parsed, DumpName):
        return TensorKey(operator.name, slot, index)
    return TensorKey(operator.name, getattr(parsed, "slot", Slot.OUTPUT), parsed.index)


def _list_first(items: Sequence[object]) -> str:
    """List the first items, and give the number of the others."""
    listed = ", ".join(map(str, items[:_MAX_LISTED]))
    return listed if len(items) <= _MAX_LISTED else f"{listed} and {len(items) - _MAX_LISTED} more"


def _is_sliced(operator: Operator) -> bool:
    return any(isinstance(entry.parsed, DumpName) and entry.parsed.is_slice for entry in operator.files)


def _constant(tensor: Tensor) -> float | int | complex | None:
    from opdiff.measure.tensor_stats import constant_value

    if len(tensor.spec.shape) > MAX_RANK or tensor.spec.count < 2:
        return None
    try:
        return constant_value(tensor.codes(), tensor.spec.dtype)
    except OpdiffError:
        # Reported by the checks for unreadable and undecodable tensors.
        return None


def _statistics(tensor: Tensor) -> FiniteStats | None:
    from opdiff.measure.tensor_stats import finite_stats

    try:
        return finite_stats(tensor.codes(), tensor.spec.dtype)
    except OpdiffError:
        # As above; complex tensors have no statistics.
        return None


def _sample(tensor: Tensor) -> tuple[int, bytes]:
    """Return the size and parts of the content; tensors that differ in these are different."""
    source = tensor.source
    if not isinstance(source, FileRange):
        return source.nbytes, b""
    middle, last = max((source.nbytes - _SAMPLE_BYTES) // 2, 0), max(source.nbytes - _SAMPLE_BYTES, 0)
    try:
        parts = [
            bytes(FileRange(source.path, source.offset + start, min(_SAMPLE_BYTES, source.nbytes - start)).raw())
            for start in sorted({0, middle, last})
        ]
    except OpdiffError:
        return source.nbytes, b""
    return source.nbytes, b"".join(parts)


_CHECKS = (
    _unreadable,
    _doubtful,
    _too_short,
    _undecodable,
    _skipped,
    _unrecognized,
    _lost_types,
    _not_finite,
    _constants,
    _repeated,
    _missing_steps,
    _missing_tensors,
    _debug_files,
    _shared_addresses,
)
