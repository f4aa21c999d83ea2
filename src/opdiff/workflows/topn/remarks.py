"""Sentences about a task-level check, and remarks about data that does not fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import Outcome
from opdiff.core.reasons import Reason, because
from opdiff.judge.task_accuracy import NORMAL_DIFFERENCE, SIGNIFICANT_DIFFERENCE
from opdiff.measure.topn import NO_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.reasons import Fact
    from opdiff.measure.topn import Classes
    from opdiff.workflows.topn.result import SampleResult, ScoredSamples, TopK

# Golden accuracy below this multiple of guessing shows labels of other samples or of another numbering.
_MIN_TIMES_CHANCE = 3
_MIN_SAMPLES_FOR_REMARKS = 20
# Documented number of samples for this check.
_DOCUMENTED_SAMPLES = 10_000


def sentences_of(top: Sequence[TopK], flips: Sequence[SampleResult], *, has_labels: bool) -> tuple[Reason, ...]:
    """Return the result in words, the most important first."""
    return tuple(_sentences(top[0], flips, has_labels=has_labels))


def _sentences(first: TopK, flips: Sequence[SampleResult], *, has_labels: bool) -> Iterator[Reason]:
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


def remarks_about(scored: ScoredSamples, classes: int) -> Iterator[Reason]:
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
