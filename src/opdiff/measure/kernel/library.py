"""The native kernel: many pairs of tensors in one call, measured by its own threads.

    jobs ──packed in arrays──► one call ──► rows, unpacked by `results`

The library is loaded with `ctypes`; `native/opdiff_kernel.h` describes its interface.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.errors import UsageError
from opdiff.core.reasons import because
from opdiff.measure.sums import COMPLEX_PARTS, find_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Thread

    from opdiff.core.dtypes import DType
    from opdiff.measure.sums import UlpScale

_LIBRARY = os.path.join(os.path.dirname(__file__), "_kernel.so")
_VERSION = 5
# Bytes of od_axis, od_side, od_job, od_result and od_batch.
_SIZES = (32, 64, 168, 904, 88)
ROW = _SIZES[3]

_KINDS = {
    "float16": 0, "bfloat16": 1, "float32": 2, "float64": 3, "bool": 5, "int8": 6, "uint8": 7, "int16": 8, "uint16": 9,
    "int32": 10, "uint32": 11, "int64": 12, "uint64": 13,
}  # fmt: skip
_TABLE_KIND = 4
_WITH_KL, _FOR_GRAPHS = 1, 2

# A new block starts after the smallest group of last axes that has this many elements.
_BLOCK = 1024
# Bytes of a mapped pair after which its pages are released. Pairs of up to four times this size stay until they are
# measured.
_MAX_RESIDENT = 4 << 20
# Bytes from which on other threads measure while this one handles progress and interrupts.
_MIN_BACKGROUND_NBYTES = 64 << 20


class Operand(Struct, frozen=True, gc=False):
    """Location and type of the elements of one tensor.

    Attributes:
        path: the file.
        offset: offset of the first byte.
        nbytes: number of bytes.
        dtype: element type.
        axes: extent, split, outer and inner stride of each axis; empty if the elements are contiguous.
        data: address of the bytes if they are in memory; the file is then ignored.
    """

    path: str
    offset: int
    nbytes: int
    dtype: DType
    axes: Sequence[tuple[int, int, int, int]] = ()
    data: int = 0


class NativeJob(Struct, frozen=True, gc=False):
    """Two tensors of the same logical shape."""

    target: Operand
    golden: Operand
    shape: tuple[int, ...]


class Batch(ctypes.Structure):
    """Argument of the kernel, `od_batch`."""

    _fields_ = (
        ("jobs", ctypes.c_void_p),
        ("results", ctypes.c_void_p),
        ("axes", ctypes.c_void_p),
        ("paths", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("axes_count", ctypes.c_int64),
        ("paths_size", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("resident", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("cancelled", ctypes.c_int64),
    )


def find_library() -> ctypes.CDLL | None:
    """Return the kernel; `None` if it was not built, has another version, or is disabled.

    The environment variable `OPDIFF_KERNEL` selects another one: `numpy` for none at all, or the path of a library.

    Raises:
        UsageError: the selected library cannot be used.
    """
    selected = os.environ.get("OPDIFF_KERNEL", "")
    if selected == "numpy":
        return None
    library = _load(selected or _LIBRARY)
    if selected and library is None:
        raise UsageError(because("measure.not_a_kernel", path=selected))
    return library


def is_missing() -> bool:
    """Return whether NumPy measures although nobody asked for it, as where nothing could build the kernel."""
    return not os.environ.get("OPDIFF_KERNEL") and find_library() is None


@lru_cache(maxsize=4)
def _load(path: str) -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(path)
        library.od_measure.restype = ctypes.c_int64
        for function in (library.od_axis_errors, library.od_value_range, library.od_picture):
            function.restype = ctypes.c_int64
        library.od_instructions.restype = ctypes.c_char_p
        sizes = (ctypes.c_int64 * len(_SIZES))()
        library.od_sizes(sizes)
        version = library.od_version()
    except (OSError, AttributeError):
        return None
    return library if version == _VERSION and tuple(sizes) == _SIZES else None


def parts_of(dtype: DType) -> int:
    """Return the number of real numbers per element."""
    return 2 if dtype.kind is Kind.COMPLEX else 1


def is_supported(target: DType, golden: DType) -> bool:
    """Return whether the kernel supports this pair of types."""
    if Kind.COMPLEX in (target.kind, golden.kind):
        return target.kind is golden.kind
    return all(dtype.bits >= 8 and dtype.kind is not Kind.OPAQUE for dtype in (target, golden))


class Call:
    """One call of the kernel: in the background if it takes long enough, otherwise in `wait`.

    `rows` has `ROW` bytes for each of the `jobs`, in order; `results` unpacks them.
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
        """Start, if the call runs in the background.

        Args:
            jobs: pairs of supported types.
            threads: number of threads; does not affect the results.
            with_kl: also measure the divergence, in a second pass.
            for_graphs: also measure the sums of graph mode, in a second pass.
            must_run: run in the background in any case.
        """
        library = find_library()
        if library is None:
            raise RuntimeError("the native kernel is not available")
        self.nbytes = sum(job.target.nbytes + job.golden.nbytes for job in jobs)
        self.jobs, self.with_kl = jobs, with_kl
        self._packed = pack(jobs, (_WITH_KL if with_kl else 0) | (_FOR_GRAPHS if for_graphs else 0))
        self.rows = ctypes.create_string_buffer(ROW * max(len(jobs), 1))
        self._batch = self._packed.batch(ctypes.addressof(self.rows), max(threads, 1))
        self._measure = library.od_measure
        self._code = 0
        self._thread: Thread | None = None
        if must_run or self.nbytes > _MIN_BACKGROUND_NBYTES:
            from threading import Thread

            self._thread = Thread(target=self._run)
            self._thread.start()

    def _run(self) -> None:
        self._code = self._measure(ctypes.byref(self._batch))

    def wait(self, progress: Callable[[int], None]) -> None:
        """Wait until everything is measured; `progress` is called from time to time with the number of bytes done."""
        if self._thread is None:
            self._run()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.1)
            progress(self._batch.done)
        if self._code:
            raise MemoryError

    def end(self) -> None:
        """Cancel what is not measured yet; must be called if the result is not waited for."""
        self._batch.cancelled = 1
        if self._thread is not None:
            self._thread.join()


class Packed(Struct, frozen=True):
    """Jobs in the representation of the kernel."""

    jobs: array[int]
    axes: array[int]
    paths: bytes

    def batch(self, rows: int | None, threads: int) -> Batch:
        """Return the argument of the kernel; `rows` is the address of the results. It does not own its arrays."""
        return Batch(
            self.jobs.buffer_info()[0],
            rows,
            self.axes.buffer_info()[0],
            ctypes.cast(ctypes.c_char_p(self.paths), ctypes.c_void_p),
            len(self.jobs) * self.jobs.itemsize // _SIZES[2],
            len(self.axes) // 4,
            len(self.paths),
            threads,
            _MAX_RESIDENT,
        )


def examine(function: str, job: NativeJob, *arguments: object) -> bool:
    """Call another function of the kernel for one pair; false without a kernel, or if it cannot read the pair."""
    library = find_library()
    if library is None:
        return False
    packed = pack([job], 0)
    return bool(getattr(library, function)(ctypes.byref(packed.batch(None, 1)), *arguments) == 0)


def pack(jobs: Sequence[NativeJob], flags: int) -> Packed:
    """Pack jobs, the axes of all sides, and the paths of their files."""
    numbers, axes, paths, offsets = list[int](), list[int](), bytearray(), dict[str, int]()
    for job in jobs:
        for side in (job.target, job.golden):
            at = -1 if side.data else offsets.setdefault(side.path, len(paths))
            if at == len(paths):
                paths += os.fsencode(side.path) + b"\0"
            numbers += (at, side.data, side.offset, side.nbytes, *_kind(side.dtype), len(axes) // 4, len(side.axes))
            for axis in side.axes:
                axes += axis
        numbers += (*_count_and_run(job.shape), *scale_of(job.target.dtype, job.golden.dtype), flags)
    return Packed(array("q", numbers), array("q", axes), bytes(paths))


def _count_and_run(shape: tuple[int, ...]) -> tuple[int, int]:
    count, run = 1, 0
    for extent in reversed(shape):
        count *= extent
        if not run and count >= _BLOCK:
            run = count
    return count, run


@lru_cache(maxsize=64)
def _kind(dtype: DType) -> tuple[int, int]:
    """Return the kind of an element type, and the address of its table if it has one."""
    if dtype.kind is Kind.FLOAT and dtype.bits == 8:
        return _TABLE_KIND, ctypes.addressof(_table(dtype))
    real = COMPLEX_PARTS.get(dtype, dtype)
    return _KINDS["bfloat16" if real is dtypes.BFLOAT16 else real.decoded], 0


@lru_cache(maxsize=16)
def _table(dtype: DType) -> ctypes.Array[ctypes.c_float]:
    from opdiff.core.dtypes import small_float_value

    return (ctypes.c_float * 256)(*(small_float_value(code, dtype) for code in range(256)))


@lru_cache(maxsize=256)
def scale_of(target: DType, golden: DType) -> UlpScale:
    """Return the unit of distances between two types."""
    return find_scale(COMPLEX_PARTS.get(target, target), COMPLEX_PARTS.get(golden, golden))
