"""What is thought of a whole comparison in graph mode: the judgements of its tokens, put together.

Data is judged like that of any comparison, token by token. Where only statistics or checksums were compared, PASS, FAIL
and the colour decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Birth, Judgement, Level, Verdict
from opdiff.core.graphmode import Colour, DataMode
from opdiff.core.reasons import all_of, because
from opdiff.core.tensor import Slot
from opdiff.judge import judge_network
from opdiff.judge.advice import advice_of
from opdiff.judge.graph.criteria import GOOD_SHARE, GOOD_STATISTIC
from opdiff.judge.network import build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Finding, GraphNode
    from opdiff.core.graphmode import GraphRow
    from opdiff.core.graphmode import Verdict as GraphVerdict
    from opdiff.core.reasons import Reason
    from opdiff.judge.limits import Limits
    from opdiff.judge.network import Network
    from opdiff.judge.tensor_facts import Row

    Networks = dict[tuple[object, ...], Network]

_GOOD_STATISTICS = because("judge.statistics_agree", relative=GOOD_STATISTIC, share=GOOD_SHARE)
_BAD_STATISTICS = because("judge.statistics_differ", relative=GOOD_STATISTIC, share=GOOD_SHARE)


class GraphToken(NamedTuple):
    """The rows of one token of one graph of one rank.

    Attributes:
        place: which one, in words.
        order: tokens before ranks before graphs.
        rows: the rows as all reports have them.
        graph_rows: the same rows as graph mode has them.
        verdicts: PASS or FAIL of each.
        nodes: the graph, where it is known.
    """

    place: str
    order: tuple[int, int, int]
    rows: Sequence[Row]
    graph_rows: Sequence[GraphRow]
    verdicts: Sequence[GraphVerdict]
    nodes: Sequence[GraphNode] = ()


class JudgedTokens(NamedTuple):
    """The judgement, with a verdict for each row of each token; and for each finding the numbers of its tokens."""

    judgement: Judgement
    found: tuple[tuple[int, ...], ...]


def judge_tokens(tokens: Sequence[GraphToken], limits: Limits) -> JudgedTokens:
    """What is thought of all tokens together."""
    networks: Networks = {}
    judgements = [_judged(token, limits, networks) for token in tokens]
    order = sorted(range(len(tokens)), key=lambda number: tokens[number].order)
    found = _merged(judgements, order)
    findings = tuple(finding for finding, _ in found)
    verdicts = tuple(verdict for judgement in judgements for verdict in judgement.verdicts)
    first = _first_bad(judgements, order)
    first_bad = "" if first is None else judgements[first].first_bad or _first_row(tokens[first], judgements[first])
    advice = _advice(tokens, verdicts, findings, ("" if first is None else tokens[first].place, first_bad))
    worst = findings[0].operator if findings else ""
    judgement = Judgement(limits.path, verdicts, findings, first_bad, worst, advice)
    return JudgedTokens(judgement, tuple(numbers for _, numbers in found))


def _merged(judgements: Sequence[Judgement], order: Sequence[int]) -> list[tuple[Finding, tuple[int, ...]]]:
    """Every finding once, with the numbers of its tokens: first the one that it is told of, then the others in order.

    An error of an early token may spoil all later ones, so it comes first; what is merely suspicious comes last.
    """
    found: dict[tuple[str, str], list[tuple[Finding, int]]] = {}
    for wanted in (Level.WRONG, Level.SUSPICIOUS):
        for number in order:
            for finding in judgements[number].findings:
                if finding.level is wanted:
                    found.setdefault((finding.operator, finding.kind), []).append((finding, number))
    return [(told[0][0], tuple(number for _, number in told)) for told in found.values()]


def _judged(token: GraphToken, limits: Limits, networks: Networks) -> Judgement:
    """The judgement of one token; golden operators that nothing was compared with are no part of the network."""
    rows = [row for row, of in zip(token.rows, token.graph_rows, strict=True) if not of.golden_only]
    found = judge_network(rows, _network(rows, token.nodes, networks), limits)
    by_network = iter(found.verdicts)
    verdicts = [
        _verdict(
            row,
            verdict,
            Verdict(Level.NOT_COMPARABLE, row.reason or because("judge.not_measured"))
            if row.golden_only
            else next(by_network),
        )
        for row, verdict in zip(token.graph_rows, token.verdicts, strict=True)
    ]
    return found._replace(verdicts=tuple(_with_origins(token, verdicts)))


def _network(rows: Sequence[Row], nodes: Sequence[GraphNode], networks: Networks) -> Network:
    """The network of a token: most tokens of all ranks have the same, since nothing but names makes it."""
    alike = tuple(nodes), *((row.key, row.golden_key, row.label.op_type) for row in rows)
    if alike not in networks:
        networks[alike] = build(rows, nodes)
    return networks[alike]


def _verdict(row: GraphRow, verdict: GraphVerdict, by_network: Verdict) -> Verdict:
    return _by_colour(row, verdict) if row.metrics is None and not row.reason else by_network


def _by_colour(row: GraphRow, verdict: GraphVerdict) -> Verdict:
    """The level of a row of which there are statistics or checksums only, or no elements at all."""
    passed = verdict.result == "PASS"
    if row.mode is DataMode.REAL:
        return Verdict(Level.EXACT, because("judge.both_empty"))
    if row.mode is DataMode.MD5:
        equal, differ = because("judge.checksums_equal"), because("judge.checksums_differ")
        return Verdict(Level.EXACT, equal) if passed else Verdict(Level.WRONG, differ)
    why = all_of(verdict.why or (_GOOD_STATISTICS if passed else _BAD_STATISTICS,))
    if passed:
        return Verdict(Level.NOISE if verdict.colour is Colour.GREEN else Level.SUSPICIOUS, why)
    return Verdict(Level.WRONG if verdict.colour is Colour.RED else Level.SUSPICIOUS, why)


def _with_origins(token: GraphToken, verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
    """Bad outputs whose origin the judge did not see: born where the operator's own inputs are good."""
    if not any(
        row.metrics is None and verdict.level.is_bad for row, verdict in zip(token.graph_rows, verdicts, strict=True)
    ):
        return verdicts
    bad_inputs: dict[str, bool] = {}
    for row, verdict in zip(token.graph_rows, verdicts, strict=True):
        if row.slot is Slot.INPUT and verdict.level is not Level.NOT_COMPARABLE:
            bad_inputs[row.op] = bad_inputs.get(row.op, False) or verdict.level.is_bad
    found = []
    for row, verdict in zip(token.graph_rows, verdicts, strict=True):
        is_open = row.metrics is None and row.slot is Slot.OUTPUT and verdict.level.is_bad and row.op in bad_inputs
        origin = Birth.INHERITED if bad_inputs.get(row.op) else Birth.BORN
        found.append(verdict._replace(origin=origin) if is_open else verdict)
    return found


def _first_bad(judgements: Sequence[Judgement], order: Sequence[int]) -> int | None:
    """The first token with a wrong row; with a suspicious one where none is wrong."""
    for wanted in (Level.WRONG, Level.SUSPICIOUS):
        for number in order:
            if any(verdict.level is wanted for verdict in judgements[number].verdicts):
                return number
    return None


def _first_row(token: GraphToken, judgement: Judgement) -> str:
    """The operator of the first output whose error was born there, or else of the first bad row."""
    bad = [
        (row.op, verdict.origin)
        for row, verdict in zip(token.graph_rows, judgement.verdicts, strict=True)
        if verdict.level.is_bad
    ]
    born = [op for op, origin in bad if origin is Birth.BORN]
    return born[0] if born else bad[0][0]


def _advice(
    tokens: Sequence[GraphToken], verdicts: Sequence[Verdict], findings: Sequence[Finding], first: tuple[str, str]
) -> tuple[Reason, ...]:
    """The result in sentences: where to look first, and what the judge says about it."""
    place, operator = first
    there = because("judge.look_first", operator=operator, unit=place)
    if findings:
        return there, *advice_of(findings, verdicts, operator)
    modes = {row.mode for token in tokens for row in token.graph_rows}
    gathered = modes == {DataMode.REAL} and any(verdict.origin is Birth.ACCUMULATED for verdict in verdicts)
    if place and not gathered:
        return (there,)
    compared = sum(verdict.level is not Level.NOT_COMPARABLE for verdict in verdicts)
    if place or not compared or DataMode.REAL in modes:
        return advice_of((), verdicts)
    if DataMode.MD5 in modes:
        return (because("judge.all_checksums_equal", count=compared),)
    return because("judge.all_statistics_agree", count=compared), because("judge.data_not_compared")
