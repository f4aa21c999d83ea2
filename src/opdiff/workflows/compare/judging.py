"""Judging with the user's limits, also of saved comparisons, and what follows from the judgement."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import structs
from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.atomic_file import make_folder, open_atomic
from opdiff.core.comparison import Mode
from opdiff.core.next_command import next_command
from opdiff.core.reasons import because
from opdiff.judge import judge
from opdiff.judge.limits import DEFAULT_FILE, Limits, limits_text, read_limits
from opdiff.workflows.compare.environments import with_environments

__all__ = ["find_limits", "judge_again", "limits_text", "next_step", "write_remedies"]

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.comparison import Comparison
    from opdiff.core.judgement import Judgement
    from opdiff.core.reasons import Reason


def find_limits(path: str) -> Limits:
    """Read the limits of a file; for an empty path those of the current folder, otherwise the defaults.

    Raises:
        InputError: the file cannot be used.
    """
    if not path and not os.path.isfile(DEFAULT_FILE):
        return Limits()
    return read_limits(path or DEFAULT_FILE)


def judge_again(comparison: Comparison, limits: Limits) -> Comparison:
    """Return a comparison with a new judgement."""
    left_out = comparison.judgement.coverage.left_out
    facts = comparison.error_facts
    judgement = judge(comparison.rows, comparison.graphs, limits, left_out=left_out, facts=facts)
    return judge_replays(replace(comparison, judgement=judgement))


def judge_replays(comparison: Comparison) -> Comparison:
    """Return a comparison whose judgement takes replayed operators into account; its advice begins with warnings."""
    from opdiff.judge.graph.proof import with_unit_replays
    from opdiff.judge.proof import with_replays

    apply = with_unit_replays if comparison.mode is Mode.GRAPH else with_replays
    judgement = apply(comparison.judgement, comparison.rows, comparison.replays)
    return replace(comparison, judgement=with_input_facts(judgement, comparison.warnings, comparison.notes))


def with_input_facts(judgement: Judgement, warnings: Iterable[Reason], notes: Iterable[Reason]) -> Judgement:
    """Return a judgement whose advice begins with warnings, and names how the environments of the runs differ."""
    first = [because("compare.warning", problem=warning, command=warning.fact("command")) for warning in warnings]
    return replace(judgement, advice=(*first, *with_environments(judgement, notes).advice))


def next_step(comparison: Comparison) -> str:
    """Return the command that shows more about the worst finding; empty if its inputs do not exist any more."""
    paths = (comparison.target.path, comparison.golden.path, *filter(None, structs.astuple(comparison.extra_inputs)))
    for finding in comparison.judgement.findings[:1]:
        has_data = any(row.metrics is not None and str(row.key) == finding.tensor for row in comparison.rows)
        if has_data and all(map(filesystem.exists, paths)):
            return next_command(comparison, finding)
    return ""


def write_remedies(comparison: Comparison, folder: str) -> list[str]:
    """Write the files that apply the remedies to a folder, and return their paths."""
    from opdiff.judge.remedies import files_of

    make_folder(folder)
    paths = []
    for name, content in files_of(comparison).items():
        paths.append(os.path.join(folder, name))
        with open_atomic(paths[-1]) as file:
            file.write(content.encode(errors="backslashreplace"))
    return paths
