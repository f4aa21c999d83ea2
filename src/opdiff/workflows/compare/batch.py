"""Many pairings to their numbers at once: what the native kernel can measure where it is stored.

    Pairing ──places of both sides──► align ──axes──► NativeJob, … ──one call──► Metrics, … ──► Measured

A layout is undone by telling the kernel where each element is. Pairings for which that cannot be told are left for
`measuring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from opdiff.align.pairs import align_pair
from opdiff.core.errors import OpdiffError
from opdiff.core.source import MAX_RANK, FileRange
from opdiff.core.strides import NotPlaces, Places
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel.results import Failure, unpack_sums
from opdiff.measure.metrics import metrics_of
from opdiff.workflows.compare.job import failed, measured, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.align.pairs import AlignedPair
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Measured, Pairing
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape, Tensor
    from opdiff.measure.sums import Sums
    from opdiff.workflows.compare.job import MeasureJob

    Axes = tuple[tuple[int, int, int, int], ...]
    Progress = Callable[[int], None]

# So many pairings are measured while as many are prepared.
_AT_ONCE = 300


class Batched(NamedTuple):
    """What came of a batch: pairings with their numbers, or why they have none, and those that are left."""

    done: list[tuple[MeasureJob, Measured]]
    left: list[MeasureJob]


def measure_batch(jobs: Sequence[MeasureJob], threads: int, progress: Progress) -> Batched:
    """Measure all pairings that the native kernel can; the others are `left`, in order."""
    done: list[tuple[MeasureJob, Measured]] = []
    left: list[MeasureJob] = []
    what = Wanted(with_kl=any(job.extras.with_kl for job in jobs))
    found = sums_of([job.pairing for job in jobs], what, threads, progress)
    for job, result in zip(jobs, found, strict=True):
        if not isinstance(result, str):
            pair, sums, kl = result
            done.append((job, measured(job, pair, metrics_of(sums, kl, is_scalar=sums.count == sums.parts))))
        elif result:
            done.append((job, failed(job, result)))
        else:
            left.append(job)
    return Batched(done, left)


class Wanted(NamedTuple):
    """What is measured beside the usual sums: the divergence, and what graph mode needs."""

    with_kl: bool = False
    for_graphs: bool = False


class Summed(NamedTuple):
    """An aligned pair, whose codes are `Places`, its sums, and its divergence."""

    pair: AlignedPair
    sums: Sums
    kl: float | None


def sums_of(pairings: Sequence[Pairing], what: Wanted, threads: int, progress: Progress) -> Iterator[Summed | str]:
    """Yield the sums of every pairing, in order, or why there are none; empty if the kernel does not support the pair.

    While the kernel measures some pairings, the next ones are prepared and the last ones are given out.
    """
    # Networks repeat themselves: what is alike in every respect is aligned once.
    known: dict[object, _Aligned | OpdiffError | None] = {}
    running: _Running | None = None
    before = 0
    try:
        for start in range(0, len(pairings), _AT_ONCE):
            some = [_prepared(pairing, known) for pairing in pairings[start : start + _AT_ONCE]]
            if running is not None:
                running.wait(progress)
                before += running.call.nbytes
            jobs = [prepared.job for prepared in some if isinstance(prepared, _Prepared)]
            call = native.Call(jobs, threads, **what._asdict(), must_run=threads > 1 and len(pairings) > _AT_ONCE)
            done, running = running, _Running(some, call, before)
            if done is not None:
                yield from _results(done)
        if running is not None:
            running.wait(progress)
            yield from _results(running)
    finally:
        if running is not None:
            running.call.end()


class _Prepared(NamedTuple):
    """Two aligned sides, and what the kernel gets of them."""

    pair: AlignedPair
    job: native.NativeJob


class _Running(NamedTuple):
    """Pairings that the kernel is at, in order; for some there is only a reason why it is not.

    Attributes:
        pairings: what was prepared, or why nothing was.
        call: the kernel at work.
        before: how many bytes were measured by earlier calls.
    """

    pairings: list[_Prepared | str]
    call: native.Call
    before: int

    def wait(self, progress: Progress) -> None:
        """Come back when everything is measured."""
        self.call.wait(lambda done: progress(self.before + done))


def _prepared(pairing: Pairing, known: dict[object, _Aligned | OpdiffError | None]) -> _Prepared | str:
    alike = _alike(pairing)
    try:
        aligned = known[alike]
    except KeyError:
        aligned = known[alike] = _align(pairing)
    if aligned is None:
        return ""
    if isinstance(aligned, OpdiffError):
        return reason_of(aligned)
    return _Prepared(aligned.pair, _job(pairing, aligned))


def _results(running: _Running) -> Iterator[Summed | str]:
    results = iter(unpack_sums(running.call))
    for prepared in running.pairings:
        if isinstance(prepared, str):
            yield prepared
            continue
        result = next(results)
        yield result.reason if isinstance(result, Failure) else Summed(prepared.pair, *result)


def is_possible(jobs: Sequence[MeasureJob]) -> bool:
    """Whether there is a kernel, and nothing is wanted that it does not know."""
    if not jobs or native.find_library() is None:
        return False
    extras = jobs[0].extras
    return not extras.metrics and extras.conversions is None


def native_job(pairing: Pairing) -> tuple[AlignedPair, native.NativeJob] | None:
    """A pairing as the kernel takes it; `None` when it cannot, or nobody can."""
    aligned = _align(pairing)
    if aligned is None or isinstance(aligned, OpdiffError):
        return None
    return aligned.pair, _job(pairing, aligned)


class _Aligned(NamedTuple):
    """Two aligned sides, what the kernel is told of the elements of each, and the shape in which it sees them.

    That is, as in `native.Operand`, how many bytes there are, the type, and the axes by which elements are found.
    """

    pair: AlignedPair
    target: tuple[int, DType, Axes]
    golden: tuple[int, DType, Axes]
    shape: Shape


def _alike(pairing: Pairing) -> tuple[object, ...]:
    """Everything that alignment goes by."""
    return pairing.layout, pairing.origin_shape, *_kind(pairing.target.data), *_kind(pairing.golden.data)


def _kind(tensor: Tensor) -> tuple[object, ...]:
    spec, source = tensor.spec, tensor.source
    shapes = spec.shape, spec.origin_shape
    if not isinstance(source, FileRange):
        return spec.dtype, spec.layout, spec.groups, shapes, type(source)
    return spec.dtype, spec.layout, spec.groups, shapes, source.nbytes, source.big_endian, source.fortran_order


def _align(pairing: Pairing) -> _Aligned | OpdiffError | None:
    """Where the elements of both sides are, in one order; `None` when that cannot be told."""
    target, golden = pairing.target.data, pairing.golden.data
    if not (_is_plain(target) and _is_plain(golden) and native.is_supported(target.spec.dtype, golden.spec.dtype)):
        return None
    sides = _places(target), _places(golden)
    try:
        pair = align_pair(pairing, cast("AnyArray", sides[0]), cast("AnyArray", sides[1]))
        axes = _axes(target, pair.target, sides[0]), _axes(golden, pair.golden, sides[1])
    except NotPlaces:
        return None
    except OpdiffError as error:
        return error
    parts = native.parts_of(target.spec.dtype)
    shape = pair.shape if parts == 1 else (*pair.shape, parts)
    return _Aligned(pair, _described(target, axes[0]), _described(golden, axes[1]), shape)


def _is_plain(tensor: Tensor) -> bool:
    """Whether its bytes are all in a file, as this machine orders them."""
    spec, source = tensor.spec, tensor.source
    return (
        isinstance(source, FileRange)
        and not source.big_endian
        and len(spec.shape) <= MAX_RANK
        and min(spec.shape, default=0) >= 0
        and spec.dtype.nbytes(spec.count) <= source.nbytes
    )


def _places(tensor: Tensor) -> Places:
    source = tensor.source
    return Places.of(tensor.spec.shape, fortran_order=isinstance(source, FileRange) and source.fortran_order)


def _axes(tensor: Tensor, found: object, before: Places) -> Axes:
    """How the kernel finds the elements; no axes when they are stored one behind the other."""
    if not isinstance(found, Places):
        raise NotPlaces
    is_plain = found is before and not (isinstance(tensor.source, FileRange) and tensor.source.fortran_order)
    if is_plain or not found.size:
        return ()
    axes = found.in_two_digits()
    if native.parts_of(tensor.spec.dtype) == 1:
        return tuple(axes)
    # Both parts of a complex number lie side by side.
    return (*((extent, split, 2 * outer, 2 * inner) for extent, split, outer, inner in axes), (2, 1, 1, 0))


def _described(tensor: Tensor, axes: Axes) -> tuple[int, DType, Axes]:
    spec = tensor.spec
    return spec.dtype.nbytes(spec.count), spec.dtype, axes


def _job(pairing: Pairing, aligned: _Aligned) -> native.NativeJob:
    target, golden = cast("FileRange", pairing.target.data.source), cast("FileRange", pairing.golden.data.source)
    return native.NativeJob(
        native.Operand(target.path, target.offset, *aligned.target),
        native.Operand(golden.path, golden.offset, *aligned.golden),
        aligned.shape,
    )
