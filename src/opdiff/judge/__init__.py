"""Numbers to opinions: a level for each tensor, and which operators are at fault, for what cause.

    rows, graph, limits ──network──► operators with their rows
                        ──locate───► a Verdict for each row, and where errors are born
                        ──ranking──► which of them spoil the results
                        ──causes───► what they are ──► Finding, … ──advice──► three sentences

Nothing is loaded and nothing is measured: a comparison that was saved can be judged again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.judge.judging import judge_network
from opdiff.judge.limits import Limits
from opdiff.judge.network import build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import ModelGraph, Row
    from opdiff.core.judgement import Judgement

__all__ = ["judge"]


def judge(rows: Sequence[Row], graphs: Sequence[ModelGraph] = (), limits: Limits | None = None) -> Judgement:
    """Judge a comparison: each row, and the operators at fault; in graph mode unit by unit."""
    limits = limits or Limits()
    if any(row.unit is not None for row in rows):
        from opdiff.judge.graph.units import judge_units

        return judge_units(rows, graphs, limits)
    return judge_network(rows, build(rows, graphs[0].nodes if graphs else ()), limits)
