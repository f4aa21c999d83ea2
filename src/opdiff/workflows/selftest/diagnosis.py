"""Diagnosis of a tensor with an injected fault: whether the fault is found, and by which name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.align.element_reader import open_pair
from opdiff.core.error_facts import ExplanationKind
from opdiff.workflows.element_diff.blocks import examine_elements
from opdiff.workflows.element_diff.explain import explain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.pairing import Pairing
    from opdiff.workflows.element_diff.explanation import Candidate

_MIN_COSINE = 0.99
_MAX_DISTANCE = 0.05
# Tolerance of a linear fit that explains a difference: of its residual, its factor and its relative offset.
_LINEAR_FIT_TOLERANCE = 0.02


class MeasuredPair(Struct, frozen=True):
    """A pairing and its row."""

    pairing: Pairing
    row: Row

    @property
    def metrics(self) -> Metrics | None:
        """The numbers of the row."""
        return self.row.metrics


def is_beyond_limits(row: MeasuredPair) -> bool:
    """Return whether the metrics of a row are beyond the usual limits."""
    metrics = row.metrics
    if metrics is None:
        return True
    cosine, distance = metrics.finite_cosine, metrics.relative_euclidean_distance
    return (
        metrics.special_mismatches > 0
        or cosine is None
        or distance is None
        or not (cosine >= _MIN_COSINE and distance <= _MAX_DISTANCE)
    )


def diagnose(row: MeasuredPair, candidates: Iterable[Candidate]) -> tuple[str, ...]:
    """Return the names of the fault that the evidence supports; empty if there are none."""
    metrics = row.metrics
    if metrics is None:
        return ()
    if metrics.special_mismatches:
        return ("overflow",)
    if metrics.target_min == 0 == metrics.target_max:
        return ("zero",)
    linear = _linear_fault(metrics)
    if linear:
        return linear
    explanations = explain(row.pairing, candidates)
    if explanations:
        is_other = explanations[0].kind in (ExplanationKind.OTHER_TENSOR, ExplanationKind.INPUT_ORDER)
        return ("other tensor" if is_other else "order",)
    # A few slices of one axis carry nearly all of the error.
    axes = examine_elements(open_pair(*row.pairing.operands)).axes
    return ("channel",) if any(axis.carriers for axis in axes) else ()


def _linear_fault(metrics: Metrics) -> tuple[str, ...]:
    """Return a wrong scale or offset, if a linear fit explains the difference."""
    scale, offset, residual = metrics.fit_scale, metrics.fit_offset, metrics.fit_distance
    mean, std = metrics.golden_mean, metrics.golden_std
    if scale is None or offset is None or residual is None or mean is None or std is None:
        return ()
    if residual > _LINEAR_FIT_TOLERANCE:
        return ()
    root_mean_square = float((mean**2 + std**2) ** 0.5)
    is_scaled = abs(scale - 1) > _LINEAR_FIT_TOLERANCE
    is_shifted = abs(offset) > _LINEAR_FIT_TOLERANCE * root_mean_square
    return ("scale",) * is_scaled + ("offset",) * is_shifted
