"""The definition of measuring: two arrays of codes in, a `Tally` out, block by block, with NumPy alone.

It is what the native kernel is held to, and what works where that is not built. Memory does not grow with the tensors.
Blocks start at multiples of `BLOCK`; a part of a tensor that starts and ends there can be measured elsewhere and
merged, and the result is the same to the last bit. Nothing here calls a threaded library, so that it does not depend on
the machine's cores either.

Which errors are the largest, and into which bin of a histogram one falls, is decided in single precision where that
holds every number of both sides.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from opdiff.dtypes import Kind
from opdiff.measure.exact import Centred, scale, to_exact
from opdiff.measure.numbers import Numbers, is_narrow, real_codes, real_type, to_numbers
from opdiff.measure.sums import RELATIVE_EDGES, SMALL, ULP_EDGES, Extreme, Specials, Spread
from opdiff.measure.tally import PairTally, SideTally, Tally
from opdiff.measure.ulp import find_scale
from opdiff.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    import numpy.typing as npt

    from opdiff.dtypes import DType
    from opdiff.elements import AnyArray
    from opdiff.measure.numbers import Floats
    from opdiff.measure.sums import Histogram, Sums
    from opdiff.measure.ulp import UlpScale

    Mask = npt.NDArray[np.bool_]

# Calls cost more than leaving the nearest cache does: larger than what that holds.
BLOCK = 1 << 16

_HUGE = float(np.finfo(np.float64).max)


class _How(NamedTuple):
    """What the element types of both sides decide: the units of distances, and whether single precision will do."""

    ulps: UlpScale
    narrow: bool


def tally(target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType) -> Tally:
    """The sums over two arrays of codes with equally many elements, taken in row-major order.

    Complex numbers are measured as twice as many real ones, the real part before the imaginary one.

    Raises:
        ElementError: a type has no numbers, or only one of the two is complex.
        ValueError: the numbers of elements differ.
    """
    if target.size != golden.size:
        raise ValueError(f"{target.size} elements cannot be compared with {golden.size}")
    types = real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)
    how = _How(find_scale(*types), all(map(is_narrow, types)))
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


def _measure_block(target: Numbers, golden: Numbers, how: _How) -> Tally:
    # Overflow and invalid operations are looked for in the results.
    with np.errstate(all="ignore"):
        finite = np.isfinite(target.high), np.isfinite(golden.high)
        if finite[0].all() and finite[1].all():
            return _measure_finite(target, golden, how)
        return _measure_any(target, golden, finite, how)


def _measure_any(target: Numbers, golden: Numbers, finite: tuple[Mask, Mask], how: _How) -> Tally:
    """The sums of a block with NaNs or infinities in it."""
    both = finite[0] & finite[1]
    index = np.flatnonzero(both)
    part = _measure_finite(target.where(both), golden.where(both), how) if index.size else Tally()
    specials = _specials(target.values, golden.values, finite)
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


def _measure_finite(target: Numbers, golden: Numbers, how: _How) -> Tally:
    """The sums of a block without NaNs and infinities, of at least one element."""
    x, y = target.values, golden.values
    errors = target.minus(golden)
    relative = _relative(x, y, errors)
    centred = Centred(x), Centred(y)
    sides = _finite_side(target, centred[0]), _finite_side(golden, centred[1])
    sizes, quotients = _ranks(x, y, errors, relative) if how.narrow else (np.abs(errors), relative)
    steps = _steps(sizes, np.maximum(np.abs(x), np.abs(y)), how.ulps)
    worst = _worst(target, golden, errors, sizes)
    return Tally(
        len(x),
        int(np.count_nonzero(errors)),
        *sides,
        _products(sides, centred[0].inner(centred[1]), _errors(x, y, errors), relative),
        _spread(errors, y, quotients, steps, narrow=how.narrow),
        Specials(),
        worst,
        _extreme(quotients, target, golden) if quotients.any() else None,
        worst if how.ulps.digits < 0 else _extreme(steps, target, golden),
    )


def _ranks(x: Floats, y: Floats, errors: Floats, relative: Floats) -> tuple[Floats, Floats]:
    """Sizes of errors and relative errors in single precision, but for those that are beyond its range."""
    narrow_y = np.abs(y.astype(np.float32))
    sizes = np.abs(x.astype(np.float32) - y.astype(np.float32))
    quotients = np.divide(sizes, narrow_y, out=np.zeros_like(sizes), where=narrow_y > np.float32(SMALL))
    return (
        np.where(np.isfinite(sizes), sizes.astype(np.float64), np.abs(errors)),
        np.where(np.isfinite(quotients), quotients.astype(np.float64), relative),
    )


def _steps(sizes: Floats, larger: Floats, ulps: UlpScale) -> Floats:
    """Distances in units of the last place, as it is at the larger of both numbers."""
    if ulps.digits < 0:
        return sizes
    exponents = np.where(larger == 0, ulps.min_exponent, np.frexp(larger)[1] - 1)
    return np.asarray(np.ldexp(sizes, ulps.digits - np.maximum(exponents, ulps.min_exponent)))


def _finite_side(numbers: Numbers, centred: Centred) -> SideTally:
    return SideTally(len(numbers.high), centred.total(), centred.inner(centred), *numbers.extremes())


def _products(
    sides: tuple[SideTally, SideTally], products: Fraction, errors: tuple[Floats, int], relative: Floats
) -> PairTally:
    target, golden = sides
    scaled, exponent = errors
    return PairTally(
        len(scaled),
        target.total,
        golden.total,
        target.squares,
        golden.squares,
        products,
        to_exact(np.add.reduce(scaled), exponent),
        to_exact(np.add.reduce(np.abs(scaled)), exponent),
        to_exact(np.add.reduce(np.square(scaled)), 2 * exponent),
        to_exact(np.add.reduce(relative / BLOCK)) * BLOCK,
    )


def _errors(x: Floats, y: Floats, errors: Floats) -> tuple[Floats, int]:
    """The errors divided by a power of two that lets them be squared, and its exponent."""
    if np.isfinite(errors).all():
        return scale(errors)
    # Large numbers of opposite signs: a quarter of each has a difference.
    scaled, exponent = scale(x / 4 - y / 4)
    return scaled, exponent + 2


def _relative(x: Floats, y: Floats, errors: Floats) -> Floats:
    """The relative errors, 0 where the golden value counts as zero."""
    size = np.abs(y)
    counted = size > SMALL
    relative = np.abs(errors)
    np.divide(relative, size, out=relative, where=counted)
    relative[~counted] = 0
    if not np.isfinite(relative).all():
        # |x - y| is too large for a float although the quotient need not be.
        relative = np.where(np.isfinite(relative), relative, np.minimum(np.abs(x / y - 1), _HUGE))
    return relative


def _spread(errors: Floats, golden: Floats, quotients: Floats, steps: Floats, *, narrow: bool) -> Spread:
    equal = len(errors) - int(np.count_nonzero(errors))
    zero_golden = int(np.count_nonzero(errors[np.abs(golden) <= SMALL]))
    one, five = (float(np.float32(edge)) if narrow else edge for edge in (0.001, 0.005))
    first, *rest = _histogram(quotients, RELATIVE_EDGES)
    nearest, *further = _histogram(steps, ULP_EDGES)
    return Spread(
        int(np.count_nonzero(quotients >= one)) + zero_golden,
        int(np.count_nonzero(quotients >= five)) + zero_golden,
        zero_golden,
        (equal, first - equal - zero_golden, *rest[:-1], rest[-1] + zero_golden),
        (equal, nearest - equal, *further),
    )


def _histogram(values: Floats, edges: tuple[float, ...]) -> Histogram:
    """How many values have no edge, exactly one edge, … at or below them; cheap when all values are small."""
    above = [len(values)]
    for edge in edges:
        above.append(int(np.count_nonzero(values >= edge)) if above[-1] else 0)
    return tuple(first - second for first, second in pairwise([*above, 0]))


def _worst(target: Numbers, golden: Numbers, errors: Floats, sizes: Floats) -> Extreme:
    if not (target.are_integers and golden.are_integers):
        return _extreme(sizes, target, golden)
    # Rounding keeps the order: the largest is among those that look largest. What was rounded off decides.
    largest = float(sizes.max())
    candidates = np.flatnonzero(sizes == largest)
    index = candidates[0]
    if largest >= 1 << 53:
        sign = np.sign(errors[candidates])
        high, low = (half[candidates] * sign for half in target.halves_minus(golden))
        index = candidates[np.argmax((high - largest) + low)]
    at = int(index)
    return Extreme(abs(int(target.at(at)) - int(golden.at(at))), at, target.at(at), golden.at(at))


def _extreme(values: Floats, target: Numbers, golden: Numbers) -> Extreme:
    index = int(values.argmax())
    return Extreme(values[index].item(), index, target.at(index), golden.at(index))


def _moved(extreme: Extreme | None, index: npt.NDArray[np.intp]) -> Extreme | None:
    return None if extreme is None else extreme.shifted(int(index[extreme.index]) - extreme.index)


def _side(numbers: Numbers, finite: Mask) -> SideTally:
    kept = numbers.where(finite)
    side = _finite_side(kept, Centred(kept.values)) if len(kept.high) else SideTally()
    nans, infs = np.isnan(numbers.high), np.isinf(numbers.high)
    return SideTally(
        side.finite,
        side.total,
        side.squares,
        side.minimum,
        side.maximum,
        int(np.count_nonzero(nans)),
        int(np.count_nonzero(numbers.high == np.inf)),
        int(np.count_nonzero(numbers.high == -np.inf)),
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
