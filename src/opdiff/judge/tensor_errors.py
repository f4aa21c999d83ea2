"""Error of a tensor: its magnitude by the metrics, and its state for the operators that read the tensor."""

from __future__ import annotations

from math import hypot, inf, isfinite
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.metrics import Metrics

# Norms below this count as zero.
_TINY = 1e-300
# Signal-to-noise ratio below which the relative error is no float64.
_MIN_SNR_DB = -6160.0
# Stands for an infinite relative error, which could not be propagated.
_HUGE_ERROR = 1e6
# Larger relative errors are propagated as this error, so that products with errors are finite.
_MAX_PROPAGATED_ERROR = 1e100


class ErrorMagnitude(Struct, frozen=True, gc=False):
    """Magnitudes of a golden tensor and of the target's error, over the finite elements.

    Attributes:
        error: relative Euclidean distance; infinite if only the golden tensor is zero.
        rms: root mean square of the golden tensor.
        std: standard deviation of the golden tensor.
        peak: largest absolute error.
        has_special_mismatch: NaN or infinity at other positions than in the golden tensor.
    """

    error: float
    rms: float
    std: float
    peak: float
    has_special_mismatch: bool

    @property
    def rms_error(self) -> float:
        """Root mean square of the error."""
        return self.error * self.rms if self.rms else self.peak


def has_magnitude(metrics: Metrics | None) -> bool:
    """Return whether a tensor was measured and has elements."""
    return metrics is not None and metrics.count > 0


def error_magnitude(metrics: Metrics | None) -> ErrorMagnitude | None:
    """Return the error magnitude of a tensor, or `None` if it was not measured or has no elements."""
    if metrics is None or not metrics.count:
        return None
    target, golden = metrics.worst_target, metrics.worst_golden
    peak = 0.0 if target is None or golden is None else float(abs(target - golden))
    mean, std = metrics.golden_mean, metrics.golden_std
    if mean is None or std is None or not isfinite(mean) or not isfinite(std):
        # The golden tensor has NaN or infinity; the relative error of the finite elements is still known. Their root
        # mean square is estimated as a third of the largest magnitude.
        mean, std = 0.0, golden_peak(metrics) / 3
    has_mismatch, snr = metrics.special_mismatches > 0, metrics.snr_db
    if metrics.is_equal:
        error = 0.0
    elif snr is None:
        error = inf if has_mismatch else 0.0
    else:
        error = inf if snr < _MIN_SNR_DB else 10 ** (-snr / 20)
    return ErrorMagnitude(error, hypot(mean, std), std, peak, has_mismatch)


def golden_peak(metrics: Metrics) -> float:
    """Return the largest magnitude of the golden values."""
    return max(abs(metrics.golden_min or 0), abs(metrics.golden_max or 0))


def equal_share(metrics: Metrics) -> float:
    """Return the share of elements that are equal."""
    if metrics.is_equal or not metrics.count:
        return 1.0
    bins = metrics.ulp_histogram or metrics.relative_histogram
    return bins[0] / metrics.count if bins else 0.0


def ratio(part: float, whole: float) -> float:
    """Return the quotient; 0 for 0/0, infinite for another division by zero."""
    if whole > _TINY:
        return part / whole
    return inf if part > _TINY else 0.0


class ErrorState(Struct, frozen=True, gc=False):
    """Error of a tensor that operators read, as far as it is known.

    Attributes:
        error: relative error.
        noise: the part of the error that is noise.
        rms: root mean square of the golden tensor; 0 if unknown.
        std: standard deviation of the golden tensor.
        peak: largest absolute error.
        range: difference of the largest and the smallest golden value.
        count: number of elements.
        exceeds_noise: the error is more than noise.
        has_special_mismatch: NaN or infinity at other positions than in the golden tensor.
        source: operator whose output the tensor is; empty if unknown.
        uncompared: operators between the tensor and its reader that could not be compared.
        is_quantized: one of the uncompared operators works on quantized values.
        is_quantized_value: the integers are quantized quantities, not indices or counts.
        is_cancelled_sum: the relative error is large because nearly equal tensors were subtracted.
        gain: systematic relative error, the slope of the fitted line less 1.
    """

    error: float
    noise: float
    rms: float
    std: float
    peak: float
    range: float
    count: int
    exceeds_noise: bool
    has_special_mismatch: bool
    source: str
    uncompared: tuple[str, ...] = ()
    is_quantized: bool = False
    is_quantized_value: bool = False
    is_cancelled_sum: bool = False
    gain: float = 0.0


def worst_state(inputs: Sequence[ErrorState]) -> ErrorState:
    """Return the state with NaN or infinity at other positions, otherwise the state with the largest error."""
    return max(inputs, key=lambda state: (state.has_special_mismatch, state.error))


def combined_state(read: ErrorState, own: ErrorState) -> ErrorState:
    """State of a tensor whose own error comes on top of the error of the tensor that was read."""
    return replace(
        own,
        error=hypot(read.error, own.error),
        noise=hypot(read.noise, own.noise),
        exceeds_noise=read.exceeds_noise or own.exceeds_noise,
        has_special_mismatch=read.has_special_mismatch or own.has_special_mismatch,
        uncompared=read.uncompared,
    )


def measured_state(metrics: Metrics, magnitude: ErrorMagnitude, noise: float | None, source: str = "") -> ErrorState:
    """State of a bad tensor with this noise; if `noise` is `None`, of a good tensor, whose whole error is noise."""
    low, high, error = metrics.golden_min, metrics.golden_max, magnitude.error
    if not error <= _MAX_PROPAGATED_ERROR:
        error = _MAX_PROPAGATED_ERROR if error < inf else _HUGE_ERROR
    return ErrorState(
        error,
        error if noise is None else noise,
        magnitude.rms,
        magnitude.std,
        magnitude.peak,
        0.0 if low is None or high is None else float(high - low),
        metrics.count,
        noise is not None,
        magnitude.has_special_mismatch,
        source,
        gain=0.0 if metrics.fit_scale is None else metrics.fit_scale - 1,
    )
