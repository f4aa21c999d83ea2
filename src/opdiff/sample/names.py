"""The names that runtimes and golden tools give to their files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LENGTH = 255
"""Bytes that file systems allow in a name."""

MAPPING_FILE = "mapping.csv"

FFTS_PLUS = 4
"""The task type of operators that were cut in slices."""

_UNSAFE = str.maketrans(" ./\\", "____")


@dataclass(frozen=True, slots=True)
class Task:
    """The second half of a long dump name: the kind of task and which part of it.

    Task types: 0 AI Core, 1 AI CPU, 2 debug, 3 communication, 4 FFTS+.
    """

    task_type: int
    context_id: int
    thread_id: int
    device_id: int | None = None


@dataclass(frozen=True, slots=True)
class DumpName:
    """The name of an NPU dump file; prints as one, of 4 fields up to 9.

    Characters that the runtime does not write in names become underscores.

    Attributes:
        stream_id: left out by older runtimes.
        task: written by newer runtimes, and for operators that were cut in slices.
        dump_number: of single operators, which newer runtimes count.
    """

    op_type: str
    op_name: str
    task_id: int
    stream_id: int | None
    timestamp: int
    task: Task | None = None
    dump_number: int | None = None

    def __str__(self) -> str:
        task = self.task
        tail = (task.task_type, task.context_id, task.thread_id, task.device_id) if task else ()
        numbers = (self.dump_number, self.task_id, self.stream_id, self.timestamp, *tail)
        fields = (str(number) for number in numbers if number is not None)
        return ".".join((safe(self.op_type), safe(self.op_name), *fields))


def safe(name: str) -> str:
    """`name` as it is written in file names."""
    return name.translate(_UNSAFE)


def golden_name(op_name: str, index: int, timestamp: int) -> str:
    """The file of one output of an operator of the original model."""
    return f"{safe(op_name)}.{index}.{timestamp}.npy"


def fx_name(node: str, target: str, slot: str, indices: tuple[int, ...], timestamp: int) -> str:
    """The file of one argument ("INPUT") or result ("OUTPUT") of an FX node.

    `indices` has a second number when the argument is a list of tensors.
    """
    return ".".join((f"{node}-{target}", slot, *map(str, indices), str(timestamp), "npy"))


def overflow_name(task_id: int, stream_id: int, timestamp: int, task: Task | None = None) -> DumpName:
    """The overflow debug file that belongs to the operator with these ids."""
    return DumpName("Opdebug", "Node_OpDebug", task_id, stream_id, timestamp, task)


def automatic_slice(name: DumpName, context_id: int, thread_id: int, device_id: int = 0) -> DumpName:
    """The file of one slice that the scheduler made."""
    return replace(name, task=Task(FFTS_PLUS, context_id, thread_id, device_id))


def manual_slice(name: DumpName, context_id: int, number: int, device_id: int = 0) -> DumpName:
    """The file of one slice that the compiler made: its number is part of the operator's name."""
    part = replace(name, op_name=f"{name.op_name}_lxslice{number}")
    return replace(part, task=Task(FFTS_PLUS, context_id, 0, device_id))


def hashed_name(directory: str, name: str) -> str:
    """The digits that a file gets whose name is too long for the file system; a golden file keeps its suffix."""
    digest = blake2b(f"{directory}/{name}".encode(), digest_size=8).digest()
    return f"{int.from_bytes(digest, 'little')}{'.npy' if name.endswith('.npy') else ''}"


def mapping_csv(rows: Iterable[tuple[str, str]]) -> str:
    """The table from hashed to full names, which lies beside the files."""
    return "".join(f"{hashed},{name}\n" for hashed, name in rows)
