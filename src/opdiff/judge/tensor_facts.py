"""What the judge looks at: rows of a comparison without tensors, and a few figures that are made of their numbers."""

from __future__ import annotations

from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opdiff.core.metrics import Metrics

# Below this, a norm is nothing that an error could be set beside.
_TINY = 1e-300


class Size(NamedTuple):
    """How large a golden tensor is, and how far the target is off; over the finite elements.

    Attributes:
        error: the relative Euclidean distance; infinite when only the golden tensor is zero.
        rms: the root of the mean square of the golden tensor.
        std: its deviation.
        peak: the largest absolute error.
        special: whether NaNs and infinities are not where the golden ones are.
    """

    error: float
    rms: float
    std: float
    peak: float
    special: bool

    @property
    def absolute(self) -> float:
        """The root of the mean square of the error."""
        return self.error * self.rms if self.rms else self.peak


def size_of(metrics: Metrics) -> Size | None:
    """The size of a tensor that was measured; `None` for one without elements."""
    if not metrics.count:
        return None
    special = metrics.special_mismatches > 0
    target, golden = metrics.worst_target, metrics.worst_golden
    peak = 0.0 if target is None or golden is None else float(abs(target - golden))
    mean, std = metrics.golden_mean, metrics.golden_std
    if mean is None or std is None or not isfinite(mean) or not isfinite(std):
        # NaNs in the golden data; what the error is beside it is known all the same.
        mean, std = 0.0, _finite_rms(metrics)
    return Size(_error(metrics, special=special), sqrt(mean * mean + std * std), std, peak, special)


def _error(metrics: Metrics, *, special: bool) -> float:
    if metrics.is_equal:
        return 0.0
    snr = metrics.snr_db
    if snr is None:
        return inf if special else 0.0
    return inf if snr == -inf else 10 ** (-snr / 20)


def _finite_rms(metrics: Metrics) -> float:
    """A stand-in for the norm of the finite golden numbers: the larger end of their range, less what peaks have."""
    ends = [abs(end) for end in (metrics.golden_min, metrics.golden_max) if end is not None]
    return max(ends, default=0.0) / 3


def equal_share(metrics: Metrics) -> float:
    """The share of elements that are equal."""
    if metrics.is_equal or not metrics.count:
        return 1.0
    bins = metrics.ulp_histogram or metrics.relative_histogram
    return bins[0] / metrics.count if bins else 0.0


def ratio(part: float, whole: float) -> float:
    """A quotient that is 0 for nothing and infinite for something beside nothing."""
    if whole > _TINY:
        return part / whole
    return inf if part > _TINY else 0.0
