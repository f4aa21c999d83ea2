"""The result in a few lines for the terminal. Names in them come from files: the caller makes them printable."""

from __future__ import annotations

import math
from collections import Counter
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.comparison import Mode
from opdiff.core.formatting import format_number
from opdiff.core.judgement import MIN_COVERAGE, Outcome, changed_limits
from opdiff.core.reasons import Language, Reason, Status, because, kind_of, quoted, render
from opdiff.report.columns import columns_of, cut_middle, padded, wrapped_lines
from opdiff.report.offline_table import reason_text
from opdiff.report.short_names import short_names, with_short_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.judgement import Finding

GOOD_COSINE, GOOD_NORM_RATIO_ERROR = 0.99, 0.01
_MAX_REASONS = 3
_MAX_WORST = 10
_MAX_CHARACTERS = 160
_COLUMNS = 80
_MAX_FINDINGS = 6
_SHARE_WIDTH = 5
_TONES = {Outcome.WRONG: "bad", Outcome.SUSPICIOUS: "warning", Outcome.UNSURE: "warning", Outcome.CLEAN: "good"}
# Sentences of the advice that the table of findings and other lines of the summary take the place of.
_IN_TABLE = frozenset({"judge.also_at_fault", "judge.output_share"})
# Sentences of the advice that are details.
_DETAILS = frozenset({"judge.hidden_faults"})


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


class ReasonGroup(Struct, frozen=True):
    """Rows that were not compared for reasons of one code: the code, the first sentence, and the number of rows."""

    code: str
    example: str
    rows: int


def summary_lines(
    comparison: Comparison, language: Language = Language.ENGLISH, *, has_details: bool = True
) -> Iterator[SummaryLine]:
    """Yield the advice, the operators at fault and, as details, what was not compared and where the accuracy is low."""
    yield from advice_lines(comparison, language, has_details=has_details)
    yield from finding_table(comparison, language)
    if comparison.mode is Mode.GRAPH:
        from opdiff.report.graph_summary import Tally, tally_lines

        yield from map(SummaryLine, tally_lines(Tally.of(comparison), language))
        return
    rows = comparison.rows
    compared = [row for row in rows if row.metrics is not None]
    missing = [row for row in rows if row.metrics is None and not has_no_counterpart(row)]
    has_reasons = has_details or comparison.judgement.coverage.share < MIN_COVERAGE
    if has_details:
        without_counterpart = len(rows) - len(compared) - len(missing)
        yield from (_line(*each, language) for each in _details(compared, without_counterpart))
    yield from (_line(*each, language) for each in _missing(missing, has_hint=not has_reasons))
    if has_reasons:
        yield from map(SummaryLine, reason_lines(ReasonGroups(missing).listed(language), language))
    if has_details:
        yield from (_line(*each, language) for each in _accuracy(compared))


def _line(reason: Reason, tone: Tone, language: Language) -> SummaryLine:
    return SummaryLine(render(reason, language), tone)


def one_line(comparison: Comparison, path: str, language: Language = Language.ENGLISH) -> SummaryLine:
    """Return the result in a line: the verdict, how much was compared, and the file of the result."""
    judgement, coverage = comparison.judgement, comparison.judgement.coverage
    verdict = quoted(outcome_text(comparison, language))
    counts = {"compared": coverage.compared, "operators": coverage.operators}
    line = because("report.one_line", outcome=verdict, path=path, **counts)
    return SummaryLine(render(line, language), Tone(_TONES[judgement.outcome]), must_be_whole=True)


def outcome_text(comparison: Comparison, language: Language = Language.ENGLISH) -> str:
    """Return the verdict with the first operator at fault."""
    judgement = comparison.judgement
    verdict = Reason("report.outcome_misfit" if judgement.misfit else f"report.outcome_{judgement.outcome}")
    if judgement.findings and judgement.outcome in (Outcome.WRONG, Outcome.SUSPICIOUS):
        worst, others = judgement.findings[0], len(judgement.findings) - 1
        code = "report.outcome_faults" if others else "report.outcome_fault"
        kind = kind_text(worst, language)
        verdict = because(code, outcome=verdict, operator=worst.operator, kind=kind, count=others)
    return render(verdict, language)


def finding_table(comparison: Comparison, language: Language) -> Iterator[SummaryLine]:
    """Yield a table of the operators at fault, if there are several."""
    findings = comparison.judgement.findings
    if len(findings) < 2:
        return
    names = short_names(comparison)
    columns = ("head", "kind", "share", "proof")
    lines = [[render(Reason(f"report.findings_{column}"), language) for column in columns]]
    for number, finding in enumerate(findings[:_MAX_FINDINGS], 1):
        share = "" if finding.share is None else f"{finding.share:.0%}"
        name = names.get(finding.operator, finding.operator)
        proof = render(Reason("report.findings_proved"), language) if finding.is_proved else ""
        lines.append([f"{number} {name} ({finding.op_type})", kind_text(finding, language), share, proof])
    kind_width = max(columns_of(line[1]) for line in lines)
    # The column of proofs is there if an operator was proved.
    proof_width = 2 + max(columns_of(line[3]) for line in lines) if any(line[3] for line in lines[1:]) else 0
    name_width = min(max(columns_of(line[0]) for line in lines), _COLUMNS - 6 - kind_width - _SHARE_WIDTH - proof_width)
    for name, kind, share, proof in lines:
        cut = padded(cut_middle(name, name_width, 2 * name_width // 3), name_width)
        gap = " " * (_SHARE_WIDTH - columns_of(share))
        text = f"  {cut}  {padded(kind, kind_width)}  {gap}{share}"
        yield SummaryLine(f"{text}  {proof}".rstrip() if proof_width else text)
    if len(findings) > _MAX_FINDINGS:
        more = because("report.findings_more", count=len(findings) - _MAX_FINDINGS)
        yield SummaryLine(f"  {render(more, language)}")


def kind_text(finding: Finding, language: Language) -> str:
    """Return the kind of a finding: in English by its documented word."""
    return str(finding.kind) if language is Language.ENGLISH else render(Reason(f"judge.kind_{finding.kind}"), language)


def first_bad_operator(comparison: Comparison) -> str:
    """Return the first operator in which an error originates, otherwise the first bad one; empty if none is bad."""
    judgement = comparison.judgement
    if judgement.first_bad:
        return judgement.first_bad
    bad = (number for number, (level, _) in enumerate(judgement.marks()) if level.is_bad)
    return next((comparison.rows[number].label.target for number in bad), "")


def advice_lines(comparison: Comparison, language: Language, *, has_details: bool = True) -> Iterator[SummaryLine]:
    """Yield the advice in lines of a terminal."""
    judgement = comparison.judgement
    hidden = (_IN_TABLE if len(judgement.findings) > 1 else frozenset()) | (frozenset() if has_details else _DETAILS)
    names = short_names(comparison)
    warnings = comparison.warning_sentences
    shown = [reason for reason in judgement.advice if reason.code not in hidden]
    for number, reason in enumerate(shown):
        tone = Tone.WARNING if reason in warnings else Tone.PLAIN
        tone = Tone(_TONES[judgement.outcome]) if number == 0 else tone
        yield from sentence_lines([with_short_names(reason, names)], language, tone)


def warning_lines(comparison: Comparison, language: Language) -> Iterator[SummaryLine]:
    """Yield the warnings of mixed-up inputs, and the file that changed the limits, in lines of a terminal."""
    warnings = comparison.warning_sentences + changed_limits(comparison.judgement.limits)
    yield from sentence_lines(warnings, language, Tone.WARNING)


def sentence_lines(reasons: Iterable[Reason], language: Language, tone: Tone = Tone.PLAIN) -> Iterator[SummaryLine]:
    """Yield sentences in lines of a terminal; a command at the end of a sentence has a line of its own."""
    for reason in reasons:
        sentence, command = render(reason, language), reason.fact("command")
        if isinstance(command, str):
            sentence = sentence.removesuffix(command).rstrip()
        yield from (SummaryLine(line, tone) for line in wrapped_lines(sentence, _COLUMNS, "  "))
        if isinstance(command, str):
            yield SummaryLine(f"  {command}", tone, must_be_whole=True)


class ReasonGroups:
    """Counts of uncompared rows by the codes of their reasons, with an example of each."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._examples: dict[tuple[str, ...], Row] = {}
        self._counts: Counter[tuple[str, ...]] = Counter()
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, row: Row) -> None:
        """Count a row."""
        kind = kind_of(row.reason) if row.reason else ("",)
        self._examples.setdefault(kind, row)
        self._counts[kind] += 1

    def listed(self, language: Language = Language.ENGLISH) -> list[ReasonGroup]:
        """Return the groups, the most frequent first."""
        counts = self._counts.most_common()
        return [ReasonGroup(kind[0], reason_text(self._examples[kind], language), count) for kind, count in counts]


def reason_lines(groups: Sequence[ReasonGroup], language: Language = Language.ENGLISH) -> Iterator[str]:
    """Yield the most frequent reasons, each with an example that fits two lines of a terminal."""
    for group in groups[:_MAX_REASONS]:
        text = group.example
        if len(text) > _MAX_CHARACTERS:
            text = f"{text[: _MAX_CHARACTERS - 1]}…"
        reason = quoted(text) if text else Reason("report.no_reason")
        code = "report.reason_such_as" if group.rows > 1 else "report.reason"
        yield render(because(code, count=group.rows, reason=reason), language)
    if len(groups) > _MAX_REASONS:
        yield render(because("report.other_reasons", count=len(groups) - _MAX_REASONS), language)


def _details(compared: Sequence[Row], without_counterpart: int) -> Iterator[tuple[Reason, Tone]]:
    names = {row.label.target for row in compared}
    yield because("report.compared", tensors=len(compared), operators=len(names)), Tone.PLAIN
    if without_counterpart:
        yield because("report.nothing_to_compare", count=without_counterpart), Tone.FAINT


def _missing(rows: Sequence[Row], *, has_hint: bool) -> Iterator[tuple[Reason, Tone]]:
    """Yield how many operators and tensors were not compared though they should have been."""
    operators = sum(row.key is None for row in rows)
    counts = {"report.not_compared_operators": operators, "report.not_compared_tensors": len(rows) - operators}
    parts = [because(code, count=count) for code, count in counts.items() if count]
    if parts:
        listed = parts[0] if len(parts) == 1 else because("report.both", first=parts[0], second=parts[1])
        yield because("report.not_compared_hint" if has_hint else "report.not_compared", parts=listed), Tone.FAINT


def has_no_counterpart(row: Row) -> bool:
    """Return whether it is an input or a constant of the compiled model, which no golden tensor can equal."""
    return row.status is Status.NO_COUNTERPART


def _accuracy(compared: Sequence[Row]) -> Iterator[tuple[Reason, Tone]]:
    cosines = [(row.metrics.cosine, row) for row in compared if row.metrics and row.metrics.cosine is not None]
    finite = [(cosine, row) for cosine, row in cosines if not math.isnan(cosine)]
    if len(cosines) > len(finite):
        yield because("report.not_finite", count=len(cosines) - len(finite)), Tone.BAD
    yield from _scales([row for cosine, row in finite if cosine >= GOOD_COSINE])
    low = [(cosine, row) for cosine, row in finite if cosine < GOOD_COSINE]
    if low:
        first = _position(low[0][1])
        yield because("report.low_cosine", limit=GOOD_COSINE, count=len(low), position=first), Tone.BAD
        for cosine, row in sorted(low, key=itemgetter(0))[:_MAX_WORST]:
            yield quoted(f"  {_position(row)} {format_number(cosine)}"), Tone.BAD
    elif finite:
        yield because("report.good_cosine", limit=GOOD_COSINE, count=len(finite)), Tone.GOOD
        cosine, row = min(finite, key=itemgetter(0))
        yield because("report.worst_cosine", position=_position(row), cosine=format_number(cosine)), Tone.PLAIN


def _scales(rows: Sequence[Row]) -> Iterator[tuple[Reason, Tone]]:
    """Yield a line about wrong scales, which the cosine does not show."""
    ratios = [(row.metrics.norm_ratio, row) for row in rows if row.metrics and row.metrics.norm_ratio is not None]
    wrong = [(ratio, row) for ratio, row in ratios if abs(ratio - 1) > GOOD_NORM_RATIO_ERROR]
    if wrong:
        ratio, row = wrong[0]
        first = {"position": _position(row), "ratio": format_number(ratio)}
        yield because("report.wrong_scale", limit=GOOD_NORM_RATIO_ERROR, count=len(wrong), **first), Tone.WARNING


def _position(row: Row) -> str:
    return f"[{row.label.index}] {row.key}"
