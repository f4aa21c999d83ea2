"""A comparison as a workbook: a summary, and all rows coloured by level. Needs xlsxwriter (`opdiff[xlsx]`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from opdiff.core.reasons import render, render_all
from opdiff.report.flat import flat_table
from opdiff.report.judged import LEVELS, SUSPICIOUS, WRONG, judged
from opdiff.report.workbook import GREEN, MAX_ROWS, RED, YELLOW, cell_text, new_workbook, write_cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from opdiff.report.rows import SavedComparison

_FILLS = dict.fromkeys(LEVELS[:3], GREEN) | {SUSPICIOUS: YELLOW, WRONG: RED}
_WIDTHS = {"target": 40, "golden": 40, "tensor": 44, "golden_tensor": 44, "reason": 50, "decided_by": 36}


def write_workbook(kept: SavedComparison, path: str) -> None:
    """Write the summary, then the rows: the heading stays in view and can be filtered."""
    with new_workbook(path) as book:
        bold = book.add_format({"bold": True})
        fills = {level: book.add_format({"bg_color": fill}) for level, fill in _FILLS.items()}
        _write_summary(book.add_worksheet("Summary"), kept, fills)
        _write_rows(book, kept, bold, fills)


def _write_summary(sheet: Any, kept: SavedComparison, fills: dict[str, Any]) -> None:  # noqa: ANN401  the package is optional and untyped here
    sheet.set_column(0, 0, 22)
    sheet.set_column(1, 1, 110)
    for line, (title, value) in enumerate(_summary(kept)):
        write_cells(sheet, line, (title, value), fills.get(title))


def _summary(kept: SavedComparison) -> Iterator[tuple[str, object]]:
    thoughts = judged(kept)
    yield "scenario", render(kept.scenario)
    yield "target", kept.target.path
    yield "golden", kept.golden.path
    yield "made by", f"opdiff {kept.environment.opdiff}".strip()
    yield "made at", kept.environment.time
    counts = Counter(thoughts.levels)
    yield from ((level, counts[level]) for level in LEVELS)
    yield "first bad operator", thoughts.first_bad
    yield from (("", str(sentence)) for sentence in thoughts.advice)
    for finding in thoughts.findings:
        yield str(finding.kind), f"{finding.operator} ({finding.op_type}): {render_all(finding.evidence)}"
        yield from (("", str(remedy)) for remedy in finding.remedies)


def _write_rows(book: Any, kept: SavedComparison, bold: object, fills: dict[str, Any]) -> None:  # noqa: ANN401  as above
    table = flat_table(kept)
    sheet: Any = None
    for number, cells in enumerate(zip(*table.columns, strict=True)):
        line = number % (MAX_ROWS - 1) + 1
        if line == 1:
            sheet = _new_sheet(book, table.names, len(kept.rows) - number, bold)
        fill = fills.get(str(cells[0]))
        write_cells(sheet, line, cells, fill)
    if sheet is None:
        _new_sheet(book, table.names, 0, bold)


def _new_sheet(book: Any, names: Sequence[str], left: int, bold: object) -> Any:  # noqa: ANN401  as above
    sheet = book.add_worksheet()
    sheet.freeze_panes(1, 1)
    sheet.autofilter(0, 0, min(left, MAX_ROWS - 1), len(names) - 1)
    for column, name in enumerate(names):
        sheet.set_column(column, column, _WIDTHS.get(name, 14))
        sheet.write_string(0, column, cell_text(name), bold)
    return sheet
