"""Judgement of a comparison: of its network, or of each unit of graph mode."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.judgement import Colour, DocumentedResult, Judgement, Level, Verdict
from opdiff.core.row_store import runs_of
from opdiff.judge.advice import advice_of
from opdiff.judge.coverage import misfit_of
from opdiff.judge.defects import result_or_defect
from opdiff.judge.limits import Limits
from opdiff.judge.network import build_network
from opdiff.judge.network_judgement import judge_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import ModelGraph, Row
    from opdiff.core.error_facts import ErrorFacts
    from opdiff.core.row_store import MapJobs


def judge(  # noqa: PLR0913  what is judged, by what, and how; all but the rows may be left out
    rows: Sequence[Row],
    graphs: Sequence[ModelGraph] = (),
    limits: Limits | None = None,
    *,
    files_left_out: int = 0,
    check_same_model: bool = True,
    facts: Sequence[ErrorFacts] = (),
    map_jobs: MapJobs = map,
) -> Judgement:
    """Judge a comparison: each row, and the operators at fault; in graph mode unit by unit.

    `files_left_out` is the number of files that were not recognized as dumps. Unless `check_same_model` is false, no
    operator is blamed if most dumped operators are unknown to the rules. `facts` about the elements of bad tensors
    decide on the kinds of error; without `facts` the metrics decide. `map_jobs` is a `map` that may use processes.
    """
    defects: list[str] = []
    assess = partial(_judge, rows, graphs, limits or Limits(), facts, map_jobs, check_same_model=check_same_model)
    judgement = result_or_defect(assess, defects)
    if isinstance(judgement, Judgement):
        judgement = replace(judgement, coverage=replace(judgement.coverage, left_out=files_left_out))
        return replace(judgement, advice=advice_of(judgement))
    verdicts = tuple(Verdict(Level.NOT_COMPARABLE, judgement) for _ in rows)
    in_graph_mode = any(row.unit is not None for row in rows)
    documented = tuple(DocumentedResult("", "", Colour.NONE, (judgement,)) for _ in rows) if in_graph_mode else ()
    return Judgement("", verdicts, advice=(judgement,), documented=documented, defects=tuple(defects))


def _judge(
    rows: Sequence[Row],
    graphs: Sequence[ModelGraph],
    limits: Limits,
    facts: Sequence[ErrorFacts],
    map_jobs: MapJobs,
    *,
    check_same_model: bool,
) -> Judgement:
    if any(run.unit is not None for run, _ in runs_of(rows)):
        from opdiff.judge.graph.units import judge_units

        return judge_units(rows, graphs, limits, facts, map_jobs)
    judgement = judge_network(rows, build_network(rows, graphs[0].nodes if graphs else ()), limits, facts)
    misfit = misfit_of(rows) if check_same_model else None
    if misfit is None:
        return judgement
    return replace(judgement, misfit=misfit, findings=(), first_bad="", worst="")
