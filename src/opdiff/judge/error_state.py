"""Error of a tensor, as far as it matters to the operators that read the tensor."""

from __future__ import annotations

from math import hypot, inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.metrics import Metrics
    from opdiff.judge.error_magnitude import ErrorMagnitude

# Stands for an infinite relative error, which could not be propagated.
_HUGE_ERROR = 1e6
# Larger relative errors are propagated as this error, so that products with errors are finite.
_MAX_PROPAGATED_ERROR = 1e100


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
