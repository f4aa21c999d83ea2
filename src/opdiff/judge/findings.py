"""Findings: the operators at fault, each with the cause of its error."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from opdiff.core.judgement import ErrorKind, Finding
from opdiff.core.reasons import Reason, because
from opdiff.judge.advice import remedies_of
from opdiff.judge.cases import Cause
from opdiff.judge.causes import find_cause
from opdiff.judge.coverage import target_name
from opdiff.judge.defects import result_or_defect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.comparison import Row
    from opdiff.judge.cases import CauseContext
    from opdiff.judge.ranking import Ranked


def findings_of(ranked: Iterable[Ranked], context: CauseContext, defects: list[str]) -> tuple[Finding, ...]:
    """Return the finding of each created error; tracebacks of unexpected errors are appended to `defects`."""
    return tuple(_finding(found, _cause(found, context, defects), context) for found in ranked)


def _cause(found: Ranked, context: CauseContext, defects: list[str]) -> Cause:
    cause = result_or_defect(partial(find_cause, found.created, context), defects)
    return Cause(ErrorKind.UNKNOWN, (cause,)) if isinstance(cause, Reason) else cause


def _finding(found: Ranked, cause: Cause, context: CauseContext) -> Finding:
    error = found.created
    node, row, verdict = error.operator.node, context.rows[error.row_index], context.verdicts[error.row_index]
    before = tuple(dict.fromkeys(name for state in error.inputs for name in state.uncompared))
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
        missing=_why_missing(node.name, context.rows) if error.is_stand_in else None,
    )


def _why_missing(operator: str, rows: Sequence[Row]) -> Reason:
    """Return the reason why the outputs of an operator were not compared."""
    for row in rows:
        is_own = target_name(row) == operator if row.key is None else row.is_output and row.key.op == operator
        if row.reason and is_own:
            return row.reason
    return because("judge.not_dumped")
