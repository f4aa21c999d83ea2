"""Which operator overflowed first: the way of `opdiff overflow`.

folder ──read──► debug records ──ids──► operator dumps
operators, oldest first ──measure──► NaN, infinities, saturation ──► the first of them
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from opdiff.align.walk import walk_stored
from opdiff.core import codes as elements
from opdiff.core.errors import DumpError, InputError, OpdiffError
from opdiff.core.tensor import Slot
from opdiff.measure.extremes import Extremes, find_extremes
from opdiff.read import read_operator
from opdiff.read.directory import is_debug, real_name, scan
from opdiff.read.filename import DumpName
from opdiff.read.folder import read_folder
from opdiff.read.overflow import AccRecord, read_overflow, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.tensor import OpDump, Shape, Tensor
    from opdiff.read.directory import Entry, Folder
    from opdiff.read.folder import Operator
    from opdiff.read.overflow import OverflowRecord, Words

    Progress = Callable[[int, int], None]

_BLOCK = 1 << 18
_NONE = (0, 65535)
_RULER = 49, 50


class Task(NamedTuple):
    """The task that a record tells of, and its status."""

    unit: str
    task_id: int
    stream_id: int
    context_id: int | None
    thread_id: int | None
    status: tuple[int, ...]


class TensorState(NamedTuple):
    """One tensor of an operator; `extremes` is `None` and `problem` tells why where it cannot be read."""

    slot: Slot
    index: int  # type: ignore[assignment]  # hides tuple.index
    dtype: str
    layout: str
    shape: Shape
    extremes: Extremes | None
    problem: str = ""


class OperatorState(NamedTuple):
    """An operator and its tensors.

    `origin` says in words whether the trouble was made here or came in.
    """

    name: str
    op_type: str
    path: str
    timestamp: int
    tensors: tuple[TensorState, ...]
    origin: str = ""


class RecordFinding(NamedTuple):
    """A debug record of an overflow, and the operator that it is about, if it was dumped."""

    path: str
    output: int
    timestamp: int
    task: Task
    record: dict[str, object]
    operator: OperatorState | None


class OverflowReport(NamedTuple):
    """What was found in a directory.

    Attributes:
        path: the directory.
        operators: how many were looked at.
        records: the first debug records that tell of an overflow, oldest first.
        all_records: how many there are.
        affected: the first operators with NaN, infinities or saturation in their outputs, oldest first.
        all_affected: how many there are.
        problems: files that cannot be read.
    """

    path: str
    operators: int
    records: tuple[RecordFinding, ...]
    all_records: int
    affected: tuple[OperatorState, ...]
    all_affected: int
    problems: tuple[tuple[str, str], ...]


def find_overflows(path: str, most: int, progress: Progress = lambda _done, _all: None) -> OverflowReport:
    """Match debug records to operators, and look for the first operator whose data shows an overflow.

    Raises:
        InputError: there is no dump here.
    """
    tree = scan(path)
    records: list[RecordFinding] = []
    affected: list[OperatorState] = []
    problems = [(problem.path, str(problem.reason)) for problem in tree.problems]
    count = 0
    total = sum(len(folder.entries) for folder in tree.folders)
    if not total:
        raise InputError(path, "no dump files here")
    for folder in tree.folders:
        operators, unreadable = read_folder(folder)
        problems += [(problem.path, str(problem.reason)) for problem in unreadable]
        records += _records(folder, operators, problems)
        for operator in operators:
            count += 1
            state = _state(operator)
            affected += [state] if _is_affected(state) else []
            progress(count, total)
    records.sort(key=lambda record: record.timestamp)
    affected.sort(key=lambda state: state.timestamp)
    return OverflowReport(
        path, count, tuple(records[:most]), len(records), tuple(affected[:most]), len(affected), tuple(problems)
    )


def _records(
    folder: Folder, operators: tuple[Operator, ...], problems: list[tuple[str, str]]
) -> Iterator[RecordFinding]:
    for entry in folder.entries:
        if not is_debug(entry):
            continue
        try:
            found = read_overflow(read_operator(entry.path, entry.name))
        except DumpError as error:
            problems.append((entry.path, str(error.brief)))
            continue
        for number, record in enumerate(found):
            for task in _tasks(record):
                operator = _find_operator(task, operators)
                state = _state(operator) if operator else None
                yield RecordFinding(entry.path, number, entry.parsed.timestamp or 0, task, to_json(record), state)


def _tasks(record: OverflowRecord) -> list[Task]:
    """The tasks that overflowed according to a record."""
    if isinstance(record, AccRecord):
        return [_task(record.acc_type, record.words)] if record.overflowed else []
    return [_task(name, words) for name, words in record.blocks if dict(words)["status"]]


def _task(unit: str, words: Words) -> Task:
    found = {name: word for name, word in words if isinstance(word, int)}
    status = dict(words)["status"]
    context, thread = (None if found.get(name, 0) in _NONE else found[name] for name in ("context_id", "thread_id"))
    words_of_status = status if isinstance(status, tuple) else (status,)
    return Task(unit, found["task_id"], found["stream_id"], context, thread, words_of_status)


def _find_operator(task: Task, operators: tuple[Operator, ...]) -> Operator | None:
    """The operator with the ids of a task; of several the one that ran first."""
    fitting = [(entry.parsed.timestamp or 0, place) for place, op in enumerate(operators) for entry in op.files
               if _fits(task, entry)]  # fmt: skip
    return operators[min(fitting)[1]] if fitting else None


def _fits(task: Task, entry: Entry) -> bool:
    name = entry.parsed
    if not isinstance(name, DumpName) or name.task_id != task.task_id:
        return False
    wanted = (task.stream_id, task.context_id, task.thread_id)
    there = (name.stream_id, name.context_id, name.thread_id)
    return all(ours is None or its is None or ours == its for ours, its in zip(wanted, there, strict=True))


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
    about = (slot, index, spec.dtype.name, spec.layout, spec.shape)
    found = Extremes()
    try:
        walk = walk_stored(tensor)
        for start in range(0, walk.count, _BLOCK):
            found = found.merge(find_extremes(walk.block(start, start + _BLOCK), spec.dtype))
        walk.stored.release()
    except OpdiffError as error:
        return TensorState(*about, None, str(error.brief))
    return TensorState(*about, found)


def _is_affected(state: OperatorState) -> bool:
    return any(tensor.extremes and tensor.extremes.any for tensor in state.tensors if tensor.slot is Slot.OUTPUT)


def _origin(tensors: tuple[TensorState, ...]) -> str:
    """Where the trouble of an operator came from, in words."""
    inputs = [tensor for tensor in tensors if tensor.slot is Slot.INPUT]
    bad = [f"input:{tensor.index}" for tensor in inputs if tensor.extremes and tensor.extremes.any]
    if bad:
        return f"it came in by {', '.join(bad)}"
    if not inputs:
        return "its inputs were not dumped, so it may have come in"
    unread = [f"input:{tensor.index}" for tensor in inputs if tensor.extremes is None]
    return f"it was made here, unless {', '.join(unread)} has it" if unread else "it was made here: no input has it"


def write_overflows(report: OverflowReport, folder: str) -> tuple[str, ...]:
    """Write the summary, the records as JSON and the tensors of their operators as .npy; returns the paths.

    Nothing is written where there are no records.
    """
    from opdiff.core.atomic_file import whole_file
    from opdiff.report.file_names import write_new
    from opdiff.workflows.convert.array_files import write_tensor
    from opdiff.workflows.convert.byte_copy import write_json
    from opdiff.workflows.convert.result_names import Form

    if not report.records:
        return ()
    paths: list[str] = []
    lines: list[str] = []
    for number, finding in enumerate(report.records, 1):
        path = os.path.join(folder, f"{os.path.basename(finding.path)}.output.{finding.output}.json")
        write_json(path, finding.record)
        paths.append(path)
        lines += _heading(number, finding)
        if finding.operator is None:
            continue
        operator = read_operator(finding.operator.path, real_name(finding.operator.path))
        for slot, index, tensor in _tensors(operator):
            path = os.path.join(folder, f"{os.path.basename(finding.operator.path)}.{slot}.{index}.npy")
            try:
                codes = tensor.codes()
                write_tensor(path, Form.NPY, codes, tensor.spec.dtype)
            except OpdiffError:
                continue  # it has no numbers; the report tells why
            paths.append(path)
            lines += [f" {os.path.basename(path)}", f" -{_facts(tensor)}"]

    def write(draft: str) -> None:
        with whole_file(draft) as file:
            file.write("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))

    stamp = time.strftime("%Y%m%d%H%M%S", time.localtime())
    return (write_new(folder, f"overflow_summary_{stamp}.txt", write), *paths)


def _heading(number: int, finding: RecordFinding) -> Iterator[str]:
    before, behind = _RULER
    task, operator = finding.task, finding.operator
    yield f"{'=' * before}[{number}]{'=' * behind}"
    if operator is not None:
        yield f"[{operator.op_type}] {operator.name}"
    status = " ".join(map(str, task.status))
    yield f" [{task.unit}][TaskId:{task.task_id}][StreamId:{task.stream_id}][Status:{status}]"
    yield f" [timestamp:{finding.timestamp}]"


def _tensors(operator: OpDump) -> Iterator[tuple[Slot, int, Tensor]]:
    return ((slot, index, tensor) for slot in Slot for index, tensor in enumerate(operator.tensors(slot)))


def _facts(tensor: Tensor) -> str:
    spec = tensor.spec
    numbers = elements.decode(tensor.codes(), spec.dtype)
    figures = ""
    if numbers.size:
        import numpy as np

        with np.errstate(all="ignore"):
            figures = f" [Max: {numbers.max()}] [Min: {numbers.min()}] [Mean: {numbers.mean()}]"
    return f"[Format: {spec.layout}] [Shape: {spec.shape}] [Dtype: {spec.dtype}]{figures}"
