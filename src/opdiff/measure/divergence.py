"""Kullback-Leibler divergence: a second pass, because it needs minimum and maximum first."""

from __future__ import annotations

from math import fsum, inf, log, nan
from typing import TYPE_CHECKING

import numpy as np

from opdiff.measure.reference.blocks import iter_blocks
from opdiff.measure.reference.float_sums import dot
from opdiff.measure.sums import ZERO_THRESHOLD

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.measure.reference.block_values import BlockValues, Floats
    from opdiff.measure.sums import SideSums, Sums

# Smallest likelihood before normalization.
_MIN_LIKELIHOOD = 2.0**-23


def measure_kl(
    target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType, *, sums: Sums
) -> float | None:
    """Return the divergence of the golden distribution from the target's; `sums` are those of the same arrays.

    NaN if there are NaNs or infinities, `None` if there are no elements. For likelihoods p and q with sums P and Q, not
    yet divided by them, the divergence is Σ p·ln(p/q) / P + ln(Q / P).
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
    p, q, logs = (fsum(column) for column in zip(*blocks, strict=True))
    divergence = logs / p + log(q / p)
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
    logs = p / q
    np.log(logs, out=logs)
    return float(np.add.reduce(p)), float(np.add.reduce(q)), dot(p, logs)
