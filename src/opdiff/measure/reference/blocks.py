"""The definition of measuring: two arrays of codes in, a `Tally` out, block by block, with NumPy alone.

It is what the native kernel is held to, and what works where that is not built. Memory does not grow with the tensors.
Blocks start at multiples of `BLOCK`; a part of a tensor that starts and ends there can be measured elsewhere and
merged, and the result is the same to the last bit. Nothing here calls a threaded library, so that it does not depend on
the machine's cores either.

Which errors are the largest, and into which bin of a histogram one falls, is decided in single precision where that
holds every number of both sides.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache, reduce
from math import isfinite
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opdiff.core.dtypes import Kind
from opdiff.measure.reference.exact import Centred, dot, scale, to_exact
from opdiff.measure.reference.numbers import Numbers, is_long, is_narrow, real_codes, real_type, to_numbers
from opdiff.measure.reference.tally import PairTally, SideTally, Tally
from opdiff.measure.reference.ulp import find_scale
from opdiff.measure.sums import RELATIVE_EDGES, SMALL, ULP_EDGES, Extreme, Specials, Spread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction
    from typing import Any

    import numpy.typing as npt

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.measure.reference.numbers import Floats
    from opdiff.measure.reference.ulp import UlpScale
    from opdiff.measure.sums import Histogram, Number, Sums

    Mask = npt.NDArray[np.bool_]
    # Of single or of double precision.
    Ranks = npt.NDArray[np.floating[Any]]
    Ends = tuple[Number, Number]
    Extremes = tuple[Extreme, Extreme | None, Extreme]

# Calls cost more than leaving the nearest cache does: larger than what that holds.
BLOCK = 1 << 16

# Twice as much is kept at most. Beyond 32 MB the C library does not learn.
_KEPT_BYTES = 16 << 20

_HUGE = float(np.finfo(np.float64).max)
# Between numbers up to this size, errors and relative errors are within the range of single and of double precision.
_SAFE_SINGLE = 2.0**70
_SAFE_DOUBLE = 2.0**900


class _How(NamedTuple):
    """What the element types of both sides decide.

    Attributes:
        ulps: the units of distances.
        narrow: single precision holds every number.
        double: double precision does.
    """

    ulps: UlpScale
    narrow: bool
    double: bool


def tally(target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType) -> Tally:
    """The sums over two arrays of codes with equally many elements, taken in row-major order.

    Complex numbers are measured as twice as many real ones, the real part before the imaginary one.

    Raises:
        ElementError: a type has no numbers, or only one of the two is complex.
        ValueError: the numbers of elements differ.
    """
    if target.size != golden.size:
        raise ValueError(f"{target.size} elements cannot be compared with {golden.size}")
    _keep_memory()
    types = real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)
    how = _How(find_scale(*types), all(map(is_narrow, types)), not any(map(is_long, types)))
    pairs = iter_blocks(target, target_dtype, golden, golden_dtype)
    parts = Tally(parts=2 if target_dtype.kind is Kind.COMPLEX else 1)
    return reduce(Tally.merge, (_measure_block(x, y, how) for x, y in pairs), parts)


def measure(target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType) -> Sums:
    """The same, as floats; raises as `tally` does."""
    found = tally(target, target_dtype, golden, golden_dtype)
    return found.sums(find_scale(real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)))


def iter_blocks(
    target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType
) -> Iterator[tuple[Numbers, Numbers]]:
    """The numbers of both sides, which have equally many, block by block, in row-major order."""
    types = real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)
    target, golden = real_codes(target, target_dtype), real_codes(golden, golden_dtype)
    for start in range(0, target.size, BLOCK):
        block = slice(start, start + BLOCK)
        yield to_numbers(target[block], types[0]), to_numbers(golden[block], types[1])


@lru_cache(maxsize=1)
def _keep_memory() -> None:
    """Let memory stay with the process that one block gives back and the next one needs.

    The C library returns memory to the system piece by piece, which then clears every page that it gives again. When a
    large piece was given back once (this one is never touched), it keeps what is smaller.
    """
    np.empty(_KEPT_BYTES, np.uint8)


def _measure_block(target: Numbers, golden: Numbers, how: _How) -> Tally:
    # Overflow and invalid operations are looked for in the results.
    with np.errstate(all="ignore"):
        ends = target.extremes(), golden.extremes()
        if all(map(isfinite, (*ends[0], *ends[1]))):
            return _measure_finite(target, golden, ends, how)
        return _measure_any(target, golden, how)


def _measure_any(target: Numbers, golden: Numbers, how: _How) -> Tally:
    """The sums of a block with NaNs or infinities in it."""
    x, y = target.values(), golden.values()
    finite = np.isfinite(x), np.isfinite(y)
    both = finite[0] & finite[1]
    index = np.flatnonzero(both)
    part = _measure_block(target.where(both), golden.where(both), how) if index.size else Tally()
    specials = _specials(x, y, finite)
    return Tally(
        len(both),
        part.unequal + specials.mismatches,
        _side(target, finite[0]),
        _side(golden, finite[1]),
        part.pairs,
        part.spread,
        specials,
        _moved(part.worst, index),
        _moved(part.worst_relative, index),
        _moved(part.worst_ulps, index),
    )


def _measure_finite(target: Numbers, golden: Numbers, ends: tuple[Ends, Ends], how: _How) -> Tally:
    """The sums of a block without NaNs and infinities, of at least one element; `ends` are those of both sides."""
    gaps = _gaps(target, golden, narrow=how.narrow)
    spread, extremes = _distribution(target, golden, gaps, how)
    sides, pairs = _sums(target, golden, ends, gaps, how)
    return Tally(len(gaps.sizes), gaps.unequal, *sides, pairs, spread, Specials(), *extremes)


# How far the numbers of each pair are apart


class _Gaps(NamedTuple):
    """Sizes of errors, as precise as is needed to decide which is the largest and into which bin one falls.

    Attributes:
        sizes: |x - y|.
        relative: |x - y| / |y|, 0 where the golden value counts as zero.
        larger: the larger of |x| and |y|.
        divisors: |y|; where that counts as zero, more, so that an equal pair has a relative error of 0.
        unequal: how many pairs are unequal.
        left_out: which of these have a golden value that counts as zero.
        zero_golden: how many that are.
    """

    sizes: Ranks
    relative: Ranks
    larger: Ranks
    divisors: Ranks
    unequal: int
    left_out: Mask
    zero_golden: int


def _gaps(target: Numbers, golden: Numbers, *, narrow: bool) -> _Gaps:
    x, y = (target.singles(), golden.singles()) if narrow else (target.values(), golden.values())
    sizes = x - y if narrow else target.minus(golden)
    np.abs(sizes, out=sizes)
    divisors = np.abs(y)
    larger = np.maximum(np.abs(x), divisors)
    unequal, near_zero = sizes != 0, divisors <= SMALL
    if near_zero.any():
        divisors += near_zero
    left_out = near_zero & unequal
    counts = int(np.count_nonzero(unequal)), int(np.count_nonzero(left_out))
    relative = _left_out(sizes / divisors, left_out, counts[1])
    if larger.max() > (_SAFE_SINGLE if narrow else _SAFE_DOUBLE):
        sizes, relative = _in_range(target, golden, sizes, relative)
    return _Gaps(sizes, relative, larger, divisors, counts[0], left_out, counts[1])


def _left_out(relative: Ranks, left_out: Mask, count: int) -> Ranks:
    """Relative errors, made 0 where they are left out."""
    if count:
        relative[left_out] = 0
    return relative


def _in_range(target: Numbers, golden: Numbers, sizes: Ranks, relative: Ranks) -> tuple[Ranks, Ranks]:
    """Sizes and relative errors, of which those that were beyond the range of single or double precision are not."""
    if sizes.dtype == np.float32:
        wide = _gaps(target, golden, narrow=False)
        within = wide.sizes, wide.relative
    else:
        # |x - y| is too large for a float although the quotient need not be.
        within = sizes, np.minimum(np.abs(target.values() / golden.values() - 1), _HUGE)
    return np.where(np.isfinite(sizes), sizes, within[0]), np.where(np.isfinite(relative), relative, within[1])


def _distribution(target: Numbers, golden: Numbers, gaps: _Gaps, how: _How) -> tuple[Spread, Extremes]:
    """How the errors are distributed, and the largest ones."""
    steps = _steps(gaps, how.ulps)
    worst, relative = _worst(target, golden, gaps.sizes), _extreme(gaps.relative, target, golden)
    ulps = worst if how.ulps.digits < 0 else _extreme(steps, target, golden)
    return _spread(gaps, steps, narrow=how.narrow), (worst, relative if relative.value else None, ulps)


def _steps(gaps: _Gaps, ulps: UlpScale) -> Ranks:
    """Distances in units of the last place, as it is at the larger of both numbers."""
    if ulps.digits < 0:
        return gaps.sizes
    powers = np.maximum(gaps.larger, 2.0**ulps.min_exponent)
    # A power of two has no fraction, and the bits of infinity are those of the exponent.
    bits = powers.view(f"u{powers.itemsize}")
    bits &= np.array(np.inf, powers.dtype).view(bits.dtype)
    return gaps.sizes / powers * 2.0**ulps.digits


def _spread(gaps: _Gaps, steps: Ranks, *, narrow: bool) -> Spread:
    equal, zero_golden = len(steps) - gaps.unequal, gaps.zero_golden
    one, five = (float(np.float32(edge)) if narrow else edge for edge in (0.001, 0.005))
    first, *rest = _histogram(gaps.relative, RELATIVE_EDGES)
    nearest, *further = _histogram(steps, ULP_EDGES)
    return Spread(
        int(np.count_nonzero(gaps.relative >= one)) + zero_golden,
        int(np.count_nonzero(gaps.relative >= five)) + zero_golden,
        zero_golden,
        (equal, first - equal - zero_golden, *rest[:-1], rest[-1] + zero_golden),
        (equal, nearest - equal, *further),
    )


def _histogram(values: Ranks, edges: tuple[float, ...]) -> Histogram:
    """How many values have no edge, exactly one edge, … at or below them; cheap when all values are small."""
    reached = bisect_right(edges, float(values.max()))
    above = [len(values), *(int(np.count_nonzero(values >= edge)) for edge in edges[:reached])]
    return (*map(sub, above, above[1:]), above[-1], *(0,) * (len(edges) - reached))


def _worst(target: Numbers, golden: Numbers, sizes: Ranks) -> Extreme:
    if not (target.are_integers and golden.are_integers):
        return _extreme(sizes, target, golden)
    # Rounding keeps the order: the largest is among those that look largest. What was rounded off decides.
    largest = float(sizes.max())
    candidates = np.flatnonzero(sizes == largest)
    index = candidates[0]
    if largest >= 1 << 53:
        high, low = target.where(candidates).halves_minus(golden.where(candidates))
        sign = np.sign(high + low)
        index = candidates[np.argmax((high * sign - largest) + low * sign)]
    at = int(index)
    return Extreme(abs(int(target.at(at)) - int(golden.at(at))), at, target.at(at), golden.at(at))


def _extreme(values: Ranks, target: Numbers, golden: Numbers) -> Extreme:
    index = int(values.argmax())
    return Extreme(values[index].item(), index, target.at(index), golden.at(index))


def _moved(extreme: Extreme | None, index: npt.NDArray[np.intp]) -> Extreme | None:
    return None if extreme is None else extreme.shifted(int(index[extreme.index]) - extreme.index)


# Sums in double precision


def _sums(
    target: Numbers, golden: Numbers, ends: tuple[Ends, Ends], gaps: _Gaps, how: _How
) -> tuple[tuple[SideTally, SideTally], PairTally]:
    """The sums of both sides and those of their pairs. What is not needed any more is written over."""
    x, y = target.values(), golden.values()
    centred = Centred(x, _largest(ends[0])), Centred(y, _largest(ends[1]))
    left, right = _finite_side(x, centred[0], ends[0]), _finite_side(y, centred[1], ends[1])
    products = centred[0].inner(centred[1])
    errors = np.subtract(x, y, out=x) if how.double else target.minus(golden)
    errors, exponent = _scaled(target, golden, errors, float(gaps.sizes.max()))
    total, squares = np.add.reduce(errors), dot(errors, errors)
    sizes = np.abs(errors, out=errors)
    sums = to_exact(total, exponent), to_exact(np.add.reduce(sizes), exponent), to_exact(squares, 2 * exponent)
    relative = gaps.relative
    if how.narrow:
        relative = _left_out(np.divide(sizes, gaps.divisors, out=sizes), gaps.left_out, gaps.zero_golden)
    totals = left.total, right.total, left.squares, right.squares
    return (left, right), PairTally(len(y), *totals, products, *sums, _relative_sum(relative))


def _largest(ends: Ends) -> Number:
    return max(abs(ends[0]), abs(ends[1]))


def _finite_side(values: Floats, centred: Centred, ends: Ends) -> SideTally:
    return SideTally(len(values), centred.total(), centred.squares(), *ends)


def _scaled(target: Numbers, golden: Numbers, errors: Floats, largest: float) -> tuple[Floats, int]:
    """The errors divided by a power of two that lets them be squared, and its exponent, usually 0."""
    if isfinite(largest):
        return scale(errors, largest)
    # Large numbers of opposite signs: a quarter of each has a difference.
    scaled, exponent = scale(target.values() / 4 - golden.values() / 4, _HUGE)
    return scaled, exponent + 2


def _relative_sum(relative: Ranks) -> Fraction:
    total = float(np.add.reduce(relative))
    return to_exact(total) if isfinite(total) else to_exact(np.add.reduce(relative / BLOCK)) * BLOCK


# Blocks with NaNs or infinities


def _side(numbers: Numbers, finite: Mask) -> SideTally:
    kept = numbers.where(finite)
    side = SideTally()
    if len(kept.decoded):
        values, ends = kept.values(), kept.extremes()
        side = _finite_side(values, Centred(values, _largest(ends)), ends)
    everything = numbers.values()
    nans, infs = np.isnan(everything), np.isinf(everything)
    return SideTally(
        side.finite,
        side.total,
        side.squares,
        side.minimum,
        side.maximum,
        int(np.count_nonzero(nans)),
        int(np.count_nonzero(everything == np.inf)),
        int(np.count_nonzero(everything == -np.inf)),
        _first(nans),
        _first(infs),
    )


def _specials(x: Floats, y: Floats, finite: tuple[Mask, Mask]) -> Specials:
    infs = np.isinf(x), np.isinf(y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    mismatches = ~(finite[0] & finite[1]) & ~same
    return Specials(
        int(np.count_nonzero(infs[0] & (x == y))),
        int(np.count_nonzero(infs[0] & (x == -y))),
        int(np.count_nonzero(infs[0] & finite[1] & (np.abs(y) > SMALL))),
        int(np.count_nonzero(infs[1] & finite[0])),
        int(np.count_nonzero(mismatches)),
        _first(mismatches),
    )


def _first(mask: Mask) -> int | None:
    return int(mask.argmax()) if mask.any() else None
