"""Judgement of a comparison: of its network, or of each unit of graph mode."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.judgement import Colour, DocumentedResult, Judgement, Level, Verdict
from opdiff.core.row_store import runs_of
from opdiff.judge.advice import advice_of
from opdiff.judge.coverage import coverage_of, misfit_of, model_outputs
from opdiff.judge.limits import Limits
from opdiff.judge.locate import MAX_RUN_NOISE, locate, result_or_defect
from opdiff.judge.network import build_network
from opdiff.judge.ranking import first_in_order, rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import ModelGraph, Row
    from opdiff.core.error_facts import ErrorFacts
    from opdiff.core.judgement import Finding
    from opdiff.core.row_store import MapJobs
    from opdiff.judge.locate import Located
    from opdiff.judge.network import Network
    from opdiff.judge.ranking import Ranked


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


def judge_network(rows: Sequence[Row], network: Network, limits: Limits, facts: Sequence[ErrorFacts] = ()) -> Judgement:
    """Judge the rows of one network: each row, and the operators at fault; without advice."""
    located, ranked = _locate(rows, network, limits)
    if located.run_noise >= MAX_RUN_NOISE:
        # All operators add to the error of the outputs, and how much each does is not known.
        ranked = tuple(replace(found, share=None) for found in ranked)
    defects = list(located.defects)
    findings: tuple[Finding, ...] = ()
    if ranked:
        from opdiff.judge.cases import cause_context
        from opdiff.judge.causes import findings_of

        findings = findings_of(ranked, cause_context(rows, network, located.verdicts, facts), defects)
    return Judgement(
        limits.path,
        located.verdicts,
        findings,
        first_in_order(ranked, network),
        findings[0].operator if findings else "",
        noise=located.run_noise,
        defects=tuple(defects),
        coverage=coverage_of(rows, network),
        outputs=model_outputs(rows, located.verdicts, network, located.run_noise),
        candidates=() if network.has_edges else _bad_operators(network, located),
    )


def _locate(
    rows: Sequence[Row], network: Network, limits: Limits, faulty_readers: frozenset[str] = frozenset()
) -> tuple[Located, tuple[Ranked, ...]]:
    """Return the verdicts and the created errors by their rank.

    If readers refute the golden tensor of an error, all other errors are located without this golden tensor. A reader
    that is then at fault itself refutes nothing: the error was real, and the reader passed a part of the error on,
    because its bias makes relative errors smaller.
    """
    located = locate(rows, network, limits)
    ranked = rank(network, located, faulty_readers)
    refuted = [found for found in ranked if found.created.refuted_by]
    if not refuted:
        return located, ranked
    again = _without_goldens(refuted, located, rows, network, limits)
    others = [found for found in rank(network, again) if not found.created.refuted_by]
    faulty = {found.created.refuted_by for found in refuted} & {found.created.operator.name for found in others}
    if faulty:
        return _locate(rows, network, limits, faulty_readers | faulty)
    return again, (*others, *refuted)


def _without_goldens(
    refuted: list[Ranked], located: Located, rows: Sequence[Row], network: Network, limits: Limits
) -> Located:
    """Locate again without the refuted golden tensors; rows with these golden tensors keep their verdicts."""
    goldens = {rows[found.created.row_index].golden_key for found in refuted} - {None}
    hidden = {found.created.row_index for found in refuted}
    hidden |= {n for n, row in enumerate(rows) if row.golden_key in goldens and located.verdicts[n].level.is_bad}
    again = locate([replace(row, metrics=None) if n in hidden else row for n, row in enumerate(rows)], network, limits)
    verdicts = [
        located.verdicts[row_index] if row_index in hidden else again.verdicts[row_index]
        for row_index in range(len(rows))
    ]
    return replace(again, verdicts=tuple(verdicts))


def _bad_operators(network: Network, located: Located) -> tuple[str, ...]:
    """Return the operators with bad outputs in the order of execution."""
    return tuple(
        name
        for name, operator in network.operators.items()
        if any(located.verdicts[row_index].level.is_bad for row_index in operator.outputs.values())
    )
