"""The native kernel: many pairs of tensors in one call, measured by threads inside it.

    jobs ──numbers in arrays──► one call ──► rows, which `native_results` reads

The library is loaded with `ctypes`. `native/opdiff_kernel.h` describes the numbers that go in and come out.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Thread

    from opdiff.core.dtypes import DType
    from opdiff.measure.reference.ulp import UlpScale

_LIBRARY = os.path.join(os.path.dirname(__file__), "_kernel.so")
_VERSION = 4
# Bytes of od_axis, od_side, od_job, od_result and od_batch.
_SIZES = (32, 64, 168, 904, 88)
ROW = _SIZES[3]

_KINDS = {
    "float16": 0, "bfloat16": 1, "float32": 2, "float64": 3, "bool": 5, "int8": 6, "uint8": 7, "int16": 8, "uint16": 9,
    "int32": 10, "uint32": 11, "int64": 12, "uint64": 13,
}  # fmt: skip
_TABLE = 4
_PARTS = {dtypes.COMPLEX64: "float32", dtypes.COMPLEX128: "float64", dtypes.COMPLEX32: "float16"}
_WITH_KL, _FOR_GRAPHS = 1, 2

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
        library.od_axis_errors.restype = ctypes.c_int64
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


class Call:
    """Pairs that are measured: by other threads while this one does something else, or when the result is waited for.

    The former is done where it is long enough, or when it `must_run` at once. `rows` has `ROW` bytes for each of the
    `jobs`, in order: what `native_results` makes results of.
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
        """Begin, where something is to run at once.

        Args:
            jobs: pairs whose types `is_known`.
            threads: how many work at once; the results are the same for any number of them.
            with_kl: also measure the divergence, which takes a second pass.
            for_graphs: also measure what graph mode needs, which does, too.
            must_run: at once, in any case.
        """
        library = find_library()
        if library is None:
            raise RuntimeError("the native kernel is not there")
        self.nbytes = sum(job.target.nbytes + job.golden.nbytes for job in jobs)
        self.jobs, self.with_kl = jobs, with_kl
        self._packed = pack(jobs, (_WITH_KL if with_kl else 0) | (_FOR_GRAPHS if for_graphs else 0))
        self.rows = ctypes.create_string_buffer(ROW * max(len(jobs), 1))
        self._batch = self._packed.batch(ctypes.addressof(self.rows), max(threads, 1))
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
    numbers, axes, texts, places = list[int](), list[int](), bytearray(), dict[str, int]()
    for target, golden, shape in jobs:
        for path, offset, nbytes, dtype, side_axes, data in (target, golden):
            at = -1 if data else places.setdefault(path, len(texts))
            if at == len(texts):
                texts += os.fsencode(path) + b"\0"
            numbers += (at, data, offset, nbytes, *_kind(dtype), len(axes) // 4, len(side_axes))
            for axis in side_axes:
                axes += axis
        numbers += (*_count_and_run(shape), *scale_of(target.dtype, golden.dtype), flags)
    return Packed(array("q", numbers), array("q", axes), bytes(texts))


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
    from opdiff.core.float_formats import small_value

    return (ctypes.c_float * 256)(*(small_value(code, dtype) for code in range(256)))


@lru_cache(maxsize=256)
def scale_of(target: DType, golden: DType) -> UlpScale:
    """The steps in which the distances between two types are counted."""
    from opdiff.measure.reference.ulp import find_scale

    return find_scale(*(dtypes.BY_NAME[_PARTS[dtype]] if dtype in _PARTS else dtype for dtype in (target, golden)))
