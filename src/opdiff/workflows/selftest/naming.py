"""What a comparison says about a tensor in which a fault was planted: whether it was found, and as what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.align.walk import walk_pair
from opdiff.measure.detail import Examination, compare_block, real_shape
from opdiff.workflows.element_diff.detective import What, investigate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.comparison import Measured, Metrics
    from opdiff.workflows.element_diff.detective import Suspect

GOOD_COSINE = 0.99
GOOD_DISTANCE = 0.05
# What may be left of the distance from a straight line that explains a difference.
_ON_A_LINE = 0.02
_BLOCK = 1 << 16


def is_found(row: Measured) -> bool:
    """Whether the numbers of a row are beyond the usual limits."""
    metrics = row.metrics
    if metrics is None:
        return True
    cosine, distance = metrics.finite_cosine, metrics.relative_euclidean_distance
    return (
        metrics.special_mismatches > 0
        or cosine is None
        or distance is None
        or not (cosine >= GOOD_COSINE and distance <= GOOD_DISTANCE)
    )


def named(row: Measured, suspects: Iterable[Suspect]) -> tuple[str, ...]:
    """What the evidence says is wrong with a tensor; empty when it says nothing."""
    metrics = row.metrics
    if metrics is None:
        return ()
    if metrics.special_mismatches:
        return ("overflow",)
    if metrics.target_min == 0 == metrics.target_max:
        return ("zero",)
    line = _on_a_line(metrics)
    if line:
        return line
    explained = investigate(row.pairing, suspects)
    if explained:
        return ("other tensor" if explained[0].kind in (What.OTHER, What.INPUTS) else "order",)
    return ("channel",) if _is_in_a_slice(row) else ()


def _on_a_line(metrics: Metrics) -> tuple[str, ...]:
    """A factor or a constant, where one of them explains everything."""
    scale, offset, left = metrics.fit_scale, metrics.fit_offset, metrics.fit_distance
    mean, std = metrics.golden_mean, metrics.golden_std
    if scale is None or offset is None or left is None or mean is None or std is None or left > _ON_A_LINE:
        return ()
    size = float((mean**2 + std**2) ** 0.5)
    is_scaled, is_moved = abs(scale - 1) > _ON_A_LINE, abs(offset) > _ON_A_LINE * size
    return ("scale",) * is_scaled + ("offset",) * is_moved


def _is_in_a_slice(row: Measured) -> bool:
    """Whether a few slices of one axis carry nearly all of the error."""
    pair = walk_pair(row.pairing)
    examination = Examination(real_shape(pair.shape, pair.target.dtype), 1)
    parts = len(real_shape((), pair.target.dtype)) + 1
    for start in range(0, pair.target.count, _BLOCK):
        sides = pair.target.block(start, start + _BLOCK), pair.golden.block(start, start + _BLOCK)
        examination.add(compare_block(start * parts, sides[0], pair.target.dtype, sides[1], pair.golden.dtype))
    return any(axis.carriers for axis in examination.detail().axes)
