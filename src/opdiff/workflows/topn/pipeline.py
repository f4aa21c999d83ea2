"""The task-level check: outputs of two runs → best classes → shares → outcome.

target, golden ──samples──► pairs ──scores──► best classes ──judge──► TopnResult
                                      labels ──────────┘
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core.errors import InputError, UsageError
from opdiff.core.judgement import Outcome
from opdiff.core.reasons import because
from opdiff.judge.task_accuracy import difference_of, disagreement_of, outcome_of, share_of
from opdiff.measure.topn import NO_CLASS, BestClasses, are_among, best_classes, scores_of
from opdiff.workflows.topn.labels import match_labels, read_labels
from opdiff.workflows.topn.remarks import remarks_about, sentences_of
from opdiff.workflows.topn.result import ScoredSamples, ScoredSide, TopK, TopnResult
from opdiff.workflows.topn.sample_pairs import pair_samples
from opdiff.workflows.topn.samples import ScoreReader, read_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.measure.topn import Classes, Scores
    from opdiff.workflows.topn.options import TopnOptions
    from opdiff.workflows.topn.result import SampleResult
    from opdiff.workflows.topn.sample_pairs import SamplePairs
    from opdiff.workflows.topn.samples import Outputs

    Progress = Callable[[int, int], None]

# Elements of a block that is read and ranked at once.
_BLOCK_ELEMENTS = 1 << 20
_SEVERITY = (Outcome.CLEAN, Outcome.UNSURE, Outcome.SUSPICIOUS, Outcome.WRONG)


def check_topn(options: TopnOptions, progress: Progress = lambda _done, _total: None) -> TopnResult:
    """Compare the best classes of two runs, and their accuracy if labels are given.

    Raises:
        UsageError: a k is not a number of classes.
        InputError: outputs or labels cannot be used.
    """
    target = read_outputs(options.target, options, options.operator)
    operator = options.golden_operator or options.operator
    golden = read_outputs(options.golden, options, operator, is_chosen=bool(options.golden_operator))
    _require_equal_classes(target, golden)
    _require_ks(options.ks, target.classes)
    pairs = pair_samples(target, golden)
    notes = [*target.notes, *golden.notes, *pairs.notes]
    labels = None
    if options.labels:
        matched = match_labels(read_labels(options.labels), pairs.target, target.classes, options.label_offset)
        labels = matched.classes
        notes += matched.notes
    scored = _score(pairs, labels, target.classes, max(options.ks), progress)
    top = tuple(_top_k(scored, k) for k in options.ks)
    flips = tuple(sorted(scored.results(flips_only=True), key=_clearest_first))
    if os.path.realpath(options.target) == os.path.realpath(options.golden):
        notes.append(because("topn.same_path"))
    notes += remarks_about(scored, target.classes)
    return TopnResult(
        target=options.target,
        golden=options.golden,
        labels=options.labels,
        samples=len(pairs.target),
        classes=target.classes,
        top=top,
        outcome=max((item.outcome for item in top), key=_SEVERITY.index),
        sentences=sentences_of(top, flips, has_labels=labels is not None),
        flips=flips,
        notes=tuple(notes),
        scored=scored,
    )


def _require_equal_classes(target: Outputs, golden: Outputs) -> None:
    if target.classes != golden.classes:
        hint = because("topn.background_class") if abs(target.classes - golden.classes) == 1 else None
        counts = {"target": target.classes, "golden": golden.classes}
        raise InputError(target.path, because("topn.classes_differ", **counts, golden_path=golden.path, hint=hint))


def _require_ks(ks: Sequence[int], classes: int) -> None:
    if not ks or min(ks) < 1 or max(ks) >= classes:
        listed = ",".join(map(str, ks))
        raise UsageError(because("topn.k_range", ks=listed, classes=classes, limit=classes - 1))


def _score(pairs: SamplePairs, labels: Classes | None, classes: int, k: int, progress: Progress) -> ScoredSamples:
    """Rank the classes of all samples, block by block."""
    sides = _SideBuilder(), _SideBuilder()
    readers = (ScoreReader(classes), pairs.target), (ScoreReader(classes), pairs.golden)
    total = len(pairs.target)
    for start, stop in _blocks(total, classes):
        scores = [reader.read(samples[start:stop]) for reader, samples in readers]
        best = [best_classes(side, k) for side in scores]
        for number, side in enumerate(sides):
            side.add(best[number], scores_of(scores[number], best[1 - number].classes[:, 0]))
        progress(stop, total)
    names = tuple((one.name, other.name) for one, other in zip(pairs.target, pairs.golden, strict=True))
    return ScoredSamples(names, labels, sides[0].build(), sides[1].build())


def _blocks(total: int, classes: int) -> Iterator[tuple[int, int]]:
    size = max(_BLOCK_ELEMENTS // classes, 1)
    return ((start, min(start + size, total)) for start in range(0, total, size))


@dataclass(slots=True)
class _SideBuilder:
    """Blocks of one run."""

    best: list[BestClasses] = field(default_factory=list)
    other_best: list[Scores] = field(default_factory=list)

    def add(self, best: BestClasses, other_best: Scores) -> None:
        self.best.append(best)
        self.other_best.append(other_best)

    def build(self) -> ScoredSide:
        joined = BestClasses(*(np.concatenate(parts) for parts in zip(*self.best, strict=True)))
        return ScoredSide(joined, np.concatenate(self.other_best))


def _top_k(scored: ScoredSamples, k: int) -> TopK:
    target, golden = (side.best.classes[:, :k] for side in (scored.target, scored.golden))
    agreement = share_of(int(are_among(golden[:, 0], target).sum()), len(target))
    if scored.labels is None:
        loss = disagreement_of(agreement)
        return TopK(k, agreement, None, None, loss, outcome_of(loss))
    labels = scored.labels[scored.labels != NO_CLASS]
    right = [are_among(labels, side[scored.labels != NO_CLASS]) for side in (target, golden)]
    lost, gained = int((right[1] & ~right[0]).sum()), int((right[0] & ~right[1]).sum())
    loss = difference_of(lost, gained, len(labels))
    shares = [share_of(int(side.sum()), len(labels)) for side in right]
    return TopK(k, agreement, shares[0], shares[1], loss, outcome_of(loss))


def _clearest_first(sample: SampleResult) -> float:
    margin = sample.golden.margin
    return -inf if margin is None else -margin
