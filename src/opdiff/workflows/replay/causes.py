"""Search for the variant of a computation that explains the output of the device.

A variant explains the output if the difference falls to noise, and far below the own error: no variant wins by a small
margin. The first variant that explains the output ends the search.
"""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dtypes import Kind, largest_finite
from opdiff.core.errors import InputError
from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.core.replay import ReplayCause, largest_excess
from opdiff.workflows.replay.attributes import read_attributes
from opdiff.workflows.replay.own_error import as_device, difference
from opdiff.workflows.replay.variants.accumulation import narrow_sums, saturated_steps
from opdiff.workflows.replay.variants.functions import computes_function, find_function, without_function
from opdiff.workflows.replay.variants.operands import (
    exchanged,
    left_out,
    reversed_channels,
    rounded_inputs,
    transposed_weights,
    without_bias,
)
from opdiff.workflows.replay.variants.outputs import Output, has_both_signs, has_small_errors, iter_outputs
from opdiff.workflows.replay.variants.parameters import other_parameters, padded_otherwise
from opdiff.workflows.replay.variants.quantization import (
    Rounded,
    rounded_otherwise,
    scaled_otherwise,
    scales_of_channels,
    smallest_and_largest,
    summed_otherwise,
)
from opdiff.workflows.replay.variants.quantized_ends import (
    before_rounding,
    integers_before_scaling,
    is_quantized,
    without_zero_point,
)
from opdiff.workflows.replay.variants.variant import Computation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.replay import ReplayedOutput
    from opdiff.workflows.golden.runtime import FedInput
    from opdiff.workflows.replay.encoded_model import Subgraph
    from opdiff.workflows.replay.operator_replay import OperatorReplay
    from opdiff.workflows.replay.own_error import Allowance
    from opdiff.workflows.replay.variants.outputs import OutputVariant
    from opdiff.workflows.replay.variants.variant import Variant

# Of computing time, which does not depend on what else runs on the machine.
_MAX_SECONDS = 10.0
_MAX_COMPUTATIONS = 120
# The error under a variant, relative to the own error; more is no explanation.
_MAX_REMAINDER = 0.3
# Variants that leave an error of at most this many times the allowed error are named as near.
_NEAR = 4.0
# Later variants are less specific, and have to be that much nearer to be named in place of an earlier one.
_NEARER = 0.8
_MAX_STALE_CANDIDATES = 64
# Errors of accumulations in 16 bits differ by this factor with the order of the sums.
_MAX_LEVEL_RATIO = 2.0
# Any difference of two integers is above this.
_INTEGER_PEAK = 1e-9


class _Tried(Struct, frozen=True):
    """A variant that was tried: the error that remains, and this error in units of the allowed error."""

    kind: ErrorKind
    reason: Reason
    error: float
    excess: float


def find_cause(
    replay: OperatorReplay,
    feeds: Sequence[FedInput],
    baseline: Mapping[str, AnyArray],
    outputs: Sequence[ReplayedOutput],
    *,
    is_beyond_noise: bool = True,
) -> ReplayCause | None:
    """Return the change of the computation that explains the outputs of a device.

    Args:
        replay: the operator.
        feeds: its inputs.
        baseline: the results of the first arithmetic.
        outputs: the comparison of the baseline with the outputs of the device.
        is_beyond_noise: noise cannot have caused the error, so that what looks like noise is a lack of digits.
    """
    worst = max(outputs, key=lambda output: output.excess)
    is_share = _has_integers(replay, worst)
    before = worst.unequal if is_share else worst.error
    nearest: _Tried | None = None
    search = _Search(replay, feeds, baseline, {output.original: output for output in outputs})
    for tried in chain(search.run(worst), search.noise(worst) if is_beyond_noise else ()):
        is_far_better = tried.error <= _MAX_REMAINDER * before or tried.excess <= _MAX_REMAINDER * worst.excess
        if tried.excess <= 1 and is_far_better:
            runner_up = nearest.reason if nearest else None
            return ReplayCause(tried.kind, tried.reason, before, tried.error, runner_up, is_share)
        if tried.excess <= _NEAR and is_far_better and (nearest is None or tried.excess < _NEARER * nearest.excess):
            nearest = tried
    if nearest is None:
        return None
    unknown = because("replay.cause_unknown")
    return ReplayCause(ErrorKind.UNKNOWN, unknown, before, nearest.error, nearest.reason, is_share)


def _has_integers(replay: OperatorReplay, output: ReplayedOutput) -> bool:
    return replay.output_of(output.original).tensor.spec.dtype.kind is Kind.INTEGER


class _Search:
    """All variants of one operator, tried one after the other."""

    def __init__(
        self,
        replay: OperatorReplay,
        feeds: Sequence[FedInput],
        baseline: Mapping[str, AnyArray],
        outputs: Mapping[str, ReplayedOutput],
    ) -> None:
        self._replay = replay
        self._feeds = feeds
        self._baseline = baseline
        self._outputs = outputs
        self._deadline = time.thread_time() + _MAX_SECONDS
        self._arithmetic = replay.arithmetics[0]
        # Reasons and errors of accumulations in 16 bits.
        self._narrow: list[tuple[Reason, float]] = []

    def run(self, worst: ReplayedOutput) -> Iterator[_Tried]:
        """Yield the variants with their errors until the time is over."""
        # Few wrong elements in a good output have no cause in the computation.
        is_everywhere = worst.error > worst.limit or _has_integers(self._replay, worst)
        yield from self._quantization(worst) if is_everywhere else ()
        yield from self._computations() if is_everywhere and self._replay.subgraph.nodes else ()
        yield from self._stale(worst)
        yield from self._results(worst)

    def _computations(self) -> Iterator[_Tried]:
        replay, computation = self._replay, self._computation
        variants = chain(
            without_function(computation),
            left_out(computation),
            without_bias(computation),
            exchanged(computation),
            other_parameters(computation),
            padded_otherwise(computation),
            transposed_weights(computation),
            reversed_channels(computation),
            rounded_inputs(computation, replay.device_type),
            without_zero_point(computation),
            saturated_steps(computation, replay.device_type),
            narrow_sums(computation, replay.device_type),
        )
        for number, variant in enumerate(variants):
            if number >= _MAX_COMPUTATIONS or time.thread_time() > self._deadline:
                return
            found = self._try(variant)
            if found is not None:
                yield found

    def _try(self, variant: Variant) -> _Tried | None:
        feeds, change = self._feeds, variant.change_input
        if change is not None:
            feeds = [replace(item, codes=np.asarray(change(item.name, item.codes))) for item in feeds]
        results = self._compute(variant.subgraph, feeds)
        if results is None or any(results[name].shape != array.shape for name, array in self._baseline.items()):
            return None
        self._note_narrow(variant, results)
        judged = [self._error(name, results[name]) for name in self._baseline]
        error, excess = max(judged, key=lambda item: item[1])
        return _Tried(variant.kind, variant.reason, error, excess)

    def _note_narrow(self, variant: Variant, results: Mapping[str, AnyArray]) -> None:
        """Note how large the errors of an accumulation in 16 bits are: the order of its sums is not known."""
        if not variant.is_narrow_sum:
            return
        found = [(results[name].ravel(), expected.ravel()) for name, expected in self._baseline.items()]
        errors = [np.linalg.norm(one - two) / (np.linalg.norm(two) or np.inf) for one, two in found]
        self._narrow.append((variant.reason, float(max(errors))))

    def _error(self, name: str, result: AnyArray) -> tuple[float, float]:
        value = self._replay.output_of(name)
        target, replayed = self._replay.aligned(value, result)
        return _measured(target, as_device(replayed, value.tensor.spec.dtype), self._allowance(name))

    def _allowance(self, name: str) -> Allowance:
        output = self._outputs[name]
        allowance = self._replay.allowance(self._replay.output_of(name).tensor.spec.dtype)
        return allowance._replace(error=output.limit, peak=output.peak_limit, unequal=output.unequal_limit)

    def noise(self, worst: ReplayedOutput) -> Iterator[_Tried]:
        """Yield a lack of digits, if the errors look like it; for a function, a rough approximation."""
        output = self._output(worst)
        if output is None or worst.error <= worst.limit or not has_small_errors(output):
            return
        if output.is_function:
            reason = because("replay.cause_rough_function", op_type=output.activation)
            yield _Tried(ErrorKind.FUNCTION, reason, worst.error, 0.0)
        elif has_both_signs(output):
            yield _Tried(ErrorKind.PRECISION, self._precision(worst), worst.error, 0.0)

    def _output(self, worst: ReplayedOutput) -> Output | None:
        """Return the result itself, if all its values are finite floats."""
        value = self._replay.output_of(worst.original)
        target, replayed = self._replay.aligned(value, self._baseline[worst.original])
        if target.dtype.kind != "f" or not np.isfinite(target).all() or not np.isfinite(replayed).all():
            return None
        output = Output(target.astype(np.float64), replayed.astype(np.float64), self._allowance(worst.original))
        return self._with_operand(output, worst.original)

    def _results(self, worst: ReplayedOutput) -> Iterator[_Tried]:
        """Yield the variants of the result itself."""
        value = self._replay.output_of(worst.original)
        dtype, allowance = value.tensor.spec.dtype, self._allowance(worst.original)
        target, replayed = self._replay.aligned(value, self._baseline[worst.original])
        if dtype.kind is Kind.INTEGER and replayed.dtype.kind in "iu":
            floats = target.astype(np.float64), replayed.astype(np.float64)
            output = Output(*floats, allowance._replace(peak=_INTEGER_PEAK))
            yield from self._measured(iter_outputs(output), worst)
        if target.dtype.kind == "f":
            yield from _overflow(target, as_device(replayed, dtype), dtype, allowance)
        finite = self._output(worst)
        yield from self._measured(iter_outputs(finite), worst) if finite is not None else ()

    def _precision(self, worst: ReplayedOutput) -> Reason:
        """Return the reason of small errors: accumulation in 16 bits if it causes errors of this size."""
        for reason, error in self._narrow:
            if error / _MAX_LEVEL_RATIO <= worst.error <= error * _MAX_LEVEL_RATIO:
                return because("replay.cause_accumulation_level", error=error, **dict(reason.facts))
        return because("replay.cause_precision")

    def _quantization(self, worst: ReplayedOutput) -> Iterator[_Tried]:
        """Yield the variants of a quantization or dequantization, if the subgraph ends with one."""
        name = worst.original
        value = self._replay.output_of(name)
        target, replayed = (array.astype(np.float64) for array in self._replay.aligned(value, self._baseline[name]))
        if not np.isfinite(target).all() or not np.isfinite(replayed).all():
            return
        if value.tensor.spec.dtype.kind is Kind.INTEGER:
            yield from self._measured(
                chain(self._rounded(target, replayed, name), summed_otherwise(target, replayed)), worst
            )
        else:
            yield from self._measured(self._dequantized(target, replayed, name), worst)

    def _measured(self, variants: Iterable[OutputVariant], worst: ReplayedOutput) -> Iterator[_Tried]:
        """Yield variants of the result with their errors; integers agree if all but a few are equal."""
        dtype = self._replay.output_of(worst.original).tensor.spec.dtype
        allowance = self._allowance(worst.original)
        for variant in variants:
            if time.thread_time() > self._deadline:
                return
            if dtype.kind is Kind.INTEGER:
                first, second = (np.rint(array).astype(np.int64) for array in (variant.target, variant.replayed))
            else:
                first, second = variant.target, as_device(variant.replayed, dtype)
            error, excess = _measured(first, second, allowance)
            yield _Tried(variant.kind, variant.reason, error, excess)

    def _rounded(self, target: AnyArray, replayed: AnyArray, name: str) -> Iterator[OutputVariant]:
        """Yield the variants of a quantization at the end of the subgraph, if there is one."""
        subgraph = before_rounding(self._computation, name)
        dtype = self._replay.output_of(name).tensor.spec.dtype
        values = self._computed(subgraph, name, self._feeds)
        at_zero = self._computed(
            subgraph, name, [replace(item, codes=np.zeros_like(item.codes)) for item in self._feeds]
        )
        if values is None or at_zero is None or values.size != target.size:
            return
        low, high = smallest_and_largest(dtype)
        zero_point = float(np.rint(at_zero.flat[0])) if at_zero.size else 0.0
        yield from rounded_otherwise(Rounded(target, values.reshape(replayed.shape), zero_point, low, high))

    def _dequantized(self, target: AnyArray, replayed: AnyArray, name: str) -> Iterator[OutputVariant]:
        """Yield the variants of a dequantization at the end of the subgraph, or of a subgraph of dequantized values."""
        integers = self._computed(integers_before_scaling(self._computation, name), name, self._feeds)
        if integers is not None and integers.size == target.size:
            yield from scaled_otherwise(target, replayed, integers.reshape(target.shape))
        elif is_quantized(self._computation):
            yield from scales_of_channels(target, replayed)

    def _computed(self, subgraph: Subgraph | None, name: str, feeds: Sequence[FedInput]) -> AnyArray | None:
        """Return what a changed subgraph computes in place of an output; `None` if there is none."""
        results = None if subgraph is None else self._compute(subgraph, feeds)
        return None if results is None else results[name].astype(np.float64)

    def _compute(self, subgraph: Subgraph, feeds: Sequence[FedInput]) -> dict[str, AnyArray] | None:
        """Return the outputs of a changed subgraph; `None` if ONNX Runtime refuses it or fails."""
        try:
            return replace(self._replay, subgraph=subgraph).compute(feeds, self._arithmetic)
        except InputError:
            return None

    @property
    def _computation(self) -> Computation:
        return Computation(self._replay.context.encoder.encoded, self._replay.subgraph, self._replay.context.types)

    def _with_operand(self, output: Output, name: str) -> Output:
        """Return an output with the values before the function at the end of the subgraph, if there is one."""
        encoded = self._replay.context.encoder.encoded
        computation = self._computation
        found = find_function(computation, name)
        if found is None:
            return output
        operand = self._compute(computation.passing_on(found.node, found.operand), self._feeds)
        if operand is None or operand[name].shape != self._baseline[name].shape:
            return output
        _, aligned = self._replay.aligned(self._replay.output_of(name), operand[name])
        activation = found.node.op_type if found.is_single else self._replay.operator.op_type
        axis = int(str(read_attributes(encoded, found.node).get("axis", -1)))
        is_function = found.operand in self._replay.subgraph.inputs and computes_function(computation)
        return replace(
            output,
            before_activation=aligned.astype(np.float64),
            activation=activation,
            axis=axis,
            is_function=is_function,
        )

    def _stale(self, worst: ReplayedOutput) -> Iterator[_Tried]:
        """Yield outputs of earlier operators whose bytes the output has, and a constant output."""
        own = self._replay.output_of(worst.original)
        codes = own.tensor.codes()
        baseline = self._baseline[worst.original]
        if codes.size > 1 and (codes == codes.flat[0]).all() and (baseline != baseline.flat[0]).any():
            value = float(self._replay.aligned(own, baseline)[0].flat[0])
            yield _Tried(ErrorKind.MEMORY, because("replay.cause_constant", value=value), 0.0, 0.0)
            return
        spec = own.tensor.spec
        values = self._replay.context.values
        before = values.earlier_run_of(own.key)
        if before is not None and before.spec.shape == spec.shape and np.array_equal(before.codes(), codes):
            yield _Tried(ErrorKind.MEMORY, because("replay.cause_stale_step", tensor=str(own.key)), 0.0, 0.0)
            return
        others = [
            (key, tensor)
            for key, tensor in values.earlier_outputs(own.key.op)
            if (tensor.spec.shape, tensor.spec.dtype) == (spec.shape, spec.dtype)
        ]
        for key, tensor in others[-_MAX_STALE_CANDIDATES:]:
            if np.array_equal(tensor.codes(), codes):
                yield _Tried(ErrorKind.MEMORY, because("replay.cause_stale", tensor=str(key)), 0.0, 0.0)
                return


def _overflow(target: AnyArray, replayed: AnyArray, dtype: DType, allowance: Allowance) -> Iterator[_Tried]:
    """Yield the overflow of some elements, if all others agree."""
    largest = largest_finite(dtype) or np.inf
    at_end = ~(np.abs(target) < largest) & (np.abs(replayed) < largest)
    if at_end.any():
        error, excess = _measured(target[~at_end], replayed[~at_end], allowance)
        reason = because("replay.cause_overflow", count=int(np.count_nonzero(at_end)), largest=largest)
        yield _Tried(ErrorKind.OVERFLOW, reason, error, excess)


def _measured(target: AnyArray, replayed: AnyArray, allowance: Allowance) -> tuple[float, float]:
    """Return an error, and its excess."""
    found = difference(target, replayed, allowance)
    error = found.error if "f" in (target.dtype.kind, replayed.dtype.kind) else found.unequal
    return error, largest_excess(zip(found[:3], allowance[:3], strict=True))
