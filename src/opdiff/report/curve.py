"""Accuracy in the order of execution: one point for each output that was compared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.judgement import Level

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison, Row

MIN_DISTANCE, MAX_DISTANCE = 1e-7, 1e-1
"""Ends of the logarithmic scale of distances; everything beyond is shown at its ends."""


class CurvePoint(Struct, frozen=True):
    """Number of a row, its relative Euclidean distance, and the level of the tensor."""

    row: int
    distance: float
    level: Level


def curve_points(comparison: Comparison) -> list[CurvePoint]:
    """Return the points of all compared outputs."""
    judged = zip(comparison.rows, comparison.judgement.verdicts, strict=True)
    return [
        CurvePoint(number, _distance(row, verdict.level), verdict.level)
        for number, (row, verdict) in enumerate(judged)
        if verdict.level is not Level.NOT_COMPARABLE and row.is_output
    ]


def height(distance: float) -> float:
    """Return the position of a distance on the scale, from 0 to 1."""
    if not MIN_DISTANCE < distance < MAX_DISTANCE:
        return 0.0 if distance <= MIN_DISTANCE else 1.0
    return math.log(distance / MIN_DISTANCE) / math.log(MAX_DISTANCE / MIN_DISTANCE)


def _distance(row: Row, level: Level) -> float:
    """Return the relative Euclidean distance; without one 0 for a good tensor (equal infinities), else infinity."""
    distance = row.metrics.relative_euclidean_distance if row.metrics else None
    if distance is None or math.isnan(distance):
        return math.inf if level.is_bad else 0.0
    return distance
