"""Pairing of a model with fusion against the same model without, by the original operators of both.

target operator ── its description ──► original tensor ── a description of the golden model ──► golden operator

Operators inserted by the compiler have no originals; they are compared with the tensor that they forward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.graph import parse_input
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot, TensorKey
from opdiff.pair.by_rules import FORWARDING_TYPES
from opdiff.pair.dump_index import Found, find_output, is_unreadable
from opdiff.pair.groups import Group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.graph import RuleOp
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import StatedTensor
    from opdiff.pair.by_rules import OriginalTensor
    from opdiff.pair.dump_index import DumpIndex
    from opdiff.pair.groups import GroupedModel

    TensorRef = tuple[str, int]


def relabel(model: GroupedModel, fusion_off: GroupedModel) -> GroupedModel:
    """Return the target's model with golden operators in place of the originals, as the report shows them."""
    owners = _find_owners(fusion_off)
    groups = tuple(
        Group(group.index, tuple(_relabel_operator(operator, owners) for operator in group.operators))
        for group in model.groups
    )
    return replace(model, groups=groups)


def _find_owners(fusion_off: GroupedModel) -> dict[str, str]:
    """Return the golden operator of each original; of several the last one to run, which has the final result."""
    operators = fusion_off.in_sequence()
    return {original: operator.name for operator in operators for original in operator.originals if original}


def _relabel_operator(operator: RuleOp, owners: Mapping[str, str]) -> RuleOp:
    if operator.originals == ("",):
        return operator
    names = dict.fromkeys(owners[original] for original in operator.originals if original in owners)
    return replace(operator, originals=tuple(names))


class FusionOffGolden:
    """A golden dump of the same model, compiled without fusion."""

    def __init__(self, golden: DumpIndex, fusion_off: GroupedModel) -> None:
        self._golden = golden
        self._owners = _find_owners(fusion_off)
        # Golden operator and output number by original operator and output number.
        self._outputs: dict[TensorRef, TensorRef] = {}
        # The golden operator that has all outputs of an original operator.
        self._whole: dict[str, str] = {}
        # Golden operators and input numbers that read a golden output, in the order of execution.
        self._readers: dict[TensorRef, list[TensorRef]] = {}
        self._stated: dict[TensorRef, StatedTensor | None] = {}
        for operator in fusion_off.in_sequence():
            self._stated |= {(operator.name, output.position): output.stated for output in operator.outputs}
            for index, entry in enumerate(operator.inputs):
                source = parse_input(entry)
                if source is not None:
                    self._readers.setdefault(source, []).append((operator.name, index))
            # The compiler numbers operators that it inserts: equal names in two models need not mean the same operator.
            if operator.op_type not in FORWARDING_TYPES or operator.has_originals:
                self._add_outputs(operator)

    def _add_outputs(self, operator: RuleOp) -> None:
        for output in operator.outputs:
            if not output.origin_name:
                continue
            if output.origin_index is None:
                self._whole[output.origin_name] = operator.name
            else:
                self._outputs[output.origin_name, output.origin_index] = operator.name, output.position

    def find(self, origin: OriginalTensor) -> Found | Reason:
        """Return the golden output that holds an original tensor, or the golden input that holds it."""
        output = self._find_output(origin)
        if output is None:
            return self._no_output(origin)
        found = find_output(self._golden, *output)
        if isinstance(found, Found):
            return replace(found, evidence=_golden_output(origin, output), stated=self._stated.get(output))
        return found if is_unreadable(found) else self._find_input(origin, output) or found

    def _find_output(self, origin: OriginalTensor) -> TensorRef | None:
        output = self._outputs.get((origin.name, origin.index))
        if output is None and origin.name in self._whole:
            return self._whole[origin.name], origin.index
        return output

    def _no_output(self, origin: OriginalTensor) -> Reason:
        owner = self._owners.get(origin.name)
        if owner is None:
            return because("pair.not_in_golden_model", name=origin.name)
        return because("pair.fused_in_golden_model", name=origin.name, owner=owner, origin=str(origin))

    def _find_input(self, origin: OriginalTensor, output: TensorRef) -> Found | None:
        """Return the input of the first reader of an output that was not dumped itself, as model inputs never are."""
        for name, index in self._readers.get(output, ()):
            operator = self._golden.find(name)
            if operator is not None and index in operator.inputs:
                read = because("pair.golden_reader", name=name, index=index)
                key = TensorKey(name, Slot.INPUT, index)
                evidence = (*_golden_output(origin, output), read)
                return Found(key, operator.inputs[index], evidence, self._stated.get(output))
        return None


def _golden_output(origin: OriginalTensor, output: TensorRef) -> tuple[Reason, ...]:
    name, index = output
    return () if (origin.name, origin.index) == output else (because("pair.golden_output", index=index, name=name),)
