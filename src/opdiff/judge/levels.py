"""Level of one tensor by its metrics and its error budget, and the reason for it."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from opdiff.core.judgement import Level
from opdiff.core.reasons import because
from opdiff.judge.limits import coarser
from opdiff.judge.tensor_facts import equal_share

if TYPE_CHECKING:
    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Reason
    from opdiff.judge.limits import Limit
    from opdiff.judge.tensor_facts import Size

    Opinion = tuple[Level, Reason]


def is_counted(row: Row) -> bool:
    """Whether its elements are integers or booleans on both sides, which are equal or not."""
    return coarser(row.target_dtype, row.golden_dtype) == "integer"


def opinion_of(metrics: Metrics, size: Size, limit: Limit, allowed: float, peak: float) -> Opinion:
    """The level of a tensor of floats that may be off by `allowed` (relative) and nowhere by more than `peak`."""
    if metrics.is_equal:
        return Level.EXACT, because("judge.all_equal")
    if size.special:
        return Level.WRONG, because("judge.special_mismatch", count=metrics.special_mismatches)
    if metrics.max_ulp is not None and metrics.max_ulp <= 1:
        return Level.ROUNDING, because("judge.ulp_distance", ulp=metrics.max_ulp)
    if size.peak <= limit.small_error and _end(metrics) <= limit.small:
        return Level.NOISE, because("judge.small_values", limit=limit.small, error=size.peak, allowed=limit.small_error)
    return _by_error(metrics, size, limit, allowed, peak)


def _by_error(metrics: Metrics, size: Size, limit: Limit, allowed: float, peak: float) -> Opinion:
    error = size.error
    if error > allowed:
        return _too_much(metrics, error, limit, allowed)
    room = peak + limit.peak * abs(metrics.worst_golden or 0)
    if size.peak > room:
        level = Level.WRONG if size.peak > _end(metrics) / 2 else Level.SUSPICIOUS
        return level, because("judge.element_error", error=size.peak, allowed=room)
    if error > limit.distance:
        return Level.SUSPICIOUS, because("judge.accumulated_error", error=error, limit=limit.distance)
    return Level.NOISE, because("judge.relative_error", error=error, allowed=allowed)


def _end(metrics: Metrics) -> float:
    """The larger end of the range of the golden numbers."""
    return max(abs(metrics.golden_min or 0), abs(metrics.golden_max or 0))


def _too_much(metrics: Metrics, error: float, limit: Limit, allowed: float) -> Opinion:
    if error > limit.distance:
        return Level.WRONG, because("judge.distance_above", error=error, allowed=allowed, limit=limit.distance)
    cosine = metrics.finite_cosine
    if cosine is not None and not isnan(cosine) and cosine < limit.cosine:
        facts = {"error": error, "allowed": allowed, "cosine": cosine, "limit": limit.cosine}
        return Level.WRONG, because("judge.cosine_below", **facts)
    return Level.SUSPICIOUS, because("judge.relative_error", error=error, allowed=allowed)


def counted(metrics: Metrics, limit: Limit) -> Opinion:
    """The level of a tensor of integers or booleans."""
    if metrics.is_equal:
        return Level.EXACT, because("judge.all_equal")
    unequal = 1 - equal_share(metrics)
    if metrics.max_ulp is not None and metrics.max_ulp <= 1 and (metrics.golden_max or 0) > 1:
        return Level.ROUNDING, because("judge.off_by_one", share=unequal)
    reason = because("judge.unequal_elements", share=unequal, allowed=limit.unequal)
    if unequal <= limit.unequal:
        return Level.NOISE, reason
    return Level.WRONG if unequal > 10 * limit.unequal else Level.SUSPICIOUS, reason


def of_places(metrics: Metrics, limit: Limit, *, values_agree: bool | None, inputs_agree: bool) -> Opinion:
    """The level of indices (TopK, ArgMax, …): other places of equal values are no fault.

    `values_agree` tells about the values of the same operator, where it has them.
    """
    if metrics.is_equal:
        return Level.EXACT, because("judge.indices_equal")
    unequal = 1 - equal_share(metrics)
    reason = because("judge.unequal_indices", share=unequal, allowed=limit.unequal)
    if values_agree:
        return Level.NOISE, because("judge.indices_near_ties", share=unequal)
    if unequal <= limit.unequal:
        return Level.NOISE, reason
    if values_agree is None and inputs_agree and unequal <= 0.5:
        return Level.SUSPICIOUS, because("judge.indices_doubtful", share=unequal)
    if values_agree is None and inputs_agree and metrics.count <= 8:
        return Level.SUSPICIOUS, because("judge.indices_too_few", share=unequal)
    return Level.WRONG, reason
