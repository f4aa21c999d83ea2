"""Second passes over two tensors, which need minimum and maximum: the divergence, and the sums of graph mode."""

from __future__ import annotations

from itertools import starmap
from math import fsum, inf, log1p, nan
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import astuple

from opdiff.measure.reference.blocks import iter_blocks
from opdiff.measure.sums import GRAPH_ZERO_THRESHOLD, ZERO_THRESHOLD, GraphSums

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.measure.reference.block_values import BlockValues, Floats
    from opdiff.measure.sums import SideSums, Sums

# Smallest likelihood before normalization.
_MIN_LIKELIHOOD = 2.0**-23
# Largest |p - q| / q for which the series is used.
_MAX_SERIES_RATIO = 0.25


def measure_kl(
    target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType, *, sums: Sums
) -> float | None:
    """Return the divergence of the golden distribution from the target's; `sums` are those of the same arrays.

    NaN if there are NaNs or infinities, `None` if there are no elements. For likelihoods p and q with sums P and Q, not
    yet divided by them, the divergence is Σ p·ln(p/q) / P + ln(Q / P). Its terms nearly cancel where p and q are close,
    so p·ln(p/q) - p + q is summed instead.
    """
    if not sums.count:
        return None
    if not (sums.target.is_finite and sums.golden.is_finite):
        return nan
    blocks = [
        _block(_likelihoods(x, sums.target), _likelihoods(y, sums.golden))
        for x, y in iter_blocks(target, target_dtype, golden, golden_dtype)
    ]
    # Exactly rounded sums do not depend on the grouping of blocks.
    p, q, terms = (fsum(column) for column in zip(*blocks, strict=True))
    excess = (q - p) / p
    divergence = terms / p + (log1p(excess) - excess)
    return divergence if divergence >= ZERO_THRESHOLD else 0.0


def _likelihoods(numbers: BlockValues, side: SideSums) -> Floats:
    """Return the numbers normalized to 0 … 1, with `_MIN_LIKELIHOOD` as lower bound; all 1 if they are constant."""
    low, high = side.minimum or 0, side.maximum or 0
    if low == high:
        return np.ones(len(numbers.decoded))
    width = high - low
    if width == inf:
        # The width of the range overflows; half of it does not.
        likelihoods = (numbers.values() / 2 - low / 2) / (high / 2 - low / 2)
    elif 1 / width == inf:
        likelihoods = numbers.offsets_from(low) / width
    else:
        likelihoods = numbers.offsets_from(low)
        likelihoods *= 1 / width
    return np.maximum(likelihoods, _MIN_LIKELIHOOD, out=likelihoods)


def _block(p: Floats, q: Floats) -> tuple[float, float, float]:
    difference = p - q
    ratios = difference / q
    sizes = np.abs(ratios)
    is_far = sizes >= _MAX_SERIES_RATIO
    sizes[is_far] = 0
    terms = q * _entropy_series(ratios, float(sizes.max()))
    if is_far.any():
        far = p[is_far]
        terms[is_far] = far * np.log(far / q[is_far]) - difference[is_far]
    return float(np.add.reduce(p)), float(np.add.reduce(q)), float(np.add.reduce(terms))


def _entropy_series(t: Floats, largest: float) -> Floats:
    """Return (1 + t)·ln(1 + t) - t = t²·Σ (-t)^k / ((k + 1)·(k + 2)) of numbers up to the magnitude `largest`."""
    # What is left out is below 2^-36 of the sum.
    terms = 6 if largest < 2.0**-6 else 12 if largest < 2.0**-3 else 18
    negative, total = -t, np.zeros_like(t)
    for k in reversed(range(terms)):
        total *= negative
        total += 1 / ((k + 1) * (k + 2))
    total *= t
    total *= t
    return total


# Graph mode


def graph_sums(target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType, sums: Sums) -> GraphSums:
    """Return the additional sums of two arrays of codes; `sums` are those of the same arrays."""
    maxima = sums.target.maximum or 0, sums.golden.maximum or 0
    is_finite = sums.target.is_finite and sums.golden.is_finite
    found = GraphSums()
    with np.errstate(all="ignore"):
        for target_values, golden_values in iter_blocks(target, target_dtype, golden, golden_dtype):
            x, y = target_values.values(), golden_values.values()
            weights = (0.0, 0.0, 0.0)
            if is_finite:
                weights = _weights(target_values.offsets_from(maxima[0]), golden_values.offsets_from(maxima[1]))
            both = np.isfinite(x) & np.isfinite(y)
            errors = np.abs(target_values.subtract(golden_values)[both])
            found = _merged(found, GraphSums(*weights, *_errors(errors, np.abs(y[both]))))  # type: ignore[arg-type]  # counts are the last three
    return found


def _errors(error: Floats, size: Floats) -> tuple[float, float, float, float, float, int, int, int]:
    """Return the sums, maxima and counts of the errors; `size` are the magnitudes of the golden values."""
    counted = size > GRAPH_ZERO_THRESHOLD
    errors = error[counted]
    relative = errors / size[counted]
    near = (size <= ZERO_THRESHOLD) & (error > 0)
    zeros = int(np.count_nonzero(near & (size == 0)))
    near &= size > 0
    tiny = error[near] / size[near]
    return (
        float(errors.sum()),
        float(relative.sum()),
        float(errors.max(initial=0)),
        float(relative.max(initial=0)),
        float(tiny.max(initial=0)),
        int(np.count_nonzero(tiny >= 0.001)),
        int(np.count_nonzero(tiny >= 0.005)),
        zeros,
    )


def _weights(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Return the weights from which the divergence of two softmaxes is computed; maxima are already subtracted."""
    golden = np.exp(y)
    return float(golden.sum()), float(np.exp(x).sum()), float((golden * (y - x)).sum())


def _merged(first: GraphSums, second: GraphSums) -> GraphSums:
    both = [*zip(astuple(first), astuple(second), strict=True)]
    return GraphSums(*starmap(add, both[:5]), *starmap(max, both[5:8]), *starmap(add, both[8:]))
