"""Results of the native kernel: `Sums` and the divergence, or the reason of a failure; errors by slice."""

from __future__ import annotations

import ctypes
import os
import struct
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.dtypes import Kind
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES
from opdiff.core.reasons import Status, because
from opdiff.measure.kernel.library import ROW, Call, examine, parts_of, scale_of
from opdiff.measure.sums import (
    ZERO_THRESHOLD,
    ErrorDistribution,
    GraphSums,
    NonFinitePairs,
    PairSums,
    Scale,
    SideSums,
    Sums,
    error_at,
    relative_at,
    ulps_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.measure.kernel.library import NativeJob, Operand
    from opdiff.measure.slices import Sample, SlicedAxis, SliceSums
    from opdiff.measure.sums import Number, UlpScale

DONE, _NOT_MEASURED, _BAD_JOB, _NO_FILE, _CANNOT_READ, _TOO_SHORT, _NO_MEMORY = range(7)

_RELATIVE_BINS, _ULP_BINS = len(RELATIVE_EDGES) + 2, len(ULP_EDGES) + 2
_NOT_SCALED = Scale()
# Parts of a row before those that depend on the element types, and behind them.
_HEAD, _RELATIVE, _ULPS = (struct.Struct(f"<{count}q") for count in (4, _RELATIVE_BINS, _ULP_BINS))
_GRAPH = struct.Struct("<8d3q")
_RELATIVE_AT = _HEAD.size
_ULPS_AT = _RELATIVE_AT + _RELATIVE.size
_SUMS_AT = _ULPS_AT + _ULPS.size
_GRAPH_AT = ROW - _GRAPH.size


class Failure(Struct, frozen=True):
    """Why two tensors were not measured; `None` if the kernel does not support the pair."""

    reason: Reason | None = None


KernelResult = tuple[Sums, float | None]
"""Sums and divergence."""


def measure_all(
    jobs: Sequence[NativeJob], threads: int, progress: Callable[[int], None], *, with_kl: bool, for_graphs: bool = False
) -> list[KernelResult | Failure]:
    """Measure all pairs, in order; `progress` is called from time to time with the number of bytes done."""
    call = Call(jobs, threads, with_kl=with_kl, for_graphs=for_graphs)
    try:
        call.wait(progress)
    finally:
        call.end()
    return unpack_sums(call)


def unpack_sums(call: Call) -> list[KernelResult | Failure]:
    """Return the result of each pair of a finished call, in order."""
    rows = memoryview(call.rows)
    return [_unpack(job, rows, number * ROW, with_kl=call.with_kl) for number, job in enumerate(call.jobs)]


class _Format(Struct, frozen=True):
    """How the rows of two element types are read: `target` and `golden` restore the elements stored in a row."""

    sums: struct.Struct
    target: Callable[[Number], Number]
    golden: Callable[[Number], Number]
    ulps: UlpScale
    parts: int


@lru_cache(maxsize=256)
def _format(target: DType, golden: DType) -> _Format:
    x, y = ("q" if dtype.decoded in {"int64", "uint64"} else "d" for dtype in (target, golden))
    sums = struct.Struct(f"<q6q2{x}3d6q2{y}3dq12d3q" + f"q{x}{y}" * 3 + "6qd")
    return _Format(sums, _restore(target), _restore(golden), scale_of(target, golden), parts_of(target))


def _restore(dtype: DType) -> Callable[[Number], Number]:
    if dtype.kind not in (Kind.INTEGER, Kind.BOOL):
        return float
    if dtype.decoded == "uint64":
        return lambda bits: int(bits) & 0xFFFF_FFFF_FFFF_FFFF
    return int


def _unpack(job: NativeJob, rows: memoryview, offset: int, *, with_kl: bool) -> KernelResult | Failure:
    status, detail, culprit, count = _HEAD.unpack_from(rows, offset)
    if status != DONE:
        return _failure(status, detail, (job.target, job.golden)[culprit])
    form = _format(job.target.dtype, job.golden.dtype)
    x, y = form.target, form.golden
    relative_bins = _RELATIVE.unpack_from(rows, offset + _RELATIVE_AT)
    ulp_bins = _ULPS.unpack_from(rows, offset + _ULPS_AT)
    values = form.sums.unpack_from(rows, offset + _SUMS_AT)
    worst, worst_relative, worst_ulps = values[39], values[42], values[45]
    same_infs, opposite_infs, target_infs, golden_infs, mismatches, mismatch = values[48:54]
    sums = Sums(
        count,
        values[0],
        _side(values[1:12], x),
        _side(values[12:23], y),
        PairSums(*values[23:36]),
        ErrorDistribution(values[36], values[37], values[38], relative_bins, ulp_bins),
        NonFinitePairs(
            same_infs, opposite_infs, target_infs, golden_infs, mismatches, None if mismatch < 0 else mismatch
        ),
        None if worst < 0 else error_at(worst, x(values[40]), y(values[41])),
        None if worst_relative < 0 else relative_at(worst_relative, x(values[43]), y(values[44])),
        None if worst_ulps < 0 else ulps_at(worst_ulps, x(values[46]), y(values[47]), form.ulps),
        form.parts,
        _NOT_SCALED,
        GraphSums(*_GRAPH.unpack_from(rows, offset + _GRAPH_AT)),
    )
    return sums, _divergence(values[54], count) if with_kl else None


def _divergence(value: float, count: int) -> float | None:
    """Return NaN if there are NaNs or infinities, as the kernel does, and `None` if there are no elements."""
    if not count:
        return None
    return 0.0 if value < ZERO_THRESHOLD else value


def _side(values: tuple[Any, ...], restore: Callable[[Number], Number]) -> SideSums:
    finite, nans, positive, negative, first_nan, first_inf, low, high, total, squares, squared_deviations = values
    return SideSums(
        finite,
        total,
        squares,
        squared_deviations,
        restore(low) if finite else None,
        restore(high) if finite else None,
        nans,
        positive,
        negative,
        None if first_nan < 0 else first_nan,
        None if first_inf < 0 else first_inf,
    )


def _failure(status: int, detail: int, side: Operand) -> Failure:
    if status == _NO_FILE:
        return _file_failure(side, because("core.cannot_open", Status.NOT_HERE, error=os.strerror(detail)))
    if status == _CANNOT_READ:
        return _file_failure(side, because("core.cannot_read", Status.NOT_HERE, error=os.strerror(detail)))
    if status == _TOO_SHORT and detail < 0:
        return _file_failure(side, because("measure.file_shrank"))
    if status == _TOO_SHORT:
        return _file_failure(side, because("measure.file_too_short", nbytes=side.nbytes, size=detail))
    return Failure(because("measure.no_memory") if status == _NO_MEMORY else None)


def _file_failure(side: Operand, problem: Reason) -> Failure:
    return Failure(because("core.in_file", path=side.path, problem=problem))


def measure_slices(job: NativeJob, axes: Sequence[SlicedAxis], sample: Sample) -> list[tuple[SliceSums, ...]] | None:
    """Return the errors in the slices of each axis, as `measure.slices` defines them.

    `None` without a kernel, or if it cannot measure the pair.
    """
    from opdiff.measure.slices import SliceSums

    starts = array("q", sample.starts)
    packed_sample = array("q", (starts.buffer_info()[0], len(starts), sample.length))
    packed_axes = array("q", [number for axis in axes for number in (axis.extent, axis.stride, axis.width)])
    row = struct.Struct("<2q2d")
    rows = ctypes.create_string_buffer(row.size * max(sum(axis.slices for axis in axes), 1))
    addresses = (ctypes.c_void_p(numbers.buffer_info()[0]) for numbers in (packed_sample, packed_axes))
    if not examine("od_axis_errors", job, *addresses, ctypes.c_int64(len(axes)), ctypes.byref(rows)):
        return None
    slices = map(SliceSums._make, row.iter_unpack(rows.raw))
    return [tuple(next(slices) for _ in range(axis.slices)) for axis in axes]
