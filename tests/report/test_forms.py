"""A new form of report: its options and file names follow from its entry in `FORMS`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from command_line import Capture, run
from made_reports import judged_comparison, many_tokens, row
from opdiff import report
from opdiff.cli import report_options
from opdiff.core.errors import UsageError
from opdiff.report import FORMS, ReportForm, find_forms
from opdiff.report.saved_json import save
from opdiff.sample import write_sample

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison, Mode

PAGE = Path(__file__).parents[2] / "docs" / "commands" / "report.md"


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
