"""Pairs of two dumps with a rule file, group by group: group → trace of a tensor to its original → golden tensor."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.dump import DumpKind, side_tensor
from opdiff.core.pairing import OpLabel, Pairing, Unpaired
from opdiff.core.reasons import all_of, because
from opdiff.core.tensor import Declared, Slot, TensorKey, file_safe_name
from opdiff.pair.dump_index import Found, NameIndex, with_nearest
from opdiff.pair.groups import NOT_RUN_TYPES, Relation, is_inner_part
from opdiff.pair.trace import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.dump import DumpedOp
    from opdiff.core.graph import RuleOp
    from opdiff.core.pairing import PairingResult
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor
    from opdiff.pair.dump_index import DumpIndex
    from opdiff.pair.groups import Group, GroupedModel, OpKey
    from opdiff.pair.trace import OriginalTensor

    FindGolden = Callable[[OriginalTensor], Found | Reason]

_DEQUANT_SUFFIXES = ("_dequant_layer", "AscendDequant", "_dequant")


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
    """

    target: DumpIndex
    find_golden: FindGolden
    golden_kind: DumpKind
    model: GroupedModel
    quantized: frozenset[OpKey]
    every_operator: bool = False
    has_moved_strides: bool = False


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
    known = {file_safe_name(name): name for name in context.model.by_name}
    unknown = [dump for name, dump in context.target.dump.operators.items() if file_safe_name(name) not in known]
    names = NameIndex(known) if unknown else None
    start = max((group.index for group in context.model.groups), default=-1) + 1
    for index, dump in enumerate(unknown, start):
        nearest = names.nearest(file_safe_name(dump.name)) if names else None
        label = OpLabel(index, 0, dump.op_type, dump.name, "*")
        reason = with_nearest(because("pair.not_in_rules"), known[nearest] if nearest else None)
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
    reason = because("pair.no_file", side="target", name=operator.name)
    if operator.op_type in NOT_RUN_TYPES:
        return all_of((reason, because("pair.not_run", op_type=operator.op_type)))
    return context.target.with_hint(reason, operator.name)


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
    return because("pair.file_unreadable", side="target", name=operator.name, problem=dump.problem)


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
        if isinstance(found, Found):
            layout = "" if context.golden_kind is DumpKind.NPU else origin.layout
            declared = Declared(layout, origin.shape, context.has_moved_strides)
            evidence = all_of((*origin.evidence, *found.evidence))
            golden = side_tensor(found.key, found.tensor)
            return Pairing(label, side_tensor(key, tensor), golden, declared, evidence)
        reasons.append(because("pair.but", evidence=all_of(origin.evidence), problem=found))
    if traced.problem is not None:
        reasons.append(traced.problem)
    return Unpaired(label, key, side_tensor(key, tensor), all_of(reasons))


def _same_count(target: Tensor, golden: Tensor) -> bool:
    """Return whether two tensors have equally many elements without padding."""
    ours, theirs = ((tensor.spec.origin_shape or tensor.spec.shape) for tensor in (target, golden))
    return prod(ours) == prod(theirs)
