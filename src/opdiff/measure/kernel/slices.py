"""The errors of one pair in the slices of its axes, by the native kernel; `slices` is the definition."""

from __future__ import annotations

import ctypes
from array import array
from struct import Struct
from typing import TYPE_CHECKING

from opdiff.measure.kernel import library as native
from opdiff.measure.kernel.results import DONE
from opdiff.measure.slices import Slice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.measure.slices import Cut, Sample


def measure_slices(job: native.NativeJob, cuts: Sequence[Cut], sample: Sample) -> list[tuple[Slice, ...]] | None:
    """The errors of one pair in the slices of each cut, as `slices` defines them; `None` when they cannot be had."""
    library = native.find_library()
    if library is None:
        return None
    packed = native.pack([job], 0)
    batch = packed.batch(None, 1)
    starts = array("q", sample.starts)
    chosen = array("q", (starts.buffer_info()[0], len(starts), sample.length))
    axes = array("q", [number for cut in cuts for number in (cut.extent, cut.behind, cut.width)])
    row = Struct("<2q2d")
    found = ctypes.create_string_buffer(row.size * max(sum(cut.slices for cut in cuts), 1))
    code = library.od_axis_errors(
        ctypes.byref(batch), *map(_address, (chosen, axes)), ctypes.c_int64(len(cuts)), ctypes.byref(found)
    )
    if code != DONE:
        return None
    slices = map(Slice._make, row.iter_unpack(found.raw))
    return [tuple(next(slices) for _ in range(cut.slices)) for cut in cuts]


def _address(numbers: array[int]) -> ctypes.c_void_p:
    return ctypes.c_void_p(numbers.buffer_info()[0])
