"""Errors that a wrong computation explains: which of the patterns found in the elements is the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.judge.cases import Cause

if TYPE_CHECKING:
    from opdiff.core.error_facts import ErrorPattern
    from opdiff.judge.cases import Case

# A pattern explains an error if no more than noise, or than this share of the error, remains.
_MAX_REMAINDER = 0.1
# Means of bins describe a function coarsely.
_MAX_FUNCTION_REMAINDER = 0.45
# A simpler pattern is preferred to a pattern that leaves less of the error, up to this factor.
_PREFERENCE = 1.5


def wrong_computation(case: Case) -> Cause | None:
    """A wrong computation explains all of the error but noise."""
    found = [pattern for pattern in case.facts.patterns if _explains(pattern, case)] if case.facts else []
    if not found:
        return None
    least = min(pattern.rest for pattern in found)
    best = next(pattern for pattern in found if pattern.rest <= _PREFERENCE * least)
    rest = because("judge.pattern_rest", error=case.magnitude.error, rest=best.rest)
    return Cause(best.kind, (best.reason, rest))


def _explains(pattern: ErrorPattern, case: Case) -> bool:
    error = case.magnitude.error
    if pattern.kind is ErrorKind.FUNCTION:
        return not case.is_quantized and pattern.rest <= _MAX_FUNCTION_REMAINDER * error
    allowed = max(case.created.budget.unavoidable, _MAX_REMAINDER * error)
    return pattern.rest <= min(allowed, error / 2)
