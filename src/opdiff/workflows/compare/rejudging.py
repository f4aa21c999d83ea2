"""New judgement of a comparison that was judged before: by other limits, and by the operators that were replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.reasons import because
from opdiff.judge.comparison_judgement import judge
from opdiff.workflows.compare.environments import with_environments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.comparison import Comparison
    from opdiff.core.judgement import Judgement
    from opdiff.core.reasons import Reason
    from opdiff.judge.limits import Limits
    from opdiff.workflows.compare.inputs import Inputs


def judge_again(comparison: Comparison, limits: Limits) -> Comparison:
    """Return a comparison with a new judgement."""
    judgement = judge(
        comparison.rows,
        comparison.graphs,
        limits,
        files_left_out=comparison.judgement.coverage.left_out,
        misfit=comparison.judgement.misfit,
        facts=comparison.error_facts,
    )
    return judge_replays(replace(comparison, judgement=judgement))


def judge_replays(comparison: Comparison) -> Comparison:
    """Return a comparison whose judgement takes replayed operators into account; its advice begins with warnings."""
    from opdiff.judge.replay_verdicts import with_replays

    judgement = with_replays(comparison.judgement, comparison.rows, comparison.replays)
    return replace(comparison, judgement=with_input_advice(judgement, comparison, comparison.notes))


def with_input_advice(judgement: Judgement, inputs: Inputs | Comparison, notes: Iterable[Reason]) -> Judgement:
    """Return a judgement whose advice begins with warnings, and names how the environments of the runs differ."""
    first = [because("compare.warning", problem=each, command=each.fact("command")) for each in inputs.warnings]
    advice = with_environments(judgement, inputs.target, inputs.golden, notes).advice
    return replace(judgement, advice=(*first, *advice))
