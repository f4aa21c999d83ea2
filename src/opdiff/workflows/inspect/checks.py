"""The dump doctor: what is wrong with a directory of dumps, before anybody compares it.

Each check is a function from a `Patient` to findings; the list at the end is the examination.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core import dtypes
from opdiff.core.errors import DumpError, OpdiffError
from opdiff.core.source import MAX_RANK, FileRange
from opdiff.core.tensor import Container, Slot, Tensor, TensorKey
from opdiff.read import read_operator
from opdiff.read.arrays import NOT_NUMERIC
from opdiff.read.directory import is_debug, is_statistics
from opdiff.read.filename import DumpName, FxName
from opdiff.read.overflow import read_overflow
from opdiff.read.statistics import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.measure.statistics import Statistics
    from opdiff.read.directory import Entry, Folder, Problem, Tree
    from opdiff.read.folder import Operator

# Bytes looked at in the beginning, middle and end of tensors that share an address.
_SAMPLE = 4096
# Tensors and steps that are named in one place of a finding; it gives the number of the others.
_NAMED = 5
# The most axes that an array can have. More are in no real dump, and their product takes hours.
# Operators that have no inputs by nature.
_SOURCES = frozenset({"Data", "Const", "Constant", "Variable", "VariableV2", "Iterator", "IteratorV2", "RefData"})


class Severity(StrEnum):
    """How much a finding matters: data is lost, results may mislead, or good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Depth(IntEnum):
    """How much of a dump is read: headers only, tensors until a question is answered, or every value."""

    HEADERS = 0
    SAMPLES = 1
    VALUES = 2


class Finding(NamedTuple):
    """Something the doctor found, with every place where it was found."""

    severity: Severity
    code: str
    what: str
    where: tuple[str, ...]


class FolderRecord(NamedTuple):
    """A folder with its operators read, and the files that could not be."""

    folder: Folder
    operators: tuple[Operator, ...]
    problems: tuple[Problem, ...]

    def tensors(self) -> Iterator[tuple[TensorKey, Tensor]]:
        """Every tensor with its key."""
        for operator in self.operators:
            for slot in Slot:
                for index, tensor in enumerate(operator.dump.tensors(slot)):
                    yield _key(operator, slot, index), tensor


class Patient(NamedTuple):
    """A directory tree, everything that was read of it, and how far the examination may go."""

    tree: Tree
    records: tuple[FolderRecord, ...]
    depth: Depth


def examine(patient: Patient) -> tuple[Finding, ...]:
    """All findings, the worst first."""
    findings = [finding for check in _EXAMINATION for finding in check(patient) if finding.where]
    return tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))


def _unreadable(patient: Patient) -> Iterator[Finding]:
    found = [(problem.path, problem.reason) for record in patient.records for problem in record.problems]
    for record in patient.records:
        found += [(entry.path, what) for entry in _not_read_yet(record) if (what := _why_unreadable(entry))]
    # FX writes every argument of an operator, also None, types, devices and texts.
    fx = {entry.path for entry in patient.tree.entries() if isinstance(entry.parsed, FxName)}
    arguments = {path for path, what in found if path in fx and what.code == NOT_NUMERIC}
    where = tuple(f"{path}: {what}" for path, what in found if path not in arguments)
    yield Finding(Severity.ERROR, "unreadable", "files that cannot be read", where)
    about = "arguments that are no tensors, such as None or a string; there is nothing to compare in them"
    yield Finding(Severity.NOTE, "no-tensor", about, tuple(sorted(arguments)))


def _not_read_yet(record: FolderRecord) -> Iterator[Entry]:
    """Files that nothing was needed of: debug records, statistics, and dumps of which there are newer ones."""
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


def _not_taken(patient: Patient) -> Iterator[Finding]:
    where = tuple(f"{problem.path}: {problem.reason}" for problem in patient.tree.problems)
    yield Finding(Severity.WARNING, "not-taken", "files and folders that were left out", where)


def _strangers(patient: Patient) -> Iterator[Finding]:
    paths = tuple(path for path in patient.tree.strangers if not path.endswith(".json"))
    yield Finding(Severity.WARNING, "unreadable-name", "names that fit no pattern; not taken for dumps", paths)


def _too_short(patient: Patient) -> Iterator[Finding]:
    where = []
    for record, key, tensor in _all_tensors(patient):
        shape, stored = tensor.spec.shape, tensor.source.nbytes
        if len(shape) > MAX_RANK:
            where.append(f"{_place(record, key)}: {len(shape)} axes")
        elif (needed := tensor.spec.dtype.nbytes(tensor.spec.count)) > stored:
            where.append(f"{_place(record, key)}: shape {list(shape)} needs {needed} bytes, {stored} are stored")
    yield Finding(Severity.ERROR, "too-short", "tensors with fewer elements than their shape says", tuple(where))


def _undecodable(patient: Patient) -> Iterator[Finding]:
    where = tuple(
        f"{_place(record, key)}: {tensor.spec.dtype}: {tensor.spec.dtype.opaque}"
        for record, key, tensor in _all_tensors(patient)
        if tensor.spec.dtype.kind is dtypes.Kind.OPAQUE
    )
    yield Finding(Severity.WARNING, "undecodable", "tensors whose element type cannot be decoded", where)


def _lost_types(patient: Patient) -> Iterator[Finding]:
    where = tuple(
        _place(record, _key(operator, Slot.OUTPUT, index))
        for record, operator in _all_operators(patient)
        if operator.dump.container in (Container.NPY, Container.NPZ)
        for index, tensor in enumerate(operator.dump.outputs)
        if tensor.spec.dtype is dtypes.BFLOAT16
    )
    what = "NumPy files that lost their element type (V2); they are read as bfloat16"
    yield Finding(Severity.WARNING, "lost-type", what, where)


def _constants(patient: Patient) -> Iterator[Finding]:
    if patient.depth < Depth.SAMPLES:
        return
    zero: list[str] = []
    constant: list[str] = []
    for record, key, tensor in _all_tensors(patient):
        value = _constant(tensor)
        if value is not None:
            (constant if value else zero).append(_place(record, key) + (f": {value}" if value else ""))
    yield Finding(Severity.WARNING, "all-zero", "tensors that are zero throughout", tuple(zero))
    yield Finding(Severity.NOTE, "constant", "tensors that hold one number throughout", tuple(constant))


def _not_finite(patient: Patient) -> Iterator[Finding]:
    if patient.depth < Depth.VALUES:
        return
    where = []
    for record, key, tensor in _all_tensors(patient):
        found = _statistics(tensor)
        if found is not None and found.nans + found.infs:
            where.append(f"{_place(record, key)}: {found.nans} NaN and {found.infs} infinite of {found.count}")
    yield Finding(Severity.WARNING, "not-finite", "tensors with NaN or infinities", tuple(where))


def _shared_addresses(patient: Patient) -> Iterator[Finding]:
    if patient.depth < Depth.SAMPLES:
        return
    where = []
    for record in patient.records:
        by_address: dict[int, list[tuple[TensorKey, Tensor]]] = defaultdict(list)
        for key, tensor in record.tensors():
            if tensor.spec.address is not None and isinstance(tensor.source, FileRange):
                by_address[tensor.spec.address].append((key, tensor))
        for address, sharers in by_address.items():
            if len({key.op for key, _ in sharers}) > 1 and len({_sample(tensor) for _, tensor in sharers}) > 1:
                where.append(f"{record.folder.path}: {address:#x}: {_some([key for key, _ in sharers])}")
    what = "addresses at which operators left different content: memory is reused there, so a late reader sees new data"
    yield Finding(Severity.NOTE, "shared-address", what, tuple(where))


def _repeated(patient: Patient) -> Iterator[Finding]:
    several, same_time = [], []
    for record, operator in _all_operators(patient):
        parsed = [entry.parsed for entry in operator.files]
        if len(parsed) < 2 or _is_sliced(operator):
            continue
        place = f"{record.folder.path}: {operator.name}: {len(parsed)} files"
        several.append(place)
        if len({name.timestamp for name in parsed}) < len(parsed):
            same_time.append(place)
    yield Finding(
        Severity.NOTE, "several-dumps", "operators that were dumped several times; the newest counts", tuple(several)
    )
    what = "operators with several files of one time, so that the newest cannot be told"
    yield Finding(Severity.WARNING, "same-timestamp", what, tuple(same_time))


def _missing_tensors(patient: Patient) -> Iterator[Finding]:
    for slot, severity in ((Slot.INPUT, Severity.NOTE), (Slot.OUTPUT, Severity.WARNING)):
        dumped = [(record, operator) for record, operator in _all_operators(patient) if operator.op_type]
        wanted = [pair for pair in dumped if slot is Slot.OUTPUT or pair[1].op_type not in _SOURCES]
        without = [pair for pair in wanted if not pair[1].dump.tensors(slot)]
        if wanted and len(without) == len(wanted):
            places = tuple({record.folder.path: None for record, _ in without})
            yield Finding(severity, f"no-{slot}s", f"folders in which no operator has {slot}s", places)
        else:
            places = tuple(f"{record.folder.path}: {operator.name}" for record, operator in without)
            yield Finding(severity, f"no-{slot}s", f"operators without {slot}s", places)


def _missing_steps(patient: Patient) -> Iterator[Finding]:
    runs: dict[str, dict[int, list[FolderRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in patient.records:
        if record.folder.location.step is not None:
            runs[record.folder.run_path][record.folder.location.step].append(record)
    gaps: list[str] = []
    uneven: list[str] = []
    for path, steps in runs.items():
        missing = sorted(set(range(min(steps), max(steps))) - set(steps)) if max(steps) - min(steps) < 1 << 20 else []
        if missing:
            gaps.append(f"{path}: no step {_some(missing)}")
        uneven += _uneven(path, steps)
    yield Finding(Severity.WARNING, "missing-steps", "steps that are missing between others", tuple(gaps))
    yield Finding(Severity.WARNING, "uneven-steps", "operators that are not in every step", tuple(uneven))


def _uneven(path: str, steps: dict[int, list[FolderRecord]]) -> Iterator[str]:
    names = [{operator.name for record in records for operator in record.operators} for records in steps.values()]
    for name, count in Counter(name for step in names for name in step).items():
        if count < len(steps):
            yield f"{path}: {name}: in {count} of {len(steps)} steps"


def _debug_files(patient: Patient) -> Iterator[Finding]:
    overflows: list[str] = []
    calm: list[str] = []
    statistics: list[str] = []
    for entry in patient.tree.entries():
        if is_debug(entry):
            (overflows if _tells_of_overflow(entry) else calm).append(entry.path)
        elif is_statistics(entry):
            statistics.append(entry.path)
    yield Finding(
        Severity.WARNING, "overflow-records", "overflow debug records: the device saw an overflow", tuple(overflows)
    )
    yield Finding(Severity.NOTE, "no-overflow", "overflow debug records that tell of no overflow", tuple(calm))
    yield Finding(Severity.NOTE, "statistics", "files with statistics instead of data", tuple(statistics))


def _tells_of_overflow(entry: Entry) -> bool:
    """Whether a debug file has a record of an overflow; one that cannot be read is taken for one that has."""
    try:
        return any(record.overflowed for record in read_overflow(read_operator(entry.path, entry.name)))
    except OpdiffError:
        return True


def _all_operators(patient: Patient) -> Iterator[tuple[FolderRecord, Operator]]:
    return ((record, operator) for record in patient.records for operator in record.operators)


def _all_tensors(patient: Patient) -> Iterator[tuple[FolderRecord, TensorKey, Tensor]]:
    return ((record, key, tensor) for record in patient.records for key, tensor in record.tensors())


def _place(record: FolderRecord, key: TensorKey) -> str:
    return f"{record.folder.path}: {key}"


def _key(operator: Operator, slot: Slot, index: int) -> TensorKey:
    """Which tensor it is: of a file with one tensor, its name tells."""
    parsed = operator.files[-1].parsed
    if isinstance(parsed, DumpName):
        return TensorKey(operator.name, slot, index)
    return TensorKey(operator.name, getattr(parsed, "slot", Slot.OUTPUT), parsed.index)


def _some(items: Sequence[object]) -> str:
    """The first few, and how many there are beside them."""
    named = ", ".join(map(str, items[:_NAMED]))
    return named if len(items) <= _NAMED else f"{named} and {len(items) - _NAMED} more"


def _is_sliced(operator: Operator) -> bool:
    return any(isinstance(entry.parsed, DumpName) and entry.parsed.is_slice for entry in operator.files)


def _constant(tensor: Tensor) -> float | int | complex | None:
    from opdiff.measure.statistics import constant_value

    if len(tensor.spec.shape) > MAX_RANK or tensor.spec.count < 2:
        return None
    try:
        return constant_value(tensor.codes(), tensor.spec.dtype)
    except OpdiffError:
        # Reported by the checks for unreadable and undecodable tensors.
        return None


def _statistics(tensor: Tensor) -> Statistics | None:
    from opdiff.measure.statistics import describe

    try:
        return describe(tensor.codes(), tensor.spec.dtype)
    except OpdiffError:
        # As above; complex numbers have no statistics.
        return None


def _sample(tensor: Tensor) -> tuple[int, bytes]:
    """Size and some of the content: tensors that differ here differ."""
    source = tensor.source
    if not isinstance(source, FileRange):
        return source.nbytes, b""
    middle = max((source.nbytes - _SAMPLE) // 2, 0)
    places: Iterable[int] = sorted({0, middle, max(source.nbytes - _SAMPLE, 0)})
    try:
        parts = [
            bytes(FileRange(source.path, source.offset + place, min(_SAMPLE, source.nbytes - place)).raw())
            for place in places
        ]
    except OpdiffError:
        return source.nbytes, b""
    return source.nbytes, b"".join(parts)


_EXAMINATION = (
    _unreadable,
    _too_short,
    _undecodable,
    _not_taken,
    _strangers,
    _lost_types,
    _not_finite,
    _constants,
    _repeated,
    _missing_steps,
    _missing_tensors,
    _debug_files,
    _shared_addresses,
)
