"""The definition of measuring: two arrays of codes in, `Sums` out, block by block.

Memory does not grow with the tensors. Blocks start at multiples of `BLOCK`; a part of a tensor that starts and ends
there can be measured elsewhere and merged, and the result is the same to the last bit. Nothing here calls a threaded
library, so that it does not depend on the machine's cores either.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from opdiff.dtypes import Kind
from opdiff.measure import ulp
from opdiff.measure.exact import Centred, scale, to_exact
from opdiff.measure.numbers import Numbers, real_codes, real_type, to_numbers
from opdiff.measure.sums import RELATIVE_EDGES, SMALL, ULP_EDGES, Extreme, Products, Side, Specials, Spread, Sums

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    import numpy.typing as npt

    from opdiff.dtypes import DType
    from opdiff.elements import AnyArray
    from opdiff.measure.numbers import Floats
    from opdiff.measure.sums import Histogram

    Mask = npt.NDArray[np.bool_]

# Calls cost more than leaving the nearest cache does: larger than what that holds.
BLOCK = 1 << 16

_HUGE = float(np.finfo(np.float64).max)


def measure(target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType) -> Sums:
    """The sums over two arrays of codes with equally many elements, taken in row-major order.

    Complex numbers are measured as twice as many real ones, the real part before the imaginary one.

    Raises:
        ElementError: a type has no numbers, or only one of the two is complex.
        ValueError: the numbers of elements differ.
    """
    if target.size != golden.size:
        raise ValueError(f"{target.size} elements cannot be compared with {golden.size}")
    coarser = ulp.find_coarser(real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype))
    pairs = iter_blocks(target, target_dtype, golden, golden_dtype)
    parts = Sums(parts=2 if target_dtype.kind is Kind.COMPLEX else 1)
    return reduce(Sums.merge, (_measure_block(x, y, coarser) for x, y in pairs), parts)


def iter_blocks(
    target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType
) -> Iterator[tuple[Numbers, Numbers]]:
    """The numbers of both sides, which have equally many, block by block, in row-major order."""
    types = real_type(target_dtype, golden_dtype), real_type(golden_dtype, target_dtype)
    target, golden = real_codes(target, target_dtype), real_codes(golden, golden_dtype)
    for start in range(0, target.size, BLOCK):
        block = slice(start, start + BLOCK)
        yield to_numbers(target[block], types[0]), to_numbers(golden[block], types[1])


def _measure_block(target: Numbers, golden: Numbers, coarser: DType | None) -> Sums:
    # Overflow and invalid operations are looked for in the results.
    with np.errstate(all="ignore"):
        finite = np.isfinite(target.high), np.isfinite(golden.high)
        if finite[0].all() and finite[1].all():
            return _measure_finite(target, golden, coarser)
        return _measure_any(target, golden, finite, coarser)


def _measure_any(target: Numbers, golden: Numbers, finite: tuple[Mask, Mask], coarser: DType | None) -> Sums:
    """The sums of a block with NaNs or infinities in it."""
    both = finite[0] & finite[1]
    index = np.flatnonzero(both)
    part = _measure_finite(target.where(both), golden.where(both), coarser) if index.size else Sums()
    specials = _specials(target.high, golden.high, finite)
    return Sums(
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


def _measure_finite(target: Numbers, golden: Numbers, coarser: DType | None) -> Sums:
    """The sums of a block without NaNs and infinities, of at least one element."""
    x, y = target.values, golden.values
    errors = target.minus(golden)
    relative, counted = _relative(x, y, errors)
    centred = Centred(x), Centred(y)
    sides = _finite_side(target, centred[0]), _finite_side(golden, centred[1])
    worst = _worst(target, golden, errors)
    steps = None if coarser is None else ulp.distances(x, y, coarser)
    return Sums(
        len(x),
        int(np.count_nonzero(errors)),
        *sides,
        _products(sides, centred[0].inner(centred[1]), _errors(x, y, errors), relative),
        _spread(errors, relative, counted, np.abs(errors) if steps is None else steps),
        Specials(),
        worst,
        _extreme(relative, target, golden) if relative.any() else None,
        worst if steps is None else _extreme(steps, target, golden),
    )


def _finite_side(numbers: Numbers, centred: Centred) -> Side:
    return Side(len(numbers.high), centred.total(), centred.inner(centred), *numbers.extremes())


def _products(sides: tuple[Side, Side], products: Fraction, errors: tuple[Floats, int], relative: Floats) -> Products:
    target, golden = sides
    scaled, exponent = errors
    return Products(
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


def _relative(x: Floats, y: Floats, errors: Floats) -> tuple[Floats, Mask]:
    """The relative errors, 0 where the golden value counts as zero; and where it does not."""
    size = np.abs(y)
    counted = size > SMALL
    relative = np.abs(errors)
    np.divide(relative, size, out=relative, where=counted)
    relative[~counted] = 0
    if not np.isfinite(relative).all():
        # |x - y| is too large for a float although the quotient need not be.
        relative = np.where(np.isfinite(relative), relative, np.minimum(np.abs(x / y - 1), _HUGE))
    return relative, counted


def _spread(errors: Floats, relative: Floats, counted: Mask, steps: npt.NDArray[np.uint64] | Floats) -> Spread:
    zero_golden = int(np.count_nonzero(errors[~counted]))
    bins = _histogram(relative, RELATIVE_EDGES)
    return Spread(
        int(np.count_nonzero(relative >= 0.001)) + zero_golden,
        int(np.count_nonzero(relative >= 0.005)) + zero_golden,
        zero_golden,
        (bins[0] - zero_golden, *bins[1:-1], bins[-1] + zero_golden),
        _histogram(steps, ULP_EDGES),
    )


def _histogram(values: npt.NDArray[np.uint64] | Floats, edges: tuple[float, ...]) -> Histogram:
    """How many values have no edge, exactly one edge, … at or below them; cheap when all values are small."""
    above = [len(values)]
    for edge in edges:
        above.append(int(np.count_nonzero(values >= edge)) if above[-1] else 0)
    return tuple(first - second for first, second in pairwise([*above, 0]))


def _worst(target: Numbers, golden: Numbers, errors: Floats) -> Extreme:
    sizes = np.abs(errors)
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


def _extreme(values: npt.NDArray[np.uint64] | Floats, target: Numbers, golden: Numbers) -> Extreme:
    index = int(values.argmax())
    return Extreme(values[index].item(), index, target.at(index), golden.at(index))


def _moved(extreme: Extreme | None, index: npt.NDArray[np.intp]) -> Extreme | None:
    return None if extreme is None else extreme.shifted(int(index[extreme.index]) - extreme.index)


def _side(numbers: Numbers, finite: Mask) -> Side:
    kept = numbers.where(finite)
    side = _finite_side(kept, Centred(kept.values)) if len(kept.high) else Side()
    nans, infs = np.isnan(numbers.high), np.isinf(numbers.high)
    return Side(
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
