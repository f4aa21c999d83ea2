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
    from opdiff.comparison import Measured, Pairing
    from opdiff.elements import AnyArray
    from opdiff.measure.sums import Sums
    from opdiff.measuring import MeasureJob
    from opdiff.model import Shape, Tensor

    Axes = tuple[tuple[int, int, int, int], ...]
    Progress = Callable[[int], None]


class Batched(NamedTuple):
    """What came of a batch: pairings with their numbers, or why they have none, and those that are left."""

    done: list[tuple[MeasureJob, Measured]]
    left: list[MeasureJob]


def measure_batch(jobs: Sequence[MeasureJob], threads: int, progress: Progress) -> Batched:
    """Measure all pairings that the native kernel can; the others are `left`, in order."""
    done: list[tuple[MeasureJob, Measured]] = []
    left: list[MeasureJob] = []
    what = Wanted(with_kl=any(job.extras.with_kl for job in jobs))
    for job, result in zip(jobs, sums_of([job.pairing for job in jobs], what, threads, progress), strict=True):
        if isinstance(result, Summed):
            done.append((job, measured(job, *result)))
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


def sums_of(pairings: Sequence[Pairing], what: Wanted, threads: int, progress: Progress) -> list[Summed | str]:
    """The sums of every pairing, in order, or why there are none; empty: the kernel cannot, others may."""
    found: list[Summed | str] = [""] * len(pairings)
    ready: list[tuple[int, AlignedPair, native.NativeJob]] = []
    # Networks repeat themselves: what is alike in every respect is aligned once.
    known: dict[object, _Aligned | OpdiffError | None] = {}
    for place, pairing in enumerate(pairings):
        alike = _alike(pairing)
        if alike not in known:
            known[alike] = _align(pairing)
        aligned = known[alike]
        if isinstance(aligned, OpdiffError):
            found[place] = reason_of(aligned)
        elif aligned is not None:
            sides = _operand(pairing.target, aligned.target), _operand(pairing.golden, aligned.golden)
            ready.append((place, aligned.pair, native.NativeJob(*sides, aligned.shape)))
    jobs = [row[2] for row in ready]
    results = native.measure_all(jobs, threads, progress, with_kl=what.with_kl, for_graphs=what.for_graphs)
    for (place, pair, _), result in zip(ready, results, strict=True):
        found[place] = result.reason if isinstance(result, native.Failure) else Summed(pair, *result)
    return found


def is_possible(jobs: Sequence[MeasureJob]) -> bool:
    """Whether there is a kernel, and nothing is wanted that it does not know."""
    if not jobs or native.find_library() is None:
        return False
    extras = jobs[0].extras
    return not extras.metrics and extras.conversions is None


class _Aligned(NamedTuple):
    """Two aligned sides, the axes by which the kernel finds their elements, and the shape in which it sees them."""

    pair: AlignedPair
    target: Axes
    golden: Axes
    shape: Shape


def _alike(pairing: Pairing) -> tuple[object, ...]:
    """Everything that alignment goes by."""
    return pairing.layout, pairing.origin_shape, *_kind(pairing.target), *_kind(pairing.golden)


def _kind(tensor: Tensor) -> tuple[object, ...]:
    spec, source = tensor.spec, tensor.source
    shapes = spec.shape, spec.origin_shape
    if not isinstance(source, FileRange):
        return spec.dtype, spec.layout, spec.groups, shapes, type(source)
    return spec.dtype, spec.layout, spec.groups, shapes, source.nbytes, source.big_endian, source.fortran_order


def _align(pairing: Pairing) -> _Aligned | OpdiffError | None:
    """Where the elements of both sides are, in one order; `None` when that cannot be told."""
    target, golden = pairing.target, pairing.golden
    if not (_is_plain(target) and _is_plain(golden) and native.is_known(target.spec.dtype, golden.spec.dtype)):
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
    return _Aligned(pair, *axes, pair.shape if parts == 1 else (*pair.shape, parts))


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


def _operand(tensor: Tensor, axes: Axes) -> native.Operand:
    source, spec = cast("FileRange", tensor.source), tensor.spec
    return native.Operand(source.path, source.offset, spec.dtype.nbytes(spec.count), spec.dtype, axes)
