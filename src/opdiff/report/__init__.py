"""A comparison made readable: tables, reports in several forms, JSON for programs, lines for the terminal.

Reports change nothing and measure nothing; they are functions of a `Comparison`. A form of report is a module with a
function that writes it, and an entry of `FORMS`: command-line options and names of files follow from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Mode
from opdiff.core.errors import UsageError
from opdiff.report.html_page import write_html
from opdiff.report.junit_xml import write_junit
from opdiff.report.model_explorer import write_model_explorer
from opdiff.report.parquet_table import write_parquet
from opdiff.report.workbook import write_table_workbook, write_workbook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opdiff.core.comparison import Comparison
    from opdiff.report.table import Table


class ReportForm(NamedTuple):
    """A form of report.

    Attributes:
        name: its name, which is also that of its option: `--xlsx`.
        help: what the option's help says.
        write: writes the report of a comparison to a path.
        file_word: stands in the name of the file where that of the table has `result`.
        suffix: how the name of the file ends.
        package: the package that it needs; empty for none.
        not_in_graph_mode: why it cannot show a comparison in graph mode; empty if it can.
        write_table: writes one table of graph mode, if `compare` is to do so instead of writing one report.
    """

    name: str
    help: str
    write: Callable[[Comparison, str], None]
    file_word: str = "result"
    suffix: str = ""
    package: str = ""
    not_in_graph_mode: str = ""
    write_table: Callable[[Table, str], None] | None = None

    def file_name(self, stem: str) -> str:
        """Return `report_20240115103052.html` for `result_20240115103052`."""
        before, word, after = stem.rpartition("result")
        return f"{before}{self.file_word}{after}{self.suffix}" if word else f"{stem}_{self.file_word}{self.suffix}"


FORMS = (
    ReportForm("html", "the HTML report", write_html, "report", ".html"),
    ReportForm(
        "xlsx",
        "a workbook, rows coloured by level; needs xlsxwriter",
        write_workbook,
        suffix=".xlsx",
        package="xlsxwriter",
        write_table=write_table_workbook,
    ),
    ReportForm(
        "parquet",
        "a Parquet file with all numbers; needs pyarrow",
        write_parquet,
        suffix=".parquet",
        package="pyarrow",
    ),
    ReportForm("junit", "a JUnit file: a test case for each operator", write_junit, suffix=".junit.xml"),
    ReportForm(
        "model-explorer",
        "node data for Model Explorer, by operator name",
        write_model_explorer,
        "model-explorer",
        ".json",
        not_in_graph_mode="Model Explorer shows one value for each operator, not one for each token",
    ),
)
"""All forms; the first is written unless the user objects."""


def find_forms(names: Iterable[str], mode: Mode | None = None) -> tuple[ReportForm, ...]:
    """Return the forms of these names, and check that they can be written.

    Raises:
        UsageError: a form is unknown, needs a package that is not installed, or does not go with the mode.
    """
    from importlib.util import find_spec

    by_name = {form.name: form for form in FORMS}
    found = []
    for name in names:
        form = by_name.get(name)
        if form is None:
            raise UsageError(f"there is no report form {name!r}; choose from {', '.join(by_name)}")
        if mode is Mode.GRAPH and form.not_in_graph_mode:
            raise UsageError(f"--{name} cannot be combined with --mode torchair: {form.not_in_graph_mode}")
        if form.package and find_spec(form.package) is None:
            raise UsageError(f"--{name} needs the package {form.package}: pip install 'opdiff[{name}]'")
        found.append(form)
    return tuple(found)
