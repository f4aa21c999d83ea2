"""New judgement of a comparison that was judged before: by other limits, and by the operators that were replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.judge.comparison_judgement import judge
from opdiff.workflows.compare.dead_ends import find_dead_end
from opdiff.workflows.compare.environments import with_environments

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.judge.limits import Limits


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
    return with_input_advice(replace(comparison, judgement=judgement))


def with_input_advice(comparison: Comparison) -> Comparison:
    """Return a comparison whose advice is about its inputs, too.

    It begins with warnings, and names how the environments of the runs differ, the rule file that is needed if the
    given one is of another model, and what to do if nothing could be compared.
    """
    judgement = with_environments(comparison)
    advice = [*comparison.warning_sentences, *judgement.advice]
    command = ""
    if judgement.misfit is not None:
        from opdiff.workflows.compare.needed_rules import needed_rules

        position = advice.index(judgement.misfit) + 1
        advice[position:position], command = needed_rules(comparison)
    dead_end = find_dead_end(comparison)
    advice += dead_end.reasons if dead_end is not None else ()
    return replace(comparison, judgement=replace(judgement, advice=tuple(advice)), fitting_command=command)
