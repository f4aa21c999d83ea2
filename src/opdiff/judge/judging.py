"""Judgement of one network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import Finding, Judgement
from opdiff.judge.advice import advice_of, remedies_of
from opdiff.judge.causes import cause_context, find_cause
from opdiff.judge.locate import locate
from opdiff.judge.ranking import first_in_order, rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.judge.causes import Cause, CauseContext
    from opdiff.judge.limits import Limits
    from opdiff.judge.locate import Located
    from opdiff.judge.network import Network
    from opdiff.judge.ranking import Ranked


def judge_network(rows: Sequence[Row], network: Network, limits: Limits) -> Judgement:
    """Judge the rows of one network: each row, and the operators at fault."""
    located = locate(rows, network, limits)
    ranked = rank(network, located)
    findings = _findings(rows, network, located, ranked) if ranked else ()
    first_bad = first_in_order(ranked, network) if ranked else ""
    return Judgement(
        limits.path,
        located.verdicts,
        findings,
        first_bad,
        findings[0].operator if findings else "",
        advice_of(findings, located.verdicts, first_bad),
        located.noise,
    )


def _findings(rows: Sequence[Row], network: Network, located: Located, ranked: Sequence[Ranked]) -> tuple[Finding, ...]:
    context = cause_context(rows, network, located.verdicts)
    return tuple(_finding(found, find_cause(found.origin, context), context) for found in ranked)


def _finding(found: Ranked, cause: Cause, context: CauseContext) -> Finding:
    origin = found.origin
    node, row, verdict = origin.operator.node, context.rows[origin.row], context.verdicts[origin.row]
    before = tuple(dict.fromkeys(name for state in origin.inputs for name in state.skipped))
    return Finding(
        operator=node.name,
        op_type=node.op_type,
        tensor=str(row.key),
        level=verdict.level,
        kind=cause.kind,
        evidence=cause.evidence,
        remedies=remedies_of(cause.kind, node.passes, node.buffer_passes),
        share=found.share,
        path=found.path,
        excess=verdict.excess,
        before=before,
        passes=node.passes,
        buffer_passes=node.buffer_passes,
    )
