"""Errors of one pair in the slices of its axes, measured by the native kernel; `measure.slices` is the definition."""

from __future__ import annotations

import ctypes
from array import array
from struct import Struct
from typing import TYPE_CHECKING

from opdiff.measure.kernel import library as native
from opdiff.measure.kernel.results import DONE
from opdiff.measure.slices import SliceSums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.measure.slices import Sample, SlicedAxis


def measure_slices(
    job: native.NativeJob, axes: Sequence[SlicedAxis], sample: Sample
) -> list[tuple[SliceSums, ...]] | None:
    """Return the errors in the slices of each axis; `None` without a kernel, or if it cannot measure the pair."""
    library = native.find_library()
    if library is None:
        return None
    packed = native.pack([job], 0)
    batch = packed.batch(None, 1)
    starts = array("q", sample.starts)
    packed_sample = array("q", (starts.buffer_info()[0], len(starts), sample.length))
    packed_axes = array("q", [number for axis in axes for number in (axis.extent, axis.stride, axis.width)])
    row = Struct("<2q2d")
    rows = ctypes.create_string_buffer(row.size * max(sum(axis.slices for axis in axes), 1))
    code = library.od_axis_errors(
        ctypes.byref(batch), *map(_address, (packed_sample, packed_axes)), ctypes.c_int64(len(axes)), ctypes.byref(rows)
    )
    if code != DONE:
        return None
    slices = map(SliceSums._make, row.iter_unpack(rows.raw))
    return [tuple(next(slices) for _ in range(axis.slices)) for axis in axes]


def _address(numbers: array[int]) -> ctypes.c_void_p:
    return ctypes.c_void_p(numbers.buffer_info()[0])
