"""Reports of a comparison: tables, reports in several forms, JSON for programs, lines for the terminal.

Reports are functions of a `Comparison`; they measure nothing. A form of report is a module with a function that writes
it, and an entry of `FORMS`, from which command-line options and file names follow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opdiff.core.comparison import Mode
from opdiff.core.errors import UsageError
from opdiff.core.reasons import Reason, because

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from opdiff.core.comparison import Comparison
    from opdiff.core.row_store import MapJobs
    from opdiff.report.parts import PartWriter
    from opdiff.report.table import Table


class ReportForm(Struct, frozen=True):
    """A form of report.

    Functions are named as `MODULE:FUNCTION`, and imported when they are called: a run writes few of the forms.

    Attributes:
        name: name of the form and of its command-line option, as `--xlsx`.
        help: help text of the option.
        writer: function that writes the report of a comparison to a path.
        file_word: replaces `result` of the table's file name.
        suffix: ending of the file name.
        package: required package; empty for none.
        not_in_graph_mode: why the form does not support graph mode; empty if it does.
        table_writer: function that writes one table of graph mode, for forms with a file for each table instead of one
            report.
        part_opener: function that opens the report for the parts of a comparison, so that it is made together with
            other files; returns `None` if the report would not have all rows. `writer` then also takes a `map`.
    """

    name: str
    help: str
    writer: str
    file_word: str = "result"
    suffix: str = ""
    package: str = ""
    not_in_graph_mode: Reason | None = None
    table_writer: str = ""
    part_opener: str = ""

    def write(self, comparison: Comparison, path: str, map_jobs: MapJobs = map) -> None:
        """Write the report of a comparison; reports of parts are made by `map_jobs`, which may use other processes."""
        if self.part_opener:
            _function(self.writer)(comparison, path, map_jobs)
        else:
            _function(self.writer)(comparison, path)

    def write_table(self, table: Table, path: str) -> None:
        """Write one table of graph mode."""
        _function(self.table_writer)(table, path)

    def open_parts(self, comparison: Comparison, path: str) -> AbstractContextManager[PartWriter] | None:
        """Open the report for the parts of a comparison; `None` if it is not made of all parts."""
        return _function(self.part_opener)(comparison, path) if self.part_opener else None

    def file_name(self, stem: str) -> str:
        """Return `report_20240115103052.html` for `result_20240115103052`."""
        before, word, after = stem.rpartition("result")
        return f"{before}{self.file_word}{after}{self.suffix}" if word else f"{stem}_{self.file_word}{self.suffix}"


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


FORMS = (
    ReportForm(
        "html",
        "the HTML report",
        "opdiff.report.html_page:write_html",
        "report",
        ".html",
        part_opener="opdiff.report.html_page:open_whole",
    ),
    ReportForm(
        "xlsx",
        "a workbook, rows coloured by level; needs xlsxwriter",
        "opdiff.report.workbook:write_workbook",
        suffix=".xlsx",
        package="xlsxwriter",
        table_writer="opdiff.report.workbook:write_table_workbook",
    ),
    ReportForm(
        "parquet",
        "a Parquet file with all numbers; needs pyarrow",
        "opdiff.report.parquet_table:write_parquet",
        suffix=".parquet",
        package="pyarrow",
        part_opener="opdiff.report.parquet_table:open_parquet",
    ),
    ReportForm(
        "junit",
        "a JUnit file: a test case for each operator",
        "opdiff.report.junit_xml:write_junit",
        suffix=".junit.xml",
    ),
    ReportForm(
        "model-explorer",
        "node data for Model Explorer, by operator name",
        "opdiff.report.model_explorer:write_model_explorer",
        "model-explorer",
        ".json",
        not_in_graph_mode=Reason("report.one_value_each"),
    ),
)
"""All forms; the first one is written by default."""


def find_forms(names: Iterable[str], mode: Mode | None = None) -> tuple[ReportForm, ...]:
    """Return the forms of these names, and check that they can be written.

    Raises:
        UsageError: a form is unknown, needs a package that is not installed, or does not support the mode.
    """
    from importlib.util import find_spec

    by_name = {form.name: form for form in FORMS}
    found = []
    for name in names:
        form = by_name.get(name)
        if form is None:
            raise UsageError(because("report.no_such_form", name=name, names=tuple(by_name)))
        if mode is Mode.GRAPH and form.not_in_graph_mode:
            raise UsageError(because("report.form_not_in_graph_mode", name=name, why=form.not_in_graph_mode))
        if form.package and find_spec(form.package) is None:
            raise UsageError(because("report.form_needs_package", name=name, package=form.package))
        found.append(form)
    return tuple(found)
