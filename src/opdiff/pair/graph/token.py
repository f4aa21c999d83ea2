"""Pairing of one token: a GE dump with an FX dump, or with a GE dump without fusion.

Every target operator has rows: its tensors with their partners, or with the reason why there is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import OpLabel, Pairing, Unpaired
from opdiff.core.dump import GraphKind
from opdiff.core.reasons import Reason, all_of, because
from opdiff.core.tensor import Slot, file_safe_name
from opdiff.pair.graph.names import GraphNames, external_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.dump import GraphOp, SideTensor, TokenDump, Unit
    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.pair.graph.names import ResolvedOp

    Row = Pairing | Unpaired

_FX_TENSOR = re.compile(r"(.+)\.OUTPUT\.(\d{1,9})")
_CONVERSIONS = ("Cast", "TransData")
_POSITION_CONFIDENCE = 0.9
_PRODUCER_CONFIDENCE = 0.95
_INSERTED_CONFIDENCE = 0.6
# Types that carry data into and out of a graph and compute nothing.
_DATA_TYPES = frozenset({"Data", "Const", "ConstPlaceHolder", "RefData", "NetOutput", "Variable", "Constant"})


@dataclass(slots=True)
class _Token:
    """Golden side and graph of one token, and the golden operators that were paired."""

    unit: Unit
    golden: TokenDump
    graph: TextGraph
    names: GraphNames
    by_file_form: dict[str, GraphOp] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


class _Partner(NamedTuple):
    """A golden tensor, its operator, the evidence for the pair, and how sure that is."""

    tensor: SideTensor
    op: GraphOp
    evidence: Reason
    confidence: float


def pair_token(unit: Unit, target: TokenDump, golden: TokenDump | None, graph: TextGraph) -> tuple[Row, ...]:
    """Return the rows of one token: target operators as they were dumped, then golden operators without partner."""
    if golden is None:
        reason = because("pair.no_token")
        return tuple(_unpaired(unit, op, reason) for op in target.operators.values())
    token = _Token(unit, golden, graph, GraphNames(graph))
    token.by_file_form = {file_safe_name(name): op for name, op in golden.operators.items()}
    rows: list[Row] = []
    for op in target.operators.values():
        rows += _pair_op(op, token)
    rows += [_unpaired(unit, op, reason) for op, reason in target.duplicates]
    rows += _unused(token)
    return tuple(rows)


def fx_operator_names(graph: TextGraph) -> frozenset[str]:
    """Return the names of the FX operators in a graph."""
    names = {name for op in graph.operators.values() for name in op.output_names}
    return frozenset(match[1] for match in map(_FX_TENSOR.fullmatch, names) if match)


def _pair_op(op: GraphOp, token: _Token) -> Iterator[Row]:
    resolved = token.names.resolve(op)
    stack = token.graph.stacks.get(resolved.operators[0].name, "") if resolved else ""
    if op.problem:
        reason = because("pair.unreadable", side="target", problem=op.problem)
        yield _unpaired(token.unit, op, reason, stack)
    elif not op.inputs and not op.outputs:
        yield _unpaired(token.unit, op, because("pair.no_tensor"), stack)
    elif token.golden.kind is GraphKind.FX:
        yield from _pair_fx(op, resolved, token, stack)
    else:
        yield from _pair_ge(op, resolved, token, stack)


# Against FX


def _pair_fx(op: GraphOp, resolved: ResolvedOp | None, token: _Token, stack: str) -> Iterator[Row]:
    named = resolved is not None and any(any(part.output_names) for part in resolved.operators)
    if resolved is None or not named:
        yield from _without_fx(op, resolved, token, stack)
        return
    inputs = _fx_inputs(op, resolved, token)
    for tensor, partner in zip(op.inputs, inputs, strict=True):
        yield _row(op, tensor, partner, token, stack)
    for tensor in op.outputs:
        yield _row(op, tensor, _fx_output(tensor, resolved, token), token, stack)


def _without_fx(op: GraphOp, resolved: ResolvedOp | None, token: _Token, stack: str) -> Iterator[Row]:
    """Yield the rows of an operator that FX does not have: one that the compiler made, or a helper of another one."""
    if any(word in op.op_type for word in _CONVERSIONS) and op.inputs and op.outputs:
        yield from _pair_with_itself(op, token, stack)
        return
    if resolved is None:
        reason = because("pair.not_in_graph", name=op.name)
    elif resolved.operators[0].op_type in _DATA_TYPES:
        reason = because("pair.carries_data", name=op.name, op_type=resolved.operators[0].op_type)
    else:
        reason = because("pair.helper", name=op.name)
    yield _unpaired(token.unit, op, reason, stack)


def _fx_output(tensor: SideTensor, resolved: ResolvedOp, token: _Token) -> _Partner | Reason:
    last = resolved.operators[-1]
    name = last.output_names[tensor.key.index] if tensor.key.index < len(last.output_names) else ""
    if name:
        return _find_fx(name, resolved, token)
    # Not every output descriptor is marked: the outputs of one FX operator have the same order.
    known = next((match for text in last.output_names if (match := _FX_TENSOR.fullmatch(text))), None)
    unnamed = because("pair.no_fx_name_of_output", index=tensor.key.index, name=last.name)
    if known is None:
        return unnamed
    partner = _find_fx(f"{known[1]}.OUTPUT.{tensor.key.index}", resolved, token)
    if isinstance(partner, Reason) or not _fits(tensor, partner.tensor):
        return unnamed
    evidence = all_of((partner.evidence, because("pair.output_order")))
    return _Partner(partner.tensor, partner.op, evidence, _POSITION_CONFIDENCE)


def _find_fx(name: str, resolved: ResolvedOp, token: _Token, evidence: Reason | None = None) -> _Partner | Reason:
    match = _FX_TENSOR.fullmatch(name)
    if match is None:
        return because("pair.not_an_fx_name", tensor=name)
    op = token.golden.operators.get(match[1])
    if op is None:
        return because("pair.no_fx_operator", name=match[1])
    tensor = op.find_output(int(match[2]))
    if tensor is None:
        return because("pair.no_output_dumped", index=int(match[2]), name=match[1])
    evidence = evidence or because("pair.fx_name", tensor=name)
    if resolved.is_fused or resolved.confidence < 1:
        evidence = because("pair.matched", evidence=evidence, match=resolved.match, parts=resolved.names)
    return _Partner(tensor, op, evidence, resolved.confidence)


def _fx_inputs(op: GraphOp, resolved: ResolvedOp, token: _Token) -> list[_Partner | Reason]:
    """Return a partner for each input: by the names in the graph, else by the order of the FX operator's arguments."""
    sources = _sources(op, resolved)
    by_order = _by_order(op, resolved, token)
    found: list[_Partner | Reason] = []
    for number, tensor in enumerate(op.inputs):
        partner = _named_input(sources[number], resolved, token)
        if isinstance(partner, _Partner) and not _fits(tensor, partner.tensor):
            partner = because("pair.size_differs", evidence=partner.evidence)
        if isinstance(partner, Reason):
            partner = by_order.get(number) or partner
        found.append(partner)
    return found


def _sources(op: GraphOp, resolved: ResolvedOp) -> list[tuple[TextOp, int] | None]:
    """Return the input of the graph for each dumped input; `None` where the graph has fewer."""
    wanted = external_inputs(resolved.operators)
    if len(wanted) != len(op.inputs) and resolved.is_fused:
        # One tensor that several parts read may be an input once.
        once: dict[tuple[str, int], tuple[TextOp, int]] = {}
        for part, index in wanted:
            once.setdefault(part.inputs[index], (part, index))
        wanted = tuple(once.values()) if len(once) == len(op.inputs) else wanted
    return [wanted[number] if number < len(wanted) else None for number in range(len(op.inputs))]


def _named_input(source: tuple[TextOp, int] | None, resolved: ResolvedOp, token: _Token) -> _Partner | Reason:
    if source is None:
        return because("pair.fewer_inputs", parts=resolved.names)
    part, index = source
    own = part.input_names[index] if index < len(part.input_names) else ""
    name = own or token.graph.fx_name(*part.inputs[index])
    if not name:
        return because("pair.no_fx_name_of_input", index=index, name=part.name)
    if own:
        return _find_fx(name, resolved, token, because("pair.fx_name_of_input", tensor=name))
    producer, _ = part.inputs[index]
    return _find_fx(name, resolved, token, because("pair.fx_name_of_producer", tensor=name, producer=producer))


def _by_order(op: GraphOp, resolved: ResolvedOp, token: _Token) -> dict[int, _Partner]:
    """Return the tensor arguments of the (first) FX operator by the number of the input that each fits."""
    first = resolved.operators[0]
    match = next((match for name in first.output_names if (match := _FX_TENSOR.fullmatch(name))), None)
    fx = token.golden.operators.get(match[1]) if match else None
    if fx is None:
        return {}
    # An argument that cannot be read is not a tensor, but None, a type, a device or a string.
    arguments = [tensor for tensor in fx.inputs if not tensor.problem]
    found: dict[int, _Partner] = {}
    start = 0
    for number, tensor in enumerate(op.inputs):
        at = next((at for at in range(start, len(arguments)) if _fits(tensor, arguments[at])), None)
        if at is not None:
            evidence = because("pair.fx_argument", index=arguments[at].key.index, name=fx.name)
            found[number] = _Partner(arguments[at], fx, evidence, min(_POSITION_CONFIDENCE, resolved.confidence))
            start = at + 1
    return found


def _fits(target: SideTensor, golden: SideTensor) -> bool:
    """Whether both have the same number of elements, as far as it is known."""
    return golden.count is None or target.count is None or target.count == golden.count


# Against the same graph without fusion


def _pair_ge(op: GraphOp, resolved: ResolvedOp | None, token: _Token, stack: str) -> Iterator[Row]:
    same = token.golden.operators.get(op.name)
    if same is not None:
        yield from _pair_same(op, same, token, stack)
    elif resolved is not None and (resolved.is_fused or _find_ge(resolved.operators[0], token) is not None):
        yield from _pair_fused(op, resolved, token, stack)
    elif any(word in op.op_type for word in _CONVERSIONS) and op.inputs and op.outputs:
        yield from _pair_with_itself(op, token, stack)
    else:
        reason = because("pair.no_operator_dumped" if resolved else "pair.no_operator_anywhere", name=op.name)
        yield _unpaired(token.unit, op, reason, stack)


def _pair_same(op: GraphOp, golden: GraphOp, token: _Token, stack: str) -> Iterator[Row]:
    for tensor in (*op.inputs, *op.outputs):
        others = golden.inputs if tensor.key.slot is Slot.INPUT else golden.outputs
        other = next((other for other in others if other.key.index == tensor.key.index), None)
        partner: _Partner | Reason
        if golden.problem:
            partner = because("pair.unreadable", side="golden", problem=golden.problem)
            token.used.add(golden.name)
        elif other is None:
            code = "pair.no_input_dumped" if tensor.key.slot is Slot.INPUT else "pair.no_output_dumped"
            partner = because(code, index=tensor.key.index, name=op.name)
        else:
            partner = _Partner(other, golden, because("pair.same_name_in_dumps"), 1.0)
        yield _row(op, tensor, partner, token, stack)


def _pair_fused(op: GraphOp, resolved: ResolvedOp, token: _Token, stack: str) -> Iterator[Row]:
    for tensor, source in zip(op.inputs, _sources(op, resolved), strict=True):
        yield _row(op, tensor, _ge_input(source, resolved, token), token, stack)
    last = next((found for part in reversed(resolved.operators) if (found := _find_ge(part, token))), None)
    is_last = last is not None and last is _find_ge(resolved.operators[-1], token)
    for tensor in op.outputs:
        made = last.find_output(tensor.key.index) if last is not None and is_last else None
        partner: _Partner | Reason = because("pair.no_output_dumped", index=tensor.key.index, name=resolved.names[-1])
        if made is not None and last is not None:
            evidence = because("pair.last_of", parts=resolved.names, match=resolved.match)
            partner = _Partner(made, last, evidence, resolved.confidence)
        yield _row(op, tensor, partner, token, stack)


def _ge_input(source: tuple[TextOp, int] | None, resolved: ResolvedOp, token: _Token) -> _Partner | Reason:
    """Return the input of the part that reads it, else the output of its producer."""
    if source is None:
        return because("pair.fewer_inputs", parts=resolved.names)
    part, index = source
    own = _find_ge(part, token)
    if own is not None and index < len(own.inputs):
        evidence = because(
            "pair.input_of_part", index=index, name=part.name, parts=resolved.names, match=resolved.match
        )
        return _Partner(own.inputs[index], own, evidence, resolved.confidence)
    producer, output = part.inputs[index]
    made_by = token.by_file_form.get(file_safe_name(producer))
    made = made_by.find_output(output) if made_by is not None else None
    if made is None or made_by is None:
        return because("pair.neither_dumped", index=index, name=part.name, output=output, producer=producer)
    evidence = because("pair.output_of_producer", index=output, producer=producer, name=part.name, match=resolved.match)
    return _Partner(made, made_by, evidence, min(resolved.confidence, _PRODUCER_CONFIDENCE))


def _find_ge(part: TextOp, token: _Token) -> GraphOp | None:
    found = token.by_file_form.get(file_safe_name(part.name))
    return None if found is None or found.problem else found


# Both


def _pair_with_itself(op: GraphOp, token: _Token, stack: str) -> Iterator[Row]:
    """Yield the rows of an inserted conversion, which keeps the values: each output against the input of its number."""
    for tensor in op.outputs:
        source: Sequence[SideTensor] = [other for other in op.inputs if other.key.index == tensor.key.index]
        partner: _Partner | Reason = because("pair.no_own_input", name=op.name, index=tensor.key.index)
        if source:
            evidence = because("pair.inserted", op_type=op.op_type, index=tensor.key.index)
            partner = _Partner(source[0], op, evidence, _INSERTED_CONFIDENCE)
        yield _row(op, tensor, partner, token, stack)


def _row(op: GraphOp, tensor: SideTensor, partner: _Partner | Reason, token: _Token, stack: str) -> Row:
    if isinstance(partner, Reason):
        return _unpaired(token.unit, op, partner, stack, tensor)
    token.used.add(partner.op.name)
    golden = partner.tensor
    if golden.problem:
        reason = because("pair.unreadable", side="golden", problem=golden.problem)
        return _unpaired(token.unit, op, reason, stack, tensor)
    return Pairing(
        OpLabel(0, 0, op.op_type, op.name, partner.op.name),
        tensor,
        golden,
        evidence=partner.evidence,
        confidence=partner.confidence,
        unit=token.unit,
        golden_type=partner.op.op_type,
        timestamp=op.timestamp,
        stack=stack,
    )


def _unpaired(
    unit: Unit,
    op: GraphOp,
    reason: Reason,
    stack: str = "",
    tensor: SideTensor | None = None,
    *,
    golden_only: bool = False,
) -> Unpaired:
    tensors = (*op.inputs, *op.outputs) if tensor is None else (tensor,)
    return Unpaired(
        OpLabel(0, 0, op.op_type, op.name, op.name if golden_only else "*"),
        tensor.key if tensor is not None else None,
        tensor,
        reason,
        unit,
        op.path,
        op.timestamp,
        stack,
        golden_only,
        has_data=not any(each.stats is not None for each in tensors),
    )


def _unused(token: _Token) -> list[Row]:
    """Return a row for each golden operator without partner, so that the report covers the whole golden dump."""
    return [
        _unpaired(token.unit, op, _unused_reason(op), golden_only=True)
        for name, op in token.golden.operators.items()
        if name not in token.used
    ]


def _unused_reason(op: GraphOp) -> Reason:
    unused = because("pair.golden_unused")
    return all_of((unused, because("pair.unreadable", side="golden", problem=op.problem))) if op.problem else unused
