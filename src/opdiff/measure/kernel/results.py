"""What the native kernel found out about each pair: its metrics, or its sums, or why there are none.

    rows ──► Metrics, or Sums and divergence, or Failure

The kernel makes metrics of sums itself, by the formulas of `metrics`. Where it cannot (complex numbers, integers that a
double does not hold), they are made here of its sums.
"""

from __future__ import annotations

import os
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Metrics
from opdiff.core.dtypes import Kind
from opdiff.measure.kernel.library import ROW, Call, parts_of, scale_of
from opdiff.measure.metrics import EMPTY, SCALAR, ZERO_GOLDEN, ZERO_TARGET, metrics_of
from opdiff.measure.sums import (
    RELATIVE_EDGES,
    SMALL,
    ULP_EDGES,
    GraphSums,
    Pairs,
    Side,
    Specials,
    Spread,
    Sums,
    error_at,
    relative_at,
    ulps_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.core.dtypes import DType
    from opdiff.measure.kernel.library import NativeJob, Operand

DONE, _NOT_MEASURED, _BAD_JOB, _NO_FILE, _CANNOT_READ, _TOO_SHORT, _NO_MEMORY = range(7)

_RELATIVE_BINS, _ULP_BINS = len(RELATIVE_EDGES) + 2, len(ULP_EDGES) + 2
_BINS = _RELATIVE_BINS + _ULP_BINS
_NOTE = Metrics._fields.index("notes")
# By the number of the note.
_NOTES: tuple[tuple[str, ...], ...] = ((), (EMPTY,), (SCALAR,), (ZERO_TARGET,), (ZERO_GOLDEN,))


class Failure(NamedTuple):
    """Why two tensors were not measured; an empty reason: the kernel cannot, others may."""

    reason: str = ""


Summed = tuple[Sums, float | None]


def measure_all(
    jobs: Sequence[NativeJob], threads: int, progress: Callable[[int], None], *, with_kl: bool, for_graphs: bool = False
) -> list[Summed | Failure]:
    """The sums and the divergence of each pair, in order; `progress` is told from time to time how much is done."""
    call = Call(jobs, threads, with_kl=with_kl, for_graphs=for_graphs)
    try:
        call.wait(progress)
    finally:
        call.end()
    return unpack_sums(call)


def unpack_metrics(call: Call) -> list[Metrics | Failure]:
    """The metrics of each pair that was measured, in order."""
    return [_metrics(job, call, number * ROW) for number, job in enumerate(call.jobs)]


def unpack_sums(call: Call) -> list[Summed | Failure]:
    """The sums and the divergence of each pair that was measured, in order."""
    return [_sums(job, call, number * ROW) for number, job in enumerate(call.jobs)]


# Metrics


def _metrics(job: NativeJob, call: Call, offset: int) -> Metrics | Failure:
    row = _metrics_row(job.target.dtype.decoded, job.golden.dtype.decoded)
    if row is not None:
        values = row.unpack_from(call.rows, offset)
        missing = values[3]
        if values[0] == DONE and missing >= 0:
            numbers = [*values[4:-_BINS], values[-_BINS:-_ULP_BINS], values[-_ULP_BINS:]]
            numbers[_NOTE] = _NOTES[numbers[_NOTE]]
            for place in _places(missing):
                numbers[place] = None
            return Metrics._make(numbers)
    found = _sums(job, call, offset)
    if isinstance(found, Failure):
        return found
    sums, kl = found
    return metrics_of(sums, kl, is_scalar=sums.count == sums.parts)


@lru_cache(maxsize=256)
def _metrics_row(target: str, golden: str) -> Struct | None:
    """The beginning of a row, for two types of numbers: what the kernel says about them, metrics, histograms."""
    if "complex" in target:
        return None
    x, y = ("d" if decoded.startswith("float") else "Q" if decoded == "uint64" else "q" for decoded in (target, golden))
    error = "d" if "d" in (x, y) else "q"
    return Struct(f"<4qqd{error}11d?7x7q7d{error}q{x}{y}q2{x}2{y}4dq{_RELATIVE_BINS}q{_ULP_BINS}q")


@lru_cache(maxsize=256)
def _places(missing: int) -> tuple[int, ...]:
    """The numbers of the bits that are set."""
    return tuple(place for place in range(missing.bit_length()) if missing >> place & 1)


# Sums


@lru_cache(maxsize=4)
def _sums_row(target: str, golden: str) -> Struct:
    """What a row holds but for metrics; `target` and `golden` are `q` for 64-bit integers, else `d`."""
    return Struct(
        f"<3q8xq336x{_RELATIVE_BINS}q{_ULP_BINS}q"
        f"q6q2{target}3d6q2{golden}3dq12d3q" + f"q{target}{golden}" * 3 + "6qd8d3q"
    )


def _sums(job: NativeJob, call: Call, offset: int) -> Summed | Failure:
    sides = job.target.dtype, job.golden.dtype
    letters = ("q" if dtype.decoded in {"int64", "uint64"} else "d" for dtype in sides)
    values = _sums_row(*letters).unpack_from(call.rows, offset)
    status, detail, culprit, count = values[:4]
    if status != DONE:
        return _failure(status, detail, (job.target, job.golden)[culprit])
    histograms = values[4 : 4 + _RELATIVE_BINS], values[4 + _RELATIVE_BINS : 4 + _BINS]
    values = values[4 + _BINS :]
    x, y = _exact(sides[0]), _exact(sides[1])
    worst, relative, ulps = (
        None if index < 0 else (index, x(a), y(b)) for index, a, b in (values[39:42], values[42:45], values[45:48])
    )
    same, opposite, only_target, only_golden, mismatches, first, kl = values[48:55]
    sums = Sums(
        count,
        values[0],
        _side(values[1:12], x),
        _side(values[12:23], y),
        Pairs(*values[23:36]),
        Spread(values[36], values[37], values[38], *histograms),
        Specials(same, opposite, only_target, only_golden, mismatches, _place(first)),
        error_at(*worst) if worst else None,
        relative_at(*relative) if relative else None,
        ulps_at(*ulps, scale_of(*sides)) if ulps else None,
        parts_of(sides[0]),
        graph=GraphSums(*values[55:]),
    )
    return sums, _divergence(kl, count) if call.with_kl else None


def _divergence(value: float, count: int) -> float | None:
    """NaN when there are NaNs or infinities, as the kernel has it; `None` when there are no elements."""
    if not count:
        return None
    return 0.0 if value < SMALL else value


def _side(values: tuple[int | float, ...], exact: Callable[[float], float | int]) -> Side:
    finite, nans, positive, negative, first_nan, first_inf, low, high, total, squares, spread = values
    return Side(
        int(finite),
        total,
        squares,
        spread,
        exact(low) if finite else None,
        exact(high) if finite else None,
        int(nans),
        int(positive),
        int(negative),
        _place(int(first_nan)),
        _place(int(first_inf)),
    )


def _exact(dtype: DType) -> Callable[[float], float | int]:
    """From what the kernel shows of an element to the number it is."""
    if dtype.kind not in (Kind.INTEGER, Kind.BOOL):
        return float
    if dtype.decoded == "uint64":
        return lambda bits: int(bits) & 0xFFFF_FFFF_FFFF_FFFF
    return int


def _place(index: int) -> int | None:
    return None if index < 0 else index


def _failure(status: int, detail: int, side: Operand) -> Failure:
    if status in (_NO_FILE, _CANNOT_READ):
        verb = "opened" if status == _NO_FILE else "read"
        return Failure(f"{side.path}: cannot be {verb}: {os.strerror(detail)}")
    if status == _TOO_SHORT:
        if detail < 0:
            return Failure(f"{side.path}: the file shrank while it was read")
        return Failure(f"{side.path}: {side.nbytes} bytes are wanted here, but the file ends at {detail}")
    if status == _NO_MEMORY:
        return Failure("there is not enough memory for it")
    return Failure()
