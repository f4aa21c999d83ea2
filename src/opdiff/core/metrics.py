"""Metrics of two tensors, and statistics of one with their differences: numbers only."""

from __future__ import annotations

from math import inf, isfinite, isnan, nan

from msgspec import Struct

from opdiff.core.reasons import Reason
from opdiff.core.tensor import Shape

RELATIVE_EDGES = tuple(2.0**power for power in range(-27, 6, 2))
"""Bin 0 has the equal pairs, bin 1 the relative errors below the first edge, bin k those from edge k - 1 on."""

ULP_EDGES = tuple(2.0**power for power in range(-1, 21))
"""The same for distances in units of the last place."""


class Metrics(Struct, frozen=True, gc=False, array_like=True):
    """Metrics of two tensors with the same number of elements.

    NaN is a measured NaN, caused by NaNs or infinities in the data. `None` is not measured, for the reason in `notes`.
    The ten documented metrics come first; the others are over the elements that are finite on both sides.

    `fit_scale` and `fit_offset` are those of the fitted line x = scale·y + offset; `fit_distance` is the relative
    Euclidean distance from it. Bins of histograms: equal, below the first edge, from each edge on.
    """

    count: int
    cosine: float | None
    max_absolute_error: float | int | None
    accumulated_relative_error: float | None
    relative_euclidean_distance: float | None
    kl_divergence: float | None
    target_mean: float | None
    target_std: float | None
    golden_mean: float | None
    golden_std: float | None
    mean_absolute_error: float | None
    root_mean_square_error: float | None
    max_relative_error: float | None
    mean_relative_error: float | None
    # Not documented.
    is_equal: bool
    target_nans: int
    target_infs: int
    golden_nans: int
    golden_infs: int
    special_mismatches: int
    first_special_mismatch: int | None
    finite_count: int
    finite_cosine: float | None
    centred_cosine: float | None
    norm_ratio: float | None
    snr_db: float | None
    error_bias: float | None
    over_1_permille: float | None
    over_5_permille: float | None
    max_ulp: float | int | None
    worst_index: int | None
    worst_target: float | int | None
    worst_golden: float | int | None
    notes: tuple[Reason, ...] = ()
    target_min: float | int | None = None
    target_max: float | int | None = None
    golden_min: float | int | None = None
    golden_max: float | int | None = None
    fit_scale: float | None = None
    fit_offset: float | None = None
    fit_distance: float | None = None
    zero_golden: float | None = None
    worst_relative_index: int | None = None
    relative_histogram: tuple[int, ...] = ()
    ulp_histogram: tuple[int, ...] = ()
    worst_relative_target: float | int | None = None
    worst_relative_golden: float | int | None = None


class DocumentedMetrics(Struct, frozen=True, gc=False, array_like=True):
    """Documented metrics of graph mode; NaN if only one side has a NaN or an infinity.

    `None` is undefined, as the cosine of a single number.
    """

    cosine: float | None
    euclidean: float | None
    max_abs: float | int
    max_relative: float
    one_permille: float | None
    five_permille: float | None


class ExtraMetrics(Struct, frozen=True, gc=False, array_like=True):
    """Metrics of the additional columns of graph mode; golden values up to 2⁻²³ count as zero."""

    cosine: float
    max_relative: float
    mean_relative: float
    max_abs: float
    mean_abs: float
    kl: float
    relative_distance: float


INFORMATION = ("mean", "l2norm", "specials", "crc32", "histogram")
"""Statistics besides minimum and maximum, by the names of the command line."""


class TensorStats(Struct, frozen=True, gc=False, array_like=True):
    """Statistics of one tensor; `None` if unknown. A NaN in the data makes the first four NaN.

    Attributes:
        minimum: minimum; integers stay exact.
        maximum: maximum.
        mean: mean.
        norm: L2 norm.
        nans: number of NaNs.
        infs: number of infinities.
        crc32: CRC-32 of the bytes, 8 hexadecimal digits; empty if unknown.
        dtype: element type; empty if unknown.
        shape: logical shape.
        histogram: number of finite elements in equal parts of the range; empty if not computed.
    """

    minimum: float | int | None = None
    maximum: float | int | None = None
    mean: float | None = None
    norm: float | None = None
    nans: int | None = None
    infs: int | None = None
    crc32: str = ""
    dtype: str = ""
    shape: Shape | None = None
    histogram: tuple[int, ...] = ()


class Difference(Struct, frozen=True):
    """Difference of a statistic: signed, and relative to the golden value; `None` if unknown."""

    absolute: float | int | None
    relative: float | None


STATISTICS = {"max": "maximum", "min": "minimum", "mean": "mean", "norm": "norm"}
"""Compared statistics, and their fields in `TensorStats`."""


def differences(target: TensorStats | None, golden: TensorStats | None) -> dict[str, Difference]:
    """Return the differences of the statistics of both sides."""
    if target is None or golden is None:
        return {name: Difference(None, None) for name in STATISTICS}
    return {name: _difference(getattr(target, key), getattr(golden, key)) for name, key in STATISTICS.items()}


def _difference(target: float | None, golden: float | None) -> Difference:
    if target is None or golden is None:
        return Difference(None, None)
    if target == golden or (isnan(target) and isnan(golden)):
        return Difference(0, 0.0)
    if isnan(target) or isnan(golden):
        return Difference(nan, nan)
    if not isfinite(target) or not isfinite(golden):
        infinity = inf if inf in (target, -golden) else -inf
        return Difference(infinity, infinity)
    difference = target - golden
    return Difference(difference, abs(difference / golden) if golden else inf)
