"""A comparison as HTML for notebooks: verdict, coverage, operators at fault, and the curve as inline SVG.

Colours are readable on light and on dark backgrounds. Names come from files and are escaped.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from opdiff.core.formatting import printable
from opdiff.core.judgement import LEVELS, Level, Outcome
from opdiff.core.reasons import render
from opdiff.report.curve import MAX_DISTANCE, MIN_DISTANCE, curve_points, height

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.core.judgement import Finding
    from opdiff.report.curve import CurvePoint

_RED, _YELLOW, _GREEN, _GREY = "#d6453d", "#c08417", "#2f9e5b", "#8a8f98"
_OUTCOMES = {Outcome.WRONG: _RED, Outcome.SUSPICIOUS: _YELLOW, Outcome.UNSURE: _YELLOW, Outcome.CLEAN: _GREEN}
_LEVELS = {Level.WRONG: _RED, Level.SUSPICIOUS: _YELLOW}
_MAX_FINDINGS = 10
_MAX_POINTS = 400
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 150, 46, 12, 14, 22
_CELL = "text-align:left;padding:2px 14px 2px 0;vertical-align:top"


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
