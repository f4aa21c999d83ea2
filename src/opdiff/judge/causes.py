"""What kind of error was born at a tensor, by its numbers, and the sentences that prove it. See docs/locating.md."""

from __future__ import annotations

from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.judge.error_model import Flow, trait_of
from opdiff.judge.limits import DEFAULTS, coarser
from opdiff.judge.noise import is_quantized, reduction_length
from opdiff.judge.spread import Spread, spread_of
from opdiff.judge.tensor_facts import equal_share, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.core.comparison import GraphNode, Row
    from opdiff.core.judgement import Verdict
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Fact, Reason
    from opdiff.judge.locate import Born
    from opdiff.judge.network import Network

# Ends of the ranges of types that overflow easily.
_ENDS = {"float16": 65504.0, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "hifloat8": 32768.0}
# A straight line that leaves this part of an error, or less, explains it.
_EXPLAINED = 0.3
# Errors of which this part of the norm is off are no longer a matter of digits.
_PRECISION = 0.25
# Errors that all elements have are as heavy as those of this part of them at least; see `Spread.weight`.
_EVERYWHERE = 0.03
_FEW = 0.004
_SINGLE = 3.5
_MANY = 12
# Below this cosine, two tensors have nothing to do with each other.
_UNRELATED = 0.7


class Cause(NamedTuple):
    """A kind of error and what speaks for it."""

    kind: ErrorKind
    evidence: tuple[Reason, ...]


class Scene(NamedTuple):
    """Everything that a cause may be found by."""

    rows: Sequence[Row]
    network: Network
    verdicts: Sequence[Verdict]
    twins: dict[tuple[object, ...], list[int]]


class _Case(NamedTuple):
    """One tensor, and how its errors are spread over its elements."""

    born: Born
    metrics: Metrics
    row: Row
    spread: Spread
    scene: Scene


def scene_of(rows: Sequence[Row], network: Network, verdicts: Sequence[Verdict]) -> Scene:
    """The scene of a network; tensors of equal content are found by their figures."""
    twins: dict[tuple[object, ...], list[int]] = {}
    for number, row in enumerate(rows):
        content = _content(row)
        if content is not None:
            twins.setdefault(content, []).append(number)
    return Scene(rows, network, verdicts, twins)


def cause_of(born: Born, scene: Scene) -> Cause:
    """The first kind that fits, from the surest to the least sure."""
    row = scene.rows[born.row]
    metrics = row.metrics
    if metrics is None:
        return Cause(ErrorKind.UNKNOWN, (because("judge.not_measured"),))
    floor = max(born.budget.floor, born.budget.expected)
    case = _Case(born, metrics, row, spread_of(metrics, born.size, row.shape or (), floor), scene)
    found = next(cause for test in _TESTS if (cause := test(case)) is not None)
    if born.is_input and found.kind not in (ErrorKind.OVERFLOW, ErrorKind.MEMORY) and _is_model_input(born, scene):
        return Cause(ErrorKind.INPUT, (because("judge.model_input"), *found.evidence))
    return found


def _is_model_input(born: Born, scene: Scene) -> bool:
    """Whether no operator is known that made it."""
    edges = [edge for edge in born.operator.edges if edge.row == born.row]
    producer = edges[0].producer if edges else None
    if producer is None:
        return not scene.network.is_told or not any(edge.producer for edge in born.operator.edges)
    operator = scene.network.operators.get(producer[0])
    return operator is not None and trait_of(operator.node.op_type).flow is Flow.NONE


# One function for each kind


def _overflow(case: _Case) -> Cause | None:
    metrics, row = case.metrics, case.row
    end = _ENDS.get(row.target_dtype, inf)
    largest = max(abs(metrics.golden_min or 0), abs(metrics.golden_max or 0))
    reach: dict[str, Fact] = {"largest": largest, "dtype": row.target_dtype, "end": end}
    if case.born.size.special:
        infs, nans = metrics.target_infs - metrics.golden_infs, metrics.target_nans - metrics.golden_nans
        counts = {"infinities": max(infs, 0), "nans": max(nans, 0), "first": metrics.first_special_mismatch}
        beyond = (because("judge.beyond_range", **reach),) if largest > end else ()
        return Cause(ErrorKind.OVERFLOW, (because("judge.new_special_values", **counts), *beyond))
    if row.overflow and isfinite(end) and largest > 0.999 * end:
        return Cause(ErrorKind.OVERFLOW, (because("judge.saturated", **reach),))
    return None


def _memory(case: _Case) -> Cause | None:
    metrics = case.metrics
    if metrics.target_min is None or metrics.count < 2 or case.born.size.std == 0:
        return None
    if metrics.target_min == metrics.target_max:
        constant = because("judge.constant_target", count=metrics.count, value=metrics.target_min)
        return Cause(ErrorKind.MEMORY, (constant,))
    content = _content(case.row)
    others = [number for number in case.scene.twins.get(content or (), ()) if _is_other(case, number)]
    if not others:
        return None
    other = case.scene.rows[others[0]]
    same = because("judge.same_content", tensor=str(other.key))
    return Cause(ErrorKind.MEMORY, (same, _same_memory(case.row, other)))


def _same_memory(row: Row, other: Row) -> Reason:
    if row.target_address and row.target_address == other.target_address:
        return because("judge.same_address", address=row.target_address)
    return because("judge.same_statistics")


def _is_other(case: _Case, number: int) -> bool:
    """Whether a row of the same content is of another tensor: not what reads this one, nor what moves it."""
    row, other = case.row, case.scene.rows[number]
    if other.key is None or row.key is None or other.golden_key == row.golden_key:
        return False
    return other.key.op != row.key.op and _golden_differs(case.metrics, other.metrics)


def _golden_differs(ours: Metrics, theirs: Metrics | None) -> bool:
    """Whether two tensors of equal content should not be equal; what only passes the other on should."""
    if theirs is None:
        return False
    room = 0.01 * (ours.golden_std or 1.0)
    pairs = (
        (ours.golden_mean, theirs.golden_mean),
        (ours.golden_std, theirs.golden_std),
        (ours.golden_min, theirs.golden_min),
        (ours.golden_max, theirs.golden_max),
    )
    return any(a is not None and b is not None and abs(a - b) > room for a, b in pairs)


def _pairing(case: _Case) -> Cause | None:
    """A tensor that has nothing to do with its golden one, while everything that is made of it is right."""
    metrics, operator = case.metrics, case.born.operator
    cosine = metrics.centred_cosine if metrics.centred_cosine is not None else metrics.finite_cosine
    if case.born.is_input or cosine is None or cosine > _UNRELATED:
        return None
    readers = case.scene.network.readers.get(operator.name, ())
    levels = [
        case.scene.verdicts[number].level
        for name in readers
        for number in case.scene.network.operators[name].outputs.values()
        if case.scene.rows[number].metrics is not None
    ]
    if not levels or any(level.is_bad for level in levels):
        return None
    return Cause(ErrorKind.PAIRING, (because("judge.unrelated", cosine=cosine), because("judge.probably_mispaired")))


def _line(case: _Case) -> Cause | None:
    """A straight line through the pairs explains the error."""
    metrics, size = case.metrics, case.born.size
    scale, offset, left = metrics.fit_scale, metrics.fit_offset, metrics.fit_distance
    if scale is None or offset is None or left is None or metrics.count < 4 or scale <= 0:
        return None
    room = max(_EXPLAINED * size.error, 1.5 * max(case.born.budget.expected, case.born.budget.floor / 2))
    if left > room or left > 0.7 * size.error:
        return None
    if abs(scale - 1) * size.rms >= abs(offset):
        kind, summary = ErrorKind.SCALE, because("judge.scaled", scale=scale)
    else:
        kind, summary = ErrorKind.OFFSET, because("judge.shifted", offset=offset)
    return Cause(kind, (summary, because("judge.linear_fit", scale=scale, offset=offset, error=size.error, rest=left)))


def _clipped(case: _Case) -> Cause | None:
    """Numbers end where the golden ones do not, and the others are right."""
    metrics, quantized = case.metrics, _works_on_integers(case)
    ends = metrics.target_min, metrics.target_max, metrics.golden_min, metrics.golden_max
    if any(end is None for end in ends) or metrics.worst_target is None or metrics.worst_golden is None:
        return None
    low, high, golden_low, golden_high = (float(end or 0) for end in ends)
    is_end = metrics.worst_target in (metrics.target_min, metrics.target_max)
    cut = max(ratio(golden_high - high, golden_high - golden_low), ratio(low - golden_low, golden_high - golden_low))
    if not is_end or cut < 0.05 or abs(metrics.worst_golden) < abs(metrics.worst_target):
        return None
    if not quantized and case.spread.share > 0.3:
        return None
    ranges = because("judge.clipped_range", low=low, high=high, golden_low=golden_low, golden_high=golden_high)
    share = because("judge.deviating_share", share=case.spread.share)
    return Cause(ErrorKind.QUANTIZATION if quantized else ErrorKind.CLIPPING, (ranges, share))


def _permuted(case: _Case) -> Cause | None:
    metrics, size = case.metrics, case.born.size
    sides = metrics.target_mean, metrics.golden_mean, metrics.target_std, metrics.golden_std
    ends = metrics.target_min, metrics.golden_min, metrics.target_max, metrics.golden_max
    if None in sides or None in ends or metrics.count < 4 or not size.std:
        return None
    noise = max(case.born.budget.floor, case.born.budget.expected)
    # Where noise is large, distributions agree by chance.
    if size.error < max(0.02, 12 * noise):
        return None
    pairs = [
        (float(target or 0), float(golden or 0))
        for target, golden in zip(sides[::2] + ends[::2], sides[1::2] + ends[1::2], strict=True)
    ]
    room = max(4 * noise, 1e-6) * max(size.rms, size.std)
    # Ends of a range are single elements, of which each may be off by more.
    wide = max(4 * noise, 1e-6) * max(abs(pairs[2][1]), abs(pairs[3][1]))
    rooms = (room, room, wide, wide)
    if any(not abs(target - golden) <= allowed for (target, golden), allowed in zip(pairs, rooms, strict=True)):
        return None
    return Cause(ErrorKind.PERMUTED, (because("judge.same_distribution", error=size.error), because("judge.reordered")))


def _few(case: _Case) -> Cause | None:
    """A few elements are off, or those of one channel."""
    spread, count = case.spread, case.metrics.count
    heavy = spread.weight * count
    worst: dict[str, Fact] = {"target": case.metrics.worst_target, "golden": case.metrics.worst_golden}
    if count >= _MANY and (spread.weight <= _FEW or (heavy <= _SINGLE and _is_far(case))):
        few = because("judge.few_elements", count=max(round(heavy), 1), total=count, **worst)
        return Cause(ErrorKind.OUTLIERS, (few, because("judge.others_rounding")))
    # Where numbers are quantized channel by channel, a bad channel is a matter of quantization.
    if spread.axis is None or spread.weight > _EVERYWHERE or _works_on_integers(case):
        return None
    off = because("judge.deviating_elements", count=spread.off, total=count, share=spread.share, **worst)
    return Cause(ErrorKind.CHANNEL, (off, because("judge.one_channel", extent=spread.extent, axis=spread.axis)))


def _is_far(case: _Case) -> bool:
    return case.born.size.error > 4 * case.born.budget.allowed


def _quantization(case: _Case) -> Cause | None:
    if not _works_on_integers(case):
        return None
    metrics, size = case.metrics, case.born.size
    noise = because("judge.quantized_noise", snr=metrics.snr_db if metrics.snr_db is not None else 0.0)
    excess = because("judge.quantization_error", explained=case.born.budget.floor, error=size.error)
    bias = (because("judge.one_sided", bias=metrics.error_bias),) if abs(metrics.error_bias or 0) > 0.5 else ()
    return Cause(ErrorKind.QUANTIZATION, (noise, excess, *bias))


def _precision(case: _Case) -> Cause | None:
    metrics, size, row = case.metrics, case.born.size, case.row
    length = reduction_length(case.born.operator, case.scene.rows)
    digits = max(DEFAULTS[coarser(row.target_dtype, row.golden_dtype)].noise, DEFAULTS["float16"].noise)
    explained = case.born.budget.allowed + 2 * digits * max(sqrt(length), 8.0)
    if size.error > min(_PRECISION, explained) or abs((metrics.fit_scale or 1.0) - 1) > _PRECISION / 2:
        return None
    errors = because("judge.rounding_errors", error=size.error, explained=case.born.budget.floor)
    sums = (because("judge.long_sums", length=length, dtype=row.target_dtype),) if length > 16 else ()
    return Cause(ErrorKind.PRECISION, (errors, *sums))


def _changed(case: _Case) -> Cause | None:
    """An input that is not what its producer wrote."""
    if not case.born.is_input or not case.born.states or case.born.states[0].through:
        return None
    before = case.born.states[0]
    errors = {"written": before.error, "read": case.born.size.error}
    changed = because("judge.changed_after_write", producer=before.source, **errors)
    return Cause(ErrorKind.MEMORY, (changed, because("judge.changed_in_memory")))


def _indices(case: _Case) -> Cause | None:
    flow = trait_of(case.born.operator.node.op_type).flow
    if flow is not Flow.PICK or coarser(case.row.target_dtype, case.row.golden_dtype) != "integer":
        return None
    unequal = 1 - equal_share(case.metrics)
    return Cause(ErrorKind.INDICES, (because("judge.indices_differ", share=unequal),))


def _fusion(case: _Case) -> Cause | None:
    node = case.born.operator.node
    if len(node.originals) < 2 and not node.passes and not node.buffer_passes:
        return None
    is_bad = any(state.is_bad for state in case.born.states)
    inputs = because("judge.inputs_better" if is_bad else "judge.inputs_good")
    output = because("judge.fused_output", origin=_fusion_origin(node), inputs=inputs, error=case.born.size.error)
    return Cause(ErrorKind.FUSION, (output,))


def _fusion_origin(node: GraphNode) -> Reason:
    passes = (*node.passes, *node.buffer_passes)
    if len(node.originals) < 2:
        return because("judge.made_by_fusion", passes=passes)
    if not passes:
        return because("judge.fused_from", originals=node.originals)
    return because("judge.fused_from_by", originals=node.originals, passes=passes)


def _unknown(case: _Case) -> Cause:
    cosine = case.metrics.centred_cosine
    error = case.born.size.error
    if cosine is None:
        return Cause(ErrorKind.UNKNOWN, (because("judge.unexplained_constant", error=error),))
    return Cause(ErrorKind.UNKNOWN, (because("judge.unexplained", error=error, cosine=cosine),))


_TESTS: tuple[Callable[[_Case], Cause | None], ...] = (
    _overflow, _indices, _memory, _pairing, _line, _clipped, _few, _permuted, _changed, _quantization, _precision,
    _fusion, _unknown,
)  # fmt: skip


def _works_on_integers(case: _Case) -> bool:
    return is_quantized(case.born.operator, case.scene.rows, case.born.states)


def _content(row: Row) -> tuple[object, ...] | None:
    """Figures that only tensors of equal content share."""
    metrics = row.metrics
    if metrics is None or metrics.count < 8 or not metrics.target_std or not isfinite(metrics.target_std):
        return None
    return metrics.count, metrics.target_mean, metrics.target_std, metrics.target_min, metrics.target_max
