"""The error that an operator must produce, given its element types, its reduction length and the errors of its inputs.

A golden run in float32 and a target of fewer bits never agree: inputs and weights are rounded, a fused operator rounds
once where several did, sums are cut. All errors here are relative to the golden norm of the tensor (Euclidean).
"""

from __future__ import annotations

from math import log2, prod, sqrt
from typing import TYPE_CHECKING, NamedTuple

from opdiff.judge.error_model import Flow, is_quantizing
from opdiff.judge.limits import coarser
from opdiff.judge.tensor_facts import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.tensor import Shape
    from opdiff.judge.error_model import Trait
    from opdiff.judge.network import Operator
    from opdiff.judge.tensor_facts import Size

# Rounding to one of 256 steps is off by this part of the whole range, as a root mean square.
_STEP_OF_8_BITS = 1 / (255 * sqrt(12))
# Weights of 8 bits: the largest of a channel is about four times as large as their root mean square.
_WEIGHTS_OF_8_BITS = 0.011
# Sums of the matrix unit are in float32.
_UNIT_OF_SUMS = 2.0**-24
_SMALL_INTEGERS = frozenset({"int8", "uint8", "int4", "qint8", "quint8", "int2", "uint2"})

# Members that every row is compared with: to look one up in its class takes longer than to compare.
_MOVE, _ADD, _LINEAR, _NORM, _SOFT = Flow.MOVE, Flow.ADD, Flow.LINEAR, Flow.NORM, Flow.SOFT
_SUMMED_IN_PAIRS = (Flow.POOL, Flow.SOFT, Flow.NORM)

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
        source: the operator that it comes from; empty when not known.
        through: operators without numbers of their own that lie between.
        quantized: whether quantized numbers lie between.
    """

    error: float
    clean: float
    rms: float
    std: float
    peak: float
    width: float
    count: int  # type: ignore[assignment]  # hides tuple.count
    is_bad: bool
    special: bool
    source: str
    through: tuple[str, ...] = ()
    quantized: bool = False


class Budget(NamedTuple):
    """What an output may be off.

    Attributes:
        floor: what the operator itself adds.
        allowed: its relative error, if nothing but the noise of its inputs comes in.
        peak: its largest absolute error, likewise.
        expected: its relative error if it adds nothing.
        noise: the same, if nothing but the noise of its inputs comes in.
    """

    floor: float
    allowed: float
    peak: float
    expected: float = 0.0
    noise: float = 0.0

    @property
    def clean(self) -> float:
        """The noise that is to be expected of it."""
        return sqrt(self.noise * self.noise + self.floor * self.floor / 4)


def budget_of(trait: Trait, states: Sequence[State], floor: float, size: Size, count: int) -> Budget:
    """What an output of this size may be off. `floor` is what its operator adds."""
    expected = noise = _carried(trait, states, size, count)
    calm = states
    if [state for state in states if state.is_bad or state.clean != state.error]:
        noise = _carried(trait, [state._replace(error=state.clean) for state in states], size, count)
        calm = [state for state in states if not state.is_bad]
    allowed = _calm(trait, states, count) * noise + floor
    peaks = _carried_peak(trait, calm, size)
    return Budget(floor, allowed, _LARGEST_OF_MANY * size.rms * allowed + trait.calm * peaks, expected, noise)


def inherited(trait: Trait, states: Sequence[State], budget: Budget, size: Size, count: int) -> tuple[float, float]:
    """The relative error that an output may have, given the errors that do come in, and its largest absolute error."""
    growth = _calm(trait, states, count)
    if any(state.is_bad for state in states):
        growth = max(trait.rough, growth)
    error = max(budget.allowed, growth * budget.expected + budget.floor)
    # Where single elements are off by much, so are those that are made of them.
    return error, _LARGEST_OF_MANY * size.rms * error + trait.rough * _carried_peak(trait, states, size)


def _calm(trait: Trait, states: Sequence[State], fewest: int) -> float:
    """How many times noise may grow; by chance it grows more where few numbers are involved."""
    if trait.is_absolute:
        return trait.calm
    for state in states:
        if 0 < state.count < fewest:
            fewest = state.count
    return trait.calm * (1 + 3 / sqrt(max(fewest, 1)))


def _carried(trait: Trait, states: Sequence[State], size: Size, count: int) -> float:
    """The relative error of an output whose operator passes on the errors of its inputs."""
    flow = trait.flow
    if not states:
        return 0.0
    if trait.is_absolute and size.rms:
        errors = [_concentrated(flow, state, count) * state.error * state.rms for state in states if state.error]
        return ratio(sum(errors) if flow is _ADD else max(errors, default=0.0), size.rms)
    if flow is _NORM:
        off = [state for state in states if state.error]
        return sqrt(sum([(state.error * min(ratio(state.rms, state.std), 1e3)) ** 2 for state in off]))
    if flow is _SOFT:
        return sqrt(sum([(state.error * max(state.rms, 1.0)) ** 2 for state in states if state.error]))
    return sqrt(sum([state.error * state.error for state in states]))


def _concentrated(flow: Flow, state: State, count: int) -> float:
    """A part of a tensor may have all of its errors; a place read many times multiplies its own."""
    if flow is not _MOVE or not count or not state.count:
        return 1.0
    return min(sqrt(max(state.count / count, 1.0)), 16.0)


def _carried_peak(trait: Trait, states: Sequence[State], size: Size) -> float:
    if trait.is_absolute:
        return sum([state.peak for state in states])
    return size.rms * sum([min(ratio(state.peak, state.rms), 1e3) for state in states])


def floor_of(
    operator: Operator, rows: Sequence[Row], states: Sequence[State], noise: float, *, quantized: bool
) -> float:
    """What an operator adds by rounding; `noise` is the limit of the coarsest type that it works with."""
    trait = operator.trait
    floor = trait.rounds * noise
    if trait.flow is _LINEAR:
        floor += _UNIT_OF_SUMS * sqrt(reduction_length(operator, rows))
    elif trait.flow in _SUMMED_IN_PAIRS:
        # Vector units sum in pairs, each sum rounded.
        floor *= 1 + log2(max(reduction_length(operator, rows), 1)) / 16
    if quantized:
        floor += 2 * sqrt(_quantization(states) ** 2 + _WEIGHTS_OF_8_BITS**2)
    return floor


def is_quantized(operator: Operator, rows: Sequence[Row], states: Sequence[State]) -> bool:
    """Whether an operator, or one without numbers right before it, works on integers of few bits."""
    if is_quantizing(operator.node.op_type):
        return True
    for state in states:
        if state.quantized:
            return True
    if operator.trait.flow is not _LINEAR:
        return False
    return not _SMALL_INTEGERS.isdisjoint([rows[number].target_dtype for number in operator.rows])


def _quantization(states: Sequence[State]) -> float:
    """What rounding the inputs to 256 steps does, beside their norms."""
    steps = [min(ratio(state.width * _STEP_OF_8_BITS, state.rms), 1.0) for state in states if state.width]
    return max(steps, default=_WEIGHTS_OF_8_BITS)


def coarsest(operator: Operator, rows: Sequence[Row], found: str) -> str:
    """The coarsest float type of one and those that an operator reads or writes; its golden types do not count."""
    for number in operator.rows:
        found = coarser(found, rows[number].target_dtype)
    return found


def reduction_length(operator: Operator, rows: Sequence[Row]) -> int:
    """How many products or numbers go into one element of the result, by the shapes of inputs and outputs."""
    flow = operator.trait.flow
    inputs = [rows[edge.row].shape or () for edge in operator.edges if edge.row is not None]
    if not inputs or not operator.outputs:
        return 1
    output = rows[next(iter(operator.outputs.values()))].shape or ()
    if not prod(output):
        return 1
    if flow is _LINEAR:
        return _length_of_products(operator.node.op_type, inputs, output)
    if flow is _SOFT or flow is _NORM:
        return max(inputs[0][-1] if inputs[0] else 1, 1)
    return max(prod(inputs[0]) // prod(output), 1)


def _length_of_products(op_type: str, inputs: Sequence[Shape], output: Shape) -> int:
    if len(inputs) < 2:
        return max(inputs[0][-1] if inputs[0] else 1, 1)
    first, second = prod(inputs[0]), prod(inputs[1])
    if "conv" in op_type.lower():
        channels = output[1] if len(output) > 1 else 1
        return max(second // max(channels, 1), 1)
    # Of A (m x k), B (k x n) and C (m x n), for each matrix of a batch.
    return max(round(sqrt(first * second / prod(output))), 1)
