"""Search for the variant of a computation that explains the output of the device.

A variant explains it if the difference falls to noise, and far below the own error: no variant wins by a hair. The
first one that does so ends the search.
"""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dtypes import largest_finite
from opdiff.core.errors import InputError
from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.core.replay import ReplayCause
from opdiff.workflows.replay.attributes import read_attributes
from opdiff.workflows.replay.own_error import as_device, difference
from opdiff.workflows.replay.variants.functions import computes_function, find_function, without_function
from opdiff.workflows.replay.variants.inputs import reversed_channels, rounded_inputs
from opdiff.workflows.replay.variants.operands import (
    exchanged,
    left_out,
    transposed_weights,
    without_bias,
)
from opdiff.workflows.replay.variants.outputs import Output, has_both_signs, has_small_errors, iter_outputs
from opdiff.workflows.replay.variants.parameters import other_parameters, padded_otherwise
from opdiff.workflows.replay.variants.variant import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.replay import ReplayedOutput
    from opdiff.workflows.golden.runtime import FedInput
    from opdiff.workflows.replay.operator_replay import OperatorReplay
    from opdiff.workflows.replay.own_error import Allowance
    from opdiff.workflows.replay.variants.variant import Variant

_MAX_SECONDS = 10.0
_MAX_COMPUTATIONS = 120
# The error under a variant, relative to the own error; more is no explanation.
_MAX_REMAINDER = 0.3
# Variants that leave an error of at most this many times the allowed one are named as near.
_NEAR = 4.0
_MAX_STALE_CANDIDATES = 64


class _Tried(Struct, frozen=True):
    """A variant that was tried: the error that remains, and this in units of the allowed one."""

    kind: ErrorKind
    reason: Reason
    error: float
    excess: float


def find_cause(
    replay: OperatorReplay,
    fed: Sequence[FedInput],
    base: Mapping[str, AnyArray],
    outputs: Sequence[ReplayedOutput],
    *,
    is_beyond_noise: bool = True,
) -> ReplayCause | None:
    """Return the change of the computation that explains the outputs of a device.

    Args:
        replay: the operator.
        fed: its inputs.
        base: the results of the usual computation.
        outputs: the comparison of these with the outputs of the device.
        is_beyond_noise: noise cannot have caused the error, so that what looks like noise is a lack of digits.
    """
    worst = max(outputs, key=lambda output: output.excess)
    nearest: _Tried | None = None
    search = _Search(replay, fed, base, {output.original: output for output in outputs})
    for tried in chain(search.run(worst), search.noise(worst) if is_beyond_noise else ()):
        is_far_better = tried.error <= _MAX_REMAINDER * worst.error or tried.excess <= _MAX_REMAINDER * worst.excess
        if tried.excess <= 1 and is_far_better:
            return ReplayCause(tried.kind, tried.reason, worst.error, tried.error, nearest.reason if nearest else None)
        if tried.excess <= _NEAR and is_far_better and (nearest is None or tried.excess < nearest.excess):
            nearest = tried
    if nearest is None:
        return None
    return ReplayCause(ErrorKind.UNKNOWN, because("replay.cause_unknown"), worst.error, nearest.error, nearest.reason)


class _Search:
    """All variants of one operator, tried one after the other."""

    def __init__(
        self,
        replay: OperatorReplay,
        fed: Sequence[FedInput],
        base: Mapping[str, AnyArray],
        outputs: Mapping[str, ReplayedOutput],
    ) -> None:
        self._replay = replay
        self._fed = fed
        self._base = base
        self._outputs = outputs
        self._ends = time.monotonic() + _MAX_SECONDS
        self._arithmetic = replay.arithmetics[0]

    def run(self, worst: ReplayedOutput) -> Iterator[_Tried]:
        """Yield the variants with their errors until the time is over."""
        # Few wrong elements in a good output have no cause in the computation.
        is_everywhere = worst.error > worst.limit
        yield from self._computations() if is_everywhere and self._replay.cut.nodes else ()
        yield from self._stale(worst)
        yield from self._results(worst)

    def _computations(self) -> Iterator[_Tried]:
        replay = self._replay
        subject = Subject(replay.context.encoder.parts, replay.cut, replay.context.types)
        variants = chain(
            without_function(subject),
            left_out(subject),
            without_bias(subject),
            exchanged(subject),
            other_parameters(subject),
            padded_otherwise(subject),
            transposed_weights(subject),
            reversed_channels(subject),
            rounded_inputs(subject, replay.device_type),
        )
        for number, variant in enumerate(variants):
            if number >= _MAX_COMPUTATIONS or time.monotonic() > self._ends:
                return
            found = self._try(variant)
            if found is not None:
                yield found

    def _try(self, variant: Variant) -> _Tried | None:
        fed = [replace(item, codes=self._changed(variant, item)) for item in self._fed]
        try:
            results = replace(self._replay, cut=variant.cut).compute(fed, self._arithmetic)
        except InputError:
            return None
        if any(results[name].shape != self._base[name].shape for name in self._base):
            return None
        judged = [self._error(name, results[name]) for name in self._base]
        error, excess = max(judged, key=lambda item: item[1])
        return _Tried(variant.kind, variant.reason, error, excess)

    @staticmethod
    def _changed(variant: Variant, item: FedInput) -> AnyArray:
        return item.codes if variant.change_input is None else np.asarray(variant.change_input(item.name, item.codes))

    def _error(self, name: str, result: AnyArray) -> tuple[float, float]:
        value = self._replay.output_of(name)
        target, replayed = self._replay.aligned(value, result)
        return _measured(target, as_device(replayed, value.tensor.spec.dtype), self._allowance(name))

    def _allowance(self, name: str) -> Allowance:
        output = self._outputs[name]
        allowance = self._replay.allowance(self._replay.output_of(name).tensor.spec.dtype)
        return allowance._replace(error=output.limit, peak=output.peak_limit, unequal=output.unequal_limit)

    def noise(self, worst: ReplayedOutput) -> Iterator[_Tried]:
        """Yield the lack of digits, if the errors look like it; that of a function is a rough approximation."""
        output = self._output(worst)
        if output is None or worst.error <= worst.limit or not has_small_errors(output):
            return
        if output.is_function:
            reason = because("replay.cause_rough_function", op_type=output.activation)
            yield _Tried(ErrorKind.FUNCTION, reason, worst.error, 0.0)
        elif has_both_signs(output):
            yield _Tried(ErrorKind.PRECISION, because("replay.cause_precision"), worst.error, 0.0)

    def _output(self, worst: ReplayedOutput) -> Output | None:
        """Return the result itself, if it has finite floats only."""
        value = self._replay.output_of(worst.original)
        target, replayed = self._replay.aligned(value, self._base[worst.original])
        if target.dtype.kind != "f" or not np.isfinite(target).all() or not np.isfinite(replayed).all():
            return None
        output = Output(target.astype(np.float64), replayed.astype(np.float64), self._allowance(worst.original))
        return self._with_operand(output, worst.original)

    def _results(self, worst: ReplayedOutput) -> Iterator[_Tried]:
        """Yield the variants of the result itself; only floats have such."""
        value = self._replay.output_of(worst.original)
        dtype, allowance = value.tensor.spec.dtype, self._allowance(worst.original)
        target, replayed = self._replay.aligned(value, self._base[worst.original])
        if target.dtype.kind == "f":
            yield from _overflow(target, as_device(replayed, dtype), dtype, allowance)
        output = self._output(worst)
        for variant in iter_outputs(output) if output is not None else ():
            if time.monotonic() > self._ends:
                return
            error, excess = _measured(variant.target, as_device(variant.replayed, dtype), allowance)
            yield _Tried(variant.kind, variant.reason, error, excess)

    def _with_operand(self, output: Output, name: str) -> Output:
        """Return an output with the values before the function at the end of the part, if there is one."""
        parts = self._replay.context.encoder.parts
        subject = Subject(parts, self._replay.cut, self._replay.context.types)
        found = find_function(subject, name)
        if found is None:
            return output
        cut = subject.passing_on(found.node, found.operand)
        try:
            operand = replace(self._replay, cut=cut).compute(self._fed, self._arithmetic)
        except InputError:
            return output
        if operand[name].shape != self._base[name].shape:
            return output
        _, aligned = self._replay.aligned(self._replay.output_of(name), operand[name])
        activation = found.node.op_type if found.is_single else self._replay.operator.op_type
        axis = int(str(read_attributes(parts, found.node).get("axis", -1)))
        is_function = found.operand in self._replay.cut.inputs and computes_function(subject)
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
        base = self._base[worst.original]
        if codes.size > 1 and (codes == codes.flat[0]).all() and (base != base.flat[0]).any():
            value = float(self._replay.aligned(own, base)[0].flat[0])
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
    pairs = [(value, limit) for value, limit in zip(found[:3], allowance[:3], strict=True) if value]
    return found.error, max((value / limit if limit else np.inf for value, limit in pairs), default=0.0)
