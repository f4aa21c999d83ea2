"""The error that an operator must produce, given its element types, its reduction length and the errors of its inputs.

A golden run in float32 and a target of fewer bits never agree: inputs and weights are rounded, a fused operator rounds
once where several did, sums are cut. All errors here are relative to the golden norm of the tensor (Euclidean).
"""

from __future__ import annotations

from math import log2, prod, sqrt
from typing import TYPE_CHECKING

from opdiff.judge.facts import ratio
from opdiff.judge.limits import coarser, float_type
from opdiff.judge.traits import Flow, trait_of
from opdiff.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.judge.facts import Row, Size
    from opdiff.judge.network import Operator
    from opdiff.judge.traits import Trait
    from opdiff.model import Shape

# Rounding to one of 256 steps is off by this part of the whole range, as a root mean square.
_STEP_OF_8_BITS = 1 / (255 * sqrt(12))
# Weights of 8 bits: the largest of a channel is about four times as large as their root mean square.
_WEIGHTS_OF_8_BITS = 0.011
# Sums of the matrix unit are in float32.
_UNIT_OF_SUMS = 2.0**-24
_SMALL_INTEGERS = frozenset({"int8", "uint8", "int4", "qint8", "quint8", "int2", "uint2"})

# How far the largest error of many may be above their root mean square.
_LARGEST_OF_MANY = 16.0


class State(NamedTuple):
    """What is known about the error of a tensor that operators read.

    Attributes:
        error: its relative error.
        clean: the part of it that is noise.
        rms: the root mean square of the golden tensor; 0 when not known.
        std: its deviation.
        peak: its largest absolute error.
        width: the range of the golden numbers.
        count: its elements.
        is_bad: whether the error is more than noise.
        special: whether NaNs or infinities are where they should not be.
        through: operators without numbers of their own that lie between.
        quantized: whether quantized numbers lie between.
        source: the operator that it comes from; empty when not known.
    """

    error: float
    clean: float
    rms: float = 0.0
    std: float = 0.0
    peak: float = 0.0
    width: float = 0.0
    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    is_bad: bool = False
    special: bool = False
    through: tuple[str, ...] = ()
    quantized: bool = False
    source: str = ""


class Budget(NamedTuple):
    """What an output may be off.

    Attributes:
        floor: what the operator itself adds.
        allowed: its relative error, if nothing but the noise of its inputs comes in.
        peak: its largest absolute error, likewise.
        inherited: its relative error, given the errors that do come in.
        inherited_peak: its largest absolute error, likewise.
        expected: its relative error if it adds nothing.
        clean: the noise that is to be expected of it.
    """

    floor: float
    allowed: float
    peak: float
    inherited: float
    inherited_peak: float
    expected: float
    clean: float


def budget_of(trait: Trait, states: Sequence[State], floor: float, size: Size, count: int) -> Budget:
    """What an output of this size may be off. `floor` is what its operator adds."""
    clean = carried(trait, [(state, state.clean) for state in states], size, count)
    actual = carried(trait, [(state, state.error) for state in states], size, count)
    is_rough = any(state.is_bad for state in states)
    calm = trait.calm * _spread_of_few(trait, states, count)
    allowed = calm * clean + floor
    inherited = max(allowed, (max(trait.rough, calm) if is_rough else calm) * actual + floor)
    room = _LARGEST_OF_MANY * size.rms
    # Where single elements are off by much, so are those that are made of them.
    peaks = _carried_peak(trait, states, size)
    calm_peaks = _carried_peak(trait, [state for state in states if not state.is_bad], size)
    return Budget(
        floor,
        allowed,
        room * allowed + trait.calm * calm_peaks,
        inherited,
        room * inherited + trait.rough * peaks,
        actual,
        sqrt(clean * clean + floor * floor / 4),
    )


def _spread_of_few(trait: Trait, states: Sequence[State], count: int) -> float:
    """How much more errors may grow by chance where few numbers are involved; 1 for many."""
    if trait.flow in _ABSOLUTE:
        return 1.0
    fewest = min([count, *(state.count for state in states if state.count)])
    return 1 + 3 / sqrt(max(fewest, 1))


def carried(trait: Trait, inputs: Sequence[tuple[State, float]], size: Size, count: int) -> float:
    """The relative error of an output whose operator passes on the given relative errors of its inputs."""
    flow = trait.flow
    if not inputs:
        return 0.0
    if flow in _ABSOLUTE and size.rms:
        errors = [_concentrated(flow, state, count) * error * state.rms for state, error in inputs if error]
        return ratio(sum(errors) if flow is Flow.ADD else max(errors, default=0.0), size.rms)
    if flow is Flow.NORM:
        return sqrt(sum((error * min(ratio(state.rms, state.std), 1e3)) ** 2 for state, error in inputs if error))
    if flow is Flow.SOFT:
        return sqrt(sum((error * max(state.rms, 1.0)) ** 2 for state, error in inputs if error))
    return sqrt(sum(error * error for _, error in inputs))


_ABSOLUTE = (Flow.MOVE, Flow.ADD, Flow.MAP, Flow.POOL)


def _concentrated(flow: Flow, state: State, count: int) -> float:
    """A part of a tensor may have all of its errors; a place read many times multiplies its own."""
    if flow is not Flow.MOVE or not count or not state.count:
        return 1.0
    return min(sqrt(max(state.count / count, 1.0)), 16.0)


def _carried_peak(trait: Trait, states: Sequence[State], size: Size) -> float:
    if trait.flow in _ABSOLUTE:
        return sum(state.peak for state in states)
    return size.rms * sum(min(ratio(state.peak, state.rms), 1e3) for state in states)


def floor_of(
    operator: Operator, rows: Sequence[Row], states: Sequence[State], noise: float, *, quantized: bool
) -> float:
    """What an operator adds by rounding; `noise` is the limit of the coarsest type that it works with."""
    trait = trait_of(operator.node.op_type)
    length = reduction_length(operator, rows)
    floor = trait.rounds * noise
    if trait.flow is Flow.LINEAR:
        floor += _UNIT_OF_SUMS * sqrt(length)
    elif trait.flow in (Flow.POOL, Flow.SOFT, Flow.NORM):
        # Vector units sum in pairs, each sum rounded.
        floor *= 1 + log2(max(length, 1)) / 16
    if quantized:
        floor += 2 * sqrt(_quantization(states) ** 2 + _WEIGHTS_OF_8_BITS**2)
    return floor


def is_quantized(operator: Operator, rows: Sequence[Row], states: Sequence[State]) -> bool:
    """Whether an operator, or one without numbers right before it, works on integers of few bits."""
    if "quant" in operator.node.op_type.lower() or any(state.quantized for state in states):
        return True
    trait = trait_of(operator.node.op_type)
    return trait.flow is Flow.LINEAR and any(rows[number].target_dtype in _SMALL_INTEGERS for number in operator.rows)


def _quantization(states: Sequence[State]) -> float:
    """What rounding the inputs to 256 steps does, beside their norms."""
    steps = [min(ratio(state.width * _STEP_OF_8_BITS, state.rms), 1.0) for state in states if state.width]
    return max(steps, default=_WEIGHTS_OF_8_BITS)


def coarsest(operator: Operator, rows: Sequence[Row], of: Row) -> str:
    """The coarsest float type that an operator reads or writes; its golden types do not count."""
    found = coarser(of.target_dtype, of.golden_dtype)
    for number in operator.rows:
        dtype = float_type(rows[number].target_dtype)
        if dtype != "integer":
            found = coarser(dtype, found)
    return found


def reduction_length(operator: Operator, rows: Sequence[Row]) -> int:
    """How many products or numbers go into one element of the result, by the shapes of inputs and outputs."""
    flow = trait_of(operator.node.op_type).flow
    inputs = [_shape(rows, edge.row) for edge in operator.edges if edge.row is not None]
    outputs = [_shape(rows, number) for number in operator.outputs.values()]
    if not inputs or not outputs or not prod(outputs[0]):
        return 1
    if flow is Flow.LINEAR:
        return _length_of_products(operator.node.op_type, inputs, outputs[0])
    if flow in (Flow.SOFT, Flow.NORM):
        return max(inputs[0][-1] if inputs[0] else 1, 1)
    return max(prod(inputs[0]) // prod(outputs[0]), 1)


def _length_of_products(op_type: str, inputs: Sequence[Shape], output: Shape) -> int:
    if len(inputs) < 2:
        return max(inputs[0][-1] if inputs[0] else 1, 1)
    first, second = prod(inputs[0]), prod(inputs[1])
    if "conv" in op_type.lower():
        channels = output[1] if len(output) > 1 else 1
        return max(second // max(channels, 1), 1)
    # Of A (m x k), B (k x n) and C (m x n), for each matrix of a batch.
    return max(round(sqrt(first * second / prod(output))), 1)


def _shape(rows: Sequence[Row], number: int | None) -> Shape:
    return () if number is None else rows[number].shape or ()
