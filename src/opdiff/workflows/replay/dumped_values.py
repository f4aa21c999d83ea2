"""Values of original tensors in an NPU dump: inputs and outputs of compiled operators, traced to their originals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.align import convert
from opdiff.align.pairs import align_codes
from opdiff.core import codes as elements
from opdiff.core.dtypes import FLOAT32, Kind
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.tensor import Declared, Slot, TensorKey, TensorSpec, file_safe_name
from opdiff.pair.by_rules import trace
from opdiff.pair.groups import NOT_RUN_TYPES
from opdiff.workflows.agreement import trusted_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opdiff.core.codes import AnyArray
    from opdiff.core.dump import DumpedOp
    from opdiff.core.graph import RuleOp
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape, Tensor
    from opdiff.pair.dump_index import DumpIndex
    from opdiff.pair.groups import GroupedModel
    from opdiff.workflows.golden.original import OriginalModel
    from opdiff.workflows.replay.original_types import OriginalType

    EarlierRun = Callable[[], DumpIndex | None]


class DumpedValue(Struct, frozen=True):
    """A dumped tensor that holds the values of an original tensor.

    Attributes:
        key: operator, slot and index of the dumped tensor.
        tensor: the dumped tensor.
        original: the tensor of the original model.
        declared: layout and shape of the original tensor, as the rules declare them.
    """

    key: TensorKey
    tensor: Tensor
    original: str
    declared: Declared

    def is_quantized(self, kind: OriginalType) -> bool:
        """Return whether the value has integers where the original model has floats."""
        return kind.dtype.kind is Kind.FLOAT and self.tensor.spec.dtype.kind is Kind.INTEGER

    def load(self, kind: OriginalType) -> AnyArray:
        """Return the numbers in the shape and element type of the original tensor.

        Raises:
            DumpError, ElementError: the tensor cannot be read, or contradicts itself.
            LayoutError: the value cannot be brought to this shape.
        """
        numbers = self.numbers(kind.shape)
        dtype = kind.dtype
        return elements.encode(numbers, dtype) if not dtype.is_native else numbers.astype(dtype.storage)

    def numbers(self, shape: Shape | None) -> AnyArray:
        """Return the numbers in a shape of the original layout; in their own logical shape if none is given.

        Raises:
            DumpError, ElementError: the tensor cannot be read, or contradicts itself.
            LayoutError: the value cannot be brought to this shape.
        """
        spec, codes = self.tensor.spec, trusted_codes(self.tensor)
        if shape is None:
            layout = self.declared.layout or "ND"
            return elements.decode(convert(codes, spec, layout).codes, spec.dtype)
        form: AnyArray = np.broadcast_to(np.zeros((), np.float32), shape)
        pair = align_codes((spec, TensorSpec(FLOAT32, shape, "ND")), (codes, form), self.declared)
        if pair.target.size != form.size:
            raise LayoutError(spec.layout, because("align.shapes_differ", target=pair.target.shape, golden=shape))
        return elements.decode(pair.target, spec.dtype).reshape(shape)


class DumpedValues:
    """Lookup of the values of original tensors in one dump; `earlier` reads the dump of the step before.

    Attributes:
        target: the dump.
        names: original operator of each tensor.
        owners: compiled operator of each original tensor that one computes.
        outputs: values of original tensors that are outputs of compiled operators.
    """

    def __init__(
        self, model: OriginalModel, rules: GroupedModel, target: DumpIndex, earlier: EarlierRun | None = None
    ) -> None:
        self._rules = rules
        self.target = target
        self._earlier = earlier
        self._tensors = _tensors_by_operator(model)
        self.names = {tensor: operator.name for operator in model.operators for tensor in operator.outputs}
        self.owners: dict[str, str] = {}
        self.outputs: dict[str, DumpedValue] = {}
        for operator in rules.in_sequence():
            self._add_outputs(operator)

    def is_run(self, operator: RuleOp) -> bool:
        """Return whether an operator runs on the device and was dumped."""
        return operator.op_type not in NOT_RUN_TYPES and self.target.find(operator.name) is not None

    def inputs_of(self, operator: RuleOp) -> dict[str, DumpedValue]:
        """Return the dumped inputs of an operator by original tensor, without inputs that an output has overwritten."""
        dump = self.target.find(operator.name)
        lost = overwritten_inputs(dump) if dump is not None else frozenset()
        return {value.original: value for value in self._values(operator, Slot.INPUT) if value.key.index not in lost}

    def outputs_of(self, operator: RuleOp) -> list[DumpedValue]:
        """Return the dumped outputs of an operator that are tensors of the original model."""
        return list(self._values(operator, Slot.OUTPUT))

    def integers_without_original(self, operator: RuleOp) -> tuple[TensorKey, Tensor] | None:
        """Return the first input of an operator if it holds integers that the original model does not have."""
        dump = self.target.find(operator.name)
        tensor = dump.inputs.get(0) if dump is not None else None
        if tensor is None or tensor.spec.dtype.kind is not Kind.INTEGER:
            return None
        is_known = self._original(operator, Slot.INPUT, 0) is not None
        return None if is_known else (TensorKey(operator.name, Slot.INPUT, 0), tensor)

    def earlier_outputs(self, operator: str) -> Iterator[tuple[TensorKey, Tensor]]:
        """Yield the dumped outputs of all operators that run before one."""
        for item in self._rules.in_sequence():
            if item.name == operator:
                return
            dump = self.target.find(item.name)
            for index, tensor in dump.outputs.items() if dump is not None else ():
                yield TensorKey(item.name, Slot.OUTPUT, index), tensor

    def earlier_run_of(self, key: TensorKey) -> Tensor | None:
        """Return an output of the same operator at the step or token before; `None` if that was not dumped."""
        if self._earlier is None:
            return None
        earlier = self._earlier()
        dump = earlier.find(key.op) if earlier is not None else None
        return dump.outputs.get(key.index) if dump is not None else None

    def problem_of(self, operator: RuleOp) -> Reason:
        """Return why no output of an operator is a tensor of the original model."""
        dump = self.target.find(operator.name)
        if dump is None:
            return because("replay.not_dumped")
        if dump.problem is not None:
            return dump.problem
        if not dump.outputs:
            return because("replay.no_outputs")
        traced = trace(self._rules, operator, Slot.OUTPUT, min(dump.outputs))
        if traced.origins:
            return because("replay.original_unknown", tensor=str(traced.origins[0]))
        return traced.problem or because("replay.not_dumped")

    def _add_outputs(self, operator: RuleOp) -> None:
        """Note which original tensors an operator computes, and the values of the tensors that were dumped."""
        if operator.is_constant or operator.is_inserted:
            return
        for index in range(len(operator.outputs)):
            tensor = self._original(operator, Slot.OUTPUT, index)
            if tensor is not None:
                self.owners.setdefault(tensor[0], operator.name)
        for value in self._values(operator, Slot.OUTPUT):
            self.outputs.setdefault(value.original, value)

    def _values(self, operator: RuleOp, slot: Slot) -> Iterator[DumpedValue]:
        dump = self.target.find(operator.name)
        for index, tensor in sorted(dump.tensors(slot).items()) if dump is not None else ():
            original = self._original(operator, slot, index)
            if original is not None:
                yield DumpedValue(TensorKey(operator.name, slot, index), tensor, *original)

    def _original(self, operator: RuleOp, slot: Slot, index: int) -> tuple[str, Declared] | None:
        """Return the original tensor of an input or output, and what the rules declare about it."""
        for origin in trace(self._rules, operator, slot, index).origins:
            tensors = self._tensors.get(file_safe_name(origin.name), ())
            if origin.index < len(tensors) and tensors[origin.index]:
                return tensors[origin.index], Declared(origin.layout, origin.shape)
        return None


class DumpOnly(DumpedValues):
    """All outputs of a dump, without an original model."""

    def __init__(self, rules: GroupedModel, target: DumpIndex, earlier: EarlierRun | None = None) -> None:
        self._rules = rules
        self.target = target
        self._earlier = earlier
        self._tensors = {}
        self.names = {}
        self.owners = {}
        keys = [
            (TensorKey(name, Slot.OUTPUT, index), tensor)
            for name, operator in target.dump.operators.items()
            for index, tensor in operator.outputs.items()
        ]
        self.outputs = {str(key): DumpedValue(key, tensor, "", Declared()) for key, tensor in keys}


def overwritten_inputs(dump: DumpedOp) -> frozenset[int]:
    """Return the inputs in whose memory the operator wrote an output: inputs are dumped after the operator ran."""
    outputs = {tensor.spec.address: tensor for tensor in dump.outputs.values() if tensor.spec.address}
    shared = [(index, tensor, outputs.get(tensor.spec.address or 0)) for index, tensor in dump.inputs.items()]
    return frozenset(index for index, tensor, output in shared if output is not None and _begins_alike(tensor, output))


def _begins_alike(tensor: Tensor, other: Tensor) -> bool:
    one, two = (np.ascontiguousarray(item.codes()).view(np.uint8).ravel() for item in (tensor, other))
    common = min(one.size, two.size)
    return bool(common and np.array_equal(one[:common], two[:common]))


def _tensors_by_operator(model: OriginalModel) -> Mapping[str, tuple[str, ...]]:
    """Return the tensors of each original operator by its name in files; inputs of the model are operators, too."""
    found: dict[str, tuple[str, ...]] = {file_safe_name(spec.name): (spec.name,) for spec in model.inputs}
    found |= {file_safe_name(operator.name): operator.outputs for operator in model.operators}
    return found | {file_safe_name(alias.name): (alias.tensor,) for alias in model.aliases}
