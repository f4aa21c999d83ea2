"""What is thought of the rows: by the judgement that was saved with them, or by plain limits where there is none.

All reports that colour, count or gate by level ask here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Birth, Level
from opdiff.core.reasons import quoted
from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.comparison import Finding, Metrics
    from opdiff.core.reasons import Reason
    from opdiff.report.rows import ReportRow, SavedComparison

LEVELS: tuple[str, ...] = tuple(map(str, Level))
"""Best first; what cannot be compared stands beside them."""

EXACT, ROUNDING, NOISE, SUSPICIOUS, WRONG, NOT_COMPARABLE = LEVELS
BAD = frozenset({SUSPICIOUS, WRONG})
BORN, INHERITED = str(Birth.BORN), str(Birth.INHERITED)

# Where networks are usually taken for accurate.
GOOD_COSINE = 0.99
GOOD_DISTANCE = 0.05
GOOD_RATIO = 0.01


class Judged(NamedTuple):
    """What is thought of a comparison; the first four have an entry for each row.

    Attributes:
        levels: how good each row is, one of `LEVELS`.
        rules: what decided.
        origins: `born`, `inherited`, `accumulated`, or nothing when that is not known or the row is good.
        excess: the error beside the largest that is allowed; `None` when not known.
        findings: what is at fault, the worst first.
        first_bad: the first operator in which an error was born; the first bad one when that is not known.
        advice: the result in sentences.
        is_plain: whether plain limits decided, for want of a judgement.
    """

    levels: tuple[str, ...]
    rules: tuple[Reason, ...]
    origins: tuple[str, ...]
    excess: tuple[float | None, ...]
    findings: tuple[Finding, ...] = ()
    first_bad: str = ""
    advice: tuple[Reason, ...] = ()
    is_plain: bool = False


def judged(kept: SavedComparison) -> Judged:
    """The judgement of a comparison."""
    judgement = kept.judgement
    if judgement is None or len(judgement.verdicts) != len(kept.rows):
        return _by_plain_limits(kept.rows)
    verdicts = judgement.verdicts
    levels = tuple(str(verdict.level) for verdict in verdicts)
    return Judged(
        levels,
        tuple(verdict.rule for verdict in verdicts),
        tuple(str(verdict.origin) for verdict in verdicts),
        tuple(verdict.excess for verdict in verdicts),
        judgement.findings,
        judgement.first_bad or _first_bad(kept.rows, levels),
        judgement.advice,
    )


def levels_of(kept: SavedComparison) -> tuple[str, ...]:
    """The level of each row."""
    return judged(kept).levels


def is_hit(gate: str, levels: Iterable[str]) -> bool:
    """Whether a row is at least as bad as the gate, which is `suspicious` or `wrong`."""
    bad = BAD if gate == SUSPICIOUS else {WRONG}
    return any(level in bad for level in levels)


def _by_plain_limits(rows: Sequence[ReportRow]) -> Judged:
    thoughts = [_thought(row.metrics) for row in rows]
    levels = tuple(level for level, _ in thoughts)
    origins = _origins(rows, levels)
    first = next((row.label.target for row, origin in zip(rows, origins, strict=True) if origin == BORN), "")
    return Judged(
        levels,
        tuple(rule for _, rule in thoughts),
        origins,
        (None,) * len(rows),
        first_bad=first or _first_bad(rows, levels),
        is_plain=True,
    )


def _thought(metrics: Metrics | None) -> tuple[str, Reason]:
    """A level, and the limit that decided."""
    if metrics is None:
        return NOT_COMPARABLE, quoted("not measured")
    if metrics.is_equal:
        return EXACT, quoted("bit for bit equal")
    if metrics.special_mismatches:
        return WRONG, quoted(f"{metrics.special_mismatches} NaN or infinite elements on one side only")
    if metrics.max_ulp is not None and metrics.max_ulp <= 1:
        return ROUNDING, quoted("at most 1 unit of the last place apart")
    return _by_figures(metrics)


def _by_figures(metrics: Metrics) -> tuple[str, Reason]:
    cosine = metrics.cosine
    if cosine is None or math.isnan(cosine):
        cosine = metrics.finite_cosine
    if cosine is not None and cosine < GOOD_COSINE:
        return WRONG, quoted(f"cosine below {GOOD_COSINE}")
    distance, ratio = metrics.relative_euclidean_distance, metrics.norm_ratio
    if distance is not None and distance > GOOD_DISTANCE:
        return SUSPICIOUS, quoted(f"relative Euclidean distance above {GOOD_DISTANCE}")
    if ratio is not None and abs(ratio - 1) > GOOD_RATIO:
        return SUSPICIOUS, quoted(f"norms more than {GOOD_RATIO:.0%} apart")
    return NOISE, quoted(f"cosine {GOOD_COSINE} or more, relative Euclidean distance {GOOD_DISTANCE} or less")


def _origins(rows: Sequence[ReportRow], levels: Sequence[str]) -> tuple[str, ...]:
    """Bad outputs of operators whose own inputs were compared: born when those are good, inherited otherwise."""
    inputs: dict[str, bool] = {}
    for row, level in zip(rows, levels, strict=True):
        if row.key is not None and row.key.slot is Slot.INPUT and level != NOT_COMPARABLE:
            inputs[row.label.target] = inputs.get(row.label.target, False) or level in BAD
    found = {False: BORN, True: INHERITED}
    return tuple(
        found[inputs[row.label.target]] if level in BAD and _is_output(row) and row.label.target in inputs else ""
        for row, level in zip(rows, levels, strict=True)
    )


def _is_output(row: ReportRow) -> bool:
    return row.key is not None and row.key.slot is Slot.OUTPUT


def _first_bad(rows: Sequence[ReportRow], levels: Sequence[str]) -> str:
    return next((row.label.target for row, level in zip(rows, levels, strict=True) if level in BAD), "")
