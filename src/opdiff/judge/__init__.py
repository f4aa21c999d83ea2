"""Judgement of a comparison: a level for each row, the operators at fault, and the cause of each error.

    rows, graph, limits ──network──► operators with their rows
                        ──locate───► a Verdict for each row, and the origins of errors
                        ──ranking──► origins by their share of the output error
                        ──causes───► kind and evidence ──► Finding, … ──advice──► three sentences

Nothing is loaded and nothing is measured: a saved comparison can be judged again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.judge.graph.units import judge_units
from opdiff.judge.judging import judge_network
from opdiff.judge.limits import Limits
from opdiff.judge.network import build_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import ModelGraph, Row
    from opdiff.core.judgement import Judgement

__all__ = ["judge"]


def judge(rows: Sequence[Row], graphs: Sequence[ModelGraph] = (), limits: Limits | None = None) -> Judgement:
    """Judge a comparison: each row, and the operators at fault; in graph mode unit by unit."""
    limits = limits or Limits()
    if any(row.unit is not None for row in rows):
        return judge_units(rows, graphs, limits)
    return judge_network(rows, build_network(rows, graphs[0].nodes if graphs else ()), limits)
