"""Metrics of graph mode as formulas over sums."""

from __future__ import annotations

from math import inf, log, nan, sqrt
from typing import TYPE_CHECKING

from opdiff.core.metrics import DocumentedMetrics, ExtraMetrics, TensorStats
from opdiff.core.reasons import because
from opdiff.measure.sums import GRAPH_ZERO_THRESHOLD, scaled

if TYPE_CHECKING:
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.measure.sums import SideSums, Sums

# Norms up to this count as zero in the documented cosine.
_ZERO_NORM = 2.220446049250313e-16
# Smallest norm by which the additional cosine is divided.
_MIN_NORM = 1e-8
_MAX_MAGNITUDE = 1e300


def documented_metrics(sums: Sums, *, is_single: bool, is_scalar: bool) -> tuple[DocumentedMetrics, tuple[Reason, ...]]:
    """Return the documented metrics and notes about them.

    Pairs that are NaN or the same infinity on both sides count as equal and are left out. Any other NaN or infinity
    makes all metrics NaN. `is_single`: a tensor of one element; `is_scalar`: a tensor without axes.
    """
    if sums.non_finite.mismatches:
        return DocumentedMetrics(nan, nan, nan, nan, nan, nan), _mismatch_notes(sums)
    count = sums.pairs.count
    if not count:
        return DocumentedMetrics(1.0, 0.0, 0.0, 0.0, 1.0, 1.0), (because("measure.all_non_finite"),)
    cosine, notes = (None, ()) if is_single else _cosine(sums)
    # Golden values close to zero, but not zero, have relative errors like all others.
    graph, near_zero = sums.graph, sums.distribution.zero_golden - sums.graph.zeros
    metrics = DocumentedMetrics(
        cosine,
        None if is_scalar else scaled(sqrt(sums.pairs.squared_errors), sums.scale.errors),
        _largest_error(sums),
        _largest_relative(sums),
        None if is_scalar else 1 - (sums.distribution.over_1_permille - near_zero + graph.tiny_over_1_permille) / count,
        None if is_scalar else 1 - (sums.distribution.over_5_permille - near_zero + graph.tiny_over_5_permille) / count,
    )
    left_out = sums.count - count
    if left_out:
        notes += (because("measure.same_non_finite", count=left_out),)
    return metrics, notes


def _mismatch_notes(sums: Sums) -> tuple[Reason, ...]:
    sides = [
        because("measure.non_finite_side", side=name, nans=side.nans, infs=side.infs)
        for name, side in (("target", sums.target), ("golden", sums.golden))
        if not side.is_finite
    ]
    pairs = sums.non_finite
    return *sides, because("measure.non_finite_mismatch", count=pairs.mismatches, index=pairs.first_mismatch)


def _cosine(sums: Sums) -> tuple[float, tuple[Reason, ...]]:
    pairs = sums.pairs
    target, golden = _norms(sums)
    if target <= _ZERO_NORM and golden <= _ZERO_NORM:
        return 1.0, ()
    if target <= _ZERO_NORM or golden <= _ZERO_NORM:
        return nan, (because("measure.zero_side", side="target" if target <= _ZERO_NORM else "golden"),)
    if pairs.products == pairs.target_squares == pairs.golden_squares:
        return 1.0, ()
    cosine = pairs.products / (sqrt(pairs.target_squares) * sqrt(pairs.golden_squares))
    return max(min(cosine, 1.0), -1.0), ()


def _norms(sums: Sums) -> tuple[float, float]:
    pairs, scale = sums.pairs, sums.scale
    return scaled(sqrt(pairs.target_squares), scale.target), scaled(sqrt(pairs.golden_squares), scale.golden)


def _largest_error(sums: Sums) -> float | int:
    found = sums.worst.value if sums.worst is not None else 0.0
    # Integers are exact. The second pass distinguishes floats that are equal in single precision.
    return found if isinstance(found, int) else max(found, sums.graph.worst)


def _largest_relative(sums: Sums) -> float:
    if sums.graph.zeros:
        return inf
    largest = float(sums.worst_relative.value) if sums.worst_relative is not None else 0.0
    return max(largest, sums.graph.worst_relative, sums.graph.tiny_relative)


def extra_metrics(sums: Sums) -> ExtraMetrics | None:
    """Return the metrics of the additional columns; `None` with NaNs, infinities or without elements."""
    if not sums.count or not (_has_plain_numbers(sums.target) and _has_plain_numbers(sums.golden)):
        return None
    graph, norms = sums.graph, _norms(sums)
    distance = scaled(sqrt(sums.pairs.squared_errors), sums.scale.errors)
    divergence = graph.weighted / graph.golden_weight - log(graph.golden_weight) + log(graph.target_weight)
    return ExtraMetrics(
        _cosine_with_min_norms(sums),
        graph.worst_relative,
        graph.relative / sums.count,
        graph.worst,
        graph.absolute_errors / sums.count,
        max(divergence, 0.0),
        0.0 if norms[1] <= GRAPH_ZERO_THRESHOLD else distance / norms[1],
    )


def _has_plain_numbers(side: SideSums) -> bool:
    """Return whether all elements are finite, and small enough for the additional metrics."""
    return side.is_finite and side.largest <= _MAX_MAGNITUDE


def _cosine_with_min_norms(sums: Sums) -> float:
    """Return the cosine by the norms of both sides, which count as at least `_MIN_NORM`."""
    pairs, scale = sums.pairs, sums.scale
    if not (pairs.target_squares or pairs.golden_squares):
        return 1.0
    target = max(sqrt(pairs.target_squares), scaled(_MIN_NORM, -scale.target))
    golden = max(sqrt(pairs.golden_squares), scaled(_MIN_NORM, -scale.golden))
    return round(pairs.products / target / golden, 10)


def stats_of_sums(side: SideSums, dtype: str, shape: Shape, scale: int = 0) -> TensorStats:
    """Return the statistics of one side by its sums, whose numbers were divided by 2 to the power of `scale`."""
    infs = side.infs
    count = side.finite + side.nans + infs
    if not count:
        return TensorStats(dtype=dtype, shape=shape)
    if side.nans:
        return TensorStats(nan, nan, nan, nan, side.nans, infs, dtype=dtype, shape=shape)
    low = -inf if side.negative_infs else side.minimum
    high = inf if side.positive_infs else side.maximum
    if infs:
        mixed = side.positive_infs and side.negative_infs
        mean = nan if mixed else inf if side.positive_infs else -inf
        low = inf if low is None else low
        high = -inf if high is None else high
        return TensorStats(low, high, mean, inf, 0, infs, dtype=dtype, shape=shape)
    mean, norm = scaled(side.total / count, scale), scaled(sqrt(side.squares), scale)
    return TensorStats(low, high, mean, norm, 0, 0, "", dtype, shape)
