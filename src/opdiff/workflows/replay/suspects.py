"""Operators that a comparison suspects, to be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import Level

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.core.judgement import Judgement


def suspects_of(judgement: Judgement) -> tuple[str, ...]:
    """Return the operators of findings, the worst first, and those without comparison right before them."""
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


def operators_with_noise(comparison: Comparison) -> tuple[str, ...]:
    """Return the operators whose outputs have errors that noise may explain, the largest excess first."""
    pairs = zip(comparison.rows, comparison.judgement.verdicts, strict=True)
    noisy = [
        (verdict.excess or 0.0, row.key.op)
        for row, verdict in pairs
        if row.key is not None and row.is_output and verdict.level is Level.NOISE
    ]
    return tuple(dict.fromkeys(name for _, name in sorted(noisy, key=lambda item: -item[0])))
