"""Own error of an operator: the difference between its output and the replayed output, and the allowed difference."""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opdiff.core import codes as elements
from opdiff.core.dtypes import Kind, largest_finite
from opdiff.judge.error_model import error_model_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.judge.limits import Limit

# Roundings of fused operators do not add up to more than this, in units of the limit `noise`, unless one has more.
_MAX_ROUNDING = 2.0
# Differences between ways of computing that a device may use, in terms of which an error is still noise.
_SPREAD_FACTOR = 4.0
# Relative distance of two neighbours in types in which devices quantize; and the largest share of ties.
_STEPS = {"float16": 2**-10, "bfloat16": 2**-7}
_MAX_TIE_SHARE = 0.25


class Difference(NamedTuple):
    """Difference of two arrays: relative distance, largest error of an element, share of unequal elements.

    `worst` is the row-major index of the element with the largest error.
    """

    error: float = 0.0
    peak: float = 0.0
    unequal: float = 0.0
    worst: int = 0


class Allowance(NamedTuple):
    """Differences that an operator may have; `small` and `small_error` as in `Limit`."""

    error: float
    peak: float
    unequal: float
    small: float = 0.0
    small_error: float = 0.0

    def permits(self, difference: Difference) -> bool:
        """Return whether a difference is noise."""
        pairs = zip(difference[:3], self[:3], strict=True)
        return all(value <= limit for value, limit in pairs)

    def with_ties(self, target: AnyArray, replayed: AnyArray, device: DType, usual: float) -> Allowance:
        """Return the allowance for integers that were rounded from floats of a device's type.

        Rounding errors of this type decide to which of two integers a number near the middle between them is rounded.
        If more than the usual share of integers differ by more than one, near ties do not explain the difference.
        """
        step = _STEPS.get(device.name, 0.0)
        if not step or "f" in (target.dtype.kind, replayed.dtype.kind) or not target.size:
            return self
        distances = np.abs(target.astype(np.int64) - replayed.astype(np.int64))
        if float((distances > 1).mean()) > usual:
            return self._replace(unequal=usual)
        share = 2 * step * float(np.abs(replayed.astype(np.int64)).mean())
        return self._replace(unequal=max(self.unequal, min(self.unequal + share, _MAX_TIE_SHARE)))

    def widened(self, spread: Difference) -> Allowance:
        """Return the allowance for an operator whose result differs this much between ways of computing it."""
        return self._replace(
            error=max(self.error, _SPREAD_FACTOR * spread.error),
            peak=max(self.peak, _SPREAD_FACTOR * spread.peak),
            unequal=max(self.unequal, min(1.0, _SPREAD_FACTOR * spread.unequal)),
        )


def allowance_of(limit: Limit, op_types: Iterable[str], output: DType) -> Allowance:
    """Return the noise of one operator that computes the given types of original operators."""
    roundings = [1.0, *(error_model_of(op_type).rounding for op_type in op_types)]
    together = sqrt(sum(rounding**2 for rounding in roundings[1:]))
    factor = max(*roundings, min(together, _MAX_ROUNDING)) if len(roundings) > 1 else 1.0
    # Floats that are NaN on one side only are never noise.
    unequal = 0.0 if output.kind is Kind.FLOAT else limit.unequal
    return Allowance(factor * limit.noise, factor * limit.peak, unequal, limit.small, limit.small_error)


def as_device(array: AnyArray, dtype: DType) -> AnyArray:
    """Return numbers rounded to a device's type; beyond its range they saturate."""
    if dtype.kind is not Kind.FLOAT or array.dtype.kind not in "fc":
        return array
    rounded = elements.decode(elements.encode(array, dtype), dtype)
    largest = largest_finite(dtype) or inf
    return np.clip(rounded, -largest, largest) if np.isinf(rounded).any() else rounded


def difference(target: AnyArray, replayed: AnyArray, allowance: Allowance) -> Difference:
    """Return the difference of two arrays of the same shape, both rounded to the type of the output."""
    if "f" not in (target.dtype.kind, replayed.dtype.kind):
        differs = (target != replayed).ravel()
        return Difference(0.0, 0.0, float(differs.mean()), int(differs.argmax())) if differs.size else Difference()
    first, second = (array.astype(np.float64).ravel() for array in (target, replayed))
    is_finite = np.isfinite(first) & np.isfinite(second)
    mismatches = np.isfinite(first) != np.isfinite(second)
    first, second = np.where(is_finite, first, 0.0), np.where(is_finite, second, 0.0)
    found = _float_difference(first, second, allowance)
    if not mismatches.any():
        return found
    return found._replace(unequal=float(mismatches.mean()), worst=int(mismatches.argmax()))


def _float_difference(target: AnyArray, replayed: AnyArray, allowance: Allowance) -> Difference:
    """Return the difference of two flat arrays of finite numbers."""
    errors = np.abs(target - replayed)
    largest = errors.max(initial=0.0)
    if largest <= allowance.small_error and np.abs(replayed).max(initial=0.0) < allowance.small:
        return Difference()
    norm, distance = (sqrt(float(np.square(array).sum())) for array in (replayed, errors))
    if not norm:
        return Difference(inf, inf, worst=int(errors.argmax())) if distance else Difference()
    peaks = errors / (np.abs(replayed) + norm / sqrt(replayed.size))
    return Difference(distance / norm, float(peaks.max()), worst=int(peaks.argmax()))
