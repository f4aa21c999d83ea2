"""From the numbers of one tensor and what it may be off to a level, and the rule that decided in words."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from opdiff.core.comparison import Level
from opdiff.judge.limits import coarser
from opdiff.judge.tensor_facts import equal_share

if TYPE_CHECKING:
    from opdiff.core.comparison import Metrics
    from opdiff.judge.limits import Limit
    from opdiff.judge.tensor_facts import Row, Size

    # A level and the rule that decided.
    Opinion = tuple[Level, str]


def is_counted(row: Row) -> bool:
    """Whether its elements are integers or booleans on both sides, which are equal or not."""
    return coarser(row.target_dtype, row.golden_dtype) == "integer"


def opinion_of(metrics: Metrics, size: Size, limit: Limit, allowed: float, peak: float) -> Opinion:
    """The level of a tensor of floats that may be off by `allowed` (relative) and nowhere by more than `peak`."""
    if metrics.is_equal:
        return Level.EXACT, "all elements are equal"
    if size.special:
        return Level.WRONG, f"NaN or infinities in other places ({metrics.special_mismatches} elements)"
    if metrics.max_ulp is not None and metrics.max_ulp <= 1:
        return Level.ROUNDING, f"off by at most {metrics.max_ulp:.3g} units of the last place"
    if size.peak <= limit.small_error and _end(metrics) <= limit.small:
        rule = f"numbers below {limit.small:.3g}, off by at most {limit.small_error:.3g} ({size.peak:.3g})"
        return Level.NOISE, rule
    return _by_error(metrics, size, limit, allowed, peak)


def _by_error(metrics: Metrics, size: Size, limit: Limit, allowed: float, peak: float) -> Opinion:
    error = size.error
    rule = f"relative error {error:.3g}, {allowed:.3g} allowed"
    if error > allowed:
        return _too_much(metrics, error, limit, rule)
    room = peak + limit.peak * abs(metrics.worst_golden or 0)
    if size.peak > room:
        level = Level.WRONG if size.peak > _end(metrics) / 2 else Level.SUSPICIOUS
        return level, f"one element is off by {size.peak:.3g}, {room:.3g} allowed"
    if error > limit.distance:
        rule = f"relative error {error:.3g}, more than {limit.distance:.3g}, though no operator adds much"
        return Level.SUSPICIOUS, rule
    return Level.NOISE, rule


def _end(metrics: Metrics) -> float:
    """The larger end of the range of the golden numbers."""
    return max(abs(metrics.golden_min or 0), abs(metrics.golden_max or 0))


def _too_much(metrics: Metrics, error: float, limit: Limit, rule: str) -> Opinion:
    if error > limit.distance:
        return Level.WRONG, f"{rule}; more than {limit.distance:.3g} is wrong"
    cosine = metrics.finite_cosine
    if cosine is not None and not isnan(cosine) and cosine < limit.cosine:
        return Level.WRONG, f"{rule}; cosine {cosine:.4f} below {limit.cosine:.3g}"
    return Level.SUSPICIOUS, rule


def counted(metrics: Metrics, limit: Limit) -> Opinion:
    """The level of a tensor of integers or booleans."""
    if metrics.is_equal:
        return Level.EXACT, "all elements are equal"
    unequal = 1 - equal_share(metrics)
    if metrics.max_ulp is not None and metrics.max_ulp <= 1 and (metrics.golden_max or 0) > 1:
        return Level.ROUNDING, f"integers off by at most 1 ({unequal:.2%} of them)"
    if unequal <= limit.unequal:
        return Level.NOISE, f"{unequal:.2%} of the elements are unequal, {limit.unequal:.2%} allowed"
    level = Level.WRONG if unequal > 10 * limit.unequal else Level.SUSPICIOUS
    return level, f"{unequal:.2%} of the elements are unequal, {limit.unequal:.2%} allowed"


def of_places(metrics: Metrics, limit: Limit, *, values_agree: bool | None, inputs_agree: bool) -> Opinion:
    """The level of indices (TopK, ArgMax, …): other places of equal values are no fault.

    `values_agree` tells about the values of the same operator, where it has them.
    """
    if metrics.is_equal:
        return Level.EXACT, "all indices are equal"
    unequal = 1 - equal_share(metrics)
    share = f"{unequal:.2%} of the indices are unequal"
    if values_agree:
        return Level.NOISE, f"{share}, and the values that they stand for agree: near ties"
    if unequal <= limit.unequal:
        return Level.NOISE, f"{share}, {limit.unequal:.2%} allowed"
    if values_agree is None and inputs_agree and unequal <= 0.5:
        return Level.SUSPICIOUS, f"{share}; near ties, or a fault"
    if values_agree is None and inputs_agree and metrics.count <= 8:
        return Level.SUSPICIOUS, f"{share}; there are few of them, so that near ties may do that"
    return Level.WRONG, f"{share}, {limit.unequal:.2%} allowed"
