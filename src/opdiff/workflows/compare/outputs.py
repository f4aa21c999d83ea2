"""The files of a comparison: tables, the saved form, and reports in the selected forms.

All files of a long comparison are made as drafts in one pass over its rows, because loading its rows takes as long as
packing them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff import __version__
from opdiff.core.atomic_file import draft_folder, make_folder, open_atomic, remove_old_drafts
from opdiff.core.comparison import Environment, Mode
from opdiff.core.reasons import because, render
from opdiff.core.row_store import StoredRows, custom_names
from opdiff.measure.documented import select_metrics
from opdiff.measure.kernel import library as native
from opdiff.report import find_forms
from opdiff.report.file_names import graph_file_name, timed_file_name, write_new
from opdiff.report.offline_table import MetricColumn, SelectedMetrics, offline_table
from opdiff.report.parts import write_parts
from opdiff.report.saved_json import rows_writer, save
from opdiff.report.table import Table, write_csv
from opdiff.run import map_jobs, usable_cores
from opdiff.workflows.compare.optional_steps import OptionalSteps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.pairing import PairingResult
    from opdiff.core.reasons import Reason
    from opdiff.core.row_store import MapJobs
    from opdiff.report import ReportForm
    from opdiff.report.graph_table import TableKey
    from opdiff.workflows.compare.options import CompareOptions
    from opdiff.workflows.compare.pipeline import ComparisonResult

_SUMMARY_VERSION = 1


class OutputFiles(Struct, frozen=True):
    """Paths of the files that were written for a comparison.

    Attributes:
        tables: the documented tables, and their workbooks.
        saved: the saved form.
        reports: the reports.
        summary: the summary of graph mode; empty offline.
        notes: which other files could not be written, and why.
        defects: tracebacks of unexpected errors.
        is_incomplete: whether disk or folder did not take a file.
    """

    tables: tuple[str, ...]
    saved: str
    reports: tuple[str, ...] = ()
    summary: str = ""
    notes: tuple[Reason, ...] = ()
    defects: tuple[str, ...] = ()
    is_incomplete: bool = False


def write_outputs(result: ComparisonResult, options: CompareOptions) -> OutputFiles:
    """Write all files of a comparison; each gets its name when it is complete.

    The tables come first, because other files are named after them, and because they exist even if a report fails. The
    saved form comes last and lists the others, with a note about each that could not be written: without it, the files
    of a run are incomplete.
    """
    comparison, folder = result.comparison, options.output
    make_folder(folder)
    remove_old_drafts(folder)
    forms = find_forms(options.reports, comparison.mode)
    in_graph_mode = comparison.mode is Mode.GRAPH
    whole_forms = [form for form in forms if not (form.table_writer and in_graph_mode)]
    table_forms = [form for form in forms if form not in whole_forms]
    map_jobs, steps = row_mapper(comparison.rows, options), OptionalSteps()
    tables = list(named_tables(result))
    keys = [table.key for table in tables if table.key is not None]
    with _make_drafts(comparison, folder, keys, whole_forms, map_jobs) as drafts:
        table_paths = tuple(
            path for table in tables for path in _write_table(table, folder, table_forms, drafts, steps)
        )
        summary = ""
        stem = _stem(table_paths[0])
        if in_graph_mode:
            summary = steps.attempt(because("compare.step_summary"), partial(_write_summary, comparison, folder), "")
            stem = _stem(summary or _summary_name()).replace("msprobe_cmp_summary", "result")
        reports: tuple[str, ...] = ()
        for form in whole_forms:
            draft = drafts.reports.get(form.name)
            write = _move_or_write(draft, partial(form.write, comparison, map_jobs=map_jobs))
            reports += _write_report(form, folder, form.file_name(stem), steps, write)
        files = [os.path.basename(path) for path in (*table_paths, summary, *reports) if path]
        noted = steps.noted(comparison)
        saved = write_new(folder, f"{stem}.json", lambda draft: save(noted, draft, files, map_jobs, drafts.rows))
    return OutputFiles(
        table_paths, saved, reports, summary, tuple(steps.notes), tuple(steps.defects), steps.has_lost_file
    )


def _write_report(
    form: ReportForm, folder: str, name: str, steps: OptionalSteps, write: Callable[[str], None]
) -> tuple[str, ...]:
    """Write a report, or note why it failed; return its path, or nothing."""
    step = because("compare.step_report", form=form.name)
    return steps.attempt(step, lambda: (write_new(folder, name, write),), ())


def _move_or_write(draft: str | None, write: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that moves the draft into place, or writes the file if there is no draft."""
    return write if draft is None else partial(os.replace, draft)


class NamedTable(Struct, frozen=True):
    """File name and contents of a documented table; `key` is given in graph mode."""

    name: str
    table: Table
    key: TableKey | None = None


def row_mapper(rows: Sequence[Row], options: CompareOptions) -> MapJobs:
    """Return a `map` for jobs of rows: by several processes if the rows are stored in a file, since they are many."""
    is_parallel = isinstance(rows, StoredRows) and not options.in_process
    return partial(map_jobs, workers=(options.workers or usable_cores()) if is_parallel else 1)


def _write_table(
    named: NamedTable, folder: str, forms: Sequence[ReportForm], drafts: _Drafts, steps: OptionalSteps
) -> Iterator[str]:
    """Write a table as CSV and in the given forms; yield the paths."""
    table, draft = named.table, drafts.tables.get(named.key) if named.key else None
    path = write_new(folder, named.name, _move_or_write(draft, partial(write_csv, table)))
    yield path
    for form in forms:
        yield from _write_report(form, folder, f"{_stem(path)}{form.suffix}", steps, partial(form.write_table, table))


def named_tables(result: ComparisonResult) -> Iterator[NamedTable]:
    """Yield the documented tables of a comparison."""
    comparison = result.comparison
    if comparison.mode is Mode.OFFLINE:
        yield NamedTable(result.name, offline_table(comparison, selected_metrics(comparison, result.metrics)))
        return
    from opdiff.report.graph_table import graph_tables

    for key, table in graph_tables(comparison).items():
        yield NamedTable(graph_file_name(time.gmtime(), key.rank, key.graph, key.data_mode), table, key)


def selected_metrics(comparison: Comparison, custom: Iterable[str] = ()) -> SelectedMetrics:
    """Return the selected columns; `custom` has names of metrics that may be missing in all rows."""
    names = tuple(dict.fromkeys((*custom, *custom_names(comparison.rows))))
    metrics = select_metrics(comparison.view.metrics, names)
    return SelectedMetrics(tuple(MetricColumn(metric.name, metric.value) for metric in metrics), names)


def write_pairs(pairs: Iterable[PairingResult], options: CompareOptions) -> str:
    """Write the table of pairs and return its path."""
    from opdiff.report.offline_table import write_mapping

    name = timed_file_name("mapping", time.localtime())
    return write_new(options.output, name, lambda draft: write_mapping(pairs, draft, sequence=options.is_selected))


def find_environment() -> Environment:
    """Return versions, machine and time."""
    system = os.uname()
    return Environment(
        __version__,
        ".".join(map(str, sys.version_info[:3])),
        f"{system.sysname} {system.release} {system.machine}",
        "native" if native.find_library() else "NumPy",
        time.strftime("%Y-%m-%d %H:%M:%S %z"),
    )


def _write_summary(comparison: Comparison, folder: str) -> str:
    """Write the counts over all ranks and tokens of graph mode."""
    from opdiff.report.graph_summary import SCHEMA, Tally

    document = {
        "schema": SCHEMA,
        "version": _SUMMARY_VERSION,
        "made_by": f"opdiff {comparison.environment.opdiff}",
        "target": comparison.target.path,
        "golden": comparison.golden.path,
        "scenario": render(comparison.scenario),
        "notes": [render(note) for note in comparison.notes],
        "verdict": comparison.judgement.outcome,
        "advice": [render(sentence) for sentence in comparison.judgement.advice],
        "operators": comparison.judgement.coverage.operators,
        "operators_compared": comparison.judgement.coverage.compared,
        **Tally.of(comparison).as_json(),
    }

    def write(path: str) -> None:
        with open_atomic(path) as file:
            file.write(json.dumps(document, indent=2).encode() + b"\n")

    return write_new(folder, _summary_name(), write)


def _summary_name() -> str:
    return f"msprobe_cmp_summary_{time.strftime('%Y%m%d%H%M%S', time.gmtime())}.json"


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


# Drafts


class _Drafts(Struct, frozen=True):
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
def _make_drafts(
    comparison: Comparison, folder: str, tables: Iterable[TableKey], forms: Sequence[ReportForm], map_jobs: MapJobs
) -> Iterator[_Drafts]:
    """Drafts in a folder for results, which are removed at the end.

    There are none for a short comparison, and none if one of them cannot be made: all files are then written one after
    the other, so that the files before it exist, and the error occurs again.
    """
    if not isinstance(comparison.rows, StoredRows):
        yield _Drafts()
        return
    with ExitStack() as stack:
        hidden = stack.enter_context(draft_folder(folder))
        try:
            drafts = _write_drafts(comparison, hidden, tables, forms, map_jobs)
        except Exception:  # noqa: BLE001  the error occurs again when the file is written on its own
            # Incomplete drafts would take the space of these files.
            stack.close()
            drafts = _Drafts()
        yield drafts


def _write_drafts(
    comparison: Comparison, folder: str, tables: Iterable[TableKey], forms: Sequence[ReportForm], map_jobs: MapJobs
) -> _Drafts:
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
    return _Drafts(table_paths, report_paths, rows_path)
