"""The result in a few lines, for the terminal. Names in them are those of the files: whoever prints makes them safe."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from opdiff.core.formatting import format_number
from opdiff.core.reasons import Language, kind_of, render
from opdiff.report.csv_table import reason_text
from opdiff.report.judged import GOOD_COSINE, GOOD_RATIO
from opdiff.report.rows import saved

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.report.rows import ReportRow, SavedComparison

_MOST = 3
_WORST = 10
_LONGEST = 160
_COLUMNS = 80


def summary_lines(comparison: Comparison | SavedComparison, csv_path: str = "", lang: str = "en") -> tuple[str, ...]:
    """What is to be thought of it, how much was compared, why the rest was not, and where the accuracy is low."""
    kept = saved(comparison)
    rows = kept.rows
    compared = [row for row in rows if row.metrics is not None]
    return (
        *advice_lines(kept, lang),
        *_counts(rows, compared),
        *_reasons([row for row in rows if row.metrics is None]),
        *_accuracy(compared),
        *([f"result: {csv_path}"] if csv_path else []),
    )


def advice_lines(kept: SavedComparison, lang: str) -> Iterator[str]:
    """The advice in lines of a terminal; other letters than ASCII take up to two columns."""
    judgement = kept.judgement
    for sentence in [render(reason, Language(lang)) for reason in (judgement.advice if judgement else ())]:
        line, used = "", 0
        for word in re.findall(r"[\x21-\x7e]+ ?| |[^\x20-\x7e]", sentence):
            columns = sum(1 if letter.isascii() else 2 for letter in word.rstrip())
            if line and used + columns > _COLUMNS:
                yield line.rstrip()
                line, used = "  ", 2
            line += word
            used += columns + (word[-1] == " ")
        yield line.rstrip()


def _counts(rows: Sequence[ReportRow], compared: Sequence[ReportRow]) -> Iterator[str]:
    tensors = sum(row.key is not None for row in rows) - len(compared)
    operators = sum(row.key is None for row in rows)
    names = {row.label.target for row in compared}
    yield f"compared: {_counted(len(compared), 'tensor')} of {_counted(len(names), 'operator')}"
    if tensors or operators:
        yield f"not compared: {_counted(operators, 'whole operator')}, {_counted(tensors, 'other tensor')}"


def _reasons(failed: Sequence[ReportRow]) -> Iterator[str]:
    """Yield the most frequent kinds of reasons, each with its first example."""
    if not failed:
        return
    examples: dict[tuple[str, ...], str] = {}
    counts: Counter[tuple[str, ...]] = Counter()
    for row in failed:
        kind = kind_of(row.reason) if row.reason else ()
        examples.setdefault(kind, reason_text(row))
        counts[kind] += 1
    for kind, count in counts.most_common(_MOST):
        yield f"  {count} x{', such as:' if count > 1 else ''} {_short(examples[kind]) or 'no reason given'}"
    if len(counts) > _MOST:
        yield f"  and {_counted(len(counts) - _MOST, 'other reason')}"


def _accuracy(compared: Sequence[ReportRow]) -> Iterator[str]:
    cosines = [(row.metrics.cosine, row) for row in compared if row.metrics and row.metrics.cosine is not None]
    finite = [(cosine, row) for cosine, row in cosines if not math.isnan(cosine)]
    special = len(cosines) - len(finite)
    if special:
        yield f"not finite: {_counted(special, 'tensor')} with NaN or infinities (see FiniteCosine, SpecialMismatch)"
    yield from _scales([row for cosine, row in finite if cosine >= GOOD_COSINE])
    low = [(cosine, row) for cosine, row in finite if cosine < GOOD_COSINE]
    if not low:
        yield from _all_good(finite)
        return
    first = next(row for _, row in low)
    yield f"cosine below {GOOD_COSINE}: {_counted(len(low), 'tensor')}, first {_place(first)}; the worst:"
    yield from (f"  {_place(row)} {format_number(cosine)}" for cosine, row in sorted(low, key=_cosine)[:_WORST])


def _scales(rows: Sequence[ReportRow]) -> Iterator[str]:
    """What the cosine is blind for: the right direction, but not the right length."""
    ratios = [(row.metrics.norm_ratio, row) for row in rows if row.metrics and row.metrics.norm_ratio is not None]
    off = [(ratio, row) for ratio, row in ratios if abs(ratio - 1) > GOOD_RATIO]
    if off:
        ratio, row = off[0]
        share = f"more than {GOOD_RATIO:.0%} off with a good cosine"
        yield f"scale {share}: {_counted(len(off), 'tensor')}, first {_place(row)} {format_number(ratio)}"


def _cosine(pair: tuple[float, ReportRow]) -> float:
    return pair[0]


def _all_good(finite: Sequence[tuple[float, ReportRow]]) -> Iterator[str]:
    if finite:
        yield f"cosine: {GOOD_COSINE} or more in {_counted(len(finite), 'tensor')}"
        yield _worst(finite)


def _worst(cosines: Sequence[tuple[float, ReportRow]]) -> str:
    cosine, row = min(cosines, key=_cosine)
    return f"worst cosine: {_place(row)} {format_number(cosine)}"


def _place(row: ReportRow) -> str:
    return f"[{row.label.index}] {row.key}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
