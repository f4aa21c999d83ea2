"""Search for the files of saved comparisons, and loading of all versions."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.judge.comparison_judgement import judge
from opdiff.report.graph_summary import SCHEMA as SUMMARY_SCHEMA
from opdiff.report.saved_json import SCHEMA, VERSION, files_of, head_of, load
from opdiff.report.saved_json_v1 import GRAPH_SCHEMA, load_v1
from opdiff.workflows.limits_file import find_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Comparison

_TABLE = re.compile(r"(?:.*_)?(?:result|msprobe_cmp_report)_(?:.*_)?[0-9]{14}(?:_[0-9]+)?\.csv")
_TIME = re.compile(r"_([0-9]{14}(?:_[0-9]+)?)$")


def load_saved(paths: Sequence[str], limits: str = "") -> Comparison:
    """Load one saved comparison.

    Args:
        paths: its file, its folder, or, in graph mode of older versions, its files.
        limits: file of limits for comparisons that were saved without a judgement.

    Raises:
        InputError: a file is not a saved comparison, or several are not of one run.
        OSError: a file cannot be read.
    """
    files = saved_files(paths)
    is_current = len(files) == 1 and head_of(files[0]) == (SCHEMA, VERSION)
    comparison = load(files[0]) if is_current else load_v1(files)
    if len(comparison.judgement.verdicts) == len(comparison.rows):
        return _with_coverage(comparison)
    return replace(comparison, judgement=judge(comparison.rows, comparison.graphs, find_limits(limits)))


def _with_coverage(comparison: Comparison) -> Comparison:
    """Add what older versions did not save: how much was compared, and how well the model's outputs agree."""
    judgement = comparison.judgement
    if judgement.coverage.operators or not comparison.rows:
        return comparison
    again = judge(comparison.rows, comparison.graphs)
    return replace(comparison, judgement=replace(judgement, coverage=again.coverage, outputs=again.outputs))


def saved_files(paths: Sequence[str]) -> list[str]:
    """Return the files of a saved comparison; folders are replaced by the files in them, summaries are omitted.

    Raises:
        InputError: there are none.
        OSError: a file cannot be read.
    """
    files = [file for path in paths for file in (_files_in(path) if os.path.isdir(path) else [path])]
    results = [file for file in files if head_of(file)[0] != SUMMARY_SCHEMA]
    if not results:
        raise InputError(paths[0], because("compare.summary_of_run"))
    return results


def _files_in(folder: str) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
    heads = {path: head_of(path) for path in (os.path.join(folder, name) for name in names)}
    found = [path for path, (schema, _) in heads.items() if schema in (SCHEMA, GRAPH_SCHEMA)]
    if not found:
        raise InputError(folder, because("compare.no_saved_comparison", count=len(os.listdir(folder))))
    _require_complete(folder, found)
    if len(found) > 1 and any(heads[path][0] == SCHEMA for path in found):
        raise InputError(folder, because("compare.several_saved", names=tuple(map(os.path.basename, found))))
    return found


def _require_complete(folder: str, saved: Sequence[str]) -> None:
    """Refuse a folder with tables of a run that did not end; runs of older versions do not list their tables."""
    listed: set[str] = set()
    for path in saved:
        files = files_of(path)
        if files is None:
            return
        listed.update(files)
    others = sorted(name for name in os.listdir(folder) if _TABLE.fullmatch(name) and name not in listed)
    if others:
        problem = because("compare.run_did_not_end", name=others[0])
        raise InputError(folder, problem)


def report_stem(path: str) -> str:
    """Return the stem of report names of a saved comparison: `result_20240115103052`."""
    stem = os.path.splitext(os.path.basename(path))[0]
    match = _TIME.search(stem)
    return f"result_{match[1]}" if match and head_of(path)[0] == GRAPH_SCHEMA else stem
