"""Overflow debug records, the payload of `Opdebug.Node_OpDebug` files. See docs/formats/overflow-records.md."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.core.source import FileRange
from opdiff.read.cursor import Cursor

if TYPE_CHECKING:
    from opdiff.core.tensor import OpDump

Word = int | tuple[int, ...]
Words = tuple[tuple[str, Word], ...]

_MAGIC = 0x5A5A5A5A
_OLD_RECORD_NBYTES = 2048
# The longest record has 2048 bytes; runtimes may use larger buffers.
_MAX_RECORD_NBYTES = 1 << 16
_TASK = ("model_id", "stream_id", "task_id", "task_type")
_CORE = (*_TASK, "context_id", "thread_id", "pc_start", "para_base", "core_id", "block_id", "status")
_ACC_TYPES: dict[int, tuple[str, tuple[str, ...]]] = {
    0: ("AIC", _CORE),
    1: ("AIV", _CORE),
    2: ("AICPU", (*_TASK, "context_id", "cpu_id", "thread_id", "status")),
    3: ("SDMA", (*_TASK, "context_id", "thread_id", "src_addr", "dst_addr", "channel_id", "status")),
}
# Blocks of an old record: name, offset of the task, offset and names of the status words.
_OLD_BLOCKS = (
    ("DHA Atomic Add", 0, 512, ("status",)),
    ("L2 Atomic Add", 128, 768, ("status",)),
    ("AI Core", 256, 1024, ("kernel_code", "block_idx", "status")),
)
_HEXADECIMAL_FIELDS = frozenset({"pc_start", "para_base", "src_addr", "dst_addr", "kernel_code"})
_OLD_TASK = (*_TASK, "pc_start", "para_base")


class AccRecord(Struct, frozen=True):
    """Record of newer runtimes: one accelerator and its words in the stored order."""

    version: int
    valid: int
    acc_type: str
    rsv: int
    data_len: int
    words: Words

    @property
    def status(self) -> tuple[int, ...]:
        """The status words; all zero without an overflow."""
        value = dict(self.words)["status"]
        return value if isinstance(value, tuple) else (value,)

    @property
    def overflowed(self) -> bool:
        """Whether the record reports an overflow."""
        return any(self.status)


class OldRecord(Struct, frozen=True):
    """Record of older runtimes: task and status of three hardware units."""

    blocks: tuple[tuple[str, Words], ...]

    @property
    def overflowed(self) -> bool:
        """Whether the record reports an overflow."""
        return any(dict(words)["status"] for _, words in self.blocks)


OverflowRecord = AccRecord | OldRecord


def read_overflow(operator: OpDump) -> tuple[OverflowRecord, ...]:
    """Read the records of an overflow debug file, one for each output."""
    sources = [output.source for output in operator.outputs if isinstance(output.source, FileRange)]
    for source in sources:
        if source.nbytes > _MAX_RECORD_NBYTES:
            problem = because("read.record_too_large", nbytes=source.nbytes, limit=_MAX_RECORD_NBYTES)
            raise DumpError(operator.path, problem, source.offset)
    return tuple(parse_record(bytes(source.raw()), operator.path, source.offset) for source in sources)


def parse_record(raw: bytes, path: str, origin: int = 0) -> OverflowRecord:
    """Parse a record, whose form the first number decides; `origin` is its offset in the file."""
    cursor = Cursor(raw, path, origin=origin)
    if cursor.u32("magic") == _MAGIC:
        return _acc_record(cursor)
    if len(raw) != _OLD_RECORD_NBYTES:
        raise cursor.error(because("read.old_record_size", nbytes=len(raw), expected=_OLD_RECORD_NBYTES), back=4)
    return OldRecord(
        tuple(
            (name, _words(raw, task_at, _OLD_TASK) + _words(raw, status_at, status))
            for name, task_at, status_at, status in _OLD_BLOCKS
        )
    )


def to_json(record: OverflowRecord) -> dict[str, object]:
    """Return the record as `convert` writes it: addresses and codes in hexadecimal, other numbers in decimal."""
    if isinstance(record, OldRecord):
        return {name: _words_to_json(words) for name, words in record.blocks}
    return {
        "magic": hex(_MAGIC),
        "version": record.version,
        "acc_list": {
            "valid": record.valid,
            "acc_type": record.acc_type,
            "rsv": record.rsv,
            "data_len": record.data_len,
            "data": _words_to_json(record.words),
        },
    }


def _words_to_json(words: Words) -> dict[str, object]:
    return {name: hex(word) if name in _HEXADECIMAL_FIELDS and isinstance(word, int) else word for name, word in words}


def _acc_record(cursor: Cursor) -> AccRecord:
    version, valid, number = (cursor.u32(field) for field in ("version", "valid", "acc_type"))
    rsv, data_len = cursor.u32("rsv"), cursor.u32("data_len")
    if number not in _ACC_TYPES:
        raise cursor.error(because("read.accelerator_type", number=number), back=12)
    acc_type, names = _ACC_TYPES[number]
    words: list[tuple[str, Word]] = [(name, cursor.u64(name)) for name in names[:-1]]
    status = [cursor.u64("status") for _ in range(4 if version == 1 and names is _CORE else 1)]
    words.append(("status", tuple(status) if len(status) > 1 else status[0]))
    return AccRecord(version, valid, acc_type, rsv, data_len, tuple(words))


def _words(raw: bytes, start: int, names: tuple[str, ...]) -> Words:
    return tuple(zip(names, struct.unpack_from(f"<{len(names)}Q", raw, start), strict=True))
