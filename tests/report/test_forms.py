"""Workbooks, Parquet, JUnit and node data, read back by other programs; options and names of a new form of report."""

from __future__ import annotations

import csv
import json
import math
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import openpyxl
import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from pyarrow import parquet

from command_line import Capture, run
from graph_dumps import read_table
from made_comparisons import comparisons
from made_reports import BAD, OFF, judged_comparison, many_tokens, not_compared, row, with_judgement
from opdiff import report
from opdiff.cli import report_options
from opdiff.core.comparison import DataMode, Row, SideInfo
from opdiff.core.errors import UsageError
from opdiff.core.judgement import Colour, DocumentedResult, Judgement, Level, Verdict
from opdiff.core.pairing import OpLabel
from opdiff.core.reasons import quoted
from opdiff.report import FORMS, ReportForm, find_forms
from opdiff.report.curve import sparkline
from opdiff.report.flat import flat_table, iter_flat_tables
from opdiff.report.graph_table import graph_table
from opdiff.report.junit_xml import write_junit
from opdiff.report.model_explorer import write_model_explorer
from opdiff.report.parquet_table import write_parquet
from opdiff.report.saved_json import save
from opdiff.report.table import JudgedRow
from opdiff.report.workbook import write_table_workbook, write_workbook
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.comparison import Comparison, Mode
    from opdiff.report.table import Table

PAGE = Path(__file__).parents[2] / "docs" / "commands" / "report.md"
SOME = judged_comparison(row("a"), row("=1+1", **BAD), row("<b>", **OFF), not_compared("d", "no file\x00\x9b here"))


def test_workbooks_are_coloured_frozen_and_filtered(tmp_path: Path) -> None:
    write_workbook(SOME, str(tmp_path / "out.xlsx"))
    book = openpyxl.load_workbook(tmp_path / "out.xlsx")
    summary, sheet = book.worksheets
    assert {line[0].value: line[1].value for line in summary.rows}["wrong"] == 1
    assert sheet.freeze_panes == "B2"
    assert sheet.auto_filter.ref.startswith("A1:")
    header = [cell.value for cell in sheet[1]]
    cells = {name: sheet[3][column] for column, name in enumerate(header)}
    assert (cells["target"].value, cells["target"].data_type) == ("=1+1", "s")
    assert cells["cosine"].value == 0.5
    fills = [sheet.cell(line, 1).fill.start_color.rgb for line in range(2, 6)]
    assert fills == ["FFC6EFCE", "FFFFC7CE", "FFFFEB9C", "00000000"]


def test_workbooks_list_findings(tmp_path: Path) -> None:
    write_workbook(with_judgement(), str(tmp_path / "out.xlsx"))
    lines = [[cell.value for cell in line] for line in openpyxl.load_workbook(tmp_path / "out.xlsx")["Summary"].rows]
    assert ["scale", "b (Conv2D): the target is 2 times the golden tensor"] in lines


# Workbooks of graph mode

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
    for line, of_line in zip(lines[1:], table.rows, strict=True):
        assert {cell.fill.start_color.rgb for cell in line} == {FILLS[of_line["color"]]}
        assert {cell.data_type for cell in line} <= {"n", "s"}
    with table_path.open(newline="", encoding="utf-8") as file:
        texts = list(csv.reader(file))
    for line, cells in zip(lines, texts, strict=True):
        for cell, text in zip(line, cells, strict=True):
            value = "" if cell.value is None else cell.value
            assert value == (text if isinstance(value, str) else pytest.approx(float(text), rel=1e-14))
    assert {"red", "green"} <= {each["color"] for each in table.rows}


def table_of(*ops: str) -> Table:
    """Return a table of unpaired operators."""
    result = DocumentedResult("FAIL", "No", Colour.RED)
    verdict = Verdict(Level.NOT_COMPARABLE, quoted("alone"))
    rows = [Row(OpLabel(0, 0, op, op, "*"), target=SideInfo(op, op_type=op), reason=quoted(op)) for op in ops]
    return graph_table([JudgedRow(row, verdict, result) for row in rows], DataMode.REAL)


def test_cells_are_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    texts = ["=1+1", "{=A1}", "http://example.com", "12", "\x07 bell", "\ud800", "x" * 40_000]
    write_table_workbook(table_of(*texts), str(path))
    sheet = openpyxl.load_workbook(path).active
    cells = [line[0] for line in sheet.iter_rows(min_row=2)]
    assert {cell.data_type for cell in cells} == {"s"}
    assert [cell.value for cell in cells][:6] == [*texts[:4], "\\x07 bell", "\\ud800"]
    assert not any(cell.hyperlink for cell in cells)
    assert len(cells[-1].value) == 32_767


def test_more_rows_than_a_sheet_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opdiff.report.workbook.MAX_ROWS", 4)
    path = tmp_path / "a.xlsx"
    write_table_workbook(table_of(*(f"op{number}" for number in range(7))), str(path))
    book = openpyxl.load_workbook(path)
    assert [sheet.max_row for sheet in book.worksheets] == [4, 4, 2]
    assert book.worksheets[2]["A2"].value == "op6"
    write_table_workbook(table_of(), str(path))
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
        write_table_workbook(table_of(), nowhere)
    with pytest.raises(FileNotFoundError):
        write_workbook(judged_comparison(), nowhere)


# Other forms


def test_parquet_has_types_nulls_and_nans(tmp_path: Path) -> None:
    write_parquet(judged_comparison(row("a", cosine=math.nan), not_compared("b")), str(tmp_path / "out.parquet"))
    table = parquet.read_table(tmp_path / "out.parquet")
    assert str(table.schema.field("cosine").type) == "double"
    assert str(table.schema.field("count").type) == "int64"
    cosines = table["cosine"].to_pylist()
    assert math.isnan(cosines[0])
    assert cosines[1] is None
    assert table["level"].to_pylist()[1] == "not comparable"
    assert table.schema.metadata[b"opdiff.scenario"] == b"NPU dump against the original model"


@pytest.mark.parametrize("made", [SOME, many_tokens(2, 2, 3), judged_comparison()], ids=["offline", "graph", "no rows"])
def test_parts_of_a_table_make_the_whole(made: Comparison) -> None:
    parts, whole = list(iter_flat_tables(made, 2)), flat_table(made)
    assert {tuple(part) for part in parts} == {tuple(whole)}
    joined = {name: [value for part in parts for value in part[name]] for name in whole}
    assert repr(joined) == repr({name: list(column) for name, column in whole.items()})
    assert max(len(part["level"]) for part in parts) <= 2


def test_long_tables_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
        write_parquet(SOME, str(folder / "out.parquet"))
        write_workbook(SOME, str(folder / "out.xlsx"))
        for limit in ("_MIN_PART_ROWS", "_MAX_PART_ROWS", "_MIN_JOB_ROWS"):
            monkeypatch.setattr(f"opdiff.report.parts.{limit}", 1)
        monkeypatch.setattr("opdiff.report.workbook.iter_flat_tables", partial(iter_flat_tables, max_rows=1))
    assert parquet.ParquetFile(parts / "out.parquet").num_row_groups == len(SOME.rows)
    assert parquet.read_table(parts / "out.parquet").equals(parquet.read_table(whole / "out.parquet"))
    cells = [
        [[cell.value for cell in line] for sheet in openpyxl.load_workbook(folder / "out.xlsx") for line in sheet.rows]
        for folder in (whole, parts)
    ]
    assert cells[0] == cells[1]


def test_junit_has_a_case_for_each_operator(tmp_path: Path) -> None:
    write_junit(SOME, str(tmp_path / "out.xml"))
    (suite,) = ET.parse(tmp_path / "out.xml").getroot()  # noqa: S314  our own file
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "4", "failures": "1", "skipped": "1",
    }  # fmt: skip
    cases = {case.get("name"): case for case in suite}
    failure = cases["=1+1"].find("failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("=1+1:output:0: wrong")
    assert (cases["<b>"].findtext("system-out") or "").startswith("<b>:output:0: suspicious")
    skipped = cases["d"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "no file\\x00\\x9b here"


def test_node_data_has_the_worst_tensor_of_each_operator(tmp_path: Path) -> None:
    write_model_explorer(judged_comparison(row("a"), row("a", **BAD), not_compared("b")), str(tmp_path / "out.json"))
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    assert set(results) == {"a", "golden_a"}
    assert results["golden_a"] == {"value": 0.9, "bgColor": "#c62f45", "textColor": "#ffffff"}


@pytest.mark.parametrize("write", [write_workbook, write_parquet, write_junit, write_model_explorer])
@settings(max_examples=25)
@given(comparisons)
def test_every_comparison_can_be_written(
    tmp_path_factory: pytest.TempPathFactory, write: Callable[[Comparison, str], None], made: Comparison
) -> None:
    path = tmp_path_factory.mktemp("made") / "out"
    write(made, str(path))
    if write is write_junit:
        ET.parse(path)  # noqa: S314  our own file
    assert path.stat().st_size > 0


def test_sparkline_shows_the_worst_of_each_group() -> None:
    rows = [row("a", relative_euclidean_distance=10.0**power) for power in (-9, -5, -3, 0)]
    assert sparkline(judged_comparison(*rows), 80) == "▁▃▆█"
    assert sparkline(judged_comparison(*rows), 2) == "▃█"
    assert sparkline(judged_comparison(rows[0]), 80) == ""
    assert sparkline(judged_comparison(*rows), 80, colour=True).startswith("\x1b[32m")


def test_sparkline_has_a_low_bar_for_equal_infinities_and_a_high_one_for_others() -> None:
    special = row("a", relative_euclidean_distance=float("nan"), cosine=float("nan"))
    made = judged_comparison(special, row("b", **BAD))
    levels = (Level.EXACT, Level.WRONG), (Level.WRONG, Level.WRONG)
    shown = [
        sparkline(replace(made, judgement=Judgement("", tuple(Verdict(level, quoted("")) for level in each))), 80)
        for each in levels
    ]
    assert shown == ["▁█", "██"]
    assert sparkline(judged_comparison(row("a", relative_euclidean_distance=math.inf), row("b")), 80)[0] == "█"


# New forms


def write_count(comparison: Comparison, path: str) -> None:
    """Write the number of rows."""
    Path(path).write_text(f"{len(comparison.rows)} rows\n", encoding="utf-8")


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = (*FORMS, ReportForm("count", "the number of rows", f"{__name__}:write_count", "count", ".txt"))
    monkeypatch.setattr(report, "FORMS", forms)
    monkeypatch.setattr(report_options, "FORMS", forms)


@pytest.mark.usefixtures("count")
def test_commands_write_the_new_form(tmp_path: Path, capsys: Capture) -> None:
    sample = write_sample(str(tmp_path / "sample"))
    words = ["compare", sample.target, sample.golden, "--rules", sample.rules, "--no-html", "--count"]
    assert run(capsys, *words, "-o", tmp_path / "out").code == 0
    (written,) = (tmp_path / "out").glob("count_*.txt")
    assert written.read_text() == "249 rows\n"
    written.unlink()
    assert run(capsys, "report", tmp_path / "out", "--no-html", "--count").code == 0
    assert len(list((tmp_path / "out").glob("count_*.txt"))) == 1
    assert "the number of rows" in run(capsys, "compare", "--help").out


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_form_is_documented_and_writes_a_file(form: ReportForm, tmp_path: Path) -> None:
    assert f"`{form.file_name('result_{timestamp}')}`" in PAGE.read_text(encoding="utf-8")
    form.write(judged_comparison(row("a")), str(tmp_path / "out"))
    assert (tmp_path / "out").stat().st_size > 0
    if not form.not_in_graph_mode:
        form.write(many_tokens(1, 1, 2), str(tmp_path / "tokens"))
    for name in filter(None, (form.table_writer, form.part_opener)):
        module, _, function = name.partition(":")
        assert callable(getattr(import_module(module), function, None)), name


def test_unknown_forms_and_modes_are_rejected() -> None:
    with pytest.raises(UsageError, match="there is no report form 'paper'; choose from html, xlsx"):
        find_forms(["paper"])
    mode: Mode = many_tokens(1, 1, 1).mode
    with pytest.raises(UsageError, match="--model-explorer cannot be combined with --mode torchair"):
        find_forms(["model-explorer"], mode)


def test_file_names_follow_the_table() -> None:
    html = FORMS[0]
    assert html.file_name("0_net_1_result_20240115103052") == "0_net_1_report_20240115103052.html"
    assert html.file_name("mine") == "mine_report.html"


def test_folder_with_several_comparisons_is_rejected(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a.json", "b.json"):
        save(judged_comparison(row("a")), str(tmp_path / name))
    outcome = run(capsys, "report", tmp_path)
    assert outcome.code == 3
    assert "several saved comparisons are in this folder; give one of them: a.json, b.json" in outcome.err
