"""Checks of a directory of dumps before it is compared.

Each check is a function from a `DumpTree` to findings; the list at the end has all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import dtypes
from opdiff.core.source import MAX_RANK
from opdiff.core.tensor import Container, Slot
from opdiff.read.directory import is_debug, is_statistics
from opdiff.read.filename import FxName
from opdiff.read.npy import NOT_NUMERIC
from opdiff.workflows.inspect.contents import is_sliced, shared_addresses, tensor_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.tensor import Tensor, TensorKey
    from opdiff.read.folder import Operator
    from opdiff.workflows.inspect.contents import DumpTree, FolderRecord, TensorFacts

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


class CheckResult(Struct, frozen=True):
    """Result of a check, with every location where it applies."""

    severity: Severity
    code: str
    what: str
    where: tuple[str, ...]


def run_checks(dumps: DumpTree) -> tuple[CheckResult, ...]:
    """Run all checks; return the findings, most severe first."""
    findings = [finding for check in _CHECKS for finding in check(dumps) if finding.where]
    return tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))


def _unreadable(dumps: DumpTree) -> Iterator[CheckResult]:
    contents = [record.contents for record in dumps.records]
    problems = [problem for each in contents for problem in each.problems]
    problems += [problem for each in contents for problem in each.other_problems]
    found = [(problem.path, problem.reason) for problem in problems]
    # FX writes every argument of an operator, also None, types, devices and strings.
    fx = {entry.path for entry in dumps.tree.entries() if isinstance(entry.parsed, FxName)}
    arguments = {path for path, what in found if path in fx and what.code == NOT_NUMERIC}
    where = tuple(f"{path}: {what}" for path, what in found if path not in arguments)
    yield CheckResult(Severity.ERROR, "unreadable", "files that cannot be read", where)
    about = "arguments that are not tensors, such as None or a string; they are not compared"
    yield CheckResult(Severity.NOTE, "no-tensor", about, tuple(sorted(arguments)))


def _doubtful(dumps: DumpTree) -> Iterator[CheckResult]:
    operators = [operator for record in dumps.records for operator in record.contents.operators]
    where = tuple(f"{operator.dump.path}: {anomaly}" for operator in operators for anomaly in operator.dump.anomalies)
    yield CheckResult(Severity.WARNING, "doubtful", "headers that are damaged or of a newer version", where)


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
        _location(record, tensor_key(operator, Slot.OUTPUT, index))
        for record, operator in _all_operators(dumps)
        if operator.dump.container in (Container.NPY, Container.NPZ)
        for index, tensor in enumerate(operator.dump.outputs)
        if tensor.spec.dtype is dtypes.BFLOAT16
    )
    what = "NumPy files without an element type (V2), read as bfloat16"
    yield CheckResult(Severity.WARNING, "lost-type", what, where)


def _not_checked(dumps: DumpTree) -> Iterator[CheckResult]:
    where = tuple(
        f"{_location(record, key)}: {facts.problem}"
        for record, key, facts in _all_facts(dumps)
        if facts.problem is not None
    )
    yield CheckResult(Severity.ERROR, "not-checked", "tensors whose data could not be read", where)


def _constants(dumps: DumpTree) -> Iterator[CheckResult]:
    zero: list[str] = []
    constant: list[str] = []
    for record, key, facts in _all_facts(dumps):
        if facts.constant is not None:
            value = f": {facts.constant}" if facts.constant else ""
            (constant if facts.constant else zero).append(_location(record, key) + value)
    yield CheckResult(Severity.WARNING, "all-zero", "tensors in which all elements are zero", tuple(zero))
    yield CheckResult(Severity.NOTE, "constant", "tensors in which all elements are equal", tuple(constant))


def _not_finite(dumps: DumpTree) -> Iterator[CheckResult]:
    where = tuple(
        f"{_location(record, key)}: {facts.nans} NaN and {facts.infs} infinite of {facts.count}"
        for record, key, facts in _all_facts(dumps)
        if facts.nans + facts.infs
    )
    yield CheckResult(Severity.WARNING, "not-finite", "tensors with NaN or infinities", where)


def _shared_addresses(dumps: DumpTree) -> Iterator[CheckResult]:
    where = []
    for record in dumps.records:
        for address, sharers in shared_addresses(record).items() if record.facts else ():
            if len({record.facts[position].sample for position, _ in sharers}) > 1:
                where.append(f"{record.folder.path}: {address:#x}: {_list_first([key for _, key in sharers])}")
    what = "device addresses with different contents in several operators: memory is reused there"
    yield CheckResult(Severity.NOTE, "shared-address", what, tuple(where))


def _repeated(dumps: DumpTree) -> Iterator[CheckResult]:
    several, same_time = [], []
    for record, operator in _all_operators(dumps):
        parsed = [entry.parsed for entry in operator.files]
        if len(parsed) < 2 or is_sliced(operator):
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
    names = [
        {operator.name for record in records for operator in record.contents.operators} for records in steps.values()
    ]
    for name, count in Counter(name for step in names for name in step).items():
        if count < len(steps):
            yield f"{path}: {name}: in {count} of {len(steps)} steps"


def _debug_files(dumps: DumpTree) -> Iterator[CheckResult]:
    overflows: list[str] = []
    without_overflow: list[str] = []
    statistics: list[str] = []
    quiet = {path for record in dumps.records for path in record.contents.without_overflow}
    for entry in dumps.tree.entries():
        if is_debug(entry):
            (without_overflow if entry.path in quiet else overflows).append(entry.path)
        elif is_statistics(entry):
            statistics.append(entry.path)
    yield CheckResult(
        Severity.WARNING, "overflow-records", "overflow debug records that report an overflow", tuple(overflows)
    )
    yield CheckResult(
        Severity.NOTE, "no-overflow", "overflow debug records that report no overflow", tuple(without_overflow)
    )
    yield CheckResult(Severity.NOTE, "statistics", "files with statistics instead of data", tuple(statistics))


def _all_operators(dumps: DumpTree) -> Iterator[tuple[FolderRecord, Operator]]:
    return ((record, operator) for record in dumps.records for operator in record.contents.operators)


def _all_tensors(dumps: DumpTree) -> Iterator[tuple[FolderRecord, TensorKey, Tensor]]:
    return ((record, key, tensor) for record in dumps.records for key, tensor in record.tensors())


def _all_facts(dumps: DumpTree) -> Iterator[tuple[FolderRecord, TensorKey, TensorFacts]]:
    """Yield the tensors whose data was looked at."""
    for record in dumps.records:
        if record.facts:
            for (key, _), facts in zip(record.tensors(), record.facts, strict=True):
                yield record, key, facts


def _location(record: FolderRecord, key: TensorKey) -> str:
    return f"{record.folder.path}: {key}"


def _list_first(items: Sequence[object]) -> str:
    """List the first items, and give the number of the others."""
    listed = ", ".join(map(str, items[:_MAX_LISTED]))
    return listed if len(items) <= _MAX_LISTED else f"{listed} and {len(items) - _MAX_LISTED} more"


_CHECKS = (
    _unreadable,
    _doubtful,
    _too_short,
    _undecodable,
    _not_checked,
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
