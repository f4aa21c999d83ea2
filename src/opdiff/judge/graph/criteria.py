"""Documented results of graph mode: PASS, FAIL and the colours of rows. See docs/torchair.md."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite, isnan, log10
from typing import TYPE_CHECKING

from opdiff.core.comparison import DataMode
from opdiff.core.judgement import Colour, DocumentedResult
from opdiff.core.metrics import differences
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Difference, TensorStats
    from opdiff.core.reasons import Reason

MIN_COSINE, MAX_RELATIVE_ERROR = 0.99, 0.01
"""Documented limits of PASS: cosine at least, relative error below."""

MAX_STATISTIC_ERROR, MAX_STATISTIC_SHARE = 0.01, 0.001
"""Limits of a statistic: relative error, or error relative to the largest golden magnitude."""

_HUGE_ERROR = 1e10
# Share of elements within 1 ‰: of an accurate input, and of an inaccurate output.
_ACCURATE_SHARE, _INACCURATE_SHARE = 0.9, 0.6
# From an input to the output: of the cosine, and of the share of elements within 1 ‰.
_SUSPICIOUS_DROP = 0.1
# Most rows have one of a few results.
_shared_result = lru_cache(maxsize=1024)(DocumentedResult)
_GOLDEN_ONLY = DocumentedResult("N/A", "N/A", Colour.NONE)
_NOT_COMPARED = DocumentedResult("FAIL", "No", Colour.RED)
_STATISTIC_REASONS = {
    "max": because("judge.max_far"),
    "min": because("judge.min_far"),
    "norm": because("judge.norm_far"),
}


def documented_results(rows: Sequence[Row]) -> list[DocumentedResult]:
    """Return the documented result of each row of a unit; rows of one operator are judged together."""
    inputs: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row.key and row.key.slot is Slot.INPUT and row.is_compared:
            inputs.setdefault(_operator(row), []).append(row)
    return [_result(row, inputs.get(_operator(row), ()) if inputs and row.is_output else ()) for row in rows]


def _operator(row: Row) -> tuple[object, ...]:
    """Return what identifies the operator of a row in its unit."""
    return row.label.target, row.timestamp, row.golden_only


def _result(row: Row, inputs: Sequence[Row]) -> DocumentedResult:
    """Return the result of a row; `inputs` are the compared inputs of its operator if the row is an output."""
    if row.golden_only:
        return _GOLDEN_ONLY
    if row.reason is not None:
        return _NOT_COMPARED
    passed, reached = _JUDGES[row.data_mode](row)
    red: list[Reason] = _red_alone(row)
    yellow: list[Reason] = []
    for other in inputs:
        red += _red_by_input(row, other)
        yellow += _yellow_by_input(row, other)
    if row.data_mode is DataMode.MD5:
        colour = Colour.GREEN if passed else Colour.RED
    else:
        colour = Colour.RED if red else Colour.GREEN if passed and not yellow else Colour.YELLOW
    why = tuple(dict.fromkeys((*red, *yellow))) if red or yellow else ()
    return _shared_result("PASS" if passed else "FAIL", "Yes" if reached else "No", colour, why)


def _differences(row: Row) -> dict[str, Difference]:
    return differences(row.target_stats, row.golden_stats)


# PASS or FAIL


def _judge_real(row: Row) -> tuple[bool, bool]:
    metrics = row.documented
    if metrics is None:
        # Two empty tensors of one shape are equal.
        return True, True
    cosine, max_abs = 1.0 if metrics.cosine is None else metrics.cosine, metrics.max_abs
    passed = cosine >= MIN_COSINE and metrics.max_relative < MAX_RELATIVE_ERROR
    if isnan(cosine) or isnan(max_abs):
        return passed, False
    return passed, not ((cosine < 0.99 and max_abs > 0.001) or cosine < 0.9 or max_abs > 1)


def _judge_statistics(row: Row) -> tuple[bool, bool]:
    found = _differences(row)
    known = [item for item in found.values() if item.absolute is not None]
    allowed = MAX_STATISTIC_SHARE * _magnitude(row)
    passed = bool(known) and all(_is_near(item, allowed) for item in known)
    return passed, _is_reached(row, found["max"])


def _is_near(item: Difference, allowed: float) -> bool:
    if item.absolute is None or item.relative is None:
        return True
    return (item.relative < MAX_STATISTIC_ERROR and item.relative >= 0) or (
        isfinite(item.absolute) and abs(item.absolute) <= allowed
    )


def _magnitude(row: Row) -> float:
    """Return the largest magnitude of the golden tensor; 0 if it is unknown or not finite."""
    golden = row.golden_stats
    if golden is None:
        return 0.0
    ends = (golden.maximum, golden.minimum)
    return max((abs(end) for end in ends if end is not None and isfinite(end)), default=0.0)


def _is_reached(row: Row, item: Difference) -> bool:
    if item.absolute is None or not isfinite(item.absolute) or row.target is None or row.golden is None:
        return False
    ends = [abs((side.stats.maximum if side.stats else 0) or 0) for side in (row.target, row.golden)]
    size = max((end for end in ends if isfinite(end)), default=0.0)
    return abs(item.absolute) / (size + 1e-10) <= 0.5


def _judge_md5(row: Row) -> tuple[bool, bool]:
    sums = [side.stats.crc32 for side in (row.target, row.golden) if side and side.stats]
    equal = len(sums) == 2 and sums[0] == sums[1] != ""
    return equal, equal


_JUDGES = {DataMode.REAL: _judge_real, DataMode.STATISTICS: _judge_statistics, DataMode.MD5: _judge_md5}


# Colours


def _red_alone(row: Row) -> list[Reason]:
    found = []
    target, golden = row.target and row.target.stats, row.golden and row.golden.stats
    if target and golden and _not_finite(target) and not _not_finite(golden):
        found.append(because("judge.target_not_finite"))
    if abs(_error(row) or 0) > _HUGE_ERROR:
        found.append(because("judge.error_huge", limit=_HUGE_ERROR))
    if row.documented is not None:
        cosine = row.documented.cosine
        if cosine is not None and (isnan(cosine) or cosine < MIN_COSINE):
            found.append(because("judge.cosine_low", limit=MIN_COSINE))
    elif row.data_mode is DataMode.STATISTICS:
        found += [reason for name, reason in _STATISTIC_REASONS.items() if _is_far(row, name)]
    return found


def _is_far(row: Row, name: str) -> bool:
    """Return whether a statistic deviates by more than half, and not only from a golden value near zero."""
    item = _differences(row)[name]
    if item.absolute is None or item.relative is None:
        return False
    if not isfinite(item.absolute):
        return True
    return item.relative > 0.5 and abs(item.absolute) > MAX_STATISTIC_SHARE * _magnitude(row)


def _not_finite(stats: TensorStats) -> bool:
    low, high = stats.minimum, stats.maximum
    return not (low is None or isfinite(low)) or not (high is None or isfinite(high))


def _error(row: Row) -> float | int | None:
    return row.documented.max_abs if row.documented is not None else _differences(row)["max"].absolute


def _red_by_input(row: Row, other: Row) -> list[Reason]:
    before = other.documented.one_permille if other.documented else None
    after = row.documented.one_permille if row.documented else None
    if before is not None and after is not None and before > _ACCURATE_SHARE and after < _INACCURATE_SHARE:
        return [because("judge.accuracy_lost", before=_ACCURATE_SHARE, after=_INACCURATE_SHARE)]
    return []


def _yellow_by_input(row: Row, other: Row) -> list[Reason]:
    found = []
    before, after = _order(_error(other)), _order(_error(row))
    if before is not None and after is not None and after - before >= 1:
        found.append(because("judge.error_grown"))
    if row.documented and other.documented:
        if _drop(other.documented.one_permille, row.documented.one_permille) > _SUSPICIOUS_DROP:
            found.append(because("judge.share_dropped", drop=_SUSPICIOUS_DROP))
        if _drop(other.documented.cosine, row.documented.cosine) > _SUSPICIOUS_DROP:
            found.append(because("judge.cosine_dropped", drop=_SUSPICIOUS_DROP))
    elif row.data_mode is DataMode.STATISTICS:
        norms = _differences(other)["norm"].relative, _differences(row)["norm"].relative
        if None not in norms and (norms[1] or 0) > max(10 * (norms[0] or 0), 0.1):
            found.append(because("judge.norm_grown"))
    return found


def _order(error: float | None) -> float | None:
    """Return the order of magnitude of an error; errors below 1 count as 1."""
    if error is None or not isfinite(error):
        return None
    return log10(max(abs(error), 1))


def _drop(before: float | None, after: float | None) -> float:
    if before is None or after is None or isnan(before) or isnan(after):
        return 0.0
    return before - after
