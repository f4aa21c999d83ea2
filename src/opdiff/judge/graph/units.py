"""Judgement of a comparison in graph mode, merged from the judgements of its units (rank, token, graph).

Metrics are judged as in any comparison, unit by unit. Rows compared by statistics or checksums are judged by their
documented result.
"""

from __future__ import annotations

from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.comparison import DataMode
from opdiff.core.judgement import Colour, DocumentedResult, Judgement, Level, Origin, Verdict, verdict_code
from opdiff.core.reasons import all_of, because
from opdiff.core.row_store import Block, StoredRows, encode_blocks, load_part, part_of, runs_of, store_blocks
from opdiff.core.tensor import Slot
from opdiff.judge.comparison_judgement import judge_network
from opdiff.judge.coverage import merge_coverage, model_outputs, worst_outputs
from opdiff.judge.graph.criteria import (
    MAX_RELATIVE_ERROR,
    MAX_STATISTIC_ERROR,
    MAX_STATISTIC_SHARE,
    MIN_COSINE,
    documented_results,
)
from opdiff.judge.network import build_network

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opdiff.core.comparison import GraphNode, ModelGraph, Row
    from opdiff.core.dump import Unit
    from opdiff.core.error_facts import ErrorFacts
    from opdiff.core.judgement import Finding
    from opdiff.core.reasons import Reason
    from opdiff.core.row_store import MapJobs, Part
    from opdiff.judge.limits import Limits
    from opdiff.judge.network import Network

    Networks = list[tuple[tuple[Sequence[object], ...], Network]]

_T = TypeVar("_T")

# Units of a job, which has their network besides.
_UNITS_PER_JOB = 8
_GOOD_STATISTICS = because("judge.statistics_agree", relative=MAX_STATISTIC_ERROR, share=MAX_STATISTIC_SHARE)
_BAD_STATISTICS = because("judge.statistics_differ", relative=MAX_STATISTIC_ERROR, share=MAX_STATISTIC_SHARE)


class UnitJob(Struct, frozen=True):
    """One unit to be judged.

    Attributes:
        unit: rank, token and graph.
        row_indices: indices of its rows.
        parts: its rows.
        facts: facts about its tensors.
    """

    unit: Unit
    row_indices: Sequence[int]
    parts: tuple[Part[Row], ...]
    facts: tuple[ErrorFacts, ...] = ()


class UnitsJob(Struct, frozen=True):
    """Units of one network, which may be judged in another process.

    Verdicts are then appended to the file of the rows, `rows_path`, which is empty if the rows are in memory.
    """

    units: tuple[UnitJob, ...]
    nodes: tuple[GraphNode, ...]
    limits: Limits
    rows_path: str = ""


class JudgedUnit(Struct, frozen=True):
    """Judgement of one unit, without its rows.

    Attributes:
        unit: rank, token and graph.
        row_indices: indices of its rows.
        judgement: its judgement, without verdicts.
        verdicts: verdicts for its rows, or blocks of verdicts.
        results: documented results of its rows, or blocks of results.
        levels: the levels of its rows.
        first_bad: first operator at fault, or with a bad row; empty for none.
        failed: number of compared rows with FAIL.
        failed_good: number of these rows that are good except for small values.
    """

    unit: Unit
    row_indices: Sequence[int]
    judgement: Judgement
    verdicts: Sequence[Verdict] | Sequence[Block]
    results: Sequence[DocumentedResult] | Sequence[Block]
    levels: frozenset[Level]
    first_bad: str
    failed: int
    failed_good: int


def judge_units(
    rows: Sequence[Row],
    graphs: Sequence[ModelGraph],
    limits: Limits,
    facts: Sequence[ErrorFacts] = (),
    map_jobs: MapJobs = map,
) -> Judgement:
    """Judge all units of graph mode together; the rows of one unit are in memory at a time."""
    jobs = _jobs(rows, graphs, limits, facts)
    judged = [unit for some in map_jobs(judge_job, jobs) for unit in some]
    in_order = sorted(judged, key=lambda each: each.unit.order)
    judgements = [unit.judgement for unit in judged]
    findings = _merge_findings(in_order)
    first = _first_bad(in_order)
    return Judgement(
        limits.path,
        _by_row(rows, Verdict, [(unit.row_indices, unit.verdicts) for unit in judged]),
        findings,
        "" if first is None else first.first_bad,
        findings[0].operator if findings else "",
        noise=max((judgement.noise for judgement in judgements), default=1.0),
        documented=_by_row(rows, DocumentedResult, [(unit.row_indices, unit.results) for unit in judged]),
        defects=tuple(defect for judgement in judgements for defect in judgement.defects),
        coverage=merge_coverage([judgement.coverage for judgement in judgements]),
        outputs=worst_outputs([judgement.outputs for judgement in judgements]),
        first_unit="" if first is None else str(first.unit),
        remarks=_failed_by_small_values(judged),
        candidates=tuple(dict.fromkeys(name for judgement in judgements for name in judgement.candidates)),
    )


def _jobs(
    rows: Sequence[Row], graphs: Sequence[ModelGraph], limits: Limits, facts: Sequence[ErrorFacts]
) -> list[UnitsJob]:
    """Return the units in the order of their rows, some of the same network together."""
    ranges: dict[Unit, list[range]] = {}
    for run, row_indices in runs_of(rows):
        if run.unit is not None:
            _extend(ranges.setdefault(run.unit, []), row_indices)
    # Verdicts of stored rows are stored beside the rows, unit by unit.
    is_in_order = all(len(found) == 1 for found in ranges.values())
    rows_path = rows.path if isinstance(rows, StoredRows) and is_in_order else ""
    nodes = {unit: graph.nodes for graph in graphs for unit in graph.units}
    by_row = {each.row: each for each in facts}
    units = [_unit_job(unit, found, rows, by_row) for unit, found in ranges.items()]
    jobs: list[UnitsJob] = []
    for network, some in groupby(units, key=lambda job: nodes.get(job.unit, ())):
        same = tuple(some)
        parts = (same[start : start + _UNITS_PER_JOB] for start in range(0, len(same), _UNITS_PER_JOB))
        jobs += (UnitsJob(part, network, limits, rows_path) for part in parts)
    return jobs


def _extend(ranges: list[range], more: range) -> None:
    """Append a range of row indices, or make the last one longer."""
    if ranges and ranges[-1].stop == more.start:
        ranges[-1] = range(ranges[-1].start, more.stop)
    else:
        ranges.append(more)


def _unit_job(unit: Unit, ranges: Sequence[range], rows: Sequence[Row], facts: Mapping[int, ErrorFacts]) -> UnitJob:
    row_indices = ranges[0] if len(ranges) == 1 else [row_index for some in ranges for row_index in some]
    own = tuple(facts[row_index] for row_index in row_indices if row_index in facts) if facts else ()
    return UnitJob(unit, row_indices, tuple(part_of(rows, some) for some in ranges), own)


def judge_job(job: UnitsJob) -> list[JudgedUnit]:
    """Judge some units of one network."""
    # By the names in the rows: units with the same operators share a network, and a unit that lacks some has its own.
    networks: Networks = []
    return [_judge_unit(unit, job, networks) for unit in job.units]


def _by_row(rows: Sequence[Row], kind: type[_T], parts: Sequence[tuple[Sequence[int], Sequence[Any]]]) -> Sequence[_T]:
    """Return the values of all units in the order of the rows; blocks of values go to the file of the rows."""
    found = sorted(((row_indices[0], row_indices, values) for row_indices, values in parts), key=itemgetter(0))
    if isinstance(rows, StoredRows) and all(isinstance(values[0], Block) for _, _, values in found):
        stored = rows.beside(kind)
        for _, _, blocks in found:
            stored.append(blocks)
        return stored
    if all(row_indices[-1] - row_indices[0] + 1 == len(row_indices) for _, row_indices, _ in found):
        return tuple(value for _, _, values in found for value in values)
    pairs = [pair for _, row_indices, values in found for pair in zip(row_indices, values, strict=True)]
    return tuple(value for _, value in sorted(pairs, key=itemgetter(0)))


def _merge_findings(judged: Sequence[JudgedUnit]) -> tuple[Finding, ...]:
    """Return every finding once, with its units: the unit that is described first, then the others in order.

    An error of an early token may affect all later tokens, so that it comes first. Merely suspicious findings are last.
    """
    found: dict[tuple[str, str], Finding] = {}
    for level in (Level.WRONG, Level.SUSPICIOUS):
        for each in judged:
            for finding in each.judgement.findings:
                if finding.level is level:
                    known = found.get((finding.operator, finding.kind), finding)
                    found[finding.operator, finding.kind] = replace(known, units=(*known.units, each.unit))
    return tuple(found.values())


def _judge_unit(unit: UnitJob, job: UnitsJob, networks: Networks) -> JudgedUnit:
    rows = tuple(chain.from_iterable(map(load_part, unit.parts)))
    results = documented_results(rows)
    judgement = _judgement(unit, rows, results, job, networks)
    verdicts = judgement.verdicts
    failed = [
        not verdict.level.is_bad and _has_small_errors(row)
        for row, result, verdict in zip(rows, results, verdicts, strict=True)
        if result.result == "FAIL" and row.is_compared
    ]
    levels = frozenset([verdict.level for verdict in verdicts])
    first_bad = judgement.first_bad
    if not first_bad and any(level.is_bad for level in levels):
        first_bad = _first_row(rows, verdicts)
    judged = JudgedUnit(
        unit.unit,
        unit.row_indices,
        replace(judgement, verdicts=()),
        verdicts,
        results,
        levels,
        first_bad,
        len(failed),
        sum(failed),
    )
    if not job.rows_path:
        return judged
    stored = store_blocks(encode_blocks(verdicts, verdict_code), job.rows_path)
    return replace(judged, verdicts=stored, results=store_blocks(encode_blocks(results), job.rows_path))


def _judgement(
    unit: UnitJob, rows: Sequence[Row], results: Sequence[DocumentedResult], job: UnitsJob, networks: Networks
) -> Judgement:
    """Judge the rows of one unit; golden operators that nothing was compared with are no part of the network."""
    of_target = [row for row in rows if not row.golden_only]
    network = _network(of_target, job.nodes, networks)
    found = judge_network(of_target, network, job.limits, _facts_by_position(unit, rows) if unit.facts else ())
    if not [row for row in rows if row.metrics is None or row.golden_only]:
        return found
    by_network = iter(found.verdicts)
    verdicts = []
    for row, result in zip(rows, results, strict=True):
        if row.golden_only:
            verdicts.append(Verdict(Level.NOT_COMPARABLE, row.reason or because("judge.not_measured")))
            continue
        verdict = next(by_network)
        verdicts.append(_by_result(row, result) if row.metrics is None and row.is_compared else verdict)
    verdicts = _with_origins(rows, verdicts)
    known = [verdict for row, verdict in zip(rows, verdicts, strict=True) if not row.golden_only]
    return replace(found, verdicts=tuple(verdicts), outputs=model_outputs(of_target, known, network, found.noise))


def _facts_by_position(unit: UnitJob, rows: Sequence[Row]) -> list[ErrorFacts]:
    """Return the facts with the positions of their rows among those of the network."""
    facts = {each.row: each for each in unit.facts}
    indices = [index for index, row in zip(unit.row_indices, rows, strict=True) if not row.golden_only]
    return [replace(facts[index], row=position) for position, index in enumerate(indices) if index in facts]


def _network(rows: Sequence[Row], nodes: Sequence[GraphNode], networks: Networks) -> Network:
    """Return the network of a unit; units of these nodes with the same names share one."""
    names = [row.key for row in rows], [row.golden_key for row in rows], [row.label.op_type for row in rows]
    for known, network in networks:
        if known == names:
            return network
    networks.append((names, build_network(rows, nodes)))
    return networks[-1][1]


def _by_result(row: Row, result: DocumentedResult) -> Verdict:
    """Return the verdict for a row without metrics: statistics, checksums, or empty tensors."""
    passed = result.result == "PASS"
    if row.data_mode is DataMode.REAL:
        return Verdict(Level.EXACT, because("judge.both_empty"))
    if row.data_mode is DataMode.MD5:
        equal, differ = because("judge.checksums_equal"), because("judge.checksums_differ")
        return Verdict(Level.EXACT, equal) if passed else Verdict(Level.SUSPICIOUS, differ)
    why = all_of(result.why or (_GOOD_STATISTICS if passed else _BAD_STATISTICS,))
    if passed:
        return Verdict(Level.NOISE if result.colour is Colour.GREEN else Level.SUSPICIOUS, why)
    return Verdict(Level.WRONG if result.colour is Colour.RED else Level.SUSPICIOUS, why)


def _with_origins(rows: Sequence[Row], verdicts: list[Verdict]) -> list[Verdict]:
    """Set the origin of bad outputs without metrics by the inputs of their operators."""
    both = list(zip(rows, verdicts, strict=True))
    if not any(row.metrics is None and verdict.level.is_bad for row, verdict in both):
        return verdicts
    bad_inputs: dict[str, bool] = {}
    for row, verdict in both:
        if row.key and row.key.slot is Slot.INPUT and verdict.level is not Level.NOT_COMPARABLE:
            bad_inputs[row.label.target] = bad_inputs.get(row.label.target, False) or verdict.level.is_bad
    found = []
    for row, verdict in both:
        is_unknown = row.metrics is None and row.is_output and verdict.level.is_bad and row.label.target in bad_inputs
        origin = Origin.INHERITED if bad_inputs.get(row.label.target) else Origin.CREATED
        found.append(replace(verdict, origin=origin) if is_unknown else verdict)
    return found


def _first_bad(judged: Sequence[JudgedUnit]) -> JudgedUnit | None:
    """Return the first unit with a wrong row, or else with a suspicious one."""
    for level in (Level.WRONG, Level.SUSPICIOUS):
        for unit in judged:
            if level in unit.levels:
                return unit
    return None


def _first_row(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> str:
    """Return the operator of the first output whose error originates there, or else of the first bad row."""
    both = zip(rows, verdicts, strict=True)
    bad = [(row.label.target, verdict.origin) for row, verdict in both if verdict.level.is_bad]
    return next((op for op, origin in bad if origin is Origin.CREATED), bad[0][0])


def _failed_by_small_values(judged: Sequence[JudgedUnit]) -> tuple[Reason, ...]:
    """Explain FAIL of good tensors: the relative error of single small values."""
    failed, good = sum(unit.failed for unit in judged), sum(unit.failed_good for unit in judged)
    if not good:
        return ()
    return (because("judge.failed_by_small_values", count=good, failed=failed, limit=MAX_RELATIVE_ERROR),)


def _has_small_errors(row: Row) -> bool:
    """Return whether the largest relative error alone is above the documented limits."""
    metrics = row.documented
    if metrics is None or metrics.max_relative < MAX_RELATIVE_ERROR:
        return False
    return metrics.cosine is None or metrics.cosine >= MIN_COSINE
