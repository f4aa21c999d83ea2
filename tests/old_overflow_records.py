"""Encoder of overflow records in their old form; it follows the format page, independently of the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.sample.container import words

if TYPE_CHECKING:
    from opdiff.core.tensor import Shape
    from opdiff.sample.container import Overflow


def old_overflow_record(dha: Overflow | None, l2: Overflow | None, ai_core: Overflow | None) -> bytes:
    """Encode a record: 2048 bytes with a field for each of three sources, zeros for `None`."""
    record = bytearray(2048)
    for start, overflow in ((0, dha), (128, l2), (256, ai_core)):
        if overflow:
            record[start : start + 48] = words(_old_info(overflow))
    for start, overflow in ((512, dha), (768, l2)):
        if overflow:
            record[start : start + 8] = words(overflow.status[:1])
    if ai_core:
        record[1024:1048] = words((ai_core.kernel_code, ai_core.block_id, ai_core.status[0]))
    return bytes(record)


def _old_info(overflow: Overflow) -> Shape:
    ids = (overflow.model_id, overflow.stream_id, overflow.task_id, overflow.task_type)
    return (*ids, overflow.pc_start, overflow.para_base)
