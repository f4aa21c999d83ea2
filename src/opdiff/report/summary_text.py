"""The result in a few lines for the terminal. Names in them come from files: the caller makes them printable."""

from __future__ import annotations

import math
import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from opdiff.core.comparison import Mode
from opdiff.core.formatting import format_number
from opdiff.core.reasons import Language, kind_of, render
from opdiff.report.offline_table import reason_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.core.comparison import Comparison, Row

GOOD_COSINE, GOOD_NORM_RATIO_ERROR = 0.99, 0.01
# Codes of reasons for rows that cannot have a golden tensor by their nature.
_NO_COUNTERPART = frozenset({"pair.constant", "pair.not_run"})
_MAX_REASONS = 3
_MAX_WORST = 10
_MAX_CHARACTERS = 160
_COLUMNS = 80


class Tone(StrEnum):
    """Meaning of a line, which a terminal may show by colour."""

    PLAIN = "plain"
    BAD = "bad"
    WARNING = "warning"
    GOOD = "good"
    FAINT = "faint"


class SummaryLine(Struct, frozen=True):
    """A line of the summary; `must_be_whole` for paths and commands to be copied."""

    text: str
    tone: Tone = Tone.PLAIN
    must_be_whole: bool = False


class ReasonGroup(NamedTuple):
    """Rows that were not compared for reasons of one code: the code, the first sentence, and the number of rows."""

    code: str
    example: str
    rows: int


def summary_lines(comparison: Comparison, language: Language = Language.ENGLISH) -> Iterator[SummaryLine]:
    """Yield the advice, how much was compared, why the rest was not, and where the accuracy is low."""
    if comparison.mode is Mode.GRAPH:
        from opdiff.report.graph_summary import Tally, tally_lines

        yield from advice_lines(comparison, language)
        yield from map(SummaryLine, tally_lines(Tally.of(comparison)))
        return
    rows = comparison.rows
    compared = [row for row in rows if row.metrics is not None]
    yield from advice_lines(comparison, language)
    yield from _counts(rows, compared)
    missing = [row for row in rows if row.metrics is None and not _has_no_counterpart(row)]
    yield from map(SummaryLine, reason_lines(group_by_reason(missing)))
    yield from _accuracy(compared)


def first_bad_operator(comparison: Comparison) -> str:
    """Return the first operator in which an error originates, otherwise the first bad one; empty if none is bad."""
    judgement = comparison.judgement
    if judgement.first_bad:
        return judgement.first_bad
    pairs = zip(comparison.rows, judgement.verdicts, strict=True)
    return next((row.label.target for row, verdict in pairs if verdict.level.is_bad), "")


def advice_lines(comparison: Comparison, language: Language) -> Iterator[SummaryLine]:
    """Yield the advice in lines of a terminal; a command at the end of a sentence has a line of its own."""
    for reason in comparison.judgement.advice:
        sentence, command = render(reason, language), reason.fact("command")
        tone = Tone.WARNING if reason.code == "compare.warning" else Tone.PLAIN
        if isinstance(command, str):
            sentence = sentence.removesuffix(command).rstrip()
        yield from (SummaryLine(line, tone) for line in _wrapped(sentence))
        if isinstance(command, str):
            yield SummaryLine(f"  {command}", tone, must_be_whole=True)


def _wrapped(sentence: str) -> Iterator[str]:
    """Yield the lines of at most 80 columns; characters that are not ASCII count as two columns."""
    line, used = "", 0
    for word in re.findall(r"[\x21-\x7e]+ ?| |[^\x20-\x7e]", sentence):
        columns = sum(1 if character.isascii() else 2 for character in word.rstrip())
        if line and used + columns > _COLUMNS:
            yield line.rstrip()
            line, used = "  ", 2
        line += word
        used += columns + (word[-1] == " ")
    yield line.rstrip()


def group_by_reason(rows: Iterable[Row]) -> list[ReasonGroup]:
    """Group uncompared rows by the codes of their reasons, the most frequent first."""
    examples: dict[tuple[str, ...], str] = {}
    counts: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        kind = kind_of(row.reason) if row.reason else ("",)
        examples.setdefault(kind, reason_text(row))
        counts[kind] += 1
    return [ReasonGroup(kind[0], examples[kind], count) for kind, count in counts.most_common()]


def reason_lines(groups: Sequence[ReasonGroup]) -> Iterator[str]:
    """Yield the most frequent reasons, each with an example that fits two lines of a terminal."""
    for _, example, count in groups[:_MAX_REASONS]:
        text = example if len(example) <= _MAX_CHARACTERS else f"{example[: _MAX_CHARACTERS - 1]}…"
        yield f"  {count} x{', such as:' if count > 1 else ''} {text or 'no reason given'}"
    if len(groups) > _MAX_REASONS:
        yield f"  and {_counted(len(groups) - _MAX_REASONS, 'other reason')}"


def _counts(rows: Sequence[Row], compared: Sequence[Row]) -> Iterator[SummaryLine]:
    uncompared = [row for row in rows if row.metrics is None]
    by_nature = sum(_has_no_counterpart(row) for row in uncompared)
    operators = sum(row.key is None and not _has_no_counterpart(row) for row in uncompared)
    tensors = len(uncompared) - by_nature - operators
    names = {row.label.target for row in compared}
    yield SummaryLine(f"compared: {_counted(len(compared), 'tensor')} of {_counted(len(names), 'operator')}")
    if by_nature:
        yield SummaryLine(f"nothing to compare: {by_nature} inputs and constants of the compiled model", Tone.FAINT)
    parts = [_counted(operators, "whole operator")] if operators else []
    parts += [_counted(tensors, "other tensor")] if tensors else []
    if parts:
        yield SummaryLine(f"not compared: {', '.join(parts)}", Tone.FAINT)


def _has_no_counterpart(row: Row) -> bool:
    """Return whether it is an input or a constant of the compiled model, which no golden tensor can equal."""
    return row.reason is not None and not _NO_COUNTERPART.isdisjoint(kind_of(row.reason))


def _accuracy(compared: Sequence[Row]) -> Iterator[SummaryLine]:
    cosines = [(row.metrics.cosine, row) for row in compared if row.metrics and row.metrics.cosine is not None]
    finite = [(cosine, row) for cosine, row in cosines if not math.isnan(cosine)]
    special = len(cosines) - len(finite)
    if special:
        columns = "see FiniteCosine, SpecialMismatch"
        yield SummaryLine(f"not finite: {_counted(special, 'tensor')} with NaN or infinities ({columns})", Tone.BAD)
    yield from _scales([row for cosine, row in finite if cosine >= GOOD_COSINE])
    low = [(cosine, row) for cosine, row in finite if cosine < GOOD_COSINE]
    if low:
        first = f"first {_position(low[0][1])}"
        yield SummaryLine(f"cosine below {GOOD_COSINE}: {_counted(len(low), 'tensor')}, {first}; the worst:", Tone.BAD)
        for cosine, row in sorted(low, key=_cosine)[:_MAX_WORST]:
            yield SummaryLine(f"  {_position(row)} {format_number(cosine)}", Tone.BAD)
    elif finite:
        yield SummaryLine(f"cosine: {GOOD_COSINE} or more in {_counted(len(finite), 'tensor')}", Tone.GOOD)
        cosine, row = min(finite, key=_cosine)
        yield SummaryLine(f"worst cosine: {_position(row)} {format_number(cosine)}")


def _scales(rows: Sequence[Row]) -> Iterator[SummaryLine]:
    """Yield a line about wrong scales, which the cosine does not show."""
    ratios = [(row.metrics.norm_ratio, row) for row in rows if row.metrics and row.metrics.norm_ratio is not None]
    wrong = [(ratio, row) for ratio, row in ratios if abs(ratio - 1) > GOOD_NORM_RATIO_ERROR]
    if wrong:
        ratio, row = wrong[0]
        title = f"scale more than {GOOD_NORM_RATIO_ERROR:.0%} off with a good cosine"
        first = f"first {_position(row)} {format_number(ratio)}"
        yield SummaryLine(f"{title}: {_counted(len(wrong), 'tensor')}, {first}", Tone.WARNING)


def _cosine(pair: tuple[float, Row]) -> float:
    return pair[0]


def _position(row: Row) -> str:
    return f"[{row.label.index}] {row.key}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
