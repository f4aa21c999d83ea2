"""Accuracy in the order of execution: one point for each output that was compared, and a line of bars of them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.judgement import LEVELS, Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Comparison, Row

MIN_DISTANCE, MAX_DISTANCE = 1e-7, 1e-1
"""Ends of the logarithmic scale of distances; everything beyond is shown at its ends."""

_BARS = "▁▂▃▄▅▆▇█"
_COLOURS = {Level.SUSPICIOUS: "33", Level.WRONG: "31"}
_GOOD = "32"


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


def sparkline(comparison: Comparison, columns: int, *, colour: bool = False) -> str:
    """Return a bar for each output, or for the worst of several outputs; empty for fewer than two outputs.

    Heights show relative Euclidean distances from 1e-7 to 0.1 on a logarithmic scale, colours show levels.
    """
    found = [(LEVELS.index(point.level), point.distance) for point in curve_points(comparison)]
    if len(found) < 2 or columns < 2:
        return ""
    groups = _groups(found, columns)
    worst = [map(max, zip(*group, strict=True)) for group in groups]
    bars = [(LEVELS[int(level)], _bar(distance)) for level, distance in worst]
    return "".join(f"\x1b[{_COLOURS.get(level, _GOOD)}m{bar}\x1b[0m" if colour else bar for level, bar in bars)


def _groups(found: Sequence[tuple[int, float]], columns: int) -> list[Sequence[tuple[int, float]]]:
    count = min(len(found), columns)
    ends = [len(found) * number // count for number in range(count + 1)]
    return [found[start:end] for start, end in pairwise(ends)]


def _bar(distance: float) -> str:
    return _BARS[min(int(height(distance) * len(_BARS)), len(_BARS) - 1)]
