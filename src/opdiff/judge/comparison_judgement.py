"""Judgement of a comparison: of its network, or of each unit of graph mode.

Operators that created errors are ranked by their share of the error of the network outputs.
"""

from __future__ import annotations

import sys
from functools import partial
from math import inf, log2, sqrt
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.judgement import Agreement, Colour, DocumentedResult, Judgement, Level, Origin, Verdict
from opdiff.core.reasons import Reason
from opdiff.core.row_store import runs_of
from opdiff.judge.advice import advice_of
from opdiff.judge.coverage import coverage_of, misfit_of, model_outputs
from opdiff.judge.error_model import Propagation
from opdiff.judge.limits import Limits
from opdiff.judge.locate import MAX_RUN_NOISE, MAX_USUAL_NOISE, OperatorErrors, locate, result_or_defect
from opdiff.judge.network import build_network
from opdiff.judge.remedies import quantized_layer
from opdiff.judge.tensor_errors import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import ModelGraph, Row
    from opdiff.core.error_facts import ErrorFacts
    from opdiff.core.judgement import Finding
    from opdiff.core.row_store import MapJobs
    from opdiff.judge.locate import Located
    from opdiff.judge.network import Network
    from opdiff.judge.tensor_verdicts import CreatedError

_MAX_PATH_LENGTH = 200
_MAX_LAYERS = 3
# Weight of an error of an operator with bad inputs: the operator may amplify them more than its type suggests.
_UNCERTAIN_WEIGHT = 0.5
# Weight of an input with NaN or infinity.
_SPECIAL_WEIGHT = 1e6
_NO_ERRORS = OperatorErrors()
_MAX_EXCESS = 1e6
# A reader refutes an error if the error is this many times as large as the error of the reader.
_REFUTED_RATIO = 10.0


def judge(  # noqa: PLR0913  what is judged, by what, and how; all but the rows may be left out
    rows: Sequence[Row],
    graphs: Sequence[ModelGraph] = (),
    limits: Limits | None = None,
    *,
    files_left_out: int = 0,
    misfit: Reason | None = None,
    check_same_model: bool = True,
    facts: Sequence[ErrorFacts] = (),
    map_jobs: MapJobs = map,
) -> Judgement:
    """Judge a comparison: each row, and the operators at fault; in graph mode unit by unit.

    `files_left_out` is the number of files that were not recognized as dumps. No operator is blamed if there is a
    `misfit`, or, unless `check_same_model` is false, if most dumped operators are unknown to the rules. `facts` about
    the elements of bad tensors decide on the kinds of error; without `facts` the metrics decide. `map_jobs` is a `map`
    that may use processes.
    """
    defects: list[str] = []
    assess = partial(_judge, rows, graphs, limits or Limits(), facts, map_jobs, check_same_model=check_same_model)
    judgement = result_or_defect(assess, defects)
    if isinstance(judgement, Judgement):
        judgement = replace(judgement, coverage=replace(judgement.coverage, left_out=files_left_out))
        judgement = judgement if misfit is None else _without_findings(judgement, misfit)
        advice = result_or_defect(partial(advice_of, judgement), defects)
        if not isinstance(advice, Reason):
            return replace(judgement, advice=advice)
        return replace(judgement, advice=(advice,), defects=(*judgement.defects, *defects))
    verdicts = tuple(Verdict(Level.NOT_COMPARABLE, judgement) for _ in rows)
    in_graph_mode = any(row.unit is not None for row in rows)
    documented = tuple(DocumentedResult("N/A", "N/A", Colour.NONE, (judgement,)) for _ in rows) if in_graph_mode else ()
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
    network = build_network(rows, graphs[0].nodes if graphs else ())
    if graphs and graphs[0].against_original:
        network = replace(network, against_original=True)
    judgement = judge_network(rows, network, limits, facts)
    misfit = misfit_of(rows) if check_same_model else None
    return judgement if misfit is None else _without_findings(judgement, misfit)


def _without_findings(judgement: Judgement, misfit: Reason) -> Judgement:
    return replace(judgement, misfit=misfit, findings=(), first_bad="", worst="")


def judge_network(rows: Sequence[Row], network: Network, limits: Limits, facts: Sequence[ErrorFacts] = ()) -> Judgement:
    """Judge the rows of one network: each row, and the operators at fault; without advice."""
    rows = [_without_doubtful_metrics(row) for row in rows]
    located, ranked = _locate(rows, network, limits)
    if located.run_noise >= MAX_RUN_NOISE:
        # All operators add to the error of the outputs, and how much each does is not known.
        ranked = tuple(replace(found, share=None) for found in ranked)
    at_fault = {found.created.operator.name for found in ranked}
    defects = list(located.defects)
    findings: tuple[Finding, ...] = ()
    if ranked:
        from opdiff.judge.cases import cause_context
        from opdiff.judge.causes import findings_of

        findings = findings_of(ranked, cause_context(rows, network, located.verdicts, facts), defects)
    outputs = model_outputs(rows, located.verdicts, network, located.run_noise)
    is_accumulated = any(verdict.origin is Origin.ACCUMULATED for verdict in located.verdicts)
    is_unexplained = is_accumulated or outputs.agreement in (Agreement.SLIGHT, Agreement.SIGNIFICANT)
    is_spread = located.run_noise > MAX_USUAL_NOISE or (is_unexplained and not findings)
    return Judgement(
        limits.path,
        located.verdicts,
        findings,
        next((name for name in network.operators if name in at_fault), ""),
        findings[0].operator if findings else "",
        noise=located.run_noise,
        defects=tuple(defects),
        coverage=coverage_of(rows, network),
        outputs=outputs,
        candidates=() if network.has_edges else _bad_operators(network, located),
        costly_layers=_costly_layers(network, located) if is_spread and network.against_original else (),
    )


def _without_doubtful_metrics(row: Row) -> Row:
    """Return the row without metrics if it has a reason all the same: no claim rests on doubtful numbers."""
    return row if row.reason is None or row.metrics is None else replace(row, metrics=None)


def _locate(
    rows: Sequence[Row], network: Network, limits: Limits, faulty_readers: frozenset[str] = frozenset()
) -> tuple[Located, tuple[Ranked, ...]]:
    """Return the verdicts and the created errors by their rank.

    If readers refute the golden tensor of an error, all other errors are located without this golden tensor. A reader
    that is then at fault itself refutes nothing: the error was real, and the reader passed a part of the error on,
    because its bias makes relative errors smaller.
    """
    located = locate(rows, network, limits)
    ranked = _rank(network, located, faulty_readers)
    refuted = [found for found in ranked if found.created.refuted_by]
    if not refuted:
        return located, ranked
    again = _without_goldens(refuted, located, rows, network, limits)
    others = [found for found in _rank(network, again) if not found.created.refuted_by]
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


def _costly_layers(network: Network, located: Located) -> tuple[str, ...]:
    """Return the quantized layers that add most error."""
    added: dict[str, float] = {}
    for name, errors in located.operators.items():
        layer = quantized_layer(network.operators[name].node)
        if not layer or errors.magnitude is None or not any(state.is_quantized for state in errors.inputs):
            continue
        inherited = max(state.error for state in errors.inputs)
        if inherited < errors.magnitude.error < inf:
            added[layer] = sqrt(errors.magnitude.error**2 - inherited**2)
    return tuple(sorted(added, key=added.__getitem__, reverse=True)[:_MAX_LAYERS])


def _bad_operators(network: Network, located: Located) -> tuple[str, ...]:
    """Return the operators with bad outputs in the order of execution."""
    return tuple(
        name
        for name, operator in network.operators.items()
        if any(located.verdicts[row_index].level.is_bad for row_index in operator.outputs.values())
    )


# Ranking


class Ranked(Struct, frozen=True):
    """An operator that created an error.

    Attributes:
        created: the worst error that the operator created.
        share: share of the error of the network outputs that comes from the operator; `None` if they have no error.
        path: operators from the operator to a network output.
        is_certain: its inputs are good.
    """

    created: CreatedError
    share: float | None
    path: tuple[str, ...]
    is_certain: bool


def _rank(network: Network, located: Located, faulty_readers: frozenset[str] = frozenset()) -> tuple[Ranked, ...]:
    """Return the worst error of each operator that created an error, the largest share first.

    Operators in `faulty_readers` refute no errors of what they read.
    """
    worst: dict[str, CreatedError] = {}
    for error in located.created:
        known = worst.get(error.operator.name)
        if known is None or _severity(error) > _severity(known):
            worst[error.operator.name] = error
    if not worst:
        return ()
    worst = {
        name: replace(error, refuted_by=_refuting_reader(error, network, located, faulty_readers))
        for name, error in worst.items()
    }
    shares = _shares(network, located, worst)
    ranked = [
        Ranked(error, shares.get(name), _path(network, name), _is_certain(error)) for name, error in worst.items()
    ]
    order = {name: position for position, name in enumerate(network.operators)}
    return tuple(sorted(ranked, key=lambda found: _key(found, order)))


def _refuting_reader(error: CreatedError, network: Network, located: Located, faulty_readers: frozenset[str]) -> str:
    """Return an operator that reads the tensor and whose output is too good for this error; empty for none.

    Linear operators keep relative errors, and sums keep absolute errors. Other operators may hide errors. A reader that
    the target does not have was probably fused into the operator, whose output is then that of the reader.
    """
    if error.is_input:
        return ""
    for name in network.readers.get(error.operator.name, ()):
        reader, magnitude = network.operators[name], located.operators.get(name, _NO_ERRORS).magnitude
        if name in faulty_readers or magnitude is None or magnitude.has_special_mismatch:
            continue
        is_fused = network.lacks(reader)
        if is_fused or reader.error_model.propagation in (Propagation.LINEAR, Propagation.NORMALIZE):
            errors = error.magnitude.error, magnitude.error
        elif reader.error_model.propagation is Propagation.ADD:
            errors = error.magnitude.rms_error, magnitude.rms_error
        else:
            continue
        if errors[0] > _REFUTED_RATIO * errors[1]:
            return name
    return ""


def _key(found: Ranked, order: dict[str, int]) -> tuple[float, ...]:
    """Sort key: errors that no reader refutes first, then certain errors, then large shares.

    Errors without shares are sorted by how far they are above their budgets. Similar shares and similar excesses are
    sorted by the order of execution.
    """
    error = found.created
    excess = ratio(error.magnitude.error, error.budget.allowed)
    strength = 0.0 if found.share is not None else -round(log2(min(max(excess, 1.0), _MAX_EXCESS)) / 2)
    return (
        bool(error.refuted_by),
        not found.is_certain,
        -round(found.share or 0.0, 1),
        strength,
        order.get(error.operator.name, 0),
    )


def _severity(error: CreatedError) -> tuple[bool, float]:
    return error.magnitude.has_special_mismatch, error.magnitude.error


def _is_certain(error: CreatedError) -> bool:
    return not any(state.exceeds_noise for state in error.inputs)


def _shares(network: Network, located: Located, worst: dict[str, CreatedError]) -> dict[str, float]:
    """Return the share of the output error that each operator created, traced back from the outputs."""
    outputs = [name for name in network.outputs if _is_bad(network, located, name)]
    if not outputs:
        return {}
    weights: dict[str, float] = dict.fromkeys(outputs, 1 / len(outputs))
    shares: dict[str, float] = {}
    for name in reversed(network.operators):
        weight = weights.pop(name, 0.0)
        if not weight:
            continue
        inherited = 0.0
        for producer, part in _inherited_parts(located.operators.get(name, _NO_ERRORS)):
            weights[producer] = weights.get(producer, 0.0) + weight * part
            inherited += part
        if name in worst:
            own = weight * max(1 - inherited, 0.0)
            shares[name] = own if _is_certain(worst[name]) else own * _UNCERTAIN_WEIGHT
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total else {}


def _inherited_parts(operator: OperatorErrors) -> list[tuple[str, float]]:
    """Return the producers of an operator, each with the part of the error that the producer contributes."""
    errors = [
        _SPECIAL_WEIGHT if state.has_special_mismatch else min(state.error * (state.rms or 1.0), sys.float_info.max)
        for state in operator.inputs
    ]
    largest = max(errors, default=0.0)
    if not largest:
        return []
    # Scaled first: squares of very large errors are no float64.
    weights = [(error / largest) ** 2 for error in errors]
    total = sum(weights)
    parts = zip(operator.inputs, weights, strict=True)
    inherited = 1 - operator.own_share
    return [(state.source, inherited * weight / total) for state, weight in parts if state.source]


def _is_bad(network: Network, located: Located, name: str) -> bool:
    """Return whether an operator has a bad tensor, or, if it was not compared, reads a bad tensor that was compared."""
    operator = network.operators.get(name)
    if operator is None:
        return False
    levels = [located.verdicts[row_index].level for row_index in operator.rows]
    if any(level is not Level.NOT_COMPARABLE for level in levels):
        return any(level.is_bad for level in levels)
    return any(state.exceeds_noise and not state.uncompared for state in located.operators.get(name, _NO_ERRORS).inputs)


def _path(network: Network, start: str) -> tuple[str, ...]:
    """Return the shortest path from an operator to a network output."""
    outputs = set(network.outputs)
    before: dict[str, str] = {start: ""}
    queue: list[str] = [start]
    for name in queue:
        if name in outputs:
            return _backtrack(before, name)
        for reader in network.readers.get(name, ()):
            if reader not in before:
                before[reader] = name
                queue.append(reader)
    return (start,)


def _backtrack(before: dict[str, str], end: str) -> tuple[str, ...]:
    path: list[str] = []
    name = end
    while name and len(path) < _MAX_PATH_LENGTH:
        path.append(name)
        name = before[name]
    return tuple(reversed(path))
