"""Measurement of many pairings by one call of the kernel, which reads elements in their stored order.

    Pairing ──strides of both sides──► align ──axes──► NativeJob, … ──one call──► Sums, … ──► Row

The kernel gets the strides of each layout. Pairs whose layouts strides cannot express are left to `job`.
Data of remote and of short tensors is in memory (`Payloads`); the kernel reads other data from files.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from opdiff.align.pairs import align_strided
from opdiff.core.errors import DumpError, OpdiffError
from opdiff.core.reasons import Status, because
from opdiff.core.remote.urls import is_remote
from opdiff.core.source import MAX_RANK, FileRange
from opdiff.core.strides import SplitAxis
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel.results import Failure, unpack_sums
from opdiff.workflows.compare.job import JobOutcome, data_row, failed, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opdiff.align.pairs import AlignedPair
    from opdiff.core.dtypes import DType
    from opdiff.core.dump import SideTensor
    from opdiff.core.pairing import Pairing
    from opdiff.core.reasons import Reason
    from opdiff.core.remote.store import Data
    from opdiff.core.tensor import Shape, Tensor
    from opdiff.measure.sums import Sums
    from opdiff.workflows.compare.job import Job

    Axes = tuple[SplitAxis, ...]
    Progress = Callable[[int], None]

# While the kernel measures this many pairs, the next pairs are prepared.
_PAIRS_PER_CALL = 300
_COMPLEX_PARTS = SplitAxis(2, 1, 1, 0)
# Modules of judge and reports, which are imported while the kernel measures: a short comparison is mostly imports. In a
# longer one they would only take memory earlier.
_LATER_MODULES = (
    "opdiff.workflows.compare.judging",
    "opdiff.workflows.compare.outputs",
    "opdiff.report.html_page",
)
_MAX_SHORT_NBYTES = 1 << 30
# Remote data in memory during one call; there are two calls at a time.
_MAX_CALL_NBYTES = 256 << 20


class Batched(Struct, frozen=True):
    """Measured jobs with their outcomes, and the remaining jobs."""

    done: list[tuple[Job, JobOutcome]]
    left: list[Job]


def measure_batch(jobs: Sequence[Job], threads: int, progress: Progress) -> Batched:
    """Measure all jobs that the kernel supports; the others are returned as `left`, in order."""
    chosen = [job for job in jobs if job.has_data] if _is_possible(jobs) else []
    done: list[tuple[Job, JobOutcome]] = []
    for job, found in zip(chosen, _iter_sums(chosen, threads, progress), strict=True):
        if isinstance(found, Summed):
            done.append((job, outcome_of(data_row, job, found.pair, found.sums, found.kl)))
        elif found is not None:
            done.append((job, JobOutcome(failed(job, found))))
    numbers = {job.number for job, _ in done}
    return Batched(done, [job for job in jobs if job.number not in numbers])


def _is_possible(jobs: Sequence[Job]) -> bool:
    """Return whether there is a kernel, and the options require no other measurements."""
    if not jobs or native.find_library() is None:
        return False
    options = jobs[0].options
    return not options.metrics and options.conversions is None


class Summed(Struct, frozen=True, gc=False):
    """An aligned pair, whose codes are `StridedView`, its sums, and its divergence."""

    pair: AlignedPair
    sums: Sums
    kl: float | None


def _iter_sums(jobs: Sequence[Job], threads: int, progress: Progress) -> Iterator[Summed | Reason | None]:
    """Yield the sums of every job in order, or why there are none; `None` if the kernel does not support the pair.

    While the kernel measures some pairs, the next pairs are prepared, and earlier results are yielded. While it
    measures the last ones, the modules of the later stages are imported.
    """
    # Layers of a network repeat: pairs with equal descriptions are aligned once.
    known: dict[object, _Aligned | OpdiffError | None] = {}
    with_kl = any(job.pairing.unit is None and job.options.with_kl for job in jobs)
    for_graphs = any(job.pairing.unit is not None for job in jobs)
    must_run = threads > 1 and len(jobs) > _PAIRS_PER_CALL
    running: _Running | None = None
    before = 0
    try:
        for some in _calls_of(jobs):
            aligned = [_align_once(job.pairing, known) for job in some]
            supported = (job.pairing for job, found in zip(some, aligned, strict=True) if isinstance(found, _Aligned))
            payloads = fetch_payloads(supported)
            prepared = [_prepare(job.pairing, found, payloads) for job, found in zip(some, aligned, strict=True)]
            if running is not None:
                running.wait(progress)
                before += running.call.nbytes
            native_jobs = [item.job for item in prepared if isinstance(item, _Prepared)]
            call = native.Call(native_jobs, threads, with_kl=with_kl, for_graphs=for_graphs, must_run=must_run)
            done, running = running, _Running(prepared, call, before, payloads)
            if done is not None:
                yield from _results(done)
        if running is not None:
            # Processes that only measure have one thread.
            if threads > 1 and before + running.call.nbytes < _MAX_SHORT_NBYTES:
                for name in _LATER_MODULES:
                    import_module(name)
            running.wait(progress)
            yield from _results(running)
    finally:
        if running is not None:
            running.call.end()


class _Prepared(Struct, frozen=True, gc=False):
    """An aligned pair, and its job for the kernel."""

    pair: AlignedPair
    job: native.NativeJob


class _Running(Struct, frozen=True):
    """A running call of the kernel.

    Attributes:
        pairings: the prepared pairs, or why they cannot be measured; `None` if the kernel does not support the pair.
        call: the running call.
        before: bytes measured by earlier calls.
        payloads: data of remote tensors, which must be kept until the call ends.
    """

    pairings: list[_Prepared | Reason | None]
    call: native.Call
    before: int
    payloads: Payloads

    def wait(self, progress: Progress) -> None:
        """Wait until all pairs are measured."""
        self.call.wait(lambda done: progress(self.before + done))


def _align_once(pairing: Pairing, known: dict[object, _Aligned | OpdiffError | None]) -> _Aligned | OpdiffError | None:
    key = _alignment_key(pairing)
    try:
        return known[key]
    except KeyError:
        aligned = known[key] = _align(pairing)
        return aligned


def _prepare(pairing: Pairing, aligned: _Aligned | OpdiffError | None, payloads: Payloads) -> _Prepared | Reason | None:
    if aligned is None:
        return None
    if isinstance(aligned, OpdiffError):
        return aligned.reason
    try:
        return _Prepared(aligned.pair, _job(pairing, aligned, payloads))
    except OpdiffError as error:
        return error.reason


def _results(running: _Running) -> Iterator[Summed | Reason | None]:
    results = iter(unpack_sums(running.call))
    for prepared in running.pairings:
        if not isinstance(prepared, _Prepared):
            yield prepared
            continue
        result = next(results)
        if isinstance(result, Failure):
            yield result.reason
        else:
            yield Summed(prepared.pair, *result)


def native_job(pairing: Pairing) -> tuple[AlignedPair, native.NativeJob, Payloads] | None:
    """Return an aligned pair, its job for the kernel, and data that must be kept until the kernel has measured it.

    `None` if the pair is not supported, or cannot be aligned or fetched.
    """
    aligned = _align(pairing)
    if aligned is None or isinstance(aligned, OpdiffError):
        return None
    payloads = fetch_payloads([pairing])
    try:
        return aligned.pair, _job(pairing, aligned, payloads), payloads
    except OpdiffError:
        return None


class _Aligned(Struct, frozen=True):
    """An aligned pair, fields of the `native.Operand` of each side (number of bytes, type, axes), and their shape."""

    pair: AlignedPair
    target: tuple[int, DType, Axes]
    golden: tuple[int, DType, Axes]
    shape: Shape


def _alignment_key(pairing: Pairing) -> tuple[object, ...]:
    """Return all facts that alignment depends on."""
    return pairing.declared, *_tensor_key(pairing.target.data), *_tensor_key(pairing.golden.data)


def _tensor_key(tensor: Tensor) -> tuple[object, ...]:
    spec, source = tensor.spec, tensor.source
    shapes = spec.shape, spec.origin_shape
    if not isinstance(source, FileRange):
        return spec.dtype, spec.layout, spec.groups, shapes, type(source)
    return spec.dtype, spec.layout, spec.groups, shapes, source.nbytes, source.big_endian, source.fortran_order


def _align(pairing: Pairing) -> _Aligned | OpdiffError | None:
    """Align both sides by strides; `None` if that is not possible."""
    target, golden, declared = pairing.operands
    if not (_is_plain(target) and _is_plain(golden) and native.is_supported(target.spec.dtype, golden.spec.dtype)):
        return None
    try:
        strided = align_strided(target, golden, declared)
    except OpdiffError as error:
        return error
    if strided is None:
        return None
    pair = strided.pair
    parts = native.parts_of(target.spec.dtype)
    shape = pair.shape if parts == 1 else (*pair.shape, parts)
    fields = _operand_fields(target, strided.target_axes), _operand_fields(golden, strided.golden_axes)
    return _Aligned(pair, *fields, shape)


def _is_plain(tensor: Tensor) -> bool:
    """Return whether all bytes are in a file, in little-endian order."""
    spec, source = tensor.spec, tensor.source
    return (
        isinstance(source, FileRange)
        and not source.big_endian
        and len(spec.shape) <= MAX_RANK
        and spec.dtype.nbytes(spec.count) <= source.nbytes
    )


def _operand_fields(tensor: Tensor, axes: Axes) -> tuple[int, DType, Axes]:
    spec = tensor.spec
    if axes and native.parts_of(spec.dtype) > 1:
        # Real and imaginary part are stored next to each other.
        axes = (*(SplitAxis(axis.extent, axis.split, 2 * axis.outer, 2 * axis.inner) for axis in axes), _COMPLEX_PARTS)
    return spec.dtype.nbytes(spec.count), spec.dtype, axes


def _job(pairing: Pairing, aligned: _Aligned, payloads: Payloads) -> native.NativeJob:
    target, golden = cast("FileRange", pairing.target.data.source), cast("FileRange", pairing.golden.data.source)
    return native.NativeJob(
        native.Operand(target.path, target.offset, *aligned.target, payloads.address(target)),
        native.Operand(golden.path, golden.offset, *aligned.golden, payloads.address(golden)),
        aligned.shape,
    )


# Data in memory, which the kernel does not read from files itself: short tensors were read with the headers of their
# files. Remote tensors are fetched for one call while the kernel measures the tensors of the call before.


class Payloads:
    """Data of remote and of short tensors; in memory as long as this object is."""

    def __init__(
        self,
        found: Mapping[FileRange, Data | OSError] | None = None,
        kept: Mapping[tuple[str, int, int], bytes] | None = None,
    ) -> None:
        self._found = found or {}
        kept = kept or {}
        self._joined = b"".join(kept.values())
        starts = accumulate(map(len, kept.values()), initial=_address(self._joined) if kept else 0)
        self._starts = dict(zip(kept, starts, strict=False))

    def address(self, source: FileRange) -> int:
        """Return the address of the data of a tensor; 0 if the data is in a file of this machine.

        Raises:
            DumpError: the data could not be fetched, or its file is too short.
        """
        start = self._starts.get((source.path, source.offset, source.nbytes))
        if start is not None:
            return start
        if not is_remote(source.path):
            return 0
        data = self._found[source]
        if isinstance(data, OSError):
            raise DumpError(
                source.path, because("core.cannot_read", Status.NOT_HERE, error=data.strerror), source.offset
            ) from data
        if len(data) < source.nbytes:
            problem = because("core.file_ends", nbytes=source.nbytes, size=source.offset + len(data))
            raise DumpError(source.path, problem, source.offset)
        return _address(data)


def _address(data: Data) -> int:
    # An empty tensor needs an address, too, which is never read.
    data = data or b"\0"
    if isinstance(data, bytes):
        return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
    import numpy as np

    return int(np.frombuffer(data, np.uint8).ctypes.data)


def _calls_of(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Divide jobs into calls of the kernel, by number of pairs, and by bytes that are remote."""
    start = nbytes = 0
    for end, job in enumerate(jobs):
        more = _remote_nbytes(job.pairing.target) + _remote_nbytes(job.pairing.golden)
        if end - start == _PAIRS_PER_CALL or (nbytes and nbytes + more > _MAX_CALL_NBYTES):
            yield jobs[start:end]
            start, nbytes = end, 0
        nbytes += more
    if start < len(jobs):
        yield jobs[start:]


def fetch_payloads(pairings: Iterable[Pairing]) -> Payloads:
    """Return the payloads of some pairings; remote tensors are fetched."""
    kept: dict[tuple[str, int, int], bytes] = {}
    sources: dict[FileRange, None] = {}
    for pairing in pairings:
        for side in (pairing.target, pairing.golden):
            source = side.data.source
            if not isinstance(source, FileRange):
                continue
            data = source.kept
            if data is not None:
                kept[source.path, source.offset, source.nbytes] = data
            elif is_remote(source.path):
                sources[source] = None
    if not sources:
        return Payloads({}, kept)
    from opdiff.core.remote.stores import fetch_all

    return Payloads(dict(zip(sources, fetch_all([*sources]), strict=True)), kept)


def is_remote_pair(pairing: Pairing) -> bool:
    """Return whether a tensor is remote."""
    tensors = (pairing.target.tensor, pairing.golden.tensor)
    return any(tensor is not None and is_remote(tensor.source.path) for tensor in tensors)


def _remote_nbytes(side: SideTensor) -> int:
    """Return the size of a tensor that has to be fetched; 0 for others."""
    source = side.data.source
    return source.nbytes if isinstance(source, FileRange) and is_remote(source.path) else 0
