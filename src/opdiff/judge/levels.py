"""Level of one tensor by its metrics and its error budget, and the reason for the level."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from opdiff.core.judgement import Level
from opdiff.core.reasons import because
from opdiff.judge.error_magnitude import equal_share, golden_peak
from opdiff.judge.limits import coarser

if TYPE_CHECKING:
    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Reason
    from opdiff.judge.error_magnitude import ErrorMagnitude
    from opdiff.judge.limits import Limit

    Assessment = tuple[Level, Reason]

# With this many unequal indices or more, near ties are not the only cause.
_MAX_NEAR_TIE_SHARE = 0.5
# In tensors up to this size near ties may change any share of the indices.
_MAX_COUNT_OF_FEW_INDICES = 8
# Unequal integers: this many times the allowed share is wrong, not only suspicious.
_WRONG_UNEQUAL_FACTOR = 10


def is_integer(row: Row) -> bool:
    """Return whether both sides hold integers or booleans."""
    return coarser(row.target_dtype, row.golden_dtype) == "integer"


def assess_floats(
    metrics: Metrics, magnitude: ErrorMagnitude, limit: Limit, allowed: float, allowed_peak: float
) -> Assessment:
    """Return level and reason of a tensor of floats, by the allowed relative error and the allowed absolute error."""
    if metrics.is_equal:
        return Level.EXACT, because("judge.all_equal")
    if magnitude.has_special_mismatch:
        return Level.WRONG, because("judge.special_mismatch", count=metrics.special_mismatches)
    if metrics.max_ulp is not None and metrics.max_ulp <= 1:
        return Level.ROUNDING, because("judge.ulp_distance", ulp=metrics.max_ulp)
    if magnitude.peak <= limit.small_error and golden_peak(metrics) <= limit.small:
        small = because("judge.small_values", limit=limit.small, error=magnitude.peak, allowed=limit.small_error)
        return Level.NOISE, small
    if magnitude.error > allowed:
        return _over_budget(metrics, magnitude.error, limit, allowed)
    return _within_budget(metrics, magnitude, limit, allowed, allowed_peak)


def _over_budget(metrics: Metrics, error: float, limit: Limit, allowed: float) -> Assessment:
    if error > limit.distance:
        return Level.WRONG, because("judge.distance_above", error=error, allowed=allowed, limit=limit.distance)
    cosine = metrics.finite_cosine
    if cosine is not None and not isnan(cosine) and cosine < limit.cosine:
        facts = {"error": error, "allowed": allowed, "cosine": cosine, "limit": limit.cosine}
        return Level.WRONG, because("judge.cosine_below", **facts)
    return Level.SUSPICIOUS, because("judge.relative_error", error=error, allowed=allowed)


def _within_budget(
    metrics: Metrics, magnitude: ErrorMagnitude, limit: Limit, allowed: float, allowed_peak: float
) -> Assessment:
    """Level by the worst element, and by the error that earlier operators accumulated."""
    allowed_peak += limit.peak * abs(metrics.worst_golden or 0)
    if magnitude.peak > allowed_peak:
        level = Level.WRONG if magnitude.peak > golden_peak(metrics) / 2 else Level.SUSPICIOUS
        return level, because("judge.element_error", error=magnitude.peak, allowed=allowed_peak)
    if magnitude.error > limit.distance:
        return Level.SUSPICIOUS, because("judge.accumulated_error", error=magnitude.error, limit=limit.distance)
    return Level.NOISE, because("judge.relative_error", error=magnitude.error, allowed=allowed)


def assess_integers(metrics: Metrics, limit: Limit) -> Assessment:
    """Return level and reason of a tensor of integers or booleans."""
    if metrics.is_equal:
        return Level.EXACT, because("judge.all_equal")
    unequal = 1 - equal_share(metrics)
    if metrics.max_ulp is not None and metrics.max_ulp <= 1 and (metrics.golden_max or 0) > 1:
        return Level.ROUNDING, because("judge.off_by_one", share=unequal)
    reason = because("judge.unequal_elements", share=unequal, allowed=limit.unequal)
    if unequal <= limit.unequal:
        return Level.NOISE, reason
    return Level.WRONG if unequal > _WRONG_UNEQUAL_FACTOR * limit.unequal else Level.SUSPICIOUS, reason


def assess_indices(metrics: Metrics, limit: Limit, *, values_agree: bool | None, inputs_agree: bool) -> Assessment:
    """Return level and reason of indices (TopK, ArgMax, …); indices of equal values are interchangeable.

    `values_agree` is about the values that the same operator returns; `None` if it returns none.
    """
    if metrics.is_equal:
        return Level.EXACT, because("judge.indices_equal")
    unequal = 1 - equal_share(metrics)
    reason = because("judge.unequal_indices", share=unequal, allowed=limit.unequal)
    if values_agree:
        return Level.NOISE, because("judge.indices_near_ties", share=unequal)
    if unequal <= limit.unequal:
        return Level.NOISE, reason
    if values_agree is None and inputs_agree:
        if unequal <= _MAX_NEAR_TIE_SHARE:
            return Level.SUSPICIOUS, because("judge.indices_doubtful", share=unequal)
        if metrics.count <= _MAX_COUNT_OF_FEW_INDICES:
            return Level.SUSPICIOUS, because("judge.indices_too_few", share=unequal)
    return Level.WRONG, reason
