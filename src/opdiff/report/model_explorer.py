"""Node data for Model Explorer: the relative Euclidean distance of every operator, coloured by level.

Keys are the names of the golden operators, so that the file can be opened with the original model, and those of the
target's. Operators that were fused to one all have its value.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import open_atomic
from opdiff.core.judgement import LEVELS, Level

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from opdiff.core.comparison import Comparison, Row

# Background and text colours, as in the HTML report.
_COLOURS = {
    Level.EXACT: ("#14795a", "#ffffff"),
    Level.ROUNDING: ("#3c9d78", "#ffffff"),
    Level.NOISE: ("#82c2a0", "#10241a"),
    Level.SUSPICIOUS: ("#d29200", "#10241a"),
    Level.WRONG: ("#c62f45", "#ffffff"),
}


def write_model_explorer(comparison: Comparison, path: str) -> None:
    """Write the data of one graph."""
    worst: dict[str, tuple[int, float]] = {}
    for row, verdict in zip(comparison.rows, comparison.judgement.verdicts, strict=True):
        value = _value(row)
        if verdict.level is Level.NOT_COMPARABLE or value is None:
            continue
        for name in _names(row):
            worst[name] = max(worst.get(name, (0, 0.0)), (LEVELS.index(verdict.level), value))
    results = {name: _result(LEVELS[level], value) for name, (level, value) in worst.items()}
    with open_atomic(path) as file:
        file.write(json.dumps({"results": results}, indent=1, allow_nan=False).encode())


def _names(row: Row) -> Iterator[str]:
    names = {*row.label.golden.split(","), *row.label.target.split(",")} - {"", "*"}
    if row.is_output:
        yield from sorted(names)


def _value(row: Row) -> float | None:
    """Return the relative Euclidean distance; 1 if it is not finite, `None` if it was not measured."""
    distance = row.metrics.relative_euclidean_distance if row.metrics else None
    if distance is None:
        return None
    return distance if math.isfinite(distance) else 1.0


def _result(level: Level, value: float) -> dict[str, Any]:
    background, text = _COLOURS[level]
    return {"value": value, "bgColor": background, "textColor": text}
