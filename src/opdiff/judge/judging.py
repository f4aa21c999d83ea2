"""Judgement of one network."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from opdiff.core.judgement import ErrorKind, Finding, Judgement
from opdiff.core.reasons import Reason
from opdiff.judge.advice import advice_of, remedies_of
from opdiff.judge.border import result_or_defect
from opdiff.judge.causes import Cause, cause_context, find_cause
from opdiff.judge.locate import locate
from opdiff.judge.ranking import first_in_order, rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.judge.causes import CauseContext
    from opdiff.judge.limits import Limits
    from opdiff.judge.locate import Located
    from opdiff.judge.network import Network
    from opdiff.judge.ranking import Ranked


def judge_network(rows: Sequence[Row], network: Network, limits: Limits) -> Judgement:
    """Judge the rows of one network: each row, and the operators at fault."""
    located = locate(rows, network, limits)
    defects = list(located.defects)
    ranked = rank(network, located)
    findings = _findings(rows, network, located, ranked, defects) if ranked else ()
    first_bad = first_in_order(ranked, network) if ranked else ""
    return Judgement(
        limits.path,
        located.verdicts,
        findings,
        first_bad,
        findings[0].operator if findings else "",
        advice_of(findings, located.verdicts, first_bad),
        located.noise,
        defects=tuple(defects),
    )


def _findings(
    rows: Sequence[Row], network: Network, located: Located, ranked: Sequence[Ranked], defects: list[str]
) -> tuple[Finding, ...]:
    context = cause_context(rows, network, located.verdicts)
    return tuple(_finding(found, _cause(found, context, defects), context) for found in ranked)


def _cause(found: Ranked, context: CauseContext, defects: list[str]) -> Cause:
    cause = result_or_defect(partial(find_cause, found.origin, context), defects)
    return Cause(ErrorKind.UNKNOWN, (cause,)) if isinstance(cause, Reason) else cause


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
