"""Replay without the original model: a one-operator model from type and attributes, with dumped inputs and weights.

A fused operator has no attributes for what was fused into it, so that likely compositions are tried. Where golden data
is known, a computation counts only if it turns the golden inputs of the operator into its golden output; without golden
data a fused operator is never guilty.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.align import convert
from opdiff.align.pairs import LAYOUT_BY_RANK
from opdiff.core import onnx_encoder as onnx
from opdiff.core.dtypes import Kind
from opdiff.core.errors import InputError, OpdiffError
from opdiff.core.graph import parse_input
from opdiff.core.reasons import Reason, Status, because
from opdiff.core.replay import Arithmetic, Replay, ReplayVerdict
from opdiff.core.tensor import Declared, Slot, TensorKey
from opdiff.workflows.agreement import trusted_codes
from opdiff.workflows.golden.onnx_model import InputSpec
from opdiff.workflows.golden.original import OriginalModel
from opdiff.workflows.replay.arithmetic import SubgraphEncoder
from opdiff.workflows.replay.dumped_values import DumpedValue, overwritten_inputs
from opdiff.workflows.replay.encoded_model import EncodedModel, find_subgraph
from opdiff.workflows.replay.fused_types import compositions, is_fused
from opdiff.workflows.replay.operator_replay import OperatorReplay, ReplayContext, not_replayable
from opdiff.workflows.replay.original_types import ELEMENT_NUMBERS, find_types
from opdiff.workflows.replay.own_error import difference
from opdiff.workflows.replay.types import BUILDERS, IMAGE_TYPES
from opdiff.workflows.replay.types.call import Call, OnnxBuilder, Operand, UnsupportedOperatorError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.graph import RuleOp
    from opdiff.core.tensor import Shape, Tensor
    from opdiff.judge.limits import Limits
    from opdiff.pair.dump_index import DumpIndex
    from opdiff.pair.groups import GroupedModel
    from opdiff.read.rules.parameters import Parameter
    from opdiff.workflows.replay.dumped_values import DumpedValues
    from opdiff.workflows.replay.golden_values import GoldenValues
    from opdiff.workflows.replay.original_types import OriginalType
    from opdiff.workflows.replay.types.call import Builder

_OPSET = 17
_PLAIN = frozenset({"ND", "NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN", "DHWNC", "NC", "CN", "NCL"})


class TypeContext(Struct, frozen=True):
    """A dump, its rules, and the attributes of its operators.

    Attributes:
        path: the rule file.
        rules: operators of the rule file.
        target: the dump.
        parameters: attributes by operator.
        values: all dumped outputs.
        limits: limits of the user.
        golden: golden values of the dumped tensors; `None` if there are none.
        threads: maximum number of threads that compute an operator; 0 for all cores.
    """

    path: str
    rules: GroupedModel
    target: DumpIndex
    parameters: Mapping[str, Mapping[str, Parameter]]
    values: DumpedValues
    limits: Limits
    golden: GoldenValues | None = None
    threads: int = 0


def replay_by_type(context: TypeContext, operator: RuleOp) -> Replay:
    """Compute an operator again by its type and attributes; a problem is the reason of the result."""
    try:
        return _replay(context, operator)
    except UnsupportedOperatorError as problem:
        return not_replayable(operator, because("replay.type_unsupported", type=operator.op_type, problem=str(problem)))
    except (OpdiffError, MemoryError) as error:
        reason = error.reason if isinstance(error, OpdiffError) else because("compare.no_memory", Status.INTERRUPTED)
        return not_replayable(operator, reason)


def _replay(context: TypeContext, operator: RuleOp) -> Replay:
    builder = BUILDERS.get(operator.op_type)
    if builder is None:
        raise UnsupportedOperatorError("no translation")
    prepared = _Prepared.of(context, operator)
    if isinstance(prepared, Reason):
        return not_replayable(operator, prepared)
    call = prepared.call
    if is_fused(operator, call):
        return _replay_fused(prepared, builder, call)
    computation = prepared.to_replay(builder, call)
    if not prepared.is_confirmed(computation):
        return not_replayable(operator, because("replay.not_confirmed"))
    return computation.replay()


def _replay_fused(prepared: _Prepared, builder: Builder, call: Call) -> Replay:
    """Replay by a composition that agrees with the device; if none does, by the first that golden data confirms."""
    disagreeing = []
    for composition, guess in compositions(builder, prepared.operator, call):
        try:
            computation = prepared.to_replay(composition, guess)
            if not prepared.is_confirmed(computation):
                continue
            found = computation.replay(with_cause=False)
        except (UnsupportedOperatorError, InputError):
            continue
        if found.verdict is not ReplayVerdict.GUILTY:
            return computation.replay()
        disagreeing.append(computation)
    if disagreeing and prepared.context.golden is not None:
        return disagreeing[0].replay()
    return not_replayable(prepared.operator, because("replay.fused_unknown"))


class _Prepared(Struct, frozen=True):
    """An operator with its dumped inputs and outputs, each with its logical shape."""

    context: TypeContext
    operator: RuleOp
    inputs: tuple[tuple[DumpedValue, Shape], ...]
    outputs: tuple[tuple[DumpedValue, Shape], ...]

    @classmethod
    def of(cls, context: TypeContext, operator: RuleOp) -> _Prepared | Reason:
        """Find the inputs and outputs of an operator."""
        dump = context.target.find(operator.name)
        if dump is None or not dump.outputs:
            return because("replay.not_dumped" if dump is None else "replay.no_outputs")
        inputs = []
        lost = overwritten_inputs(dump)
        for index in range(max(_input_count(operator), max(dump.inputs, default=-1) + 1)):
            found = dump.inputs.get(index) if index not in lost else None
            tensor = found if found is not None else _produced(context, operator, index)
            if tensor is None:
                producer = operator.inputs[index] if index < len(operator.inputs) else "?"
                return because("replay.input_unknown", tensor=f"{operator.name}:input:{index}", producer=producer)
            inputs.append(_logical(operator, TensorKey(operator.name, Slot.INPUT, index), tensor, f"x{index}"))
        outputs = [
            _logical(operator, TensorKey(operator.name, Slot.OUTPUT, index), tensor, f"y{index}")
            for index, tensor in sorted(dump.outputs.items())
        ]
        return cls(context, operator, tuple(inputs), tuple(outputs))

    @property
    def call(self) -> Call:
        """The operator with its attributes."""
        operands = [
            Operand(value.original, shape, value.tensor.spec.dtype, partial(value.numbers, shape))
            for value, shape in self.inputs
        ]
        parameters = self.context.parameters.get(self.operator.name, {})
        shapes = tuple(shape for _, shape in self.outputs)
        return Call(self.operator.op_type, parameters, tuple(operands), shapes)

    def to_replay(self, builder: Builder, call: Call) -> OperatorReplay:
        """Return the operator as a model of its own, ready to be computed.

        Raises:
            UnsupportedOperatorError: it has no translation, or its attributes contradict its shapes.
            InputError: ONNX Runtime refuses the model.
        """
        graph = OnnxBuilder(self.operator.name)
        try:
            made = builder(graph, call)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise UnsupportedOperatorError(f"its attributes do not fit its shapes: {error!r}") from error
        tensors = [made] if isinstance(made, str) else made
        encoded = EncodedModel(self._model(graph, tensors))
        types = find_types(encoded, {}, threads=1)
        self._check_types(types, tensors)
        outputs = [replace(value, original=tensor) for tensor, (value, _) in zip(tensors, self.outputs, strict=False)]
        known = {value.original: value for value, _ in self.inputs}
        subgraph = find_subgraph(encoded, [value.original for value in outputs], known, {})
        if isinstance(subgraph, Reason):
            raise InputError(self.context.path, subgraph)
        own = self.context
        context = ReplayContext(SubgraphEncoder(encoded, types), own.values, own.limits, own.threads)
        return OperatorReplay(
            context, self.operator, subgraph, {name: known[name] for name in subgraph.inputs}, tuple(outputs)
        )

    def is_confirmed(self, computation: OperatorReplay) -> bool:
        """Return whether a computation turns the golden inputs into the golden outputs.

        Without any golden data, the computation is taken to be right.
        """
        if self.context.golden is None:
            return True
        feeds = []
        for item in computation.load_inputs():
            number = next(number for number, (value, _) in enumerate(self.inputs) if value.original == item.name)
            golden = self._golden_input(number, item.codes)
            if golden is None:
                return False
            feeds.append(replace(item, codes=golden.astype(item.codes.dtype)))
        outputs = [(value, self._golden(value.key, value.numbers(shape))) for value, shape in self.outputs]
        known = {value.key: golden for value, golden in outputs if golden is not None}
        judged = [value for value in computation.outputs if value.key in known]
        if not judged:
            return False
        computed = computation.compute(feeds, Arithmetic.EXACT)
        return all(_agree(computation, value, known[value.key], computed[value.original]) for value in judged)

    def _golden_input(self, index: int, numbers: AnyArray) -> AnyArray | None:
        """Return the golden values of an input; for a weight, the dumped values."""
        value, _ = self.inputs[index]
        entry = self.operator.inputs[index] if index < len(self.operator.inputs) else ""
        parsed = parse_input(entry)
        found = self._golden(value.key, numbers)
        if found is not None or parsed is None:
            return found
        producer = self.context.rules.by_name.get(parsed[0])
        if producer is not None and producer.is_constant:
            return numbers
        return self._golden(TensorKey(parsed[0], Slot.OUTPUT, parsed[1]), numbers)

    def _golden(self, key: TensorKey, numbers: AnyArray) -> AnyArray | None:
        return self.context.golden.find(key, numbers) if self.context.golden is not None else None

    def _check_types(self, types: Mapping[str, OriginalType], tensors: Sequence[str]) -> None:
        """Check that floats are computed where floats were dumped; a fused conversion is not known otherwise."""
        for tensor, (value, _) in zip(tensors, self.outputs, strict=False):
            dumped = value.tensor.spec.dtype
            if tensor in types and (types[tensor].dtype.kind is Kind.FLOAT) != (dumped.kind is Kind.FLOAT):
                raise UnsupportedOperatorError(f"its output has the type {dumped.name}")

    def _model(self, graph: OnnxBuilder, outputs: Sequence[str]) -> OriginalModel:
        specs = tuple(
            InputSpec(value.original, _element(value.tensor.spec.dtype), shape) for value, shape in self.inputs
        )
        heads = [onnx.graph_input(spec.name, spec.shape, spec.element) for spec in specs]  # type: ignore[arg-type]  # known extents
        data = onnx.model([*heads, *graph.parts, *map(onnx.graph_output, outputs)], _OPSET)
        return OriginalModel(self.context.path, (), data, ".", specs, tuple(outputs), ())


def _agree(computation: OperatorReplay, value: DumpedValue, golden: AnyArray, computed: AnyArray) -> bool:
    """Return whether a computed output differs from the golden one by no more than the noise of the operator."""
    allowance = computation.allowance(value.tensor.spec.dtype)
    is_alike = golden.size == computed.size
    return is_alike and allowance.permits(difference(golden, computed.reshape(golden.shape), allowance))


def _input_count(operator: RuleOp) -> int:
    """Return the number of inputs, without unconnected optional inputs at the end."""
    connected = [index for index, entry in enumerate(operator.inputs) if parse_input(entry) is not None]
    return max(connected, default=-1) + 1


def _produced(context: TypeContext, operator: RuleOp, index: int) -> Tensor | None:
    """Return the dumped output that feeds an input."""
    parsed = parse_input(operator.inputs[index]) if index < len(operator.inputs) else None
    producer = context.target.find(parsed[0]) if parsed is not None else None
    return producer.outputs.get(parsed[1]) if producer is not None and parsed is not None else None


def _logical(operator: RuleOp, key: TensorKey, tensor: Tensor, name: str) -> tuple[DumpedValue, Shape]:
    """Return a tensor with the layout in which it is computed, and its shape in this layout."""
    spec = tensor.spec
    if key.slot is Slot.OUTPUT and not spec.origin_shape:
        described = operator.output(key.index)
        spec = replace(spec, origin_shape=described.shape if described is not None else ())
    layout = _layout(operator, spec.layout, len(spec.origin_shape or spec.shape))
    value = DumpedValue(key, replace(tensor, spec=spec), name, Declared(layout, spec.origin_shape))
    codes = trusted_codes(tensor)
    return value, convert(codes, spec, layout).codes.shape


def _layout(operator: RuleOp, stored: str, rank: int) -> str:
    """Return the layout in which a tensor is computed: the layout in memory, unless that is private or an image."""
    if operator.op_type not in IMAGE_TYPES or rank != 4:
        if stored in _PLAIN:
            return stored
        described = operator.output(0)
        if described is not None and described.layout in _PLAIN and len(described.layout) == rank:
            return described.layout
    return LAYOUT_BY_RANK.get(rank, "ND") if stored != "ND" else stored


def _element(dtype: DType) -> int:
    """Return the number of an element type in ONNX; floats are computed in float32."""
    if dtype.kind is Kind.FLOAT:
        return onnx.FLOAT
    if dtype.name not in ELEMENT_NUMBERS:
        raise UnsupportedOperatorError(f"element type {dtype.name}")
    return ELEMENT_NUMBERS[dtype.name]
