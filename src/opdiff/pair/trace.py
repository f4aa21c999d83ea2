"""From a tensor of the target to the tensor of the original model that it should equal.

The description of an output declares its origin. An input is the output of its producer. Cast and TransData
change the storage and not the values, so that their output may be compared with their input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.graph import parse_input
from opdiff.core.reasons import Reason, because
from opdiff.core.tensor import Slot
from opdiff.pair.groups import reads_image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.graph import OutputDesc, RuleOp
    from opdiff.core.tensor import Shape
    from opdiff.pair.groups import GroupedModel

FORWARDING_TYPES = frozenset({"Cast", "TransData"})
"""Operator types whose output has the values of their input."""

# Operators that are walked through. Compilers insert a few in a row; a longer chain is not credible, and every row
# would repeat it.
_MAX_FORWARDS = 32
# Names that the evidence lists.
_MAX_LISTED = 8
# Types that compilers insert, whose output has the values of their input in the same order.
_INSERTED_TYPES = FORWARDING_TYPES | {"Reshape", "SqueezeV2", "UnsqueezeV2"}


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
    found = find_producer(operator, index, model)
    if isinstance(found, Reason):
        return Trace((), found)
    producer, output = found
    if reads_image(operator, producer):
        return Trace((), because("pair.image", index=index, name=operator.name, producer=producer.name))
    return _walk(model, producer, output, _Start(index, producer.name))


def find_producer(operator: RuleOp, index: int, model: GroupedModel) -> tuple[RuleOp, int] | Reason:
    """Return the operator and the output that feed an input, or the reason why they are not known."""
    if index >= len(operator.inputs):
        return because("pair.input_not_listed", count=len(operator.inputs), name=operator.name, index=index)
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
        return find_producer(owner, operator.parent_input, model)
    if not operator.subgraphs:
        return find_producer(operator, index, model)
    end = model.ends.get(operator.subgraphs[0])
    if end is None:
        return because("pair.no_subgraph", graph=operator.subgraphs[0])
    return find_producer(end, end.parent_outputs.index(index) if index in end.parent_outputs else index, model)


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
        return because("pair.constant", name=name)
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
