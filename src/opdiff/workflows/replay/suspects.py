"""Operators that a comparison suspects, to be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import Level
from opdiff.judge.error_model import Propagation, error_model_of
from opdiff.judge.tensor_errors import error_magnitude

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.core.judgement import Judgement
    from opdiff.core.metrics import Metrics


def suspects_of(judgement: Judgement) -> tuple[str, ...]:
    """Return the operators of findings, the worst first, and uncompared operators right before them."""
    found = [name for finding in judgement.findings for name in (finding.operator, *finding.before)]
    return tuple(dict.fromkeys((*found, *judgement.candidates)))


def operators_with_errors(comparison: Comparison) -> tuple[str, ...]:
    """Return the operators with bad outputs, in the order of the rows."""
    pairs = zip(comparison.rows, comparison.judgement.verdicts, strict=True)
    return tuple(
        dict.fromkeys(
            row.key.op for row, verdict in pairs if row.key is not None and row.is_output and verdict.level.is_bad
        )
    )


def operators_with_noise(comparison: Comparison, min_error: float = 0.0) -> tuple[str, ...]:
    """Return the operators whose outputs have errors above `min_error` that noise may explain.

    The operator with the largest excess and the operator with the largest error come by turns. Operators that only move
    data are left out: they have the errors of others.
    """
    pairs = zip(comparison.rows, comparison.judgement.verdicts, strict=True)
    noisy = [
        (verdict.excess or 0.0, error, row.key.op)
        for row, verdict in pairs
        if row.key is not None and row.is_output and verdict.level is Level.NOISE
        if error_model_of(row.label.op_type).propagation is not Propagation.MOVE
        if (error := _error_of(row.metrics)) > min_error
    ]
    by_excess = sorted(noisy, key=lambda item: item[0], reverse=True)
    by_error = sorted(noisy, key=lambda item: item[1], reverse=True)
    return tuple(dict.fromkeys(name for turn in zip(by_excess, by_error, strict=True) for *_, name in turn))


def _error_of(metrics: Metrics | None) -> float:
    """Return the relative error of a tensor; 0 if it is unknown."""
    magnitude = error_magnitude(metrics)
    return 0.0 if magnitude is None else magnitude.error
