"""Judgement of a comparison: a level for each row, the operators at fault, and the cause of each error.

    rows, graph, limits ──network──► operators with their rows
                        ──locate───► a Verdict for each row, and the origins of errors
                        ──ranking──► origins by their share of the output error
                        ──causes───► kind and evidence ──► Finding, … ──advice──► three sentences

Nothing is loaded and nothing is measured: a saved comparison can be judged again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import Colour, DocumentedResult, Judgement, Level, Verdict
from opdiff.judge.border import result_or_defect
from opdiff.judge.graph.units import judge_units
from opdiff.judge.judging import judge_network
from opdiff.judge.limits import Limits
from opdiff.judge.network import build_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import ModelGraph, Row

__all__ = ["judge"]


def judge(rows: Sequence[Row], graphs: Sequence[ModelGraph] = (), limits: Limits | None = None) -> Judgement:
    """Judge a comparison: each row, and the operators at fault; in graph mode unit by unit."""
    defects: list[str] = []
    judgement = result_or_defect(lambda: _judge(rows, graphs, limits or Limits()), defects)
    if isinstance(judgement, Judgement):
        return judgement
    verdicts = tuple(Verdict(Level.NOT_COMPARABLE, judgement) for _ in rows)
    in_graph_mode = any(row.unit is not None for row in rows)
    documented = tuple(DocumentedResult("", "", Colour.NONE, (judgement,)) for _ in rows) if in_graph_mode else ()
    return Judgement("", verdicts, advice=(judgement,), documented=documented, defects=tuple(defects))


def _judge(rows: Sequence[Row], graphs: Sequence[ModelGraph], limits: Limits) -> Judgement:
    if any(row.unit is not None for row in rows):
        return judge_units(rows, graphs, limits)
    return judge_network(rows, build_network(rows, graphs[0].nodes if graphs else ()), limits)
