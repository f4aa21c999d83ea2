"""Rows of the report, group by group, for dumps that a rule file connects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import OpLabel, Pairing, Unpaired
from opdiff.core.dump import DumpKind, with_data
from opdiff.core.tensor import Slot, TensorKey, file_form
from opdiff.pair.fusion import Relation, is_inner
from opdiff.pair.golden import Found
from opdiff.pair.names import NameIndex
from opdiff.pair.trace import trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.dump import DumpedOp
    from opdiff.core.graph import RuleOp
    from opdiff.core.tensor import Tensor
    from opdiff.pair.fusion import Group, Network, OpKey
    from opdiff.pair.golden import GoldenSide
    from opdiff.pair.names import DumpIndex

    Row = Pairing | Unpaired

_DEQUANT_ENDS = ("_dequant_layer", "AscendDequant", "_dequant")
# These hold values or mark the borders of a model; no device runs them, so they leave no files.
_NEVER_RUN = frozenset({"Const", "Constant", "Data", "NetOutput", "RefData", "Variable"})


class Sides(NamedTuple):
    """Everything that rows are made from.

    Attributes:
        target: the target's operators.
        golden: finds golden tensors.
        golden_kind: who wrote the golden dump.
        network: the rules.
        quantized: operators that work on quantized numbers; they get no rows.
        every_operator: give rows to all operators, also to those that say nothing about the accuracy.
    """

    target: DumpIndex
    golden: GoldenSide
    golden_kind: DumpKind
    network: Network
    quantized: frozenset[OpKey]
    every_operator: bool = False


def iter_rows(sides: Sides) -> Iterator[Row]:
    """The rows of all groups, in their order."""
    for group in sides.network.groups:
        if sides.every_operator:
            for operator in group.operators:
                yield from _operator_rows(sides, group, operator)
            continue
        operators = group.operators
        if sides.quantized:
            operators = tuple(operator for operator in operators if operator.key not in sides.quantized)
        if operators:
            yield from _group_rows(sides, group, operators)


def iter_unknown_rows(sides: Sides) -> Iterator[Row]:
    """A row for each operator that was dumped and that the rules do not have, numbered behind the groups."""
    known = {file_form(name): name for name in sides.network.by_name}
    unknown = [dump for name, dump in sides.target.dump.operators.items() if file_form(name) not in known]
    names = NameIndex(known) if unknown else None
    start = max((group.index for group in sides.network.groups), default=-1) + 1
    for index, dump in enumerate(unknown, start):
        nearest = names.nearest(file_form(dump.name)) if names else None
        hint = f"; the nearest name is {known[nearest]}" if nearest else ""
        label = OpLabel(index, 0, dump.op_type, dump.name, "*")
        yield Unpaired(label, None, None, f"the rule file does not have this operator{hint}")


def _group_rows(sides: Sides, group: Group, operators: tuple[RuleOp, ...]) -> Iterator[Row]:
    relation = group.relation
    if relation is Relation.L1_FUSION:
        return _l1_rows(sides, group, operators)
    if relation in (Relation.ONE_TO_ONE, Relation.MANY_TO_ONE):
        return _operator_rows(sides, group, operators[0])
    return _split_rows(sides, group, operators)


def _split_rows(sides: Sides, group: Group, operators: tuple[RuleOp, ...]) -> Iterator[Row]:
    """Rows of every operator that was dumped and is not an inner one; one row when there is none."""
    reasons = []
    reached = []
    for operator in operators:
        if is_inner(operator):
            reasons.append(f"{operator.name} is an inner part of a split operator")
        elif sides.target.find(operator.name) is None:
            reasons.append(_no_file(sides, operator))
        else:
            reached.append(operator)
    if not reached:
        yield Unpaired(_label(group, operators[0]), None, None, "; ".join(reasons))
    for operator in reached:
        yield from _operator_rows(sides, group, operator)


def _l1_rows(sides: Sides, group: Group, operators: tuple[RuleOp, ...]) -> Iterator[Row]:
    """Rows of the first and the last operator that ran; those between work on parts of the same tensors."""
    dumped = [(dump.timestamp, operator) for operator in operators if (dump := sides.target.find(operator.name))]
    if not dumped:
        reason = "; ".join(_no_file(sides, operator) for operator in operators)
        yield Unpaired(_label(group, operators[0]), None, None, reason)
        return
    ran = [operator for _, operator in sorted(dumped, key=lambda item: item[0])]
    if ran[0].originals != ran[-1].originals:
        yield from _operator_rows(sides, group, ran[0])
    yield from _operator_rows(sides, group, ran[-1])


def _operator_rows(sides: Sides, group: Group, operator: RuleOp) -> Iterator[Row]:
    label = _label(group, operator)
    dump = sides.target.find(operator.name)
    slots = _compared_slots(operator)
    reason = _no_file(sides, operator) if dump is None else _no_tensors(operator, slots, dump)
    if dump is None or reason:
        yield Unpaired(label, None, None, reason)
        return
    for slot in slots:
        for index, tensor in sorted(dump.tensors(slot).items()):
            yield _tensor_row(sides, label, (operator, slot, index), tensor)
    if dump.problem:
        # Where each tensor has its own file, one that is torn does not cost the others.
        yield Unpaired(label, None, None, _unreadable(operator, dump))


def _label(group: Group, operator: RuleOp) -> OpLabel:
    return OpLabel(group.index, operator.sequence, operator.op_type, group.target_names, group.golden_names)


def _no_file(sides: Sides, operator: RuleOp) -> str:
    reason = f"the target has no file of {operator.name}"
    if operator.op_type in _NEVER_RUN:
        return f"{reason}; operators of type {operator.op_type} do not run on a device"
    return reason + sides.target.hint(operator.name)


def _no_tensors(operator: RuleOp, slots: tuple[Slot, ...], dump: DumpedOp) -> str:
    """Why an operator that was dumped has nothing to compare; empty when it has."""
    for slot in slots:
        if dump.tensors(slot):
            return ""
    if dump.problem:
        return _unreadable(operator, dump)
    if not dump.inputs and not dump.outputs:
        return f"the target's file of {operator.name} holds no tensors"
    wanted = " or ".join(f"{slot}s" for slot in slots)
    return f"of {operator.name} only {wanted} can be compared, and the target's file holds none"


def _unreadable(operator: RuleOp, dump: DumpedOp) -> str:
    return f"the target's file of {operator.name} cannot be read: {dump.problem}"


def _compared_slots(operator: RuleOp) -> tuple[Slot, ...]:
    """The sides of an operator on which its numbers are not quantized."""
    is_dequant = operator.op_type == "AscendDequant" or operator.name.endswith(_DEQUANT_ENDS)
    inputs = () if is_dequant else (Slot.INPUT,)
    return inputs if operator.op_type == "AscendQuant" else (*inputs, Slot.OUTPUT)


def _tensor_row(sides: Sides, label: OpLabel, place: tuple[RuleOp, Slot, int], tensor: Tensor) -> Row:
    operator, slot, index = place
    key = TensorKey(operator.name, slot, index)
    traced = trace(sides.network, operator, slot, index)
    reasons = []
    for origin in traced.origins:
        found = sides.golden.find(origin)
        if isinstance(found, Found):
            layout = "" if sides.golden_kind is DumpKind.NPU else origin.layout
            sides_of = with_data(key, tensor), with_data(found.key, found.tensor)
            return Pairing(label, *sides_of, layout, origin.shape, origin.why + found.why)
        reasons.append(f"{origin.why}, but {found}")
    return Unpaired(
        label, key, with_data(key, tensor), "; ".join([*reasons, traced.problem] if traced.problem else reasons)
    )
