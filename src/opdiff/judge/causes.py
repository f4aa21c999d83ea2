"""Findings: the operators at fault, each with the cause of its error and the evidence for it.

Causes follow from metrics and the graph, or from single elements (`cases`). See docs/locating.md.
"""

from __future__ import annotations

from functools import partial
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.judgement import ErrorKind, Finding
from opdiff.core.reasons import Reason, because
from opdiff.core.tensor import coordinates
from opdiff.judge.advice import remedies_of
from opdiff.judge.cases import (
    Case,
    Cause,
    content_of,
    deviating_elements,
    few_elements,
    is_in_slice,
    one_channel,
    wrong_computation,
)
from opdiff.judge.coverage import target_name
from opdiff.judge.error_budget import reduction_length
from opdiff.judge.error_model import Propagation
from opdiff.judge.limits import DEFAULTS, coarser
from opdiff.judge.locate import result_or_defect
from opdiff.judge.tensor_errors import equal_share, golden_peak, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opdiff.core.comparison import GraphNode, Row
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Fact
    from opdiff.judge.cases import CauseContext
    from opdiff.judge.comparison_judgement import Ranked
    from opdiff.judge.network import Network
    from opdiff.judge.tensor_errors import ErrorMagnitude
    from opdiff.judge.tensor_verdicts import CreatedError

_REORDERED = because("judge.reordered")
# Largest finite values of types that overflow easily.
_LARGEST_FINITE = {"float16": 65504.0, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "hifloat8": 32768.0}
# A linear fit explains an error if at most this share of the error remains.
_MAX_FIT_REMAINDER = 0.3
# A scale explains the target if it explains this share of the variance of the target.
_MIN_EXPLAINED_VARIANCE = 0.8
# Relative errors above this are not a matter of precision.
_MAX_PRECISION_ERROR = 0.25
# Sums shorter than this hardly lose precision.
_MIN_LONG_SUM = 16
# Tensors with a smaller cosine are unrelated.
_MIN_RELATED_COSINE = 0.7
# Sorted, both sides of a permuted tensor agree: this share of the error remains at most.
_MAX_SORTED_SHARE = 0.1
# Share of the golden range that must be missing for clipping, and the share of elements that may be clipped.
_MIN_CLIPPED_RANGE = 0.05
_MAX_CLIPPED_SHARE = 0.3
# Share of the errors that have one sign, as `Metrics.error_bias`.
_MIN_ONE_SIDED_BIAS = 0.5


def findings_of(ranked: Iterable[Ranked], context: CauseContext, defects: list[str]) -> tuple[Finding, ...]:
    """Return the finding of each created error; tracebacks of unexpected errors are appended to `defects`."""
    return tuple(_finding(found, _cause(found, context, defects), context) for found in ranked)


def _cause(found: Ranked, context: CauseContext, defects: list[str]) -> Cause:
    cause = result_or_defect(partial(find_cause, found.created, context), defects)
    return Cause(ErrorKind.UNKNOWN, (cause,)) if isinstance(cause, Reason) else cause


def _finding(found: Ranked, cause: Cause, context: CauseContext) -> Finding:
    error = found.created
    node, row, verdict = error.operator.node, context.rows[error.row_index], context.verdicts[error.row_index]
    before = tuple(dict.fromkeys(name for state in error.inputs for name in state.uncompared))
    return Finding(
        operator=node.name,
        op_type=node.op_type,
        tensor=str(row.key),
        level=verdict.level,
        kind=cause.kind,
        evidence=cause.evidence,
        exceeds_type=cause.exceeds_type,
        remedies=remedies_of(cause.kind, node.passes, node.buffer_passes),
        share=found.share,
        path=found.path,
        excess=verdict.excess,
        before=before,
        passes=node.passes,
        buffer_passes=node.buffer_passes,
        missing=_why_missing(node.name, context.rows) if error.is_stand_in else None,
    )


def _why_missing(operator: str, rows: Sequence[Row]) -> Reason:
    """Return the reason why the outputs of an operator were not compared."""
    for row in rows:
        is_own = target_name(row) == operator if row.key is None else row.is_output and row.key.op == operator
        if row.reason and is_own:
            return row.reason
    return because("judge.not_dumped")


def find_cause(error: CreatedError, context: CauseContext) -> Cause:
    """Return the first cause that applies, the most certain ones first."""
    row = context.rows[error.row_index]
    metrics = row.metrics
    if metrics is None:
        return Cause(ErrorKind.UNKNOWN, (because("judge.not_measured"),))
    deviating = deviating_elements(metrics, error.magnitude, row.shape or (), error.budget.unavoidable)
    case = Case(error, metrics, row, deviating, context)
    found = _explained(next(cause for test in _TESTS if (cause := test(case)) is not None), case)
    is_own = found.kind in (ErrorKind.OVERFLOW, ErrorKind.MEMORY)
    if error.is_input and not is_own and _is_model_input(error, context.network):
        return Cause(ErrorKind.INPUT, (because("judge.model_input"), *found.evidence))
    return found


def _explained(cause: Cause, case: Case) -> Cause:
    """Add the storage order that explains the error, if there is one; an unknown error then has the kind `PERMUTED`."""
    if case.facts is None or not case.facts.explanations:
        return cause
    best = case.facts.explanations[0]
    order = because("judge.stored_order", order=best.reason, before=best.before, after=best.after)
    kind = ErrorKind.PERMUTED if cause.kind is ErrorKind.UNKNOWN else cause.kind
    others = tuple(each for each in cause.evidence if each != _REORDERED)
    evidence = (order, *others) if kind is ErrorKind.PERMUTED else (*others, order)
    return replace(cause, kind=kind, evidence=evidence)


def _is_model_input(error: CreatedError, network: Network) -> bool:
    """Return whether no operator is known to compute the tensor."""
    edges = [edge for edge in error.operator.edges if edge.row == error.row_index]
    producer = edges[0].producer if edges else None
    if producer is None:
        return not network.has_known_edges or not any(edge.producer for edge in error.operator.edges)
    operator = network.operators.get(producer[0])
    return operator is not None and operator.error_model.propagation is Propagation.NONE


# One function for each kind of error


def _overflow(case: Case) -> Cause | None:
    metrics, row = case.metrics, case.row
    end, largest = _LARGEST_FINITE.get(row.target_dtype, inf), golden_peak(metrics)
    reach: dict[str, Fact] = {"largest": largest, "dtype": row.target_dtype, "end": end}
    if case.magnitude.has_special_mismatch:
        infs, nans = metrics.target_infs - metrics.golden_infs, metrics.target_nans - metrics.golden_nans
        index = metrics.first_special_mismatch
        first = None if index is None else coordinates(index, row.shape or ())
        counts = {"infinities": max(infs, 0), "nans": max(nans, 0), "first": first}
        beyond = (because("judge.beyond_range", **reach),) if largest > end else ()
        evidence = (because("judge.new_special_values", **counts), *beyond)
        return Cause(ErrorKind.OVERFLOW, evidence, exceeds_type=bool(beyond))
    if row.overflow and isfinite(end) and largest > 0.999 * end:
        return Cause(ErrorKind.OVERFLOW, (because("judge.saturated", **reach),), exceeds_type=True)
    return None


def _memory(case: Case) -> Cause | None:
    metrics = case.metrics
    if metrics.target_min is None or metrics.count < 2 or case.magnitude.std == 0:
        return None
    if metrics.target_min == metrics.target_max:
        constant = because("judge.constant_target", count=metrics.count, value=metrics.target_min)
        return Cause(ErrorKind.MEMORY, (constant,))
    if _is_related(metrics):
        return None
    same = case.context.by_content.get(content_of(case.row) or (), ())
    others = [
        case.context.rows[row_index] for row_index in same if _is_other_tensor(case, case.context.rows[row_index])
    ]
    if not others:
        return None
    own = next((other for other in others if _is_own_input(case, other)), None)
    if own is not None:
        return Cause(ErrorKind.OPERAND, (because("judge.equals_input", tensor=str(own.key)),))
    content = because("judge.same_content", tensor=str(others[0].key))
    return Cause(ErrorKind.MEMORY, (content, _same_memory(case.row, others[0])))


def _is_own_input(case: Case, other: Row) -> bool:
    """Return whether another row is of a tensor that the operator reads."""
    edges = case.created.operator.edges
    producers = {edge.producer[0] for edge in edges if edge.producer}
    goldens = {case.context.rows[edge.row].golden_key for edge in edges if edge.row is not None} - {None}
    is_written = other.is_output and other.key is not None and other.key.op in producers
    return is_written or other.golden_key in goldens


def _is_related(metrics: Metrics) -> bool:
    """Return whether the target resembles its own golden tensor, so that the target is no other tensor."""
    cosine = metrics.centred_cosine if metrics.centred_cosine is not None else metrics.finite_cosine
    return cosine is not None and cosine > _MIN_RELATED_COSINE


def _same_memory(row: Row, other: Row) -> Reason:
    if row.target_address and row.target_address == other.target_address:
        return because("judge.same_address", address=row.target_address)
    return because("judge.same_statistics")


def _is_other_tensor(case: Case, other: Row) -> bool:
    """Return whether a row of the same content belongs to a different tensor, not to a copy of the bad tensor."""
    row = case.row
    if other.key is None or row.key is None or other.golden_key == row.golden_key:
        return False
    return other.key.op != row.key.op and _golden_differs(case.metrics, other.metrics)


def _golden_differs(first: Metrics, second: Metrics | None) -> bool:
    """Return whether the golden tensors differ; golden tensors of copies are equal."""
    if second is None:
        return False
    tolerance = 0.01 * (first.golden_std or 1.0)
    ours, theirs = ((each.golden_mean, each.golden_std, each.golden_min, each.golden_max) for each in (first, second))
    pairs = zip(ours, theirs, strict=True)
    return any(a is not None and b is not None and abs(a - b) > tolerance for a, b in pairs)


def _pairing(case: Case) -> Cause | None:
    """An operator that reads the tensor is too good for this error, or all are good and the tensor is unrelated."""
    metrics, network = case.metrics, case.context.network
    if case.created.refuted_by:
        reader = case.created.refuted_by
        if network.lacks(network.operators[reader]):
            fused = because("judge.fused_reader", reader=reader, error=case.magnitude.error)
            return Cause(ErrorKind.PAIRING, (fused, because("judge.give_both_rules")))
        refuted = because("judge.refuted", reader=reader, error=case.magnitude.error)
        return Cause(ErrorKind.PAIRING, (refuted, because("judge.probably_mispaired")))
    cosine = metrics.centred_cosine if metrics.centred_cosine is not None else metrics.finite_cosine
    if case.created.is_input or cosine is None or _is_related(metrics):
        return None
    levels = [
        case.context.verdicts[row_index].level
        for name in network.readers.get(case.created.operator.name, ())
        for row_index in network.operators[name].outputs.values()
        if case.context.rows[row_index].metrics is not None
    ]
    if not levels or any(level.is_bad for level in levels):
        return None
    return Cause(ErrorKind.PAIRING, (because("judge.unrelated", cosine=cosine), because("judge.probably_mispaired")))


def _linear(case: Case) -> Cause | None:
    """A linear fit of the target to the golden tensor explains the error."""
    metrics, magnitude, budget = case.metrics, case.magnitude, case.created.budget
    scale, offset, rest = metrics.fit_scale, metrics.fit_offset, metrics.fit_distance
    if scale is None or offset is None or rest is None or metrics.count < 4 or scale <= 0:
        return None
    allowed = max(_MAX_FIT_REMAINDER * magnitude.error, 1.5 * max(budget.expected, budget.rounding / 2))
    if rest > allowed or rest > 0.7 * magnitude.error:
        return None
    fit = because("judge.linear_fit", scale=scale, offset=offset, error=magnitude.error, rest=rest)
    is_scale = abs(scale - 1) * magnitude.rms >= abs(offset)
    # A slope near 0 always fits; it explains the target only if both vary together.
    if is_scale and (metrics.centred_cosine or 0.0) ** 2 < _MIN_EXPLAINED_VARIANCE:
        return None
    if is_scale:
        return Cause(ErrorKind.SCALE, (because("judge.scaled", scale=scale), fit))
    return Cause(ErrorKind.OFFSET, (because("judge.shifted", offset=offset), fit))


def _clipped(case: Case) -> Cause | None:
    """Target values end where golden values continue, and the others are good."""
    metrics, share = case.metrics, case.deviating.share
    ends = metrics.target_min, metrics.target_max, metrics.golden_min, metrics.golden_max
    if any(end is None for end in ends) or metrics.worst_target is None or metrics.worst_golden is None:
        return None
    low, high, golden_low, golden_high = (float(end or 0) for end in ends)
    golden_range = golden_high - golden_low
    missing = max(ratio(golden_high - high, golden_range), ratio(low - golden_low, golden_range))
    is_end = metrics.worst_target in (metrics.target_min, metrics.target_max)
    if not is_end or missing < _MIN_CLIPPED_RANGE or abs(metrics.worst_golden) < abs(metrics.worst_target):
        return None
    if not case.is_quantized and share > _MAX_CLIPPED_SHARE:
        return None
    ranges = because("judge.clipped_range", low=low, high=high, golden_low=golden_low, golden_high=golden_high)
    kind = ErrorKind.QUANTIZATION if case.is_quantized else ErrorKind.CLIPPING
    return Cause(kind, (ranges, because("judge.deviating_share", share=share)))


def _permuted(case: Case) -> Cause | None:
    """The target has the statistics of the golden tensor, but other elements."""
    metrics, magnitude = case.metrics, case.magnitude
    if metrics.count < 4 or not magnitude.std:
        return None
    noise = case.created.budget.unavoidable
    # With more noise, statistics agree by chance.
    if magnitude.error < max(0.02, 12 * noise) or not _statistics_agree(metrics, magnitude, max(4 * noise, 1e-6)):
        return None
    facts = case.facts
    if facts is None or facts.is_sample:
        return Cause(ErrorKind.PERMUTED, (because("judge.same_distribution", error=magnitude.error),))
    # Sorted, a wrong channel of quantized values may agree, too: it has few different values, with large noise.
    if facts.sorted_error > max(4 * noise, _MAX_SORTED_SHARE * magnitude.error) or is_in_slice(facts):
        return None
    same = because("judge.same_values", error=magnitude.error, sorted_error=facts.sorted_error)
    return Cause(ErrorKind.PERMUTED, (same, _REORDERED))


def _statistics_agree(metrics: Metrics, magnitude: ErrorMagnitude, tolerance: float) -> bool:
    whole = tolerance * max(magnitude.rms, magnitude.std)
    # Ends of the range are single elements, each of which may deviate more.
    single = tolerance * golden_peak(metrics)
    compared = (
        (metrics.target_mean, metrics.golden_mean, whole),
        (metrics.target_std, metrics.golden_std, whole),
        (metrics.target_min, metrics.golden_min, single),
        (metrics.target_max, metrics.golden_max, single),
    )
    return all(
        target is not None and golden is not None and abs(target - golden) <= allowed
        for target, golden, allowed in compared
    )


def _quantization(case: Case) -> Cause | None:
    if not case.is_quantized:
        return None
    metrics = case.metrics
    noise = because("judge.quantized_noise", snr=metrics.snr_db if metrics.snr_db is not None else 0.0)
    excess = because("judge.quantization_error", explained=case.created.budget.rounding, error=case.magnitude.error)
    is_biased = abs(metrics.error_bias or 0) > _MIN_ONE_SIDED_BIAS
    bias = (because("judge.one_sided", bias=metrics.error_bias),) if is_biased else ()
    return Cause(ErrorKind.QUANTIZATION, (noise, excess, *bias))


def _precision(case: Case) -> Cause | None:
    """The error is no larger than the error of sums with few digits."""
    error, budget, row = case.magnitude.error, case.created.budget, case.row
    length = reduction_length(case.created.operator, case.context.rows)
    unit = max(DEFAULTS[coarser(row.target_dtype, row.golden_dtype)].noise, DEFAULTS["float16"].noise)
    explained = budget.allowed + 2 * unit * max(sqrt(length), 8.0)
    is_scaled = abs((case.metrics.fit_scale or 1.0) - 1) > _MAX_PRECISION_ERROR / 2
    if error > min(_MAX_PRECISION_ERROR, explained) or is_scaled:
        return None
    is_random = abs(case.metrics.error_bias or 0) <= _MIN_ONE_SIDED_BIAS and equal_share(case.metrics) < 0.5
    code = "judge.rounding_errors" if is_random else "judge.small_errors"
    errors = because(code, error=error, explained=budget.rounding)
    sums = (because("judge.long_sums", length=length, dtype=row.target_dtype),) if length > _MIN_LONG_SUM else ()
    return Cause(ErrorKind.PRECISION, (errors, *sums))


def _changed(case: Case) -> Cause | None:
    """An input differs from the output of its producer."""
    if not case.created.is_input or not case.created.inputs or case.created.inputs[0].uncompared:
        return None
    producer_state = case.created.inputs[0]
    errors = {"written": producer_state.error, "read": case.magnitude.error}
    changed = because("judge.changed_after_write", producer=producer_state.source, **errors)
    return Cause(ErrorKind.MEMORY, (changed, because("judge.changed_in_memory")))


def _indices(case: Case) -> Cause | None:
    selects = case.created.operator.error_model.propagation is Propagation.SELECT
    if not selects or coarser(case.row.target_dtype, case.row.golden_dtype) != "integer":
        return None
    return Cause(ErrorKind.INDICES, (because("judge.indices_differ", share=1 - equal_share(case.metrics)),))


def _fusion(case: Case) -> Cause | None:
    node = case.created.operator.node
    if len(node.originals) < 2 and not node.passes and not node.buffer_passes:
        return None
    is_bad = any(state.exceeds_noise for state in case.created.inputs)
    inputs = because("judge.inputs_better" if is_bad else "judge.inputs_good")
    output = because("judge.fused_output", origin=_fusion_origin(node), inputs=inputs, error=case.magnitude.error)
    return Cause(ErrorKind.FUSION, (output,))


def _fusion_origin(node: GraphNode) -> Reason:
    passes = (*node.passes, *node.buffer_passes)
    if len(node.originals) < 2:
        return because("judge.made_by_fusion", passes=passes)
    if not passes:
        return because("judge.fused_from", originals=node.originals)
    return because("judge.fused_from_by", originals=node.originals, passes=passes)


def _unknown(case: Case) -> Cause:
    cosine, error = case.metrics.centred_cosine, case.magnitude.error
    if cosine is None:
        return Cause(ErrorKind.UNKNOWN, (because("judge.unexplained_constant", error=error),))
    return Cause(ErrorKind.UNKNOWN, (because("judge.unexplained", error=error, cosine=cosine),))


_TESTS: tuple[Callable[[Case], Cause | None], ...] = (
    _overflow, _indices, _pairing, _memory, one_channel, _linear, few_elements, wrong_computation, _clipped,
    _permuted, _changed, _quantization, _precision, _fusion, _unknown,
)  # fmt: skip
