"""Accuracy in the order of execution, as one line of bars for the terminal."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from opdiff.core.judgement import LEVELS, Level
from opdiff.report.curve import curve_points, height

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Comparison

_BARS = "▁▂▃▄▅▆▇█"
_COLOURS = {Level.SUSPICIOUS: "33", Level.WRONG: "31"}
_GOOD = "32"


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
