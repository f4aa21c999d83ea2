"""The Kullback-Leibler divergence: a second pass, because it needs the smallest and the largest number first."""

from __future__ import annotations

from math import fsum, inf, log, nan
from typing import TYPE_CHECKING

import numpy as np

from opdiff.measure.reference.blocks import iter_blocks
from opdiff.measure.reference.exact import dot
from opdiff.measure.sums import SMALL

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.measure.reference.numbers import Floats, Numbers
    from opdiff.measure.sums import Side, Sums

# No probability is smaller, before they are divided by their sum.
_FLOOR = 2.0**-23


def measure_kl(
    target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType, *, sums: Sums
) -> float | None:
    """The divergence of the golden distribution from the target's; `sums` is what `measure` gave for the same arrays.

    NaN when there are NaNs or infinities, `None` when there are no elements. With p and q as they are before being
    divided by their sums P and Q, the divergence is Σ p·ln(p/q) / P + ln(Q / P).
    """
    if not sums.count:
        return None
    if not (sums.target.is_finite and sums.golden.is_finite):
        return nan
    blocks = [
        _block(_likelihoods(x, sums.target), _likelihoods(y, sums.golden))
        for x, y in iter_blocks(target, target_dtype, golden, golden_dtype)
    ]
    # Exactly rounded sums: independent of how the blocks are grouped.
    p, q, logs = (fsum(column) for column in zip(*blocks, strict=True))
    divergence = logs / p + log(q / p)
    return divergence if divergence >= SMALL else 0.0


def _likelihoods(numbers: Numbers, side: Side) -> Floats:
    """The numbers moved and stretched to 0..1, then raised to the floor; all 1 when they are one number."""
    low, high = side.minimum or 0, side.maximum or 0
    if low == high:
        return np.ones(len(numbers.decoded))
    width = high - low
    if width == inf:
        # The width of the range is beyond a float: half of it is not.
        likelihoods = (numbers.values() / 2 - low / 2) / (high / 2 - low / 2)
    elif 1 / width == inf:
        likelihoods = numbers.above(low) / width
    else:
        likelihoods = numbers.above(low)
        likelihoods *= 1 / width
    return np.maximum(likelihoods, _FLOOR, out=likelihoods)


def _block(p: Floats, q: Floats) -> tuple[float, float, float]:
    logs = p / q
    np.log(logs, out=logs)
    return float(np.add.reduce(p)), float(np.add.reduce(q)), dot(p, logs)
