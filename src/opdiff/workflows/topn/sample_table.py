"""The samples of a task-level check as a CSV file."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from opdiff.report.cells import columns_of_rows, write_table
from opdiff.report.file_names import timed_file_name, write_new

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.report.cells import Cell
    from opdiff.workflows.topn.result import SampleResult, SideResult, TopnResult

_TITLES = (
    "Sample", "GoldenSample", "Label", "Flip", "Tie", "TargetClasses", "GoldenClasses", "TargetScores", "GoldenScores",
    "TargetMargin", "GoldenMargin",
)  # fmt: skip


def write_samples(result: TopnResult, folder: str) -> str:
    """Write a new CSV file with a row for each sample, and return its path."""
    parts = columns_of_rows(tuple(_cells(sample)) for sample in result.scored.results())
    return write_new(
        folder, timed_file_name("topn", time.localtime()), partial(write_table, titles=_TITLES, parts=parts)
    )


def _cells(sample: SampleResult) -> Iterator[Cell]:
    yield from (sample.name, sample.golden_name, "" if sample.label is None else str(sample.label))
    yield from ("yes" if flag else "no" for flag in (sample.is_flip, sample.is_tie))
    sides = sample.target, sample.golden
    yield from (" ".join(map(str, side.classes)) for side in sides)
    yield from (_scores(side) for side in sides)
    yield from (side.margin for side in sides)


def _scores(side: SideResult) -> str:
    return " ".join(f"{score:.9g}" for score in side.scores)
