"""Comparison of two dumps whose suspects are replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import because
from opdiff.workflows.compare.inputs import ComparisonProblem
from opdiff.workflows.compare.pipeline import compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.comparison import Comparison
    from opdiff.workflows.compare.options import CompareOptions

    Progress = Callable[[int, int], None]
    OnWorkers = Callable[[int], None]


def compare_sides(options: CompareOptions, progress: Progress, on_workers: OnWorkers) -> Comparison:
    """Compare two dumps; the arguments are the same as of `compare`.

    Raises:
        UsageError: the options contradict each other or the data, or there are several comparisons.
        InputError: a side or a rule file cannot be used.
    """
    results = list(compare(options, progress, on_workers))
    if len(results) != 1:
        raise UsageError(because("replay.one_rule_file"))
    (result,) = results
    if isinstance(result, ComparisonProblem):
        raise InputError(result.path, result.reason)
    return result.comparison
