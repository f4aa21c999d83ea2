"""File names of runtimes and golden tools."""

from __future__ import annotations

from dataclasses import dataclass

_UNSAFE = str.maketrans(" ./\\", "____")


@dataclass(frozen=True, slots=True)
class Task:
    """The second half of a long dump name: task type and part of the task.

    Task types: 0 AI Core, 1 AI CPU, 2 debug, 3 communication, 4 FFTS+.
    """

    task_type: int
    context_id: int
    thread_id: int
    device_id: int | None = None


@dataclass(frozen=True, slots=True)
class DumpName:
    """The name of an NPU dump file, of 4 to 9 fields; `str()` returns it.

    Characters that the runtime does not use in names become underscores.

    Attributes:
        stream_id: `None` for older runtimes.
        task: written by newer runtimes and for sliced operators.
        dump_number: counter of single operators in newer runtimes.
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
    """Return the name as it is written in file names."""
    return name.translate(_UNSAFE)


def golden_name(op_name: str, index: int, timestamp: int) -> str:
    """Return the file name of one output of an original operator."""
    return f"{safe(op_name)}.{index}.{timestamp}.npy"


def fx_name(node: str, target: str, slot: str, indices: tuple[int, ...], timestamp: int) -> str:
    """Return the file name of one argument ("INPUT") or result ("OUTPUT") of an FX node.

    `indices` has a second element if the argument is a list of tensors.
    """
    return ".".join((f"{node}-{target}", slot, *map(str, indices), str(timestamp), "npy"))


def overflow_name(task_id: int, stream_id: int, timestamp: int, task: Task | None = None) -> DumpName:
    """Return the name of the overflow debug file of the operator with these ids."""
    return DumpName("Opdebug", "Node_OpDebug", task_id, stream_id, timestamp, task)
