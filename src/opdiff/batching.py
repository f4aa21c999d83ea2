"""Many pairings to their numbers at once: what the native kernel can measure where it is stored.

    Pairing ──places of both sides──► align ──axes──► NativeJob, … ──one call──► Sums, … ──► Measured

A layout is undone by telling the kernel where each element is. Pairings for which that cannot be told are left for
`measuring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from opdiff.align.pairs import align_pair
from opdiff.errors import OpdiffError
from opdiff.measure import native
from opdiff.measuring import failed, measured, reason_of
from opdiff.places import NotPlaces, Places
from opdiff.source import MAX_RANK, FileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.align.pairs import AlignedPair
    from opdiff.comparison import Measured
    from opdiff.elements import AnyArray
    from opdiff.measuring import MeasureJob
    from opdiff.model import Tensor

    Progress = Callable[[int], None]


class Batched(NamedTuple):
    """What came of a batch: pairings with their numbers, or why they have none, and those that are left."""

    done: list[tuple[MeasureJob, Measured]]
    left: list[MeasureJob]


def measure_batch(jobs: Sequence[MeasureJob], threads: int, progress: Progress) -> Batched:
    """Measure all pairings that the native kernel can; the others are `left`, in order."""
    done: list[tuple[MeasureJob, Measured]] = []
    ready: list[tuple[MeasureJob, AlignedPair, native.NativeJob]] = []
    left: list[MeasureJob] = []
    for job in jobs:
        try:
            prepared = _prepare(job)
        except OpdiffError as error:
            done.append((job, failed(job, reason_of(error))))
            continue
        if prepared is None:
            left.append(job)
        else:
            ready.append((job, *prepared))
    with_kl = any(job.extras.with_kl for job in jobs)
    results = native.measure_all([row[2] for row in ready], threads, progress, with_kl=with_kl)
    for (job, pair, _), result in zip(ready, results, strict=True):
        if not isinstance(result, native.Failure):
            done.append((job, measured(job, pair, *result)))
        elif result.reason:
            done.append((job, failed(job, result.reason)))
        else:
            left.append(job)
    return Batched(done, sorted(left, key=lambda job: job.number))


def is_possible(jobs: Sequence[MeasureJob]) -> bool:
    """Whether there is a kernel, and nothing is wanted that it does not know."""
    if not jobs or native.find_library() is None:
        return False
    extras = jobs[0].extras
    return not extras.metrics and extras.conversions is None


def _prepare(job: MeasureJob) -> tuple[AlignedPair, native.NativeJob] | None:
    """Where the elements of both sides are, in one order; `None` when that cannot be told."""
    target, golden = job.pairing.target, job.pairing.golden
    if not (_is_plain(target) and _is_plain(golden) and native.is_known(target.spec.dtype, golden.spec.dtype)):
        return None
    sides = _places(target), _places(golden)
    try:
        pair = align_pair(job.pairing, cast("AnyArray", sides[0]), cast("AnyArray", sides[1]))
        operands = [
            _operand(tensor, found, before)
            for tensor, found, before in zip((target, golden), (pair.target, pair.golden), sides, strict=True)
        ]
    except NotPlaces:
        return None
    return pair, native.NativeJob(operands[0], operands[1], _parts(pair.shape, target))


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


def _operand(tensor: Tensor, found: object, before: Places) -> native.Operand:
    source, spec = tensor.source, tensor.spec
    if not isinstance(source, FileRange) or not isinstance(found, Places):
        raise NotPlaces
    is_plain = (found is before and not source.fortran_order) or not found.size
    axes = [] if is_plain else found.in_two_digits()
    if axes and native.parts_of(spec.dtype) > 1:
        # Both parts of a complex number lie side by side.
        axes = [(extent, split, 2 * outer, 2 * inner) for extent, split, outer, inner in axes] + [(2, 1, 1, 0)]
    return native.Operand(source.path, source.offset, spec.dtype.nbytes(spec.count), spec.dtype, axes)


def _parts(shape: tuple[int, ...], tensor: Tensor) -> tuple[int, ...]:
    parts = native.parts_of(tensor.spec.dtype)
    return shape if parts == 1 else (*shape, parts)
