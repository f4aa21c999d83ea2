"""Judgement of one network."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from opdiff.core.judgement import ErrorKind, Finding, Judgement
from opdiff.core.reasons import Reason, because
from opdiff.judge.advice import remedies_of
from opdiff.judge.border import result_or_defect
from opdiff.judge.causes import Cause, cause_context, find_cause
from opdiff.judge.coverage import coverage_of, model_outputs
from opdiff.judge.locate import locate
from opdiff.judge.ranking import first_in_order, rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.judge.causes import CauseContext
    from opdiff.judge.limits import Limits
    from opdiff.judge.network import Network
    from opdiff.judge.origins import Located
    from opdiff.judge.ranking import Ranked


def judge_network(rows: Sequence[Row], network: Network, limits: Limits) -> Judgement:
    """Judge the rows of one network: each row, and the operators at fault; without advice."""
    located = locate(rows, network, limits)
    defects = list(located.defects)
    ranked = rank(network, located)
    findings = _findings(rows, network, located, ranked, defects) if ranked else ()
    return Judgement(
        limits.path,
        located.verdicts,
        findings,
        first_in_order(ranked, network) if ranked else "",
        findings[0].operator if findings else "",
        noise=located.noise,
        defects=tuple(defects),
        coverage=coverage_of(rows, network),
        outputs=model_outputs(rows, located.verdicts, network),
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
        missing=_why_missing(node.name, context.rows) if origin.is_stand_in else None,
    )


def _why_missing(operator: str, rows: Sequence[Row]) -> Reason:
    """Return the reason why the outputs of an operator were not compared."""
    for row in rows:
        is_own = row.label.target == operator if row.key is None else row.is_output and row.key.op == operator
        if row.reason and is_own:
            return row.reason
    return because("judge.not_dumped")
