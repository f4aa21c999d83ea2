"""The way of a comparison in graph mode to its reports: put together → judge → report. No dump is needed for it."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.judge.graph.tokens import GraphToken, judge_tokens
from opdiff.report.file_names import write_new
from opdiff.report.graph_json import SCHEMA, SUMMARY_SCHEMA, load_graph_json, schema_of
from opdiff.report.graph_rows import put_together
from opdiff.report.saved_json import load
from opdiff.workflows.compare.outputs import report_name, write_report
from opdiff.workflows.compare.pipeline import find_limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.judge.limits import Limits
    from opdiff.report.graph_json import SavedGraph
    from opdiff.report.rows import SavedComparison
    from opdiff.workflows.compare.outputs import Reports

_TIME = re.compile(r"_([0-9]{14}(?:_[0-9]+)?)$")


def judged_graphs(parts: Sequence[SavedGraph], limits: Limits) -> SavedComparison:
    """All parts of one run as one comparison, and what is thought of it.

    Raises:
        InputError: the parts are not of one run.
    """
    return judged_again(put_together(parts), limits)


def judged_again(kept: SavedComparison, limits: Limits) -> SavedComparison:
    """A comparison of graph mode, and what is thought of it by these limits."""
    about = kept.graph_mode
    if about is None:
        return kept
    members: list[list[int]] = [[] for _ in about.units]
    for number, spot in enumerate(about.spots):
        members[spot.unit].append(number)
    tokens = [
        GraphToken(
            str(unit),
            (unit.token, unit.rank or 0, unit.graph or 0),
            [kept.rows[number] for number in numbers],
            [about.spots[number].row for number in numbers],
            [about.spots[number].verdict for number in numbers],
            about.networks[unit.network] if unit.network >= 0 else (),
        )
        for unit, numbers in zip(about.units, members, strict=True)
    ]
    judgement, found = judge_tokens(tokens, limits)
    return kept._replace(judgement=judgement, graph_mode=about._replace(found=found))


def saved_files(paths: Sequence[str]) -> list[str]:
    """The files of a saved comparison: a folder stands for those of graph mode in it; summaries are passed over.

    Raises:
        InputError: there are none.
        OSError: a file cannot be read.
    """
    files = [file for path in paths for file in (_files_in(path) if os.path.isdir(path) else [path])]
    wanted = [file for file in files if schema_of(file) != SUMMARY_SCHEMA]
    if not wanted:
        raise InputError(paths[0], "is the summary of a run; the results are in the JSON files beside the tables")
    return wanted


def _files_in(folder: str) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
    found = [file for file in (os.path.join(folder, name) for name in names) if schema_of(file) == SCHEMA]
    if not found:
        raise InputError(folder, "no saved result of graph mode is in this folder; give the JSON file of a comparison")
    return found


def is_of_graph_mode(files: Sequence[str]) -> bool:
    """Whether these are results of graph mode.

    Raises:
        OSError: a file cannot be read.
    """
    return any(schema_of(file) == SCHEMA for file in files)


def load_saved(files: Sequence[str], limits: str = "") -> SavedComparison:
    """A comparison that was saved: one file of an offline comparison, or all files of one run in graph mode.

    The latter is judged here, by the limits of this file; see `pipeline.find_limits`.

    Raises:
        InputError: a file is not a saved comparison, or several are not of one run.
        OSError: a file cannot be read.
    """
    if is_of_graph_mode(files):
        return judged_graphs([load_graph_json(file) for file in files], find_limits(limits))
    if len(files) > 1:
        raise InputError(files[1], "several files make one report in graph mode only; give one at a time")
    return load(files[0])


def report_stem(path: str) -> str:
    """What reports of a saved file of graph mode are called after: `result_20240115103052`."""
    stem = os.path.splitext(os.path.basename(path))[0]
    match = _TIME.search(stem)
    return f"result_{match[1]}" if match else stem


def write_graph_reports(kept: SavedComparison, reports: Reports, folder: str, stem: str) -> Iterator[str]:
    """Write the reports that are about the whole run; yields their paths. Workbooks are written with the tables."""
    for kind in reports.kinds:
        if kind != "xlsx":
            yield write_new(folder, report_name(stem, kind), partial(write_report, kind, kept))
