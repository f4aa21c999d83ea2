"""Result of a task-level check: shares for each k, the outcome, and every sample, which may go to a CSV file."""

from __future__ import annotations

import time
from functools import partial
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core.judgement import Outcome
from opdiff.judge.task_accuracy import Difference, Share
from opdiff.measure.topn import NO_CLASS
from opdiff.report.cells import columns_of_rows, write_table
from opdiff.report.file_names import timed_file_name, write_new

__all__ = ["Difference", "Outcome", "SampleResult", "Share", "SideResult", "TopK", "TopnResult"]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.reasons import Reason
    from opdiff.measure.topn import BestClasses, Classes, Scores
    from opdiff.report.cells import Cell


# Columns of the CSV file with all samples.
_TITLES = (
    "Sample", "GoldenSample", "Label", "Flip", "Tie", "TargetClasses", "GoldenClasses", "TargetScores", "GoldenScores",
    "TargetMargin", "GoldenMargin",
)  # fmt: skip


class TopK(Struct, frozen=True):
    """Shares of samples for one k.

    Attributes:
        k: number of best classes.
        agreement: samples whose best golden class is among the k best of the target.
        target_accuracy: samples whose label is among the k best of the target; `None` without labels.
        golden_accuracy: the same of the golden run.
        loss: golden accuracy minus accuracy of the target; without labels golden results count as right.
        outcome: the loss, or gain, by the documented limits.
    """

    k: int
    agreement: Share
    target_accuracy: Share | None
    golden_accuracy: Share | None
    loss: Difference
    outcome: Outcome


class SideResult(Struct, frozen=True):
    """Result of one run for one sample.

    Attributes:
        classes: best classes, best first; empty if a score is NaN.
        scores: their scores.
        margin: score of the best class minus that of the other run's best class, if it is another one and scores are
            not NaN.
    """

    classes: tuple[int, ...]
    scores: tuple[float, ...]
    margin: float | None


class SampleResult(Struct, frozen=True):
    """Result of both runs for one sample.

    Attributes:
        name: name of the sample in the target.
        golden_name: its name in the golden run.
        label: right class; `None` if unknown.
        target: result of the target.
        golden: result of the golden run.
    """

    name: str
    golden_name: str
    label: int | None
    target: SideResult
    golden: SideResult

    @property
    def is_flip(self) -> bool:
        """Whether the best classes differ, or a run has none."""
        return not self.target.classes or self.target.classes[:1] != self.golden.classes[:1]

    @property
    def is_tie(self) -> bool:
        """Whether the best classes differ only because a run gives both the same score."""
        return self.is_flip and (self.target.margin == 0 or self.golden.margin == 0)


class ScoredSide(Struct, frozen=True):
    """Best classes of one run, and its scores for the best classes of the other run."""

    best: BestClasses
    other_best: Scores

    def result(self, number: int, *, is_flip: bool) -> SideResult:
        """Return the result for one sample."""
        classes, scores = self.best.classes[number], self.best.scores[number]
        if classes[0] == NO_CLASS:
            return SideResult((), (), None)
        margin = _margin(float(scores[0]), float(self.other_best[number])) if is_flip else None
        return SideResult(tuple(map(int, classes)), tuple(map(float, scores)), margin)


def _margin(best: float, other: float) -> float | None:
    if isnan(other):
        return None
    return 0.0 if best == other else best - other  # infinite scores may be equal; their difference is NaN


class ScoredSamples(Struct, frozen=True):
    """Best classes of all samples in both runs."""

    names: tuple[tuple[str, str], ...]
    labels: Classes | None
    target: ScoredSide
    golden: ScoredSide

    def results(self, *, flips_only: bool = False) -> Iterator[SampleResult]:
        """Yield the results, sample by sample."""
        best = self.target.best.classes[:, 0], self.golden.best.classes[:, 0]
        is_flip = (best[0] != best[1]) | (best[0] == NO_CLASS)
        for number in map(int, np.nonzero(is_flip)[0]) if flips_only else range(len(is_flip)):
            label = NO_CLASS if self.labels is None else int(self.labels[number])
            yield SampleResult(
                *self.names[number],
                None if label == NO_CLASS else label,
                self.target.result(number, is_flip=bool(is_flip[number])),
                self.golden.result(number, is_flip=bool(is_flip[number])),
            )


class TopnResult(Struct, frozen=True):
    """Result of a task-level check.

    Attributes:
        target: path of the outputs under test.
        golden: path of the reference outputs.
        labels: path of the labels; empty for none.
        samples: number of compared samples.
        classes: number of classes.
        top: shares for each k.
        outcome: the worst outcome of all k.
        sentences: the result in words, the most important first.
        flips: samples whose best class changed, the clearest golden result first.
        notes: remarks about pairs and data.
        scored: all samples.
    """

    target: str
    golden: str
    labels: str
    samples: int
    classes: int
    top: tuple[TopK, ...]
    outcome: Outcome
    sentences: tuple[Reason, ...]
    flips: tuple[SampleResult, ...]
    notes: tuple[Reason, ...]
    scored: ScoredSamples


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
    yield from (" ".join(f"{score:.9g}" for score in side.scores) for side in sides)
    yield from (side.margin for side in sides)
