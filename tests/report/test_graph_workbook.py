"""Workbooks of graph mode: coloured rows, a fixed header, and no formulas."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import openpyxl
import pytest

from command_line import Capture, run
from graph_dumps import read_table
from made_reports import judged_comparison
from opdiff.core.comparison import DataMode, Row, SideInfo
from opdiff.core.judgement import Colour, DocumentedResult, Level, Verdict
from opdiff.core.pairing import OpLabel
from opdiff.core.reasons import quoted
from opdiff.report import workbook
from opdiff.report.graph_table import graph_table
from opdiff.report.table import JudgedRow
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.report.table import Table

FILLS = {"red": "FFFFC7CE", "yellow": "FFFFEB9C", "green": "FFC6EFCE", "": "00000000"}


def test_a_workbook_has_the_table_in_colours(tmp_path: Path, capsys: Capture) -> None:
    sample = write_graph_sample(str(tmp_path), ranks=1)
    outcome = run(capsys, "compare", sample.target, sample.golden, "-o", tmp_path / "o", "--xlsx")
    assert outcome.code == 0
    (book_path,) = (tmp_path / "o").glob("*.xlsx")
    (table_path,) = (tmp_path / "o").glob("*.csv")
    table = read_table(table_path)
    sheet = openpyxl.load_workbook(book_path).active
    lines = list(sheet.iter_rows())
    assert [cell.value for cell in lines[0]] == table.header
    assert sheet.freeze_panes == "B2"
    assert len(lines) == len(table.rows) + 1
    for line, row in zip(lines[1:], table.rows, strict=True):
        assert {cell.fill.start_color.rgb for cell in line} == {FILLS[row["color"]]}
        assert {cell.data_type for cell in line} <= {"n", "s"}
    with table_path.open(newline="", encoding="utf-8") as file:
        texts = list(csv.reader(file))
    for line, cells in zip(lines, texts, strict=True):
        for cell, text in zip(line, cells, strict=True):
            value = "" if cell.value is None else cell.value
            assert value == (text if isinstance(value, str) else pytest.approx(float(text), rel=1e-14))
    assert {"red", "green"} <= {row["color"] for row in table.rows}


def table_of(*ops: str) -> Table:
    """Return a table of unpaired operators."""
    result = DocumentedResult("FAIL", "No", Colour.RED)
    verdict = Verdict(Level.NOT_COMPARABLE, quoted("alone"))
    rows = [Row(OpLabel(0, 0, op, op, "*"), target=SideInfo(op, op_type=op), reason=quoted(op)) for op in ops]
    return graph_table([JudgedRow(row, verdict, result) for row in rows], DataMode.REAL)


def test_cells_are_never_formulas(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    texts = ["=1+1", "{=A1}", "http://example.com", "12", "\x07 bell", "\ud800", "x" * 40_000]
    workbook.write_table_workbook(table_of(*texts), str(path))
    sheet = openpyxl.load_workbook(path).active
    cells = [line[0] for line in sheet.iter_rows(min_row=2)]
    assert {cell.data_type for cell in cells} == {"s"}
    assert [cell.value for cell in cells][:4] == texts[:4]
    assert not any(cell.hyperlink for cell in cells)
    assert len(cells[-1].value) == 32_767


def test_more_rows_than_a_sheet_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "MAX_ROWS", 4)
    path = tmp_path / "a.xlsx"
    workbook.write_table_workbook(table_of(*(f"op{number}" for number in range(7))), str(path))
    book = openpyxl.load_workbook(path)
    assert [sheet.max_row for sheet in book.worksheets] == [4, 4, 2]
    assert book.worksheets[2]["A2"].value == "op6"
    workbook.write_table_workbook(table_of(), str(path))
    assert openpyxl.load_workbook(path).active.max_row == 1


def test_missing_package_is_reported_before_any_work(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = write_graph_sample(str(tmp_path), ranks=1, tokens=1)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    outcome = run(capsys, "compare", sample.target, sample.golden, "-o", tmp_path / "o", "--xlsx")
    assert outcome.code == 2
    assert outcome.err == "opdiff: --xlsx needs the package xlsxwriter: pip install 'opdiff[xlsx]'\n"
    assert not (tmp_path / "o").exists()


def test_unwritable_workbook_raises_os_error(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere" / "result.xlsx")
    with pytest.raises(FileNotFoundError):
        workbook.write_table_workbook(table_of(), nowhere)
    with pytest.raises(FileNotFoundError):
        workbook.write_workbook(judged_comparison(), nowhere)
