"""Level of one tensor by its metrics and its error budget, the reason for the level, and the limits that apply."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.judgement import Level
from opdiff.core.reasons import because
from opdiff.judge.limits import coarser
from opdiff.judge.tensor_errors import equal_share, error_magnitude, golden_peak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Reason
    from opdiff.judge.limits import Limit, Limits
    from opdiff.judge.tensor_errors import ErrorMagnitude

    Assessment = tuple[Level, Reason]

# With this many unequal indices or more, near ties are not the only cause.
_MAX_NEAR_TIE_SHARE = 0.5
# In tensors up to this size near ties may change any share of the indices.
_MAX_COUNT_OF_FEW_INDICES = 8
# Unequal integers: this many times the allowed share is wrong, not only suspicious.
_WRONG_UNEQUAL_FACTOR = 10


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


class MeasuredTensor(Struct, frozen=True, gc=False):
    """A row with metrics.

    Attributes:
        row_index: index of the row.
        row: the row.
        metrics: its metrics.
        magnitude: magnitude of its error.
        dtype: element type whose limits apply.
        is_integer: whether both sides hold integers or booleans.
        limit: its limits.
    """

    row_index: int
    row: Row
    metrics: Metrics
    magnitude: ErrorMagnitude
    dtype: str
    is_integer: bool
    limit: Limit


def assess(tensor: MeasuredTensor, allowed: float, allowed_peak: float) -> Assessment:
    """Return level and reason of a tensor with this budget; integers are counted instead."""
    if tensor.is_integer:
        return assess_integers(tensor.metrics, tensor.limit)
    return assess_floats(tensor.metrics, tensor.magnitude, tensor.limit, allowed, allowed_peak)


class TensorLimits:
    """Tensors of a run with this noise, with their limits, looked up once for each element type and operator type."""

    def __init__(self, limits: Limits, run_noise: float) -> None:
        self.run_noise = run_noise
        self._limits = limits
        self._known: dict[tuple[str, str], Limit] = {}

    def find_tensor(self, rows: Sequence[Row], row_index: int) -> MeasuredTensor | None:
        """Return the tensor of a row; `None` if the tensor was not measured or has no elements."""
        row = rows[row_index]
        metrics, target, golden = row.metrics, row.target, row.golden
        magnitude = error_magnitude(metrics)
        if metrics is None or magnitude is None:
            return None
        dtype = coarser(target.dtype if target else "", golden.dtype if golden else "")
        limit = self.of_type(dtype, row)
        return MeasuredTensor(row_index, row, metrics, magnitude, dtype, dtype == "integer", limit)

    def of_type(self, dtype: str, row: Row) -> Limit:
        """Return the limits that a row with this element type would have."""
        op_type = row.label.op_type
        if self._limits.names:
            return self._limits.of(dtype, op_type, row.key.op if row.key else row.label.target)
        limit = self._known.get((dtype, op_type))
        if limit is None:
            limit = self._known[dtype, op_type] = self._limits.of(dtype, op_type, "")
        return limit

    def noise(self, tensor: MeasuredTensor) -> float:
        """Return the relative error that a simple operator may add in this run."""
        return tensor.limit.noise * self.run_noise
