"""The native kernel: many pairs of tensors in one call, measured by threads inside it.

    jobs ──numbers in arrays──► one call ──rows──► Sums and divergence, or why not

The library is loaded with `ctypes`. `native/opdiff_kernel.h` describes the numbers that go in and come out.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING

from opdiff import dtypes
from opdiff.dtypes import Kind
from opdiff.errors import UsageError
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
from opdiff.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Thread

    from opdiff.dtypes import DType
    from opdiff.measure.ulp import UlpScale

_LIBRARY = os.path.join(os.path.dirname(__file__), "_kernel.so")
_VERSION = 2
# Bytes of od_axis, od_side, od_job, od_result and od_batch.
_SIZES = (32, 64, 168, 896, 88)

_KINDS = {
    "float16": 0, "bfloat16": 1, "float32": 2, "float64": 3, "bool": 5, "int8": 6, "uint8": 7, "int16": 8, "uint16": 9,
    "int32": 10, "uint32": 11, "int64": 12, "uint64": 13,
}  # fmt: skip
_TABLE = 4
_PARTS = {dtypes.COMPLEX64: "float32", dtypes.COMPLEX128: "float64", dtypes.COMPLEX32: "float16"}
_WITH_KL, _FOR_GRAPHS = 1, 2

DONE, _NOT_MEASURED, _BAD_JOB, _NO_FILE, _CANNOT_READ, _TOO_SHORT, _NO_MEMORY = range(7)

# Blocks are cut anew at the end of the shortest stack of last axes that has this many elements.
_BLOCK = 1024
# A mapped tensor has at most this much of itself in memory.
_RESIDENT = 16 << 20
# From here on other threads measure while this one looks after progress and interrupts.
_LONG = 64 << 20


class Operand(NamedTuple):
    """One tensor: where its bytes are, what its elements are, and where each of them is.

    Attributes:
        path: the file.
        offset: of the first byte.
        nbytes: how many there are.
        dtype: the type of the elements.
        axes: extent, split, outer, inner of each axis; none when elements are stored one behind the other.
        data: the address of the bytes, when they are in memory; there is no file then.
    """

    path: str
    offset: int
    nbytes: int
    dtype: DType
    axes: Sequence[tuple[int, int, int, int]] = ()
    data: int = 0


class NativeJob(NamedTuple):
    """Two tensors of the same logical shape."""

    target: Operand
    golden: Operand
    shape: tuple[int, ...]


class Failure(NamedTuple):
    """Why two tensors were not measured; an empty reason: the kernel cannot, others may."""

    reason: str = ""


class Batch(ctypes.Structure):
    """What the kernel is asked: `od_batch`."""

    _fields_ = (
        ("jobs", ctypes.c_void_p),
        ("results", ctypes.c_void_p),
        ("axes", ctypes.c_void_p),
        ("texts", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("axes_count", ctypes.c_int64),
        ("texts_size", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("resident", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("cancelled", ctypes.c_int64),
    )


def find_library() -> ctypes.CDLL | None:
    """The kernel; `None` when it was not built, does not fit, or is not wanted.

    The environment may ask for another one: `OPDIFF_KERNEL` is `numpy` for none at all, or the path of a library.

    Raises:
        UsageError: the environment asks for a library that cannot be used.
    """
    wanted = os.environ.get("OPDIFF_KERNEL", "")
    if wanted == "numpy":
        return None
    library = _load(wanted or _LIBRARY)
    if wanted and library is None:
        raise UsageError(f"OPDIFF_KERNEL: {wanted} is not a kernel that fits; it may also be `numpy`, or not be set")
    return library


@lru_cache(maxsize=4)
def _load(path: str) -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(path)
        library.od_measure.restype = ctypes.c_int64
        library.od_slices.restype = ctypes.c_int64
        library.od_instructions.restype = ctypes.c_char_p
        sizes = (ctypes.c_int64 * len(_SIZES))()
        library.od_sizes(sizes)
        version = library.od_version()
    except (OSError, AttributeError):
        return None
    return library if version == _VERSION and tuple(sizes) == _SIZES else None


def parts_of(dtype: DType) -> int:
    """How many real numbers one element is."""
    return 2 if dtype.kind is Kind.COMPLEX else 1


def is_known(target: DType, golden: DType) -> bool:
    """Whether the kernel measures these two types against each other."""
    if Kind.COMPLEX in (target.kind, golden.kind):
        return target.kind is golden.kind
    return all(dtype.bits >= 8 and dtype.kind is not Kind.OPAQUE for dtype in (target, golden))


def measure_all(
    jobs: Sequence[NativeJob], threads: int, progress: Callable[[int], None], *, with_kl: bool, for_graphs: bool = False
) -> list[tuple[Sums, float | None] | Failure]:
    """The sums and the divergence of each pair, in order; the same for any number of threads.

    Args:
        jobs: pairs whose types `is_known`.
        threads: how many work at once.
        progress: is told from time to time how many bytes are done.
        with_kl: also measure the divergence, which takes a second pass.
        for_graphs: also measure what graph mode needs, which does, too.
    """
    call = Call(jobs, threads, with_kl=with_kl, for_graphs=for_graphs)
    try:
        call.wait(progress)
    finally:
        call.end()
    return call.results()


class Call:
    """Pairs that are measured: by other threads while this one does something else, or when the result is waited for.

    The former is done where it is long enough, or when it `must_run` at once.
    """

    def __init__(
        self,
        jobs: Sequence[NativeJob],
        threads: int,
        *,
        with_kl: bool,
        for_graphs: bool = False,
        must_run: bool = False,
    ) -> None:
        """The same arguments as those of `measure_all`."""
        library = find_library()
        if library is None:
            raise RuntimeError("the native kernel is not there")
        self.nbytes = sum(job.target.nbytes + job.golden.nbytes for job in jobs)
        self._jobs, self._with_kl = jobs, with_kl
        self._packed = pack(jobs, (_WITH_KL if with_kl else 0) | (_FOR_GRAPHS if for_graphs else 0))
        self._rows = ctypes.create_string_buffer(_SIZES[3] * max(len(jobs), 1))
        # Short work beside which the caller has something to do leaves a core to it.
        threads = max(threads - 1 if must_run and self.nbytes < _LONG else threads, 1)
        self._batch = self._packed.batch(ctypes.addressof(self._rows), threads)
        self._measure = library.od_measure
        self._code = 0
        self._thread: Thread | None = None
        if must_run or self.nbytes > _LONG:
            from threading import Thread

            self._thread = Thread(target=self._run)
            self._thread.start()

    def _run(self) -> None:
        self._code = self._measure(ctypes.byref(self._batch))

    def wait(self, progress: Callable[[int], None]) -> None:
        """Come back when everything is measured; `progress` is told from time to time how many bytes are done."""
        if self._thread is None:
            self._run()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.1)
            progress(self._batch.done)
        if self._code:
            raise MemoryError

    def results(self) -> list[tuple[Sums, float | None] | Failure]:
        """What was measured, in order."""
        rows, size, with_kl = self._rows, _SIZES[3], self._with_kl
        return [_result(job, rows, number * size, with_kl=with_kl) for number, job in enumerate(self._jobs)]

    def end(self) -> None:
        """Leave unmeasured what is not measured yet; must be called when nobody waits any more."""
        self._batch.cancelled = 1
        if self._thread is not None:
            self._thread.join()


class Packed(NamedTuple):
    """Jobs as the kernel takes them."""

    jobs: array[int]
    axes: array[int]
    texts: bytes

    def batch(self, rows: int | None, threads: int) -> Batch:
        """What the kernel is asked about them; `rows` is the address for results. They must be kept as long as it."""
        return Batch(
            self.jobs.buffer_info()[0],
            rows,
            self.axes.buffer_info()[0],
            ctypes.cast(ctypes.c_char_p(self.texts), ctypes.c_void_p),
            len(self.jobs) * self.jobs.itemsize // _SIZES[2],
            len(self.axes) // 4,
            len(self.texts),
            threads,
            _RESIDENT,
        )


def pack(jobs: Sequence[NativeJob], flags: int) -> Packed:
    """The numbers of the jobs, the axes of all their sides, and the paths of their files."""
    numbers, axes, texts, places = array("q"), array("q"), bytearray(), dict[str, int]()

    def add(side: Operand) -> None:
        at = -1
        if not side.data:
            at = places.get(side.path, -1)
            if at < 0:
                at = places[side.path] = len(texts)
                texts.extend(os.fsencode(side.path) + b"\0")
        kind, table = _kind(side.dtype)
        numbers.extend((at, side.data, side.offset, side.nbytes, kind, table, len(axes) // 4, len(side.axes)))
        for axis in side.axes:
            axes.extend(axis)

    for job in jobs:
        add(job.target)
        add(job.golden)
        count, run = _count_and_run(job.shape)
        numbers.extend((count, run, *_scale(job.target.dtype, job.golden.dtype), flags))
    return Packed(numbers, axes, bytes(texts))


def _count_and_run(shape: tuple[int, ...]) -> tuple[int, int]:
    count, run = 1, 0
    for extent in reversed(shape):
        count *= extent
        if not run and count >= _BLOCK:
            run = count
    return count, run


@lru_cache(maxsize=64)
def _kind(dtype: DType) -> tuple[int, int]:
    """The number of an element type, and the address of its table if it has one."""
    name = _PARTS.get(dtype) or ("bfloat16" if dtype is dtypes.BFLOAT16 else dtype.decoded)
    if dtype.kind is Kind.FLOAT and dtype.bits == 8:
        return _TABLE, ctypes.addressof(_table(dtype))
    return _KINDS[name], 0


@lru_cache(maxsize=16)
def _table(dtype: DType) -> ctypes.Array[ctypes.c_float]:
    from opdiff.floats import small_value

    return (ctypes.c_float * 256)(*(small_value(code, dtype) for code in range(256)))


@lru_cache(maxsize=256)
def _scale(target: DType, golden: DType) -> UlpScale:
    from opdiff.measure.ulp import find_scale

    return find_scale(*(dtypes.BY_NAME[_PARTS[dtype]] if dtype in _PARTS else dtype for dtype in (target, golden)))


@lru_cache(maxsize=4)
def _row(target: str, golden: str) -> Struct:
    """What a row of results holds; `target` and `golden` are `q` for 64-bit integers, else `d`."""
    bins = f"{len(RELATIVE_EDGES) + 2}q{len(ULP_EDGES) + 2}q"
    return Struct(f"<4q6q2{target}3d6q2{golden}3dq12d3q" + f"q{target}{golden}" * 3 + f"6qd{bins}8d3q")


def _result(
    job: NativeJob, results: ctypes.Array[ctypes.c_char], offset: int, *, with_kl: bool
) -> tuple[Sums, float | None] | Failure:
    sides = job.target.dtype, job.golden.dtype
    letters = ("q" if dtype.decoded in {"int64", "uint64"} else "d" for dtype in sides)
    values = _row(*letters).unpack_from(results, offset)
    status, detail, culprit, unequal = values[:4]
    if status != DONE:
        return _failure(status, detail, (job.target, job.golden)[culprit])
    x, y = _exact(sides[0]), _exact(sides[1])
    target, golden = _side(values[4:15], x), _side(values[15:26], y)
    scale = _scale(*sides)
    worst, relative, ulps = (
        None if index < 0 else (index, x(a), y(b)) for index, a, b in (values[42:45], values[45:48], values[48:51])
    )
    same, opposite, only_target, only_golden, mismatches = values[51:56]
    specials = Specials(same, opposite, only_target, only_golden, mismatches, _place(values[56]))
    bins = 58 + len(RELATIVE_EDGES) + 2
    graph = bins + len(ULP_EDGES) + 2
    count, _ = _count_and_run(job.shape)
    sums = Sums(
        count,
        unequal,
        target,
        golden,
        Pairs(*values[26:39]),
        Spread(values[39], values[40], values[41], values[58:bins], values[bins:graph]),
        specials,
        error_at(*worst) if worst else None,
        relative_at(*relative) if relative else None,
        ulps_at(*ulps, scale) if ulps else None,
        parts_of(sides[0]),
        graph=GraphSums(*values[graph:]),
    )
    return sums, _divergence(values[57], count) if with_kl else None


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
