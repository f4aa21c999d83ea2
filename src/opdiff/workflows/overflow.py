"""Search for the first operator that overflowed: `opdiff overflow`.

folder ──read──► debug records ──ids──► operator dumps
operators, oldest first ──measure──► NaN, infinities, saturation ──► first affected operators
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.align.element_reader import open_logical, open_tensor
from opdiff.core import codes as elements
from opdiff.core.atomic_file import open_atomic
from opdiff.core.errors import DumpError, InputError, LayoutError, OpdiffError
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot, coordinates
from opdiff.measure.tensor_stats import OutOfRange, find_out_of_range
from opdiff.read import read_operator
from opdiff.read.directory import is_debug, real_name, scan
from opdiff.read.filename import DumpName
from opdiff.read.folder import read_folder
from opdiff.read.overflow import AccRecord, read_overflow, to_json
from opdiff.report.file_names import write_new
from opdiff.workflows.convert.array_files import write_tensor
from opdiff.workflows.convert.byte_copy import write_json
from opdiff.workflows.convert.result_names import Form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape, Tensor
    from opdiff.read.directory import Entry, Folder
    from opdiff.read.folder import Operator
    from opdiff.read.overflow import OverflowRecord, Words

    Progress = Callable[[int, int], None]

_BLOCK_ELEMENTS = 1 << 18
# Values of an absent context or thread id.
_NO_ID = (0, 65535)


class Task(Struct, frozen=True):
    """Device task of a debug record, and its status."""

    unit: str
    task_id: int
    stream_id: int
    context_id: int | None
    thread_id: int | None
    status: tuple[int, ...]


class TensorState(Struct, frozen=True):
    """One tensor of an operator; `extremes` is `None` if the tensor cannot be read because of `problem`.

    `first` has the coordinates of the first extreme element: in the logical shape, as in a comparison, or in the stored
    shape if the layout does not tell the logical one.
    """

    slot: Slot
    index: int
    dtype: str
    layout: str
    shape: Shape
    extremes: OutOfRange | None
    problem: Reason | None = None
    first: Shape | None = None
    is_logical: bool = True


class OperatorState(Struct, frozen=True):
    """An operator and its tensors; `origin` is the source of the overflow: the operator itself or its inputs."""

    name: str
    op_type: str
    path: str
    timestamp: int
    tensors: tuple[TensorState, ...]
    origin: Reason


class RecordFinding(Struct, frozen=True):
    """A debug record of an overflow, and its operator, if the operator was dumped."""

    path: str
    output: int
    timestamp: int
    task: Task
    record: dict[str, object]
    operator: OperatorState | None


class OverflowReport(Struct, frozen=True):
    """Overflows in a directory.

    Attributes:
        path: the directory.
        operators: number of examined operators.
        records: the oldest debug records that report an overflow.
        all_records: number of such records.
        affected: the oldest operators with NaN, infinities or saturation in their outputs.
        all_affected: number of such operators.
        problems: files that were not read, with the reason.
    """

    path: str
    operators: int
    records: tuple[RecordFinding, ...]
    all_records: int
    affected: tuple[OperatorState, ...]
    all_affected: int
    problems: tuple[tuple[str, Reason], ...]


def find_overflows(path: str, top_n: int, progress: Progress = lambda _done, _all: None) -> OverflowReport:
    """Match debug records to operators, and find the first operators whose data has an overflow.

    Raises:
        InputError: there are no dump files.
    """
    tree = scan(path)
    records: list[RecordFinding] = []
    affected: list[OperatorState] = []
    problems = [(problem.path, problem.reason) for problem in tree.problems]
    count = 0
    total = sum(len(folder.entries) for folder in tree.folders)
    if not total:
        raise InputError(path, because("core.no_dumps"))
    for folder in tree.folders:
        operators, unreadable = read_folder(folder)
        problems += [(problem.path, problem.reason) for problem in unreadable]
        records += _records(folder, operators, problems)
        for operator in operators:
            count += 1
            problems += [(other.path, other.reason) for other in operator.unused]
            state = _state(operator)
            affected += [state] if _is_affected(state) else []
            progress(count, total)
    records.sort(key=lambda record: record.timestamp)
    affected.sort(key=lambda state: state.timestamp)
    return OverflowReport(
        path, count, tuple(records[:top_n]), len(records), tuple(affected[:top_n]), len(affected), tuple(problems)
    )


def _records(
    folder: Folder, operators: tuple[Operator, ...], problems: list[tuple[str, Reason]]
) -> Iterator[RecordFinding]:
    for entry in folder.entries:
        if not is_debug(entry):
            continue
        try:
            found = read_overflow(read_operator(entry.path, entry.name))
        except DumpError as error:
            problems.append((entry.path, error.brief))
            continue
        for number, record in enumerate(found):
            for task in _tasks(record):
                operator = _find_operator(task, operators)
                state = _state(operator) if operator else None
                yield RecordFinding(entry.path, number, entry.parsed.timestamp or 0, task, to_json(record), state)


def _tasks(record: OverflowRecord) -> list[Task]:
    """Return the overflowed tasks of a record."""
    if isinstance(record, AccRecord):
        return [_task(record.acc_type, record.words)] if record.overflowed else []
    return [_task(name, words) for name, words in record.blocks if dict(words)["status"]]


def _task(unit: str, words: Words) -> Task:
    found = {name: word for name, word in words if isinstance(word, int)}
    status = dict(words)["status"]
    context, thread = (None if found.get(name, 0) in _NO_ID else found[name] for name in ("context_id", "thread_id"))
    words_of_status = status if isinstance(status, tuple) else (status,)
    return Task(unit, found["task_id"], found["stream_id"], context, thread, words_of_status)


def _find_operator(task: Task, operators: tuple[Operator, ...]) -> Operator | None:
    """Return the operator with the ids of a task; the first operator of several."""
    matches = [
        (entry.parsed.timestamp or 0, number)
        for number, operator in enumerate(operators)
        for entry in operator.files
        if _has_ids(entry, task)
    ]
    return operators[min(matches)[1]] if matches else None


def _has_ids(entry: Entry, task: Task) -> bool:
    name = entry.parsed
    if not isinstance(name, DumpName) or name.task_id != task.task_id:
        return False
    pairs = ((name.stream_id, task.stream_id), (name.context_id, task.context_id), (name.thread_id, task.thread_id))
    return all(found is None or expected is None or found == expected for found, expected in pairs)


def _state(operator: Operator) -> OperatorState:
    dump = operator.dump
    tensors = tuple(
        _tensor_state(slot, index, tensor) for slot in Slot for index, tensor in enumerate(dump.tensors(slot))
    )
    timestamp = operator.files[-1].parsed.timestamp or 0
    return OperatorState(
        dump.op_name or operator.name, operator.op_type, dump.path, timestamp, tensors, _origin(tensors)
    )


def _tensor_state(slot: Slot, index: int, tensor: Tensor) -> TensorState:
    spec = tensor.spec
    description = (slot, index, spec.dtype.name, spec.layout, spec.shape)
    found = OutOfRange()
    is_logical = True
    try:
        try:
            reader = open_logical(tensor)
        except LayoutError:
            reader, is_logical = open_tensor(tensor), False
        for start in range(0, reader.count, _BLOCK_ELEMENTS):
            found = found.merge(find_out_of_range(reader.block(start, start + _BLOCK_ELEMENTS), spec.dtype))
        reader.stored.release()
    except OpdiffError as error:
        return TensorState(*description, None, error.brief)
    first = None if found.first is None else coordinates(found.first, reader.shape)
    return TensorState(*description, found, first=first, is_logical=is_logical)


def _is_affected(state: OperatorState) -> bool:
    return any(tensor.extremes and tensor.extremes.any for tensor in state.tensors if tensor.slot is Slot.OUTPUT)


def _origin(tensors: tuple[TensorState, ...]) -> Reason:
    """Return the source of an overflow in the outputs."""
    inputs = [tensor for tensor in tensors if tensor.slot is Slot.INPUT]
    affected = tuple(f"input:{tensor.index}" for tensor in inputs if tensor.extremes and tensor.extremes.any)
    if affected:
        return because("workflows.overflow_from_inputs", inputs=affected)
    if not inputs:
        return because("workflows.overflow_inputs_missing")
    unread = tuple(f"input:{tensor.index}" for tensor in inputs if tensor.extremes is None)
    if unread:
        return because("workflows.overflow_inputs_unread", inputs=unread)
    return because("workflows.overflow_created")


def write_overflows(report: OverflowReport, folder: str) -> tuple[str, ...]:
    """Write the summary, the records as JSON and the tensors of their operators as .npy; return the paths.

    Without records nothing is written.
    """
    if not report.records:
        return ()
    paths: list[str] = []
    lines: list[str] = []
    for number, finding in enumerate(report.records, 1):
        path = os.path.join(folder, f"{os.path.basename(finding.path)}.output.{finding.output}.json")
        write_json(path, finding.record)
        paths.append(path)
        lines += _heading(number, finding)
        for path, tensor in _write_operator(finding.operator, folder) if finding.operator else ():
            paths.append(path)
            lines += [f" {os.path.basename(path)}", f" -{_description(tensor)}"]

    def write(draft: str) -> None:
        with open_atomic(draft) as file:
            file.write("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))

    stamp = time.strftime("%Y%m%d%H%M%S", time.localtime())
    return (write_new(folder, f"overflow_summary_{stamp}.txt", write), *paths)


def _write_operator(state: OperatorState, folder: str) -> Iterator[tuple[str, Tensor]]:
    """Write the readable tensors of an operator as .npy."""
    operator = read_operator(state.path, real_name(state.path))
    for slot in Slot:
        for index, tensor in enumerate(operator.tensors(slot)):
            path = os.path.join(folder, f"{os.path.basename(state.path)}.{slot}.{index}.npy")
            # The report has the reason for a tensor that cannot be decoded.
            with suppress(OpdiffError):
                write_tensor(path, Form.NPY, tensor.codes(), tensor.spec.dtype)
                yield path, tensor


def _heading(number: int, finding: RecordFinding) -> Iterator[str]:
    task, operator = finding.task, finding.operator
    yield f"{'=' * 49}[{number}]{'=' * 50}"
    if operator is not None:
        yield f"[{operator.op_type}] {operator.name}"
    status = " ".join(map(str, task.status))
    yield f" [{task.unit}][TaskId:{task.task_id}][StreamId:{task.stream_id}][Status:{status}]"
    yield f" [timestamp:{finding.timestamp}]"


def _description(tensor: Tensor) -> str:
    spec = tensor.spec
    values = elements.decode(tensor.codes(), spec.dtype)
    statistics = ""
    if values.size:
        with np.errstate(all="ignore"):
            statistics = f" [Max: {values.max()}] [Min: {values.min()}] [Mean: {values.mean()}]"
    return f"[Format: {spec.layout}] [Shape: {spec.shape}] [Dtype: {spec.dtype}]{statistics}"
