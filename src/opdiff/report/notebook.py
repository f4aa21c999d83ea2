"""A comparison in notebooks: as HTML with verdict, coverage, operators at fault and the curve, and as plots.

Colours of the HTML are readable on light and on dark backgrounds. Names come from files and are escaped.
Plots are drawn by matplotlib, where it is installed.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Mode
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable
from opdiff.core.judgement import LEVELS, Level, Outcome
from opdiff.core.metrics import RELATIVE_EDGES
from opdiff.core.reasons import because, render
from opdiff.report.curve import MAX_DISTANCE, MIN_DISTANCE, curve_points, height
from opdiff.report.page_text import page_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.judgement import Finding
    from opdiff.report.curve import CurvePoint

_RED, _YELLOW, _GREEN, _GREY = "#d6453d", "#c08417", "#2f9e5b", "#8a8f98"
_OUTCOMES = {Outcome.WRONG: _RED, Outcome.SUSPICIOUS: _YELLOW, Outcome.UNSURE: _YELLOW, Outcome.CLEAN: _GREEN}
_LEVELS = {Level.WRONG: _RED, Level.SUSPICIOUS: _YELLOW}
_MAX_FINDINGS = 10
_MAX_POINTS = 400
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 150, 46, 12, 14, 22
_CELL = "text-align:left;padding:2px 14px 2px 0;vertical-align:top"
_PLOT_COLOURS = {"wrong": "tab:red", "suspicious": "tab:orange"}
_MAX_TENSORS = 20
_MAX_SLICES = 64
_MAX_TICKS = 16


def notebook_html(comparison: Comparison) -> str:
    """Return a fragment of HTML."""
    parts = (_headline(comparison), _coverage(comparison), _findings(comparison.judgement.findings), _curve(comparison))
    return f'<div style="font:13px/1.5 system-ui,sans-serif;max-width:{_WIDTH}px">{"".join(parts)}</div>'


def _safe(text: str) -> str:
    return escape(printable(text))


def _headline(comparison: Comparison) -> str:
    judgement = comparison.judgement
    sentence = render(judgement.advice[0]) if judgement.advice else ""
    colour = _OUTCOMES[judgement.outcome]
    badge = f"color:#fff;background:{colour};border-radius:3px;padding:1px 7px;font-weight:600"
    return f'<div><span style="{badge}">{judgement.outcome}</span> <b>{_safe(sentence)}</b></div>'


def _coverage(comparison: Comparison) -> str:
    coverage = comparison.judgement.coverage
    by = (("data", coverage.data), ("statistics", coverage.statistics), ("checksums", coverage.checksums))
    listed = ", ".join(f"{count} tensors by {name}" for name, count in by if count)
    counts = f"{coverage.compared} of {coverage.operators} operators compared"
    return f'<div style="color:{_GREY}">{"; ".join(filter(None, (counts, listed)))}</div>'


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    titles = ("", "operator", "type", "kind", "share")
    heads = "".join(f'<th style="{_CELL};color:{_GREY}">{title}</th>' for title in titles)
    rows = "".join(_finding(number, finding) for number, finding in enumerate(findings[:_MAX_FINDINGS], 1))
    more = len(findings) - _MAX_FINDINGS
    rest = f'<div style="color:{_GREY}">and {more} more in <code>.findings</code></div>' if more > 0 else ""
    style = "border-collapse:collapse;margin:6px 0;font-size:13px"
    return f'<table style="{style}"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{rest}'


def _finding(number: int, finding: Finding) -> str:
    share = "" if finding.share is None else f"{finding.share:.0%}"
    kind = f"{finding.kind}, proved" if finding.is_proved else str(finding.kind)
    cells = (str(number), finding.operator, finding.op_type, kind, share)
    shown = "".join(f'<td style="{_CELL};overflow-wrap:anywhere">{_safe(cell)}</td>' for cell in cells)
    return f"<tr>{shown}</tr>"


def _curve(comparison: Comparison) -> str:
    points = curve_points(comparison)
    if len(points) < 2:
        return ""
    numbers = {finding.tensor: str(number) for number, finding in enumerate(comparison.judgement.findings, 1)}
    marks = "".join(_marks(comparison, points, numbers))
    title = "relative Euclidean distance of each output, in the order of execution"
    axis = f'<text x="{_LEFT}" y="{_HEIGHT - 6}" font-size="11" fill="{_GREY}">{title}</text>'
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    style = 'style="max-width:100%;height:auto;font-family:inherit"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(_grid())}{axis}{marks}</svg>'


def _grid() -> Iterator[str]:
    for distance in (MIN_DISTANCE, 1e-5, 1e-3, MAX_DISTANCE):
        y = _y(distance)
        line = f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="{_GREY}" stroke-opacity=".25"/>'
        style = f'font-size="11" fill="{_GREY}" text-anchor="end"'
        yield f'{line}<text x="{_LEFT - 6}" y="{y + 4}" {style}>{distance:g}</text>'


def _marks(comparison: Comparison, points: Sequence[CurvePoint], numbers: dict[str, str]) -> Iterator[str]:
    """Yield a dot for each point, of many the worst of neighbours; culprits have their number."""
    width = (_WIDTH - _LEFT - _RIGHT) / max(len(points) - 1, 1)
    step = -(-len(points) // _MAX_POINTS)
    for start in range(0, len(points), step):
        part = range(start, min(start + step, len(points)))
        worst = max(part, key=lambda place: (LEVELS.index(points[place].level), points[place].distance))
        yield _mark(comparison, points[worst], _LEFT + worst * width)
    for place, point in enumerate(points):
        number = numbers.pop(str(comparison.rows[point.row].key), "")
        if number:
            x, y = _LEFT + place * width, _y(point.distance)
            yield f'<text x="{x:.1f}" y="{y - 5}" font-size="12" font-weight="700" fill="{_RED}">{number}</text>'


def _mark(comparison: Comparison, point: CurvePoint, x: float) -> str:
    name = _safe(f"{comparison.rows[point.row].key}: {point.distance:.3g}, {point.level}")
    colour = _LEVELS.get(point.level, _GREEN)
    return f'<circle cx="{x:.1f}" cy="{_y(point.distance)}" r="2.5" fill="{colour}"><title>{name}</title></circle>'


def _y(distance: float) -> float:
    return round(_HEIGHT - _BOTTOM - height(distance) * (_HEIGHT - _TOP - _BOTTOM), 1)


# Plots


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
    colours = [_PLOT_COLOURS.get(point.level, "tab:green") for point in points]
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
