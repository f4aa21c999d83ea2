"""The task-level check: outputs of two runs → best classes → shares → outcome.

target, golden ──samples──► pairs ──scores──► best classes ──judge──► TopnResult
                                      labels ──────────┘
"""

from __future__ import annotations

import os
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core.errors import InputError, UsageError
from opdiff.core.judgement import Outcome
from opdiff.core.reasons import Reason, because
from opdiff.judge.task_accuracy import (
    NORMAL_DIFFERENCE,
    SIGNIFICANT_DIFFERENCE,
    difference_of,
    disagreement_of,
    outcome_of,
    share_of,
)
from opdiff.measure.topn import NO_CLASS, BestClasses, are_among, best_classes, scores_of
from opdiff.workflows.topn.labels import match_labels, read_labels
from opdiff.workflows.topn.result import ScoredSamples, ScoredSide, TopK, TopnResult
from opdiff.workflows.topn.sample_pairs import pair_samples
from opdiff.workflows.topn.samples import ScoreReader, read_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.reasons import Fact
    from opdiff.measure.topn import Classes, Scores
    from opdiff.workflows.topn.options import TopnOptions
    from opdiff.workflows.topn.result import SampleResult
    from opdiff.workflows.topn.sample_pairs import SamplePairs
    from opdiff.workflows.topn.samples import Outputs

    Progress = Callable[[int, int], None]

# Elements of a block that is read and ranked at once.
_BLOCK_ELEMENTS = 1 << 20
_SEVERITY = (Outcome.CLEAN, Outcome.UNSURE, Outcome.SUSPICIOUS, Outcome.WRONG)
# Golden accuracy below this multiple of guessing shows labels of other samples or of another numbering.
_MIN_TIMES_CHANCE = 3
_MIN_SAMPLES_FOR_REMARKS = 20
# Documented number of samples for this check.
_DOCUMENTED_SAMPLES = 10_000


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
    notes += _remarks_about(scored, target.classes)
    return TopnResult(
        target=options.target,
        golden=options.golden,
        labels=options.labels,
        samples=len(pairs.target),
        classes=target.classes,
        top=top,
        outcome=max((item.outcome for item in top), key=_SEVERITY.index),
        sentences=tuple(_sentences(top[0], flips, has_labels=labels is not None)),
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
    sides: tuple[list[tuple[BestClasses, Scores]], ...] = ([], [])
    readers = (ScoreReader(classes), pairs.target), (ScoreReader(classes), pairs.golden)
    total = len(pairs.target)
    step = max(_BLOCK_ELEMENTS // classes, 1)
    for start in range(0, total, step):
        stop = min(start + step, total)
        scores = [reader.read(samples[start:stop]) for reader, samples in readers]
        best = [best_classes(side, k) for side in scores]
        for number, side in enumerate(sides):
            side.append((best[number], scores_of(scores[number], best[1 - number].classes[:, 0])))
        progress(stop, total)
    names = tuple((one.name, other.name) for one, other in zip(pairs.target, pairs.golden, strict=True))
    return ScoredSamples(names, labels, *map(_joined, sides))


def _joined(blocks: Sequence[tuple[BestClasses, Scores]]) -> ScoredSide:
    """Return the blocks of one run as a whole."""
    best, other_best = zip(*blocks, strict=True)
    return ScoredSide(
        BestClasses(*(np.concatenate(parts) for parts in zip(*best, strict=True))), np.concatenate(other_best)
    )


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


# Sentences, and remarks about data that does not fit together


def _sentences(first: TopK, flips: Sequence[SampleResult], *, has_labels: bool) -> Iterator[Reason]:
    """Yield the result in words, the most important first."""
    loss = first.loss
    limits = {"normal": NORMAL_DIFFERENCE, "significant": SIGNIFICANT_DIFFERENCE}
    interval = because("topn.interval", low=loss.low, high=loss.high)
    if loss.value < 0:
        interval = because("topn.interval", low=-loss.high, high=-loss.low)
    kind = "agreement" if not has_labels else "gain" if loss.value < 0 else "loss"
    facts: dict[str, Fact] = {"k": first.k, "size": abs(loss.value), "interval": interval, **limits}
    yield Reason(f"topn.{kind}_{first.outcome}", tuple(facts.items()))
    total = first.agreement.total if first.target_accuracy is None else first.target_accuracy.total
    if first.outcome is Outcome.UNSURE:
        yield because("topn.too_few", samples=total, significant=SIGNIFICANT_DIFFERENCE, documented=_DOCUMENTED_SAMPLES)
    if not has_labels:
        yield because("topn.labels_wanted")
    ties = sum(sample.is_tie for sample in flips)
    if ties:
        yield because("topn.ties", count=ties)


def _remarks_about(scored: ScoredSamples, classes: int) -> Iterator[Reason]:
    """Yield NaN, and signs of samples or labels that do not belong together."""
    for side, scores in (("target", scored.target), ("golden", scored.golden)):
        count = int(scores.best.has_nan.sum())
        if count:
            yield because("topn.with_nan", side=side, count=count)
    best = scored.target.best.classes[:, 0], scored.golden.best.classes[:, 0]
    if len(best[0]) < _MIN_SAMPLES_FOR_REMARKS:
        return
    if scored.labels is not None and not _is_better_than_chance(best[1], scored.labels, classes):
        yield because("topn.labels_do_not_fit", hint=_offset_hint(best[1], scored.labels, classes))
    elif scored.labels is None and not _is_better_than_chance(best[0], best[1], classes):
        yield because("topn.samples_do_not_fit")


def _is_better_than_chance(best: Classes, labels: Classes, classes: int) -> bool:
    known = labels != NO_CLASS
    return not known.any() or bool((best == labels)[known].mean() * classes >= min(_MIN_TIMES_CHANCE, classes / 2))


def _offset_hint(best: Classes, labels: Classes, classes: int) -> Reason | None:
    """Return the offset with which labels fit, if one does."""
    known = labels != NO_CLASS
    for offset in (-1, 1):
        if known.any() and _is_better_than_chance(best[known], labels[known] + offset, classes):
            return because("topn.offset_hint", offset=offset)
    return None
