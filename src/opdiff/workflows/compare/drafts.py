"""Drafts of the files of a long comparison, made in one pass over its rows, which takes long to load."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.atomic_file import draft_folder, open_atomic
from opdiff.core.row_store import StoredRows
from opdiff.report.parts import write_parts
from opdiff.report.saved_json import rows_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.core.row_store import MapJobs
    from opdiff.report import ReportForm
    from opdiff.report.graph_table import TableKey


class Drafts(Struct, frozen=True):
    """Paths of files that are complete but for their names.

    Attributes:
        tables: tables of graph mode.
        reports: reports by name of form.
        rows: the rows of the saved form; empty if there is no such file.
    """

    tables: Mapping[TableKey, str] = {}
    reports: Mapping[str, str] = {}
    rows: str = ""


@contextmanager
def make_drafts(
    comparison: Comparison, folder: str, tables: Iterable[TableKey], forms: Sequence[ReportForm], map_jobs: MapJobs
) -> Iterator[Drafts]:
    """Drafts in a folder for results, which are removed at the end.

    There are none for a short comparison, and none if one of them cannot be made: all files are then written one after
    the other, so that the files before it exist.
    """
    if not isinstance(comparison.rows, StoredRows):
        yield Drafts()
        return
    with draft_folder(folder) as hidden:
        try:
            drafts = _make(comparison, hidden, tables, forms, map_jobs)
        except Exception:  # noqa: BLE001  the error occurs again when the file is written on its own
            drafts = Drafts()
        yield drafts


def _make(
    comparison: Comparison, folder: str, tables: Iterable[TableKey], forms: Sequence[ReportForm], map_jobs: MapJobs
) -> Drafts:
    drafts = Drafts(
        {key: os.path.join(folder, f"table-{number}") for number, key in enumerate(tables)},
        {form.name: os.path.join(folder, form.name) for form in forms},
        os.path.join(folder, "rows"),
    )
    with ExitStack() as stack:
        files = [rows_file(stack.enter_context(open_atomic(drafts.rows)))]
        if drafts.tables:
            from opdiff.report.graph_table import tables_file

            files.append(tables_file(drafts.tables))
        opened = {}
        for form in forms:
            file = form.open_parts(comparison, drafts.reports[form.name])
            if file is not None:
                opened[form.name] = drafts.reports[form.name]
                files.append(stack.enter_context(file))
        write_parts(comparison, files, map_jobs)
    return Drafts(drafts.tables, opened, drafts.rows)
