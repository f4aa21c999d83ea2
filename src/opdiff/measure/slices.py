"""Where in a tensor its errors are: how large they are in the slices of each axis.

    shape ──cuts_of──► Cut, …    count ──sample_of──► Sample    both, and the data ──► Slice, … for each cut

`native_slices` looks at the data; `measure_slices` says the same in NumPy, and is used where that cannot. Equal
infinities, and NaNs on both sides, are no error.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape

    Codes = Callable[[int, int], AnyArray]

MOST_SLICES = 256
"""Along longer axes neighbours are taken together."""

MOST_ELEMENTS = 1 << 20
"""Of larger tensors only some stretches are looked at."""

_BLOCK, _LONG = 1 << 10, 1 << 16
_STRETCH, _STRETCHES = 64, 4096
# Multiples of it, without their whole parts, are spread evenly however many there are.
_GOLDEN_RATIO = 0.6180339887498949
# Squares of larger errors are beyond the range of doubles.
_LARGEST = 1e150


class Cut(NamedTuple):
    """An axis in slices of `width` indices; `behind` elements lie behind each index."""

    axis: int
    extent: int
    behind: int
    width: int

    @property
    def slices(self) -> int:
        """How many there are."""
        return -(-self.extent // self.width)


class Sample(NamedTuple):
    """Which of `count` elements are looked at: `length` of them, or as many as there are, from each start on."""

    starts: Sequence[int]
    length: int
    count: int  # type: ignore[assignment]  # hides tuple.count

    @property
    def seen(self) -> int:
        """How many elements that are; some may be counted twice."""
        return min(self.length * len(self.starts), self.count)

    @property
    def share(self) -> float:
        """Of all elements."""
        return self.seen / self.count if self.count else 1.0


class Slice(NamedTuple):
    """The errors in one slice: of how many elements, how many are not finite; squares and largest of the others."""

    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    not_finite: int = 0
    squares: float = 0.0
    largest: float = 0.0

    @property
    def mean_square(self) -> float:
        """Of the errors that are finite."""
        finite = self.count - self.not_finite
        return self.squares / finite if finite else 0.0


def cuts_of(shape: Shape, parts: int = 1) -> tuple[Cut, ...]:
    """Every axis that has slices; an element of the shape is so many numbers."""
    return tuple(
        Cut(axis, extent, parts * prod(shape[axis + 1 :]), -(-extent // MOST_SLICES))
        for axis, extent in enumerate(shape)
        if extent > 1
    )


def sample_of(count: int) -> Sample:
    """All elements, or of many some stretches that are spread evenly."""
    if count <= MOST_ELEMENTS:
        return Sample(range(0, count, _BLOCK), _BLOCK, count)
    room = count - _STRETCH + 1
    starts = [int(number * _GOLDEN_RATIO % 1.0 * room) for number in range(_STRETCHES)]
    return Sample(starts, _STRETCH, count)


def explained(slices: Sequence[Slice]) -> float:
    """How much it says about the errors of a tensor to know the slice: 0 when all have the same, 1 when one has all."""
    special = any(each.not_finite for each in slices)
    sizes = [each.not_finite / each.count if special else each.mean_square for each in slices if each.count]
    total = sum(sizes)
    if len(sizes) < 2 or not total:
        return 0.0
    evenly = 1 / len(sizes)
    return (sum((size / total) ** 2 for size in sizes) - evenly) / (1 - evenly)


def measure_slices(
    target: Codes, target_dtype: DType, golden: Codes, golden_dtype: DType, cuts: Sequence[Cut], sample: Sample
) -> list[tuple[Slice, ...]]:
    """The errors in the slices of each cut. Both sides give the codes from one element to before another.

    Raises:
        ElementError: a type has no numbers, or only one of the two is complex.
    """
    import numpy as np

    squares, largest = ([np.zeros(cut.slices) for cut in cuts] for _ in range(2))
    counts, not_finite = ([np.zeros(cut.slices, np.int64) for cut in cuts] for _ in range(2))
    for start, errors in _iter_errors(target, target_dtype, golden, golden_dtype, sample):
        finite = np.isfinite(errors)
        sizes = np.where(finite, errors, 0.0)
        numbers = np.arange(start, start + errors.size)
        for number, cut in enumerate(cuts):
            places = numbers // cut.behind % cut.extent // cut.width
            counts[number] += np.bincount(places, minlength=cut.slices)
            not_finite[number] += np.bincount(places[~finite], minlength=cut.slices)
            squares[number] += np.bincount(places, np.square(np.minimum(sizes, _LARGEST)), cut.slices)
            np.maximum.at(largest[number], places, sizes)
    columns = zip(counts, not_finite, squares, largest, strict=True)
    return [tuple(map(Slice, *(column.tolist() for column in four))) for four in columns]


def _iter_errors(
    target: Codes, target_dtype: DType, golden: Codes, golden_dtype: DType, sample: Sample
) -> Iterator[tuple[int, AnyArray]]:
    """Stretches of errors without their signs, and at which number each begins."""
    import numpy as np

    from opdiff.measure.reference.block_values import decode_block, real_codes, real_type

    types = real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)
    parts = 1 if types[0] is target_dtype else 2
    for start, stop in _spans(sample):
        first, last = start // parts, -(-stop // parts)
        x = decode_block(real_codes(target(first, last), target_dtype), types[0]).values()
        y = decode_block(real_codes(golden(first, last), golden_dtype), types[1]).values()
        with np.errstate(all="ignore"):
            errors = np.abs(x - y)
        errors[(x == y) | (np.isnan(x) & np.isnan(y))] = 0.0
        yield start, errors[start - first * parts : stop - first * parts]


def _spans(sample: Sample) -> Iterator[tuple[int, int]]:
    """The stretches of a sample; where it is everything, longer ones, which NumPy takes faster."""
    if isinstance(sample.starts, range):
        yield from ((start, start + _LONG) for start in range(0, sample.seen, _LONG))
        return
    yield from ((start, start + sample.length) for start in sample.starts)
