"""Checks of a directory of dumps before it is compared.

Each check is a function from a `DumpTree` to findings; the list at the end has all checks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import dtypes
from opdiff.core.reasons import Reason, Status, because, first_of, quoted
from opdiff.core.source import MAX_RANK
from opdiff.core.tensor import Container, Slot
from opdiff.read.directory import is_debug, is_statistics
from opdiff.read.filename import FxName
from opdiff.workflows.agreement import tensor_doubts
from opdiff.workflows.inspect.contents import shared_addresses, tensor_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    """Result of a check, with every location that it is about."""

    severity: Severity
    code: str
    what: Reason
    where: tuple[Reason, ...]


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
    arguments = {path for path, what in found if path in fx and what.status is Status.NO_TENSOR}
    where = tuple(_at(path, what) for path, what in found if path not in arguments)
    yield _result(Severity.ERROR, "unreadable", where)
    yield _result(Severity.NOTE, "no-tensor", map(quoted, sorted(arguments)))


def _doubtful(dumps: DumpTree) -> Iterator[CheckResult]:
    operators = [operator for record in dumps.records for operator in record.contents.operators]
    where = (_at(operator.dump.path, anomaly) for operator in operators for anomaly in operator.dump.anomalies)
    yield _result(Severity.WARNING, "doubtful", where)


def _contradictory(dumps: DumpTree) -> Iterator[CheckResult]:
    where = (
        _at(_location(record, key), doubt)
        for record, key, tensor in _all_tensors(dumps)
        for doubt in tensor_doubts(tensor)
    )
    yield _result(Severity.ERROR, "contradictory", where)


def _skipped(dumps: DumpTree) -> Iterator[CheckResult]:
    where = (_at(problem.path, problem.reason) for problem in dumps.tree.problems)
    yield _result(Severity.WARNING, "not-taken", where)


def _unrecognized(dumps: DumpTree) -> Iterator[CheckResult]:
    paths = (path for path in dumps.tree.unrecognized if not path.endswith(".json"))
    yield _result(Severity.WARNING, "unreadable-name", map(quoted, paths))


def _too_short(dumps: DumpTree) -> Iterator[CheckResult]:
    where = []
    for record, key, tensor in _all_tensors(dumps):
        shape, stored = tensor.spec.shape, tensor.source.nbytes
        if len(shape) > MAX_RANK:
            where.append(_at(_location(record, key), because("inspect.axes", count=len(shape))))
        elif (needed := tensor.spec.dtype.nbytes(tensor.spec.count)) > stored:
            problem = because("inspect.bytes_needed", shape=shape, needed=needed, stored=stored)
            where.append(_at(_location(record, key), problem))
    yield _result(Severity.ERROR, "too-short", where)


def _undecodable(dumps: DumpTree) -> Iterator[CheckResult]:
    where = (
        _at(f"{_location(record, key)}: {tensor.spec.dtype}", tensor.spec.dtype.opaque)
        for record, key, tensor in _all_tensors(dumps)
        if tensor.spec.dtype.kind is dtypes.Kind.OPAQUE
    )
    yield _result(Severity.WARNING, "undecodable", where)


def _lost_types(dumps: DumpTree) -> Iterator[CheckResult]:
    where = tuple(
        _location(record, tensor_key(operator, Slot.OUTPUT, index))
        for record, operator in _all_operators(dumps)
        if operator.dump.container in (Container.NPY, Container.NPZ)
        for index, tensor in enumerate(operator.dump.outputs)
        if tensor.spec.dtype is dtypes.BFLOAT16
    )
    yield _result(Severity.WARNING, "lost-type", map(quoted, where))


def _not_checked(dumps: DumpTree) -> Iterator[CheckResult]:
    where = (
        _at(_location(record, key), facts.problem)
        for record, key, facts in _all_facts(dumps)
        if facts.problem is not None
    )
    yield _result(Severity.ERROR, "not-checked", where)


def _constants(dumps: DumpTree) -> Iterator[CheckResult]:
    zero: list[str] = []
    constant: list[str] = []
    for record, key, facts in _all_facts(dumps):
        if facts.constant is not None:
            value = f": {facts.constant}" if facts.constant else ""
            (constant if facts.constant else zero).append(_location(record, key) + value)
    yield _result(Severity.WARNING, "all-zero", map(quoted, zero))
    yield _result(Severity.NOTE, "constant", map(quoted, constant))


def _not_finite(dumps: DumpTree) -> Iterator[CheckResult]:
    where = (
        _at(_location(record, key), because("inspect.specials", nans=facts.nans, infs=facts.infs, count=facts.count))
        for record, key, facts in _all_facts(dumps)
        if facts.nans + facts.infs
    )
    yield _result(Severity.WARNING, "not-finite", where)


def _shared_addresses(dumps: DumpTree) -> Iterator[CheckResult]:
    where = []
    for record in dumps.records:
        for address, sharers in shared_addresses(record).items() if record.facts else ():
            if len({record.facts[position].sample for position, _ in sharers}) > 1:
                tensors = first_of([str(key) for _, key in sharers], _MAX_LISTED)
                where.append(_at(f"{record.folder.path}: {address:#x}", tensors))
    yield _result(Severity.NOTE, "shared-address", where)


def _repeated(dumps: DumpTree) -> Iterator[CheckResult]:
    several, same_time = [], []
    for record, operator in _all_operators(dumps):
        parsed = [entry.parsed for entry in operator.files]
        if not operator.unused:
            continue
        location = _at(f"{record.folder.path}: {operator.name}", because("inspect.files", count=len(parsed)))
        several.append(location)
        if len({name.timestamp for name in parsed}) < len(parsed):
            same_time.append(location)
    yield _result(Severity.NOTE, "several-dumps", several)
    yield _result(Severity.WARNING, "same-timestamp", same_time)


def _missing_tensors(dumps: DumpTree) -> Iterator[CheckResult]:
    for slot, severity in ((Slot.INPUT, Severity.NOTE), (Slot.OUTPUT, Severity.WARNING)):
        typed = [(record, operator) for record, operator in _all_operators(dumps) if operator.op_type]
        expected = [pair for pair in typed if slot is Slot.OUTPUT or pair[1].op_type not in _TYPES_WITHOUT_INPUTS]
        without = [pair for pair in expected if not pair[1].dump.tensors(slot)]
        if expected and len(without) == len(expected):
            what = because("inspect.folders_without", slot=slot)
            where = dict.fromkeys(record.folder.path for record, _ in without)
        else:
            what = because("inspect.operators_without", slot=slot)
            where = dict.fromkeys(f"{record.folder.path}: {operator.name}" for record, operator in without)
        yield CheckResult(severity, f"no-{slot}s", what, tuple(map(quoted, where)))


def _missing_steps(dumps: DumpTree) -> Iterator[CheckResult]:
    runs: dict[str, dict[int, list[FolderRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in dumps.records:
        if record.folder.location.step is not None:
            runs[record.folder.run_path][record.folder.location.step].append(record)
    gaps: list[Reason] = []
    uneven: list[Reason] = []
    for path, steps in runs.items():
        first, last = min(steps), max(steps)
        missing = sorted(set(range(first, last)) - set(steps)) if last - first < _MAX_STEP_RANGE else []
        if missing:
            gaps.append(_at(path, because("inspect.no_step", steps=first_of(list(map(str, missing)), _MAX_LISTED))))
        uneven += _uneven_operators(path, steps)
    yield _result(Severity.WARNING, "missing-steps", gaps)
    yield _result(Severity.WARNING, "uneven-steps", uneven)


def _uneven_operators(path: str, steps: dict[int, list[FolderRecord]]) -> Iterator[Reason]:
    names = [
        {operator.name for record in records for operator in record.contents.operators} for records in steps.values()
    ]
    for name, count in Counter(name for step in names for name in step).items():
        if count < len(steps):
            yield _at(f"{path}: {name}", because("inspect.in_steps", count=count, total=len(steps)))


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
    yield _result(Severity.WARNING, "overflow-records", map(quoted, overflows))
    yield _result(Severity.NOTE, "no-overflow", map(quoted, without_overflow))
    yield _result(Severity.NOTE, "statistics", map(quoted, statistics))


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


def _at(location: str, problem: Reason | None) -> Reason:
    return because("core.in_file", path=location, problem=problem)


def _result(severity: Severity, code: str, where: Iterable[Reason]) -> CheckResult:
    return CheckResult(severity, code, Reason(f"inspect.{code.replace('-', '_')}"), tuple(where))


_CHECKS = (
    _contradictory,
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
