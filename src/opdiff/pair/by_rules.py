"""Pairs of two dumps with a rule file, group by group: group → trace of a tensor to its original → golden tensor.

The description of an output declares its origin. An input is the output of its producer. Cast and TransData
change the storage and not the values, so that their output may be compared with their input.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dtypes import Kind
from opdiff.core.dump import DumpKind, side_tensor
from opdiff.core.graph import parse_input
from opdiff.core.pairing import OpLabel, Pairing, Unpaired
from opdiff.core.reasons import Reason, Status, all_of, because
from opdiff.core.tensor import Declared, Slot, TensorKey, file_safe_name
from opdiff.pair.dump_index import Found, NameIndex, is_unreadable, with_nearest
from opdiff.pair.groups import NOT_RUN_TYPES, Relation, is_inner_part, reads_image
from opdiff.pair.quantization import is_quantized_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opdiff.core.dump import DumpedOp
    from opdiff.core.graph import OutputDesc, RuleOp
    from opdiff.core.pairing import PairingResult
    from opdiff.core.tensor import Shape, StatedTensor, Tensor
    from opdiff.pair.dump_index import DumpIndex
    from opdiff.pair.groups import Group, GroupedModel, OpKey

    FindGolden = Callable[["OriginalTensor"], Found | Reason]

FORWARDING_TYPES = frozenset({"Cast", "TransData"})
"""Operator types whose output has the values of their input."""

_DEQUANT_SUFFIXES = ("_dequant_layer", "AscendDequant", "_dequant")
# Operators that are walked through. Compilers insert a few in a row; a longer chain is not credible, and every row
# would repeat it.
_MAX_FORWARDS = 32
# Names that the evidence lists.
_MAX_LISTED = 8
# Types that compilers insert, whose output has the values of their input in the same order.
_INSERTED_TYPES = FORWARDING_TYPES | {"Reshape", "SqueezeV2", "UnsqueezeV2"}


class PairingContext(Struct, frozen=True):
    """Target, golden side and rules of a comparison.

    Attributes:
        target: operators of the target.
        find_golden: returns the golden tensor of an original one, or the reason why there is none.
        golden_kind: kind of the golden dump.
        model: operators and groups of the rule file.
        quantized: operators on quantized values, which get no rows.
        every_operator: whether operators without meaning for the accuracy get rows too.
        has_moved_strides: whether the compiler moved strides of convolutions to earlier operators.
        states_target: whether the rule file describes the tensors as the target stores them.
        problems: why operators of the target are not known, by their names in file names; `None` if a rule file of the
            target is given.
    """

    target: DumpIndex
    find_golden: FindGolden
    golden_kind: DumpKind
    model: GroupedModel
    quantized: frozenset[OpKey]
    every_operator: bool = False
    has_moved_strides: bool = False
    states_target: bool = False
    problems: Mapping[str, Reason] | None = None


def iter_pairs(context: PairingContext) -> Iterator[PairingResult]:
    """Yield the pairs of all groups, in their order."""
    for group in context.model.groups:
        if context.every_operator:
            for operator in group.operators:
                yield from _operator_pairs(context, group, operator)
            continue
        operators = group.operators
        if context.quantized:
            operators = tuple(operator for operator in operators if operator.key not in context.quantized)
        if not operators:
            continue
        relation = group.relation
        if relation is Relation.L1_FUSION:
            yield from _l1_pairs(context, group, operators)
        elif relation in (Relation.ONE_TO_ONE, Relation.MANY_TO_ONE):
            yield from _operator_pairs(context, group, operators[0])
        else:
            yield from _split_pairs(context, group, operators)


def iter_unknown_pairs(context: PairingContext) -> Iterator[PairingResult]:
    """Yield an unpaired entry for each dumped operator that the rules do not contain, numbered after the groups."""
    dumped, start = context.target.dump.operators, max((group.index for group in context.model.groups), default=-1) + 1
    if context.problems is not None:
        for index, (name, reason) in enumerate(context.problems.items(), start):
            yield Unpaired(OpLabel(index, 0, dumped[name].op_type, name, "*"), None, None, reason)
        return
    known = {file_safe_name(name): name for name in context.model.by_name}
    unknown = [dump for name, dump in dumped.items() if file_safe_name(name) not in known]
    names = NameIndex(known) if unknown else None
    for index, dump in enumerate(unknown, start):
        nearest = names.nearest(file_safe_name(dump.name)) if names else None
        label = OpLabel(index, 0, dump.op_type, dump.name, "*")
        reason = with_nearest(because("pair.not_in_rules", Status.NOT_IN_RULES), known[nearest] if nearest else None)
        yield Unpaired(label, None, None, reason)


def _split_pairs(context: PairingContext, group: Group, operators: tuple[RuleOp, ...]) -> Iterator[PairingResult]:
    """Yield the pairs of each dumped operator that is not an inner one; one unpaired entry when there is none."""
    reasons = []
    dumped = []
    for operator in operators:
        if is_inner_part(operator):
            reasons.append(because("pair.inner_part", name=operator.name))
        elif context.target.find(operator.name) is None:
            reasons.append(_no_file(context, operator))
        else:
            dumped.append(operator)
    if not dumped:
        yield Unpaired(_label(group, operators[0]), None, None, all_of(reasons))
    for operator in dumped:
        yield from _operator_pairs(context, group, operator)


def _l1_pairs(context: PairingContext, group: Group, operators: tuple[RuleOp, ...]) -> Iterator[PairingResult]:
    """Yield the pairs of the first and the last operator that ran; those between work on tiles of the tensors."""
    dumped = [(dump.timestamp, operator) for operator in operators if (dump := context.target.find(operator.name))]
    if not dumped:
        reason = all_of(_no_file(context, operator) for operator in operators)
        yield Unpaired(_label(group, operators[0]), None, None, reason)
        return
    ran = [operator for _, operator in sorted(dumped, key=lambda item: item[0])]
    if ran[0].originals != ran[-1].originals:
        yield from _operator_pairs(context, group, ran[0])
    yield from _operator_pairs(context, group, ran[-1])


def _operator_pairs(context: PairingContext, group: Group, operator: RuleOp) -> Iterator[PairingResult]:
    label = _label(group, operator)
    others = context.model.names_with_same_file(operator.name)
    if others:
        yield Unpaired(label, None, None, because("pair.names_collide", name=operator.name, others=others))
        return
    dump = context.target.find(operator.name)
    slots = _compared_slots(operator)
    if dump is None or not any(map(dump.tensors, slots)):
        reason = _no_file(context, operator) if dump is None else _no_tensors(operator, slots, dump)
        yield Unpaired(label, None, None, reason)
        return
    for slot in slots:
        for index, tensor in sorted(dump.tensors(slot).items()):
            yield _tensor_pair(context, label, operator, TensorKey(operator.name, slot, index), tensor)
    if dump.problem:
        # Where each tensor has its own file, the others are compared although one is unreadable.
        yield Unpaired(label, None, None, _unreadable(operator, dump))


def _label(group: Group, operator: RuleOp) -> OpLabel:
    return OpLabel(group.index, operator.sequence, operator.op_type, group.target_names, group.golden_names)


def _no_file(context: PairingContext, operator: RuleOp) -> Reason:
    if context.problems is not None:
        return because("pair.not_by_itself", Status.NOT_EXPECTED, name=operator.name)
    reason = because("pair.no_file", Status.NOT_DUMPED, side="target", name=operator.name)
    if operator.op_type in NOT_RUN_TYPES:
        return all_of((reason, because("pair.not_run", Status.NO_COUNTERPART, op_type=operator.op_type)))
    return with_nearest(reason, context.target.nearest(operator.name))


def _no_tensors(operator: RuleOp, slots: tuple[Slot, ...], dump: DumpedOp) -> Reason:
    """Return the reason why a dumped operator has nothing to compare."""
    if dump.problem:
        return _unreadable(operator, dump)
    if not dump.inputs and not dump.outputs:
        return because("pair.file_empty", side="target", name=operator.name)
    if not slots:
        return because("pair.all_quantized", name=operator.name)
    return because("pair.no_inputs" if slots == (Slot.INPUT,) else "pair.no_outputs", name=operator.name)


def _unreadable(operator: RuleOp, dump: DumpedOp) -> Reason:
    return because("pair.file_unreadable", Status.UNREADABLE, side="target", name=operator.name, problem=dump.problem)


def _compared_slots(operator: RuleOp) -> tuple[Slot, ...]:
    """Return the slots of an operator that do not hold quantized values."""
    is_dequant = operator.op_type == "AscendDequant" or operator.name.endswith(_DEQUANT_SUFFIXES)
    inputs = () if is_dequant else (Slot.INPUT,)
    return inputs if operator.op_type == "AscendQuant" else (*inputs, Slot.OUTPUT)


def _tensor_pair(
    context: PairingContext, label: OpLabel, operator: RuleOp, key: TensorKey, tensor: Tensor
) -> PairingResult:
    traced = trace(context.model, operator, key.slot, key.index)
    reasons = []
    for origin in traced.origins:
        found = context.find_golden(origin)
        if isinstance(found, Found) and origin.is_doubtful and not _same_count(tensor, found.tensor):
            found = because("pair.other_size", name=str(found.key))
        if isinstance(found, Found) and context.target.dump.quantized and _replaces_floats(tensor, found.tensor):
            found = because("pair.quantized_values", name=str(key))
        if isinstance(found, Found):
            layout = "" if context.golden_kind is DumpKind.NPU else origin.layout
            declared = Declared(layout, origin.shape, context.has_moved_strides)
            evidence = all_of((*origin.evidence, *found.evidence))
            target = side_tensor(key, tensor, _stated(context.model, operator, key) if context.states_target else None)
            golden = side_tensor(found.key, found.tensor, found.stated)
            return Pairing(label, target, golden, declared, evidence)
        reasons.append(because("pair.but", evidence=all_of(origin.evidence), problem=found))
        if is_unreadable(found):
            return Unpaired(label, key, side_tensor(key, tensor), all_of(reasons))
    if traced.problem is not None:
        reasons.append(traced.problem)
    return Unpaired(label, key, side_tensor(key, tensor), all_of(reasons))


def _stated(model: GroupedModel, operator: RuleOp, key: TensorKey) -> StatedTensor | None:
    """Return what the rules state about an output, or about the output that an input reads."""
    index = key.index
    if key.slot is Slot.INPUT:
        found = _find_producer(operator, index, model)
        if isinstance(found, Reason):
            return None
        operator, index = found
    return operator.outputs[index].stated if index < len(operator.outputs) else None


def _replaces_floats(target: Tensor, golden: Tensor) -> bool:
    """Return whether the target has quantized values in place of floats."""
    return is_quantized_type(target.spec.dtype) and golden.spec.dtype.kind is Kind.FLOAT


def _same_count(target: Tensor, golden: Tensor) -> bool:
    """Return whether two tensors have equally many elements without padding."""
    ours, theirs = ((tensor.spec.origin_shape or tensor.spec.shape) for tensor in (target, golden))
    return prod(ours) == prod(theirs)


# From a tensor of the target to the tensor of the original model that it should equal


class OriginalTensor(Struct, frozen=True):
    """A tensor of the original model, with the evidence that it is the origin; prints `c1:0`.

    Inserted operators sometimes have the name of their reader, so that the origin that they declare is doubtful.
    """

    name: str
    index: int
    layout: str
    shape: Shape
    evidence: tuple[Reason, ...]
    is_doubtful: bool = False

    def __str__(self) -> str:
        return f"{self.name}:{self.index}"


class Trace(Struct, frozen=True):
    """Original tensors to compare with, best first; `problem` is the reason for a trace that ends without one."""

    origins: tuple[OriginalTensor, ...]
    problem: Reason | None = None


class _Start(Struct, frozen=True):
    """Start of a trace: output `index` of an operator, or its input `index`, which `producer` feeds."""

    index: int
    producer: str = ""
    compiled_from: tuple[Reason, ...] = ()


def trace(model: GroupedModel, operator: RuleOp, slot: Slot, index: int) -> Trace:
    """Trace a tensor of an operator back to the original model."""
    if slot is Slot.OUTPUT:
        return _walk(model, operator, index, _Start(index, compiled_from=_compiled_from(operator)))
    found = _find_producer(operator, index, model)
    if isinstance(found, Reason):
        return Trace((), found)
    producer, output = found
    if reads_image(operator, producer):
        return Trace((), because("pair.image", index=index, name=operator.name, producer=producer.name))
    return _walk(model, producer, output, _Start(index, producer.name))


def _find_producer(operator: RuleOp, index: int, model: GroupedModel) -> tuple[RuleOp, int] | Reason:
    """Return the operator and the output that feed an input, or the reason why they are not known."""
    if index >= len(operator.inputs):
        return because("pair.input_not_listed", count=len(operator.inputs), name=operator.name, index=index)
    if not operator.inputs[index]:
        return because("pair.input_not_named", index=index, name=operator.name)
    parsed = parse_input(operator.inputs[index])
    if parsed is None:
        return because("pair.input_malformed", index=index, name=operator.name, entry=operator.inputs[index])
    producer = model.find(parsed[0], operator.graph_name)
    if producer is None:
        return because("pair.producer_not_in_rules", producer=parsed[0], index=index, name=operator.name)
    return producer, parsed[1]


def _walk(model: GroupedModel, operator: RuleOp, index: int, start: _Start) -> Trace:
    origins: list[OriginalTensor] = []
    through: list[str] = []
    seen: set[tuple[str, str, int]] = set()
    while True:
        position = (operator.graph_name, operator.name, index)
        if position in seen:
            return _doubtful_last(origins, because("pair.cycle", name=operator.name))
        seen.add(position)
        output = operator.output(index)
        if output is not None and output.origin_name and not _crosses_subgraph(operator):
            origins.append(replace(_origin(output, index, start, through), is_doubtful=operator.is_inserted))
        if not _forwards(operator):
            return _doubtful_last(origins, None if origins else _no_origin(operator, index, output))
        through.append(operator.name)
        if len(through) > _MAX_FORWARDS:
            return _doubtful_last(origins, because("pair.chain_too_long", name=operator.name, limit=_MAX_FORWARDS))
        found = _source(operator, index, model)
        if isinstance(found, Reason):
            return _doubtful_last(origins, because("pair.only_forwards", name=operator.name, problem=found))
        operator, index = found


def _doubtful_last(origins: list[OriginalTensor], problem: Reason | None) -> Trace:
    """Return the trace with doubtful origins last: the producer of an inserted operator knows what it passes on."""
    return Trace(tuple(sorted(origins, key=lambda origin: origin.is_doubtful)), problem)


def _forwards(operator: RuleOp) -> bool:
    if operator.op_type in FORWARDING_TYPES or _crosses_subgraph(operator):
        return True
    return operator.is_inserted and operator.op_type in _INSERTED_TYPES


def _crosses_subgraph(operator: RuleOp) -> bool:
    """Return whether its output is a tensor of another graph: input of a sub-graph, or result of a call of one."""
    return operator.parent_input is not None or len(operator.subgraphs) == 1


def _source(operator: RuleOp, index: int, model: GroupedModel) -> tuple[RuleOp, int] | Reason:
    """Return the output whose values an output of a forwarding operator has."""
    if operator.parent_input is not None:
        owner = model.owners.get(operator.graph_name)
        if owner is None:
            return because("pair.no_owner", graph=operator.graph_name)
        return _find_producer(owner, operator.parent_input, model)
    if not operator.subgraphs:
        return _find_producer(operator, index, model)
    end = model.ends.get(operator.subgraphs[0])
    if end is None:
        return because("pair.no_subgraph", graph=operator.subgraphs[0])
    return _find_producer(end, end.parent_outputs.index(index) if index in end.parent_outputs else index, model)


def _origin(output: OutputDesc, index: int, start: _Start, through: Sequence[str]) -> OriginalTensor:
    number = index if output.origin_index is None else output.origin_index
    origin = OriginalTensor(output.origin_name, number, output.layout, output.shape, ())
    step = _input_evidence(start, origin, through) if start.producer else _output_evidence(start, origin, through)
    return replace(origin, evidence=(*start.compiled_from, step))


def _output_evidence(start: _Start, origin: OriginalTensor, through: Sequence[str]) -> Reason:
    """Evidence for an output; the first operator of `through` is its own."""
    if not through:
        return because("pair.output_is", index=start.index, origin=str(origin))
    if len(through) == 1:
        return because("pair.output_forwards", index=start.index, origin=str(origin))
    in_order = _listed(tuple(reversed(through[1:])))
    return because("pair.output_forwards_through", index=start.index, origin=str(origin), through=in_order)


def _input_evidence(start: _Start, origin: OriginalTensor, through: Sequence[str]) -> Reason:
    if through:
        in_order = _listed(tuple(reversed(through)))
        return because("pair.input_through", index=start.index, origin=str(origin), through=in_order)
    if origin.name == start.producer:
        return because("pair.input_from", index=start.index, origin=str(origin))
    return because("pair.input_from_renamed", index=start.index, producer=start.producer, origin=str(origin))


def _no_origin(operator: RuleOp, index: int, output: OutputDesc | None) -> Reason:
    name, op_type = operator.name, operator.op_type
    if operator.is_constant:
        return because("pair.constant", Status.NO_COUNTERPART, name=name)
    if output is not None and output.problem is not None:
        return output.problem
    if output is not None:
        return because("pair.no_origin", index=index, name=name, op_type=op_type)
    if not operator.outputs:
        return because("pair.outputs_not_described", name=name, op_type=op_type)
    return because("pair.output_not_described", count=len(operator.outputs), name=name, index=index)


def _compiled_from(operator: RuleOp) -> tuple[Reason, ...]:
    originals = tuple(name for name in operator.originals if name)
    if originals in ((), (operator.name,)):
        return ()
    if len(originals) > 1:
        return (because("pair.fused_from", name=operator.name, originals=_listed(originals)),)
    return (because("pair.compiled_from", name=operator.name, original=originals[0]),)


def _listed(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a list; of a long one the first and the last, and the number of the others."""
    if len(names) <= _MAX_LISTED:
        return names
    half = _MAX_LISTED // 2
    return (*names[:half], f"({len(names) - 2 * half} more)", *names[-half:])
