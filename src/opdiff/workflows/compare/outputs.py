"""The reports of a comparison beside its table: which are wanted, what they are called, and how all are written."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from opdiff import __version__
from opdiff.core.errors import UsageError
from opdiff.measure.kernel import library as native
from opdiff.measure.sums import RELATIVE_EDGES, ULP_EDGES
from opdiff.report.file_names import write_new
from opdiff.report.payload import Edges
from opdiff.report.rows import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.report.changes import Changes
    from opdiff.report.rows import SavedComparison

EDGES = Edges(RELATIVE_EDGES, ULP_EDGES)


class Reports(NamedTuple):
    """Which reports are wanted."""

    html: bool = True
    xlsx: bool = False
    parquet: bool = False
    junit: bool = False
    model_explorer: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that are wanted, by name."""
        return tuple(kind for kind, wanted in zip(self._fields, self, strict=True) if wanted)


# What stands in the names of files where that of the result file has `result`, and how they end.
_NAMES = {
    "html": ("report", ".html"),
    "xlsx": ("result", ".xlsx"),
    "parquet": ("result", ".parquet"),
    "junit": ("result", ".junit.xml"),
    "model_explorer": ("model-explorer", ".json"),
}
# What some of them need, and how to get it.
_PACKAGES = {"xlsx": "xlsxwriter", "parquet": "pyarrow"}


def require(reports: Reports) -> None:
    """Say so early when a report cannot be written.

    Raises:
        UsageError: a package is missing.
    """
    from importlib.util import find_spec

    for kind in reports.kinds:
        package = _PACKAGES.get(kind)
        if package and find_spec(package) is None:
            raise UsageError(f"--{kind} needs the package {package}: pip install 'opdiff[{kind}]'")


def report_name(stem: str, kind: str) -> str:
    """What a report is called: `report_20240115103052.html` beside `result_20240115103052.csv`."""
    name, ending = _NAMES[kind]
    before, word, after = stem.rpartition("result")
    return f"{before}{name}{after}{ending}" if word else f"{stem}_{name}{ending}"


def write_report(kind: str, kept: SavedComparison, path: str) -> None:
    """Write one report."""
    if kind == "html":
        write_page(kept, path)
    elif kind == "xlsx":
        from opdiff.report.workbook_table import write_workbook

        write_workbook(kept, path)
    elif kind == "parquet":
        from opdiff.report.parquet_table import write_parquet

        write_parquet(kept, path)
    elif kind == "junit":
        from opdiff.report.junit_xml import write_junit

        write_junit(kept, path)
    else:
        from opdiff.report.model_explorer import write_model_explorer

        write_model_explorer(kept, path)


def write_page(kept: SavedComparison, path: str, changes: Changes | None = None) -> None:
    """Write the HTML report."""
    from opdiff.report.html_page import write_html

    write_html(kept, path, EDGES, changes)


def name_reports(folder: str, stem: str, drafts: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Give reports that were written to drafts their names; yields their paths."""
    for kind, written in drafts:
        yield write_new(folder, report_name(stem, kind), partial(os.replace, written))


def environment() -> Environment:
    """Who compares here and now."""
    system = os.uname()
    return Environment(
        __version__,
        ".".join(map(str, sys.version_info[:3])),
        f"{system.sysname} {system.release} {system.machine}",
        "native" if native.find_library() else "NumPy",
        time.strftime("%Y-%m-%d %H:%M:%S %z"),
    )
