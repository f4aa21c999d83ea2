"""Replay of one operator: its subgraph of the model, computed from dumped inputs and compared with its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.align.pairs import align_codes
from opdiff.core import codes as elements
from opdiff.core.dtypes import Kind
from opdiff.core.errors import InputError, OpdiffError
from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import Reason, Status, because
from opdiff.core.replay import Replay, ReplayedInput, ReplayedOutput, ReplayVerdict
from opdiff.core.tensor import TensorSpec, coordinates
from opdiff.judge.limits import coarser
from opdiff.pair.by_rules import FORWARDING_TYPES
from opdiff.workflows.agreement import trusted_codes
from opdiff.workflows.golden.runtime import FedInput, Runner
from opdiff.workflows.replay.causes import find_cause
from opdiff.workflows.replay.encoded_model import Subgraph, find_subgraph
from opdiff.workflows.replay.own_error import Difference, allowance_of, as_device, difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.graph import RuleOp
    from opdiff.core.replay import Arithmetic
    from opdiff.core.tensor import Shape
    from opdiff.judge.limits import Limit, Limits
    from opdiff.workflows.replay.arithmetic import SubgraphEncoder
    from opdiff.workflows.replay.dumped_values import DumpedValue, DumpedValues
    from opdiff.workflows.replay.original_types import OriginalType
    from opdiff.workflows.replay.own_error import Allowance


# Kinds of errors of a whole tensor that are not random.
_SYSTEMATIC = frozenset({
    ErrorKind.ACTIVATION, ErrorKind.AXIS, ErrorKind.BIAS, ErrorKind.FUNCTION, ErrorKind.OPERAND, ErrorKind.PADDING,
    ErrorKind.SCALE,
})  # fmt: skip
# Operators with inputs of up to this size are computed within milliseconds; more threads would take longer to start.
_MAX_SHORT_NBYTES = 1 << 20
_ROUNDING_TYPES = frozenset({"QuantizeLinear", "Round", "Floor", "Ceil"})


class ReplayContext(Struct, frozen=True):
    """The original model, its tensors, and the dump.

    Attributes:
        encoder: encoder of subgraphs of the original model.
        values: dumped values of its tensors.
        limits: limits of the user.
        threads: maximum number of threads that compute an operator; 0 for all cores.
    """

    encoder: SubgraphEncoder
    values: DumpedValues
    limits: Limits
    threads: int = 0

    @property
    def types(self) -> Mapping[str, OriginalType]:
        """Types of the original tensors."""
        return self.encoder.types


def replay_operator(context: ReplayContext, operator: RuleOp) -> Replay:
    """Compute an operator again and compare its outputs; a problem is the reason of the result."""
    try:
        found = prepare(context, operator)
        if isinstance(found, Reason):
            return not_replayable(operator, found)
        return found.replay()
    except (OpdiffError, MemoryError) as error:
        reason = error.reason if isinstance(error, OpdiffError) else because("compare.no_memory", Status.INTERRUPTED)
        return not_replayable(operator, reason)


def not_replayable(operator: RuleOp, reason: Reason) -> Replay:
    """Return the result for an operator that cannot be computed again."""
    return Replay(operator.name, operator.op_type, ReplayVerdict.NOT_REPLAYABLE, reason=reason)


def prepare(context: ReplayContext, operator: RuleOp) -> OperatorReplay | Reason:
    """Find the subgraph of the model that an operator computes, and the values of its inputs."""
    values = context.values
    outputs = [value for value in values.outputs_of(operator) if value.original in context.types]
    if not outputs:
        return values.problem_of(operator)
    own = values.inputs_of(operator)
    if operator.op_type not in FORWARDING_TYPES:
        own = {name: value for name, value in own.items() if all(name != output.original for output in outputs)}
    quantized = [value for value in (*own.values(), *outputs) if _is_quantized(context, value)]
    if quantized:
        return because("replay.quantized", tensor=str(quantized[0].key), dtype=quantized[0].tensor.spec.dtype.name)
    known = values.outputs | own
    subgraph = _subgraph_of(context, [value.original for value in outputs], own, known)
    inner = values.integers_without_original(operator)
    if inner is not None and not (isinstance(subgraph, Subgraph) and _reads_quantized(subgraph)):
        return because("replay.quantized", tensor=str(inner[0]), dtype=inner[1].spec.dtype.name)
    if isinstance(subgraph, Reason):
        return subgraph
    unknown = next((name for name in (*subgraph.inputs, *subgraph.shapes) if name not in context.types), None)
    if unknown is not None:
        return because("replay.not_numbers", tensor=unknown)
    return OperatorReplay(context, operator, subgraph, {name: known[name] for name in subgraph.inputs}, tuple(outputs))


def _reads_quantized(subgraph: Subgraph) -> bool:
    """Return whether a subgraph begins with quantized values that the model computes, too."""
    return any(node.op_type == "DequantizeLinear" and node.inputs[0] in subgraph.inputs for node in subgraph.nodes)


def _is_quantized(context: ReplayContext, value: DumpedValue) -> bool:
    return value.original in context.types and value.is_quantized(context.types[value.original])


def _subgraph_of(
    context: ReplayContext, outputs: Sequence[str], own: Mapping[str, DumpedValue], known: Mapping[str, DumpedValue]
) -> Subgraph | Reason:
    if all(name in own for name in outputs):
        # The operator moves data only.
        return Subgraph((), (), tuple(outputs), (), tuple(outputs))
    return find_subgraph(context.encoder.encoded, outputs, known, context.values.owners)


class OperatorReplay(Struct, frozen=True):
    """One operator, ready to be computed.

    Attributes:
        context: model and dump.
        operator: the operator.
        subgraph: its subgraph of the original model.
        inputs: dumped values of the inputs of the subgraph.
        outputs: dumped values of its outputs.
    """

    context: ReplayContext
    operator: RuleOp
    subgraph: Subgraph
    inputs: Mapping[str, DumpedValue]
    outputs: tuple[DumpedValue, ...]

    @property
    def device_type(self) -> DType:
        """The float type in which the device computes: the type of the first float input, else of the output."""
        tensors = [value.tensor for value in (*self.inputs.values(), *self.outputs)]
        floats = [tensor.spec.dtype for tensor in tensors if tensor.spec.dtype.kind is Kind.FLOAT]
        return floats[0] if floats else tensors[-1].spec.dtype

    @property
    def arithmetics(self) -> tuple[Arithmetic, ...]:
        """Arithmetics that the device may use for the operator; the first is the baseline, which is tried first."""
        return self.context.encoder.arithmetics(self.subgraph, self.device_type)

    def output_of(self, original: str) -> DumpedValue:
        """Return the dumped output that holds an original tensor."""
        return next(value for value in self.outputs if value.original == original)

    def replay(self, *, with_cause: bool = True) -> Replay:
        """Compute the operator by each arithmetic until the result agrees with the device; otherwise find the cause."""
        feeds = self.load_inputs()
        baseline_arithmetic, *other_arithmetics = self.arithmetics
        baseline = self.compute(feeds, baseline_arithmetic)
        results = self._judge_outputs([baseline], baseline_arithmetic)
        if _worst(results) <= 1:
            found = self._result(results)
            return self._recheck_by_one_rounding(found, feeds, baseline) if with_cause else found
        computations = [baseline]
        for arithmetic in other_arithmetics:
            try:
                computed = self.compute(feeds, arithmetic)
            except InputError:
                continue
            if _overflows(computed, baseline):
                continue
            computations.append(computed)
            results = min(results, self._judge_outputs(computations, arithmetic), key=_worst)
            if _worst(results) <= 1:
                return self._result(results)
        if not all(_is_finite(item) for item in feeds):
            # Where infinities become NaN depends on the order of the computation.
            return not_replayable(self.operator, because("replay.input_not_finite"))
        found = self._result(results)
        if not with_cause:
            return found
        return replace(found, cause=find_cause(self, feeds, baseline, results))

    def _recheck_by_one_rounding(
        self, found: Replay, feeds: Sequence[FedInput], baseline: Mapping[str, AnyArray]
    ) -> Replay:
        """Return the result of an innocent operator, which becomes guilty if it has a small systematic error.

        The noise limit allows several roundings, so that a small systematic error can pass. The outputs are therefore
        checked again by the limit of one rounding. The operator is guilty only if a change of the computation removes
        the error: no change removes random errors.
        """
        strict = [self._with_limit_of_one_rounding(output) for output in found.outputs]
        if not any(output.error > output.limit for output in strict):
            return found
        cause = find_cause(self, feeds, baseline, strict, is_beyond_noise=False)
        return replace(self._result(strict), cause=cause) if cause and cause.kind in _SYSTEMATIC else found

    def _with_limit_of_one_rounding(self, output: ReplayedOutput) -> ReplayedOutput:
        """Return an output with its limits lowered to the error of a single rounding."""
        noise = self._limit(self.output_of(output.original).tensor.spec.dtype).noise
        factor = min(noise / output.limit, 1.0) if output.limit else 1.0
        return replace(output, limit=factor * output.limit, peak_limit=factor * output.peak_limit)

    def compute(self, feeds: Sequence[FedInput], arithmetic: Arithmetic) -> dict[str, AnyArray]:
        """Return the outputs of the subgraph, computed by one arithmetic.

        Raises:
            InputError: ONNX Runtime refuses the subgraph or fails.
        """
        model = self.context.encoder.encoded.model
        if not self.subgraph.nodes:
            return {item.name: item.codes for item in feeds}
        is_short = sum(item.codes.nbytes for item in feeds) <= _MAX_SHORT_NBYTES
        runner = Runner(feeds, {}, (), 1 if is_short else self.context.threads)
        data = self.context.encoder.encode(self.subgraph, feeds, arithmetic, self.device_type)
        session = runner.open_session(model, data)
        outputs = session.run(self.subgraph.outputs, is_short=is_short)
        return dict(zip(self.subgraph.outputs, outputs, strict=True))

    def load_inputs(self) -> list[FedInput]:
        """Load the inputs; tensors of which only the shape counts are zeros."""
        loaded = {name: value.load(self.context.types[name]) for name, value in self.inputs.items()}
        loaded |= {name: _zeros(self.context.types[name]) for name in self.subgraph.shapes}
        # A scalar that is made contiguous would get an axis.
        return [
            FedInput(name, self.context.types[name].element, np.ascontiguousarray(codes).reshape(codes.shape))
            for name, codes in loaded.items()
        ]

    def _judge_outputs(
        self, computations: Sequence[Mapping[str, AnyArray]], arithmetic: Arithmetic
    ) -> list[ReplayedOutput]:
        return [self._judge(value, computations, arithmetic) for value in self.outputs]

    def _judge(
        self, value: DumpedValue, computations: Sequence[Mapping[str, AnyArray]], arithmetic: Arithmetic
    ) -> ReplayedOutput:
        """Compare one output with the last computation; its differences from earlier computations are allowed, too."""
        dtype = value.tensor.spec.dtype
        target, replayed = self.aligned(value, computations[-1][value.original])
        rounded = as_device(replayed, dtype)
        allowance = self.allowance(dtype)
        for earlier in computations[:-1]:
            other = as_device(earlier[value.original].reshape(replayed.shape), dtype)
            allowance = allowance.widened(difference(other, rounded, allowance))
        if any(node.op_type in _ROUNDING_TYPES for node in self.subgraph.nodes):
            allowance = allowance.with_ties(target, rounded, self.device_type, self.allowance(dtype).unequal)
        found = difference(target, rounded, allowance)
        return _output(value, found, allowance, arithmetic, (target, rounded))

    def aligned(self, value: DumpedValue, replayed: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the output of the device and the replayed one in one shape."""
        spec = value.tensor.spec
        kind = self.context.types[value.original]
        form = TensorSpec(kind.dtype, replayed.shape, "ND")
        pair = align_codes((spec, form), (trusted_codes(value.tensor), replayed), value.declared)
        target = elements.decode(pair.target, spec.dtype)
        numbers = elements.decode(pair.golden, kind.dtype)
        return as_device(target, spec.dtype).reshape(pair.shape), numbers.reshape(pair.shape)

    def allowance(self, output: DType) -> Allowance:
        """Return the noise that the operator may have in an output of this type."""
        return allowance_of(self._limit(output), (node.op_type for node in self.subgraph.nodes), output)

    def _limit(self, output: DType) -> Limit:
        """Return the limits of the coarsest type that the operator reads or writes."""
        names = [value.tensor.spec.dtype.name for value in self.inputs.values()]
        floats = [name for name in (*names, output.name) if "float" in name]
        dtype = output.name
        for name in floats:
            dtype = coarser(dtype, name)
        return self.context.limits.of(coarser(dtype, dtype), self.operator.op_type, self.operator.name)

    def _result(self, outputs: Iterable[ReplayedOutput]) -> Replay:
        ordered = tuple(sorted(outputs, key=lambda output: output.excess, reverse=True))
        verdict = ReplayVerdict.GUILTY if ordered[0].excess > 1 else ReplayVerdict.INNOCENT
        names = self.context.values.names
        computed = [tensor for node in self.subgraph.nodes if node.reads for tensor in node.outputs]
        originals = tuple(dict.fromkeys(names[tensor] for tensor in computed if tensor in names))
        inputs = tuple(ReplayedInput(name, str(value.key)) for name, value in self.inputs.items())
        return Replay(self.operator.name, self.operator.op_type, verdict, originals, inputs, ordered)


def _zeros(kind: OriginalType) -> AnyArray:
    return np.zeros(kind.shape or (), kind.dtype.storage)


def _is_finite(item: FedInput) -> bool:
    return item.codes.dtype.kind != "f" or bool(np.isfinite(item.codes).all())


def _overflows(results: Mapping[str, AnyArray], baseline: Mapping[str, AnyArray]) -> bool:
    """Return whether an inner result overflows: there are infinities or NaN where the baseline is finite."""
    pairs = [(array, baseline[name]) for name, array in results.items() if array.dtype.kind == "f"]
    return any(bool((~np.isfinite(one) & np.isfinite(two)).any()) for one, two in pairs if one.shape == two.shape)


def _worst(outputs: Iterable[ReplayedOutput]) -> float:
    return max(output.excess for output in outputs)


def _output(
    value: DumpedValue,
    found: Difference,
    allowance: Allowance,
    arithmetic: Arithmetic,
    arrays: tuple[AnyArray, AnyArray],
) -> ReplayedOutput:
    shape: Shape = arrays[0].shape
    worst = [float(array.ravel()[found.worst]) if array.size else 0.0 for array in arrays]
    return ReplayedOutput(
        tensor=str(value.key),
        original=value.original,
        error=found.error,
        limit=allowance.error,
        peak=found.peak,
        peak_limit=allowance.peak,
        unequal=found.unequal,
        unequal_limit=allowance.unequal,
        arithmetic=arithmetic,
        worst=coordinates(found.worst, shape),
        worst_target=worst[0],
        worst_replayed=worst[1],
    )
