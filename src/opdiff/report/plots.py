"""Pictures of a comparison by matplotlib, where it is installed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Mode
from opdiff.core.errors import UsageError
from opdiff.core.metrics import RELATIVE_EDGES
from opdiff.core.reasons import because
from opdiff.report.curve import MAX_DISTANCE, MIN_DISTANCE, curve_points
from opdiff.report.page_text import page_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from opdiff.core.comparison import Comparison, Row

_COLOURS = {"wrong": "tab:red", "suspicious": "tab:orange"}
_MAX_TENSORS = 20
_MAX_SLICES = 64
_MAX_TICKS = 16


class _HeatMap(NamedTuple):
    """Labels of rows and columns, and values by row and column."""

    rows: list[str]
    columns: list[str]
    values: list[list[float]]


def plot_curve(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Draw the relative distances of outputs in the order of execution, with numbers at the operators at fault."""
    points = curve_points(comparison)
    if not points:
        raise UsageError(because("report.no_curve"))
    ax = _axes(ax)
    distances = [min(max(point.distance, MIN_DISTANCE), MAX_DISTANCE) for point in points]
    colours = [_COLOURS.get(point.level, "tab:green") for point in points]
    ax.scatter(range(len(points)), distances, s=14, c=colours)
    numbers = {finding.tensor: number for number, finding in enumerate(comparison.judgement.findings, 1)}
    for place, point in enumerate(points):
        number = numbers.pop(str(comparison.rows[point.row].key), None)
        if number is not None:
            ax.annotate(
                str(number), (place, distances[place]), xytext=(3, 3), textcoords="offset points", weight="bold"
            )
    ax.set(yscale="log", xlabel="outputs in the order of execution", ylabel="relative Euclidean distance")
    return ax


def plot_histogram(rows: Sequence[Row], name: str, ax: Axes | None = None) -> Axes:
    """Draw how many elements of the first measured tensor have relative errors of which magnitude."""
    counts = next(
        (row.metrics.relative_histogram for row in rows if row.metrics and row.metrics.relative_histogram), ()
    )
    if not counts:
        raise UsageError(because("report.no_histogram", name=name or "a tensor"))
    ax = _axes(ax)
    labels = ["equal", f"< {RELATIVE_EDGES[0]:.0e}", *(f"≥ {edge:.0e}" for edge in RELATIVE_EDGES)]
    ax.bar(range(len(counts)), counts)
    ax.set_xticks(range(len(counts)), labels, rotation=60, ha="right", fontsize="small")
    ax.set(title=page_text(name), ylabel="elements", xlabel="relative error")
    return ax


def plot_heatmap(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Draw errors of the worst tensors along an axis; in graph mode the worst distance by rank and token."""
    is_graph = comparison.mode is Mode.GRAPH
    heat = _unit_errors(comparison) if is_graph else _slice_errors(comparison)
    if not heat.values:
        raise UsageError(because("report.no_heat_map"))
    ax = _axes(ax)
    image = ax.imshow(heat.values, aspect="auto", cmap="viridis", interpolation="nearest")
    ax.set_yticks(range(len(heat.rows)), [page_text(label) for label in heat.rows], fontsize="small")
    places = range(0, len(heat.columns), -(-len(heat.columns) // _MAX_TICKS))
    ax.set_xticks(places, [heat.columns[place] for place in places])
    ax.set_xlabel("token" if is_graph else "position along the axis")
    label = "log10 of the distance" if is_graph else "error / largest error of the tensor"
    ax.figure.colorbar(image, ax=ax, label=label)
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib.pyplot import subplots
    except ImportError as error:
        raise UsageError(because("report.needs_matplotlib")) from error
    return subplots(figsize=(9, 3.2), layout="constrained")[1]


def _unit_errors(comparison: Comparison) -> _HeatMap:
    """Return the logarithms of the worst distances by rank and token; NaN where there is none."""
    worst: dict[tuple[int, int], float] = {}
    for point in curve_points(comparison):
        unit = comparison.rows[point.row].unit
        if unit is not None:
            key = (unit.rank or 0, unit.token)
            worst[key] = max(worst.get(key, 0.0), point.distance)
    ranks, tokens = (sorted({key[part] for key in worst}) for part in (0, 1))
    values = [[_log(worst.get((rank, token))) for token in tokens] for rank in ranks]
    return _HeatMap([f"rank {rank}" for rank in ranks], [str(token) for token in tokens], values)


def _log(distance: float | None) -> float:
    return math.nan if distance is None else math.log10(min(max(distance, MIN_DISTANCE), MAX_DISTANCE))


def _slice_errors(comparison: Comparison) -> _HeatMap:
    """Return the errors of tensors along their axes, in parts of equal widths."""
    profiles = [profile for profile in comparison.profiles if max(profile.errors, default=0.0) > 0][:_MAX_TENSORS]
    labels = [f"{comparison.rows[each.row].key} {each.label or f'axis {each.axis}'}" for each in profiles]
    columns = [f"{part / _MAX_SLICES:.0%}" for part in range(_MAX_SLICES)]
    return _HeatMap(labels, columns, [_resampled(profile.errors) for profile in profiles])


def _resampled(errors: Sequence[float]) -> list[float]:
    """Return the largest error of each part, divided by the largest of all."""
    count, largest = len(errors), max(errors)
    bounds = [(place * count // _MAX_SLICES, (place + 1) * count // _MAX_SLICES) for place in range(_MAX_SLICES)]
    return [max(errors[start : max(end, start + 1)]) / largest for start, end in bounds]
