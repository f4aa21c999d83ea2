"""Definition of measuring: two arrays of codes to `ExactSums`, block by block, with NumPy alone.

The native kernel is tested against it; it is also used if that is not built. Memory does not grow with the tensors.
Blocks start at multiples of `BLOCK`: parts of a tensor that start and end there can be measured separately and merged,
with the same result to the last bit. No threaded library is called, so the number of cores does not matter.

The bins of histograms and the largest distance are determined in single precision if that represents every number of
both sides.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache, reduce
from math import isfinite
from operator import sub
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core.dtypes import Kind
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES
from opdiff.measure.reference.block_values import (
    BlockValues,
    decode_block,
    exceeds_float64,
    fits_float32,
    real_codes,
    real_type,
)
from opdiff.measure.reference.exact_sums import (
    CentredValues,
    ExactPairSums,
    ExactSideSums,
    ExactSums,
    dot,
    scale,
    to_exact,
)
from opdiff.measure.reference.integer_sums import have_lost_digits, integer_sums, relative_sum
from opdiff.measure.sums import ZERO_THRESHOLD, ErrorDistribution, Extreme, NonFinitePairs, find_scale

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction
    from typing import Any

    import numpy.typing as npt

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.measure.reference.block_values import Floats
    from opdiff.measure.sums import Histogram, Number, Sums, UlpScale

    Mask = npt.NDArray[np.bool_]
    # Of single or double precision.
    AnyFloats = npt.NDArray[np.floating[Any]]
    Range = tuple[Number, Number]
    Extremes = tuple[Extreme, Extreme | None, Extreme]

# Larger than the L1 cache: the overhead of calls costs more than cache misses.
BLOCK = 1 << 16

# The C library retains at most twice as much, and does not adapt beyond 32 MB.
_RETAINED_BYTES = 16 << 20

_MAX_FLOAT = float(np.finfo(np.float64).max)
# Largest magnitudes for which errors and relative errors cannot overflow in single and in double precision.
_MAX_SINGLE = 2.0**70
_MAX_DOUBLE = 2.0**900
# Sums of larger relative errors may overflow.
_MAX_RELATIVE = 1e300


class _Precision(Struct, frozen=True):
    """Precision required by the element types of both sides.

    Attributes:
        ulps: unit of distances.
        single: single precision represents every number.
        double: double precision represents every number.
    """

    ulps: UlpScale
    single: bool
    double: bool


def measure_exact(target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType) -> ExactSums:
    """Return the sums over two arrays of codes with the same number of elements, in row-major order.

    Complex numbers are measured as twice as many real ones, the real part before the imaginary part.

    Raises:
        ElementError: a type has no numbers, or only one of the two is complex.
        ValueError: the numbers of elements differ.
    """
    if target.size != golden.size:
        raise ValueError(f"{target.size} elements cannot be compared with {golden.size}")
    _retain_memory()
    types = real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)
    precision = _Precision(find_scale(*types), all(map(fits_float32, types)), not any(map(exceeds_float64, types)))
    pairs = iter_blocks(target, target_dtype, golden, golden_dtype)
    parts = ExactSums(parts=2 if target_dtype.kind is Kind.COMPLEX else 1)
    return reduce(ExactSums.merge, (_measure_block(x, y, precision) for x, y in pairs), parts)


def measure(target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType) -> Sums:
    """Return the same as floats; raises like `measure_exact`."""
    found = measure_exact(target, target_dtype, golden, golden_dtype)
    return found.sums(find_scale(real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)))


def iter_blocks(
    target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType
) -> Iterator[tuple[BlockValues, BlockValues]]:
    """Yield the numbers of both sides, block by block, in row-major order."""
    types = real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)
    target, golden = real_codes(target, target_dtype), real_codes(golden, golden_dtype)
    for start in range(0, target.size, BLOCK):
        block = slice(start, start + BLOCK)
        yield decode_block(target[block], types[0]), decode_block(golden[block], types[1])


@lru_cache(maxsize=1)
def _retain_memory() -> None:
    """Make the C library retain the memory that one block frees and the next one needs.

    Otherwise it returns the memory to the system, which clears every page again. Freeing one large allocation (never
    touched) raises the threshold below which memory is retained.
    """
    np.empty(_RETAINED_BYTES, np.uint8)


def _measure_block(target: BlockValues, golden: BlockValues, precision: _Precision) -> ExactSums:
    # Overflows and invalid operations are detected in the results.
    with np.errstate(all="ignore"):
        ranges = target.extremes(), golden.extremes()
        if all(map(isfinite, (*ranges[0], *ranges[1]))):
            return _measure_finite(target, golden, ranges, precision)
        return _measure_any(target, golden, precision)


def _measure_any(target: BlockValues, golden: BlockValues, precision: _Precision) -> ExactSums:
    """Return the sums of a block with NaNs or infinities."""
    x, y = target.values(), golden.values()
    finite = np.isfinite(x), np.isfinite(y)
    both = finite[0] & finite[1]
    index = np.flatnonzero(both)
    part = _measure_block(target.select(both), golden.select(both), precision) if index.size else ExactSums()
    non_finite = _non_finite(x, y, finite)
    return ExactSums(
        len(both),
        part.unequal + non_finite.mismatches,
        _side(target, finite[0]),
        _side(golden, finite[1]),
        part.pairs,
        part.distribution,
        non_finite,
        _relocated(part.worst, index),
        _relocated(part.worst_relative, index),
        _relocated(part.worst_ulps, index),
    )


def _measure_finite(
    target: BlockValues, golden: BlockValues, ranges: tuple[Range, Range], precision: _Precision
) -> ExactSums:
    """Return the sums of a non-empty block without NaNs and infinities; `ranges` are those of both sides."""
    errors = _pair_errors(target, golden, single=precision.single)
    distribution, extremes = _distribution(target, golden, errors, precision)
    sides, pairs = _sums(target, golden, ranges, errors, precision)
    return ExactSums(len(errors.absolute), errors.unequal, *sides, pairs, distribution, NonFinitePairs(), *extremes)


# Errors of each pair


class _PairErrors(Struct, frozen=True):
    """Errors in the precision in which they are ranked and counted.

    Attributes:
        absolute: |x - y|.
        relative: |x - y| / |y|; 0 where the golden value counts as zero.
        larger: the larger of |x| and |y|.
        divisors: |y|, increased by 1 where it counts as zero, so that an equal pair has a relative error of 0.
        unequal: number of unequal pairs.
        excluded: unequal pairs whose golden value counts as zero.
        zero_golden: number of these.
    """

    absolute: AnyFloats
    relative: AnyFloats
    larger: AnyFloats
    divisors: AnyFloats
    unequal: int
    excluded: Mask
    zero_golden: int


def _pair_errors(target: BlockValues, golden: BlockValues, *, single: bool) -> _PairErrors:
    x, y = (target.float32(), golden.float32()) if single else (target.values(), golden.values())
    absolute = x - y if single else target.subtract(golden)
    np.abs(absolute, out=absolute)
    divisors = np.abs(y)
    larger = np.maximum(np.abs(x), divisors)
    unequal, near_zero = absolute != 0, divisors <= ZERO_THRESHOLD
    if near_zero.any():
        divisors += near_zero
    excluded = near_zero & unequal
    counts = int(np.count_nonzero(unequal)), int(np.count_nonzero(excluded))
    relative = _exclude(absolute / divisors, excluded, counts[1])
    if larger.max() > (_MAX_SINGLE if single else _MAX_DOUBLE):
        absolute, relative = _in_range(target, golden, absolute, relative)
    return _PairErrors(absolute, relative, larger, divisors, counts[0], excluded, counts[1])


def _exclude(relative: AnyFloats, excluded: Mask, count: int) -> AnyFloats:
    """Set relative errors to 0 where they are excluded."""
    if count:
        relative[excluded] = 0
    return relative


def _in_range(
    target: BlockValues, golden: BlockValues, absolute: AnyFloats, relative: AnyFloats
) -> tuple[AnyFloats, AnyFloats]:
    """Return both kinds of errors with those replaced that overflowed in single or double precision."""
    if absolute.dtype == np.float32:
        wide = _pair_errors(target, golden, single=False)
        within = wide.absolute, wide.relative
    else:
        # |x - y| may overflow although the quotient does not.
        within = absolute, np.minimum(np.abs(target.values() / golden.values() - 1), _MAX_FLOAT)
    return np.where(np.isfinite(absolute), absolute, within[0]), np.where(np.isfinite(relative), relative, within[1])


def _distribution(
    target: BlockValues, golden: BlockValues, errors: _PairErrors, precision: _Precision
) -> tuple[ErrorDistribution, Extremes]:
    """Return the distribution of the errors, and the largest ones."""
    distances = _ulp_distances(errors, precision.ulps)
    worst = _largest_error(target, golden, errors.absolute)
    relative = _largest_relative(target, golden, errors.relative, single=precision.single)
    ulps = worst if precision.ulps.digits < 0 else _extreme(distances, target, golden)
    distribution = _error_distribution(errors, distances, single=precision.single)
    return distribution, (worst, relative if relative.value else None, ulps)


def _ulp_distances(errors: _PairErrors, ulps: UlpScale) -> AnyFloats:
    """Return distances in units of the last place of the larger of both numbers."""
    if ulps.digits < 0:
        return errors.absolute
    powers = np.maximum(errors.larger, 2.0**ulps.min_exponent)
    # Clear the fraction: the bits of infinity are exactly those of the exponent.
    bits = powers.view(f"u{powers.itemsize}")
    bits &= np.array(np.inf, powers.dtype).view(bits.dtype)
    return errors.absolute / powers * 2.0**ulps.digits


def _error_distribution(errors: _PairErrors, distances: AnyFloats, *, single: bool) -> ErrorDistribution:
    equal, zero_golden = len(distances) - errors.unequal, errors.zero_golden
    one, five = (float(np.float32(edge)) if single else edge for edge in (0.001, 0.005))
    first, *rest = _histogram(errors.relative, RELATIVE_EDGES)
    nearest, *further = _histogram(distances, ULP_EDGES)
    return ErrorDistribution(
        int(np.count_nonzero(errors.relative >= one)) + zero_golden,
        int(np.count_nonzero(errors.relative >= five)) + zero_golden,
        zero_golden,
        (equal, first - equal - zero_golden, *rest[:-1], rest[-1] + zero_golden),
        (equal, nearest - equal, *further),
    )


def _histogram(values: AnyFloats, edges: tuple[float, ...]) -> Histogram:
    """Return the number of values with no edge, one edge, … at or below them; cheap if all values are small."""
    reached = bisect_right(edges, float(values.max()))
    above = [len(values), *(int(np.count_nonzero(values >= edge)) for edge in edges[:reached])]
    return (*map(sub, above, above[1:]), above[-1], *(0,) * (len(edges) - reached))


def _largest_error(target: BlockValues, golden: BlockValues, absolute: AnyFloats) -> Extreme:
    # Rounding preserves the order: the largest is among those that are largest after it.
    largest = float(absolute.max())
    candidates = np.flatnonzero(absolute == largest)
    if not (target.are_integers and golden.are_integers):
        errors = np.abs(target.select(candidates).subtract(golden.select(candidates)))
        return _extreme(errors, target, golden, candidates)
    index = candidates[0]
    if largest >= 1 << 53:
        high, low = target.select(candidates).subtract_halves(golden.select(candidates))
        sign = np.sign(high + low)
        index = candidates[np.argmax((high * sign - largest) + low * sign)]
    at = int(index)
    return Extreme(abs(int(target.item(at)) - int(golden.item(at))), at, target.item(at), golden.item(at))


def _largest_relative(target: BlockValues, golden: BlockValues, relative: AnyFloats, *, single: bool) -> Extreme:
    if not single:
        return _extreme(relative, target, golden)
    # Single precision rounds the difference and the quotient.
    candidates = np.flatnonzero(relative >= relative.max() * (1 - 2.0**-21))
    x, y = target.select(candidates), golden.select(candidates).values()
    divisors = np.abs(y)
    exact = np.abs(x.values() - y) / np.where(divisors > ZERO_THRESHOLD, divisors, np.inf)
    return _extreme(exact, target, golden, candidates)


def _extreme(
    values: AnyFloats, target: BlockValues, golden: BlockValues, among: npt.NDArray[np.intp] | None = None
) -> Extreme:
    """Return the largest value, which belongs to the element of the same index, or of that in `among`."""
    at = int(values.argmax())
    index = at if among is None else int(among[at])
    return Extreme(values[at].item(), index, target.item(index), golden.item(index))


def _relocated(extreme: Extreme | None, index: npt.NDArray[np.intp]) -> Extreme | None:
    return None if extreme is None else extreme.shifted(int(index[extreme.index]) - extreme.index)


# Sums in double precision


def _sums(
    target: BlockValues, golden: BlockValues, ranges: tuple[Range, Range], known: _PairErrors, precision: _Precision
) -> tuple[tuple[ExactSideSums, ExactSideSums], ExactPairSums]:
    """Return the sums of both sides and of their pairs. Arrays are overwritten when no longer needed."""
    x, y = target.values(), golden.values()
    centred = CentredValues(x, _largest(ranges[0])), CentredValues(y, _largest(ranges[1]))
    left, right = _finite_side(x, centred[0], ranges[0]), _finite_side(y, centred[1], ranges[1])
    products = centred[0].inner(centred[1])
    errors = np.subtract(x, y, out=x) if precision.double else target.subtract(golden)
    errors, exponent = _scaled(target, golden, errors, float(known.absolute.max()))
    total, squares = np.add.reduce(errors), dot(errors, errors)
    absolute = np.abs(errors, out=errors)
    sums = to_exact(total, exponent), to_exact(np.add.reduce(absolute), exponent), to_exact(squares, 2 * exponent)
    relative = known.relative
    if precision.single:
        relative = _exclude(np.divide(absolute, known.divisors, out=absolute), known.excluded, known.zero_golden)
    totals = left.total, right.total, left.squares, right.squares
    overflows = known.relative.max() > _MAX_RELATIVE
    total_relative = relative_sum(target, golden) if overflows else _relative_sum(relative)
    pairs = ExactPairSums(len(y), *totals, products, *sums, total_relative)
    if have_lost_digits(target, golden, (left, right), products):
        return integer_sums(target, golden, pairs.relative)
    return (left, right), pairs


def _largest(ends: Range) -> Number:
    return max(abs(ends[0]), abs(ends[1]))


def _finite_side(values: Floats, centred: CentredValues, ends: Range) -> ExactSideSums:
    return ExactSideSums(len(values), centred.total(), centred.squares(), *ends)


def _scaled(target: BlockValues, golden: BlockValues, errors: Floats, largest: float) -> tuple[Floats, int]:
    """Return the errors divided by a power of two so that they can be squared, and its exponent, usually 0."""
    if isfinite(largest):
        return scale(errors, largest)
    # Large numbers of opposite signs: the difference of their quarters is finite.
    scaled, exponent = scale(target.values() / 4 - golden.values() / 4, _MAX_FLOAT)
    return scaled, exponent + 2


def _relative_sum(relative: AnyFloats) -> Fraction:
    total = float(np.add.reduce(relative))
    return to_exact(total) if isfinite(total) else to_exact(np.add.reduce(relative / BLOCK)) * BLOCK


# Blocks with NaNs or infinities


def _side(numbers: BlockValues, finite: Mask) -> ExactSideSums:
    chosen = numbers.select(finite)
    side = ExactSideSums()
    if len(chosen.decoded):
        values, ends = chosen.values(), chosen.extremes()
        side = _finite_side(values, CentredValues(values, _largest(ends)), ends)
    everything = numbers.values()
    nans, infs = np.isnan(everything), np.isinf(everything)
    return side._replace(
        nans=int(np.count_nonzero(nans)),
        positive_infs=int(np.count_nonzero(everything == np.inf)),
        negative_infs=int(np.count_nonzero(everything == -np.inf)),
        first_nan=_first_true(nans),
        first_inf=_first_true(infs),
    )


def _non_finite(x: Floats, y: Floats, finite: tuple[Mask, Mask]) -> NonFinitePairs:
    infs = np.isinf(x), np.isinf(y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    mismatches = ~(finite[0] & finite[1]) & ~same
    return NonFinitePairs(
        int(np.count_nonzero(infs[0] & (x == y))),
        int(np.count_nonzero(infs[0] & (x == -y))),
        int(np.count_nonzero(infs[0] & finite[1] & (np.abs(y) > ZERO_THRESHOLD))),
        int(np.count_nonzero(infs[1] & finite[0])),
        int(np.count_nonzero(mismatches)),
        _first_true(mismatches),
    )


def _first_true(mask: Mask) -> int | None:
    return int(mask.argmax()) if mask.any() else None
