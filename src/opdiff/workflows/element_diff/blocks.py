"""Elements of an aligned pair in blocks, so that memory does not grow with the tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core import codes as elements
from opdiff.measure.detail import Examination, compare_block, real_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.align.element_reader import ElementReader, PairReader
    from opdiff.core.codes import AnyArray
    from opdiff.measure.detail import Detail, ElementBlock

    Progress = Callable[[int, int], None]

_BLOCK_ELEMENTS = 1 << 16
# Mapped pages are released after this many blocks.
_BLOCKS_PER_RELEASE = 64


def examine_elements(pair: PairReader, top_n: int = 1, progress: Progress = lambda _done, _all: None) -> Detail:
    """Compare all elements; keep the `top_n` worst elements."""
    examination = Examination(real_shape(pair.shape, pair.target.dtype), top_n)
    for block in iter_blocks(pair, 0, pair.target.count):
        examination.add(block)
        progress(block.start + block.absolute.size, pair.target.count)
    pair.release()
    return examination.detail()


def iter_blocks(pair: PairReader, start: int, stop: int) -> Iterator[ElementBlock]:
    """Yield compared elements in order; `start` and `stop` count complex elements once."""
    target, golden = pair.target, pair.golden
    parts = len(real_shape((), target.dtype)) + 1
    stop = min(stop, target.count)
    for number, first in enumerate(range(start, stop, _BLOCK_ELEMENTS), 1):
        last = min(first + _BLOCK_ELEMENTS, stop)
        yield compare_block(
            first * parts, target.block(first, last), target.dtype, golden.block(first, last), golden.dtype
        )
        if number % _BLOCKS_PER_RELEASE == 0:
            pair.release()


def iter_values(reader: ElementReader) -> Iterator[AnyArray]:
    """Yield the decoded values of a tensor in order."""
    for number, start in enumerate(range(0, reader.count, _BLOCK_ELEMENTS), 1):
        yield elements.decode(reader.block(start, start + _BLOCK_ELEMENTS), reader.dtype)
        if number % _BLOCKS_PER_RELEASE == 0:
            reader.stored.release()
