"""Drafts of the files of a long comparison, made in one pass: loading its rows takes as long as packing them."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.atomic_file import draft_folder, open_atomic
from opdiff.core.row_store import StoredRows
from opdiff.report.parts import write_parts
from opdiff.report.saved_json import rows_writer

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
    the other, so that the files before it exist, and the error occurs again.
    """
    if not isinstance(comparison.rows, StoredRows):
        yield Drafts()
        return
    with ExitStack() as stack:
        hidden = stack.enter_context(draft_folder(folder))
        try:
            drafts = _make(comparison, hidden, tables, forms, map_jobs)
        except Exception:  # noqa: BLE001  the error occurs again when the file is written on its own
            # Incomplete drafts would take the space of these files.
            stack.close()
            drafts = Drafts()
        yield drafts


def _make(
    comparison: Comparison, folder: str, tables: Iterable[TableKey], forms: Sequence[ReportForm], map_jobs: MapJobs
) -> Drafts:
    table_paths = {key: os.path.join(folder, f"table-{number}") for number, key in enumerate(tables)}
    report_paths: dict[str, str] = {}
    rows_path = os.path.join(folder, "rows")
    with ExitStack() as stack:
        writers = [rows_writer(stack.enter_context(open_atomic(rows_path)))]
        if table_paths:
            from opdiff.report.graph_table import tables_writer

            writers.append(tables_writer(table_paths))
        for form in forms:
            path = os.path.join(folder, form.name)
            writer = form.open_parts(comparison, path)
            if writer is not None:
                report_paths[form.name] = path
                writers.append(stack.enter_context(writer))
        write_parts(comparison, writers, map_jobs)
    return Drafts(table_paths, report_paths, rows_path)
