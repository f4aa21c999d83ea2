"""Operators of a quantized offline model by their names alone, where only the quantization file is given.

    name of a dumped operator ── split into known names ──► parts ── quantization file ──► their originals

The compiler joins the names of the operators that it fuses: `c1c1_dequant_layerc1_relu`. It may also fuse an operator
without a trace in the name, so that a name alone does not tell what an output holds. The output of a fused operator is
the tensor of its parts that other dumped operators read; if none reads it directly, the output has no original.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.graph import OutputDesc, RuleOp, parse_input
from opdiff.core.reasons import Status, because
from opdiff.core.tensor import file_safe_name
from opdiff.pair.groups import group_key, index_groups
from opdiff.pair.quantization import is_dequantizing, is_quantized_type, is_quantizing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from opdiff.core.dump import Dump, DumpedOp
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.pair.groups import GroupedModel

    Port = tuple[str, int]

# Layers of Caffe and operators of ONNX and TensorFlow, in lower case, that pass on the values of their input.
_FORWARDING = frozenset({"dropout", "flatten", "identity", "reshape", "squeeze", "unsqueeze"})
# Inputs of models.
_SOURCES = frozenset({"Data", "Input", "Placeholder"})
# Types that no compiler fuses into the operator that reads them.
_ACTIVATIONS = frozenset({
    "bnll", "clip", "elu", "gelu", "hardsigmoid", "hardswish", "leakyrelu", "mish", "prelu", "relu", "relu6", "selu",
    "sigmoid", "silu", "softplus", "swish", "tanh",
})  # fmt: skip
_MAX_READINGS = 64
_READINGS_SHOWN = 2
# Indices of inputs and outputs come from file names, which are not trusted.
_MAX_PORTS = 1024


class NamedModel(Struct, frozen=True):
    """Operators of the target, and the reasons why its other operators are not known, by their names in file names."""

    model: GroupedModel
    problems: Mapping[str, Reason]


def name_operators(quant: GroupedModel, target: Dump, golden: Dump) -> NamedModel:
    """Return the target's operators with the originals that the quantization file and their names tell."""
    known = _known_operators(quant, golden)
    dumped = frozenset(map(file_safe_name, target.operators))
    readings = {name: _valid_readings(name, known, quant, dumped) for name in target.operators}
    claims = Counter(part.name for found in readings.values() if len(found) == 1 for part in found[0])
    parts = {
        name: found[0]
        for name, found in readings.items()
        if len(found) == 1 and all(claims[part.name] == 1 for part in found[0])
    }
    problems = {name: _problem(name, found) for name, found in readings.items() if name not in parts}
    grouped: dict[str, list[RuleOp]] = {}
    for operator in _Naming(quant, known, parts, target, golden).operators():
        grouped.setdefault(group_key(operator), []).append(operator)
    return NamedModel(index_groups(grouped.values()), problems)


def _known_operators(quant: GroupedModel, golden: Dump) -> dict[str, RuleOp]:
    """Return the operators that a name may consist of, by their names as in file names; equal ones are left out.

    They are those of the quantization file, and golden operators of which the file says nothing.
    """
    listed = list(quant.operators())
    names = Counter(file_safe_name(operator.name) for operator in listed)
    known = {name: op for op in listed if names[name := file_safe_name(op.name)] == 1}
    mentioned = names.keys() | {file_safe_name(original) for op in listed for original in op.originals}
    for name, dumped in golden.operators.items():
        if file_safe_name(name) not in mentioned:
            outputs = tuple(OutputDesc(index, origin_name=name, origin_index=index) for index in dumped.outputs)
            known[file_safe_name(name)] = RuleOp(name, "", outputs=outputs, originals=(name,), has_originals=True)
    return known


# Names, split into known names


def _valid_readings(
    name: str, known: Mapping[str, RuleOp], quant: GroupedModel, dumped: Collection[str]
) -> list[tuple[RuleOp, ...]]:
    """Return the ways to split a name that the network allows.

    An operator that was dumped by itself is not a part of another one, and parts read each other.
    """
    readings = [tuple(known[part] for part in reading) for reading in _readings(file_safe_name(name), known)]
    if len(readings) == _MAX_READINGS:
        return readings
    return [parts for parts in readings if len(parts) == 1 or _may_be_fused(parts, quant, dumped)]


def _readings(name: str, known: Collection[str]) -> list[tuple[str, ...]]:
    """Return the ways to split a name into known names, at most `_MAX_READINGS`."""
    lengths = {len(part) for part in known}
    tails: dict[int, list[tuple[str, ...]]] = {len(name): [()]}
    for start in range(len(name) - 1, -1, -1):
        ends = [end for length in lengths if (end := start + length) in tails and name[start:end] in known]
        ways = [(name[start:end], *rest) for end in ends for rest in tails[end]]
        if ways:
            tails[start] = ways[:_MAX_READINGS]
    return tails.get(0, [])


def _may_be_fused(parts: Sequence[RuleOp], quant: GroupedModel, dumped: Collection[str]) -> bool:
    """Return whether parts can be one operator: each but the first reads an earlier one, or its inputs are unknown."""
    names = [part.name for part in parts]
    if len(set(names)) < len(names) or any(file_safe_name(name) in dumped for name in names):
        return False
    return all(
        not part.inputs or _reads(part, names[:position], quant, dumped) for position, part in enumerate(parts[1:], 1)
    )


def _reads(operator: RuleOp, names: Collection[str], quant: GroupedModel, dumped: Collection[str]) -> bool:
    """Return whether an operator reads one of these, directly or through operators that were not dumped."""
    pending, seen = [operator], {operator.name}
    while pending:
        for producer, _ in _producers(pending.pop()):
            if producer in names:
                return True
            found = quant.by_name.get(producer)
            if found and producer not in seen and file_safe_name(producer) not in dumped:
                seen.add(producer)
                pending.append(found)
    return False


def _producers(operator: RuleOp) -> Iterator[Port]:
    return (port for entry in operator.inputs if (port := parse_input(entry)))


def _problem(name: str, readings: Sequence[tuple[RuleOp, ...]]) -> Reason:
    """Return why the parts of an operator are not known."""
    if not readings:
        return because("pair.not_named", Status.NOT_IN_QUANT_RULES)
    shown = tuple(" + ".join(part.name for part in parts) for parts in readings[:_READINGS_SHOWN])
    return because("pair.name_ambiguous", Status.UNCLEAR_NAME, name=name, readings=shown)


# The network of the named operators


class _Fate(Enum):
    """Where the tensor of a part goes: to other parts, to other dumped operators, or it is not known."""

    INSIDE = auto()
    READ = auto()
    UNKNOWN = auto()


class _Naming:
    """Operators of the quantization file and of the golden dump, merged where a dumped name joins them."""

    def __init__(
        self,
        quant: GroupedModel,
        known: Mapping[str, RuleOp],
        parts: Mapping[str, tuple[RuleOp, ...]],
        target: Dump,
        golden: Dump,
    ) -> None:
        self._quant = quant
        self._parts = parts
        self._target = target
        self._golden = golden
        # The operator of the target that has an operator as a part.
        self._owners = {
            part.name: part.name if len(joined) == 1 else name for name, joined in parts.items() for part in joined
        }
        # Readers of each output, by operator and index.
        self._readers: dict[str, dict[int, list[RuleOp]]] = {}
        for operator in quant.operators():
            for producer, index in _producers(operator):
                self._readers.setdefault(producer, {}).setdefault(index, []).append(operator)
        # Outputs of fused operators, by the outputs of their parts.
        self._ports: dict[Port, str] = {}
        self._is_complete = all(producer in quant.by_name for producer in self._readers)
        loose = [op for op in known.values() if not (op.inputs or op.name in self._owners or op.op_type in _SOURCES)]
        self._loose_shapes = set().union(*(self._golden_shapes(output) for op in loose for output in op.outputs))

    def operators(self) -> list[RuleOp]:
        """Return the operators in the order of the quantization file, each where its first part is; others last."""
        merged = {parts[0].name: self._merged(name, parts) for name, parts in self._parts.items()}
        placed = []
        for operator in self._quant.operators():
            if operator.name in merged:
                placed.append(merged.pop(operator.name))
            elif operator.name not in self._owners:
                placed.append(self._absent(operator))
        previous = ""
        for parts in self._parts.values():
            first = parts[0].name
            if first in merged:
                # Nothing is known about its inputs: it is taken for a reader of the operator before it.
                operator, guessed = merged[first], (f"{previous}:0",) if previous else ()
                placed.append(replace(operator, inputs=(*operator.inputs, *guessed)))
            previous = self._owners[first]
        return [replace(operator, inputs=tuple(map(self._entry, operator.inputs))) for operator in placed]

    def _entry(self, entry: str) -> str:
        """Return an input with the operator of the target that has its producer as a part."""
        port = parse_input(entry)
        owner = self._owners.get(port[0]) if port else None
        if port is None or owner is None or owner == port[0]:
            return entry
        return self._ports.get(port, f"{owner}:0")

    def _merged(self, name: str, parts: Sequence[RuleOp]) -> RuleOp:
        if len(parts) == 1 and parts[0].name in self._quant.by_name:
            return replace(parts[0], outputs=self._outputs_of_one(name, parts[0]))
        dumped = self._target.operators[name]
        originals = dict.fromkeys(original for part in parts for original in part.originals if original)
        return RuleOp(
            self._owners[parts[0].name],
            dumped.op_type,
            sequence=max(part.sequence for part in parts),
            inputs=_joined_inputs(parts, dumped),
            outputs=self._outputs_of_one(name, parts[0]) if len(parts) == 1 else self._outputs_of_fused(name, parts),
            originals=tuple(originals),
            has_originals=True,
            graph_name=next((part.graph_name for part in parts if part.graph_name), ""),
        )

    # Outputs

    def _outputs_of_one(self, name: str, part: RuleOp) -> tuple[OutputDesc, ...]:
        """Return the outputs of an operator that was dumped under its own name, with the originals that are certain."""
        has_others = len(self._target.operators[name].outputs) > max(len(part.outputs), 1)
        problem = because("pair.output_not_named", Status.UNCLEAR_NAME, name=part.name)
        return tuple(
            output
            if self._is_read(part, output, (part,), has_others=has_others)
            else replace(output, origin_name="", problem=problem)
            for output in part.outputs
        )

    def _outputs_of_fused(self, name: str, parts: Sequence[RuleOp]) -> tuple[OutputDesc, ...]:
        """Return the outputs of a fused operator; of several that are not quantized the order is not known.

        The latter follow the dumped ones, for the operators that read them.
        """
        dumped = self._target.operators[name].outputs
        placed = [self._unknown_output(name, index) for index in range(min(max(dumped, default=0) + 1, _MAX_PORTS))]
        ends = [
            (part, output)
            for part in parts
            for output in part.outputs or (OutputDesc(0),)
            if self._is_read(part, output, parts)
        ]
        floats = [index for index, tensor in dumped.items() if not is_quantized_type(tensor.spec.dtype)]
        is_certain = len(floats) == sum(not is_quantizing(part) for part, _ in ends) == 1
        for part, output in ends:
            position = floats[0] if is_certain and not is_quantizing(part) else len(placed)
            self._ports[part.name, output.position] = f"{name}:{position}"
            number = output.position if output.origin_index is None else output.origin_index
            placed[position : position + 1] = [replace(output, position=position, origin_index=number)]
        return tuple(placed)

    def _unknown_output(self, name: str, index: int) -> OutputDesc:
        tensor = self._target.operators[name].outputs.get(index)
        if tensor is not None and is_quantized_type(tensor.spec.dtype):
            return OutputDesc(index, problem=because("pair.quantized_values", name=f"{name}:output:{index}"))
        return OutputDesc(index, problem=because("pair.output_not_named", Status.UNCLEAR_NAME, name=name))

    def _is_read(self, part: RuleOp, output: OutputDesc, parts: Sequence[RuleOp], *, has_others: bool = False) -> bool:
        """Return whether dumped operators read this output of a part as it is, or it is an output of the model.

        If the operator `has_others`, one of them may be what an absent operator makes of this output.
        """
        readers = self._readers.get(part.name, {})
        if len(part.outputs) > 1:
            readers = {index: found for index, found in readers.items() if index == output.position}
        if not readers:
            return part is parts[-1] and self._is_last(part, output)
        members = {each.name for each in parts}
        fates = [self._fates(found, members, {part.name}) for found in readers.values()]
        return all(_Fate.READ in found and not (has_others and _Fate.UNKNOWN in found) for found in fates)

    def _fates(self, readers: Sequence[RuleOp], members: Collection[str], seen: set[str]) -> set[_Fate]:
        found = set()
        for reader in readers:
            if reader.name in members:
                found.add(_Fate.INSIDE)
            # If the producer quantized its output, too, the output would not be floats.
            elif reader.name in self._owners or is_quantizing(reader):
                found.add(_Fate.READ)
            elif reader.name not in seen:
                seen.add(reader.name)
                found |= self._fates_behind(reader, members, seen)
        return found

    def _fates_behind(self, absent: RuleOp, members: Collection[str], seen: set[str]) -> set[_Fate]:
        """Return the fates of a tensor that an operator reads which was not dumped."""
        is_forwarding = absent.op_type.lower() in _FORWARDING
        readers = self._readers.get(absent.name)
        if readers is None:
            is_last = is_forwarding and all(self._is_last(absent, output) for output in absent.outputs)
            return {_Fate.READ if is_last else _Fate.UNKNOWN}
        found = set().union(*(self._fates(each, members, seen) for each in readers.values()))
        return found if is_forwarding or found == {_Fate.INSIDE} else {_Fate.UNKNOWN}

    def _is_last(self, part: RuleOp, output: OutputDesc) -> bool:
        """Return whether an output without readers is an output of the model.

        If the file does not list all operators, the compiler may have fused one that reads it: any operator of the same
        shape whose place in the network is not known, or the activation after a quantized layer.
        """
        is_followed = not self._is_complete and is_dequantizing(part)
        return not is_followed and self._golden_shapes(output).isdisjoint(self._loose_shapes)

    def _golden_shapes(self, output: OutputDesc) -> set[Shape]:
        """Return the shapes of the golden operator of an output."""
        name, found = output.origin_name, self._golden.operators
        origin = found.get(name) or found.get(file_safe_name(name))
        return {tensor.spec.shape for tensor in origin.outputs.values()} if origin else set()

    # Operators that were not dumped

    def _absent(self, operator: RuleOp) -> RuleOp:
        """Return an operator that was not dumped, without originals if its readers may read a tensor before it."""
        if self._is_settled(operator, set()):
            return operator
        problem = because("pair.output_not_named", Status.UNCLEAR_NAME, name=operator.name)
        outputs = (replace(output, origin_name="", problem=problem) for output in operator.outputs)
        return replace(operator, outputs=tuple(outputs))

    def _is_settled(self, absent: RuleOp, seen: set[str]) -> bool:
        """Return whether an operator was not fused into those that read it."""
        op_type = absent.op_type.lower()
        if not absent.inputs or op_type in _ACTIVATIONS:
            return True
        if op_type not in _FORWARDING or absent.name in seen:
            readers = self._readers.get(absent.name, {})
            return all(is_quantizing(reader) for found in readers.values() for reader in found)
        seen.add(absent.name)
        producers = (self._quant.by_name.get(name) for name, _ in _producers(absent))
        return all(op and (op.name in self._owners or self._is_settled(op, seen)) for op in producers)


def _joined_inputs(parts: Sequence[RuleOp], dumped: DumpedOp) -> tuple[str, ...]:
    """Return the inputs of a fused operator: those of its first part come first.

    The positions of the others are not known. They follow the dumped ones, for the graph.
    """
    members = {part.name for part in parts}
    outside = [
        [entry for entry in part.inputs if (port := parse_input(entry)) and port[0] not in members] for part in parts
    ]
    own = outside[0] if len(outside[0]) == len(parts[0].inputs) else []
    others = [entry for entries in outside[bool(own) :] for entry in entries]
    count = min(max(dumped.inputs, default=-1) + 1, _MAX_PORTS)
    return (*own, *[""] * (count - len(own)), *others)
