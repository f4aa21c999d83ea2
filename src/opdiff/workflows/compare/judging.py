"""Judging with the user's limits, also of saved comparisons."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.judge import judge
from opdiff.judge.limits import DEFAULT_FILE, Limits, read_limits

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison


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
    return replace(comparison, judgement=judge(comparison.rows, comparison.graphs, limits, left_out=left_out))
