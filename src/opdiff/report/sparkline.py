"""Accuracy in the order of execution, as one line of bars for the terminal."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from opdiff.core.judgement import LEVELS, Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Comparison, Row

_BARS = "▁▂▃▄▅▆▇█"
# Distances of the lowest and of the highest bar.
_MIN_DISTANCE, _MAX_DISTANCE = 1e-7, 1e-1
_COLOURS = {Level.SUSPICIOUS: "33", Level.WRONG: "31"}
_GOOD = "32"


def sparkline(comparison: Comparison, columns: int, *, colour: bool = False) -> str:
    """Return a bar for each output, or for the worst of several outputs; empty for fewer than two outputs.

    Heights show relative Euclidean distances from 1e-7 to 0.1 on a logarithmic scale, colours show levels.
    """
    found = [
        (LEVELS.index(verdict.level), _distance(row, verdict.level))
        for row, verdict in zip(comparison.rows, comparison.judgement.verdicts, strict=True)
        if verdict.level is not Level.NOT_COMPARABLE and row.is_output
    ]
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


def _distance(row: Row, level: Level) -> float:
    """Return the relative Euclidean distance; without one 0 for a good tensor (equal infinities), else infinity."""
    distance = row.metrics.relative_euclidean_distance if row.metrics else None
    if distance is None or math.isnan(distance):
        return math.inf if level.is_bad else 0.0
    return distance


def _bar(distance: float) -> str:
    if not _MIN_DISTANCE < distance < _MAX_DISTANCE:
        return _BARS[0 if distance <= _MIN_DISTANCE else -1]
    share = math.log(distance / _MIN_DISTANCE) / math.log(_MAX_DISTANCE / _MIN_DISTANCE)
    return _BARS[min(int(share * len(_BARS)), len(_BARS) - 1)]
