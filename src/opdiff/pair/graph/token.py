"""Which tensors of one token must be equal: the graph engine's dump against FX, or against itself without fusion.

Every target operator gives rows: its tensors with their partners, or with the reason why there is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import OpLabel, Pairing, Unpaired
from opdiff.core.graphmode import GraphKind
from opdiff.core.tensor import Slot
from opdiff.pair.graph.names import GraphNames, external_inputs, safe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.comparison import Unit
    from opdiff.core.dump import SideTensor
    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.core.graphmode import GraphOp, TokenDump
    from opdiff.pair.graph.names import Decoded

    Row = Pairing | Unpaired

_FX_TENSOR = re.compile(r"(.+)\.OUTPUT\.(\d{1,9})")
_CONVERTS = ("Cast", "TransData")
_POSITION, _SELF, _PRODUCER = 0.9, 0.6, 0.95
# Operators that carry data into and out of a graph; they compute nothing.
_PLUMBING = frozenset({"Data", "Const", "ConstPlaceHolder", "RefData", "NetOutput", "Variable", "Constant"})


@dataclass(slots=True)
class _Token:
    """One token of both sides, the graph, and which golden operators found use."""

    unit: Unit
    golden: TokenDump
    graph: TextGraph
    names: GraphNames
    by_safe_name: dict[str, GraphOp] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


class _Partner(NamedTuple):
    """A golden tensor, the type of its operator, why it is the one, and how sure that is."""

    tensor: SideTensor
    op: GraphOp
    rule: str
    confidence: float


def pair_token(unit: Unit, target: TokenDump, golden: TokenDump | None, graph: TextGraph) -> tuple[Row, ...]:
    """The rows of one token: target operators as they were dumped, then golden operators that found no use."""
    if golden is None:
        return tuple(
            _unpaired(unit, op, "the golden dump does not have this token") for op in target.operators.values()
        )
    token = _Token(unit, golden, graph, GraphNames(graph))
    token.by_safe_name = {safe(name): op for name, op in golden.operators.items()}
    rows: list[Row] = []
    for op in target.operators.values():
        rows += _pair_op(op, token)
    rows += [_unpaired(unit, op, why) for op, why in target.doubled]
    rows += _unused(token)
    return tuple(rows)


def fx_operator_names(graph: TextGraph) -> frozenset[str]:
    """The FX operators that a graph names."""
    names = {name for op in graph.operators.values() for name in op.output_names}
    return frozenset(match[1] for match in map(_FX_TENSOR.fullmatch, names) if match)


def _pair_op(op: GraphOp, token: _Token) -> Iterator[Row]:
    decoded = token.names.decode(op)
    stack = token.graph.stacks.get(decoded.operators[0].name, "") if decoded else ""
    if op.problem:
        yield _unpaired(token.unit, op, f"the target's file cannot be read: {op.problem}", stack=stack)
    elif not op.inputs and not op.outputs:
        yield _unpaired(token.unit, op, "the target's file holds no tensor", stack=stack)
    elif token.golden.kind is GraphKind.FX:
        yield from _pair_fx(op, decoded, token, stack)
    else:
        yield from _pair_ge(op, decoded, token, stack)


# Against FX


def _pair_fx(op: GraphOp, decoded: Decoded | None, token: _Token, stack: str) -> Iterator[Row]:
    named = decoded is not None and any(any(part.output_names) for part in decoded.operators)
    if decoded is None or not named:
        yield from _without_fx(op, decoded, token, stack)
        return
    inputs = _fx_inputs(op, decoded, token)
    for place, tensor in enumerate(op.inputs):
        yield _row(op, tensor, inputs[place], token, stack)
    for tensor in op.outputs:
        yield _row(op, tensor, _fx_output(tensor, decoded, token), token, stack)


def _without_fx(op: GraphOp, decoded: Decoded | None, token: _Token, stack: str) -> Iterator[Row]:
    """An operator that FX does not know: the compiler's own, or a helper of another one."""
    if any(word in op.op_type for word in _CONVERTS) and op.inputs and op.outputs:
        yield from _pair_with_itself(op, token, stack)
        return
    if decoded is None:
        why = f"the graph has no operator {op.name}; the compiler made it, or its name was changed"
    elif decoded.operators[0].op_type in _PLUMBING:
        why = f"{op.name} ({decoded.operators[0].op_type}) only carries data; FX has no such operator"
    else:
        why = f"the graph names no FX tensor for {op.name}: it is a helper that FX does not have"
    yield _unpaired(token.unit, op, why, stack=stack)


def _fx_output(tensor: SideTensor, decoded: Decoded, token: _Token) -> _Partner | str:
    last = decoded.operators[-1]
    name = last.output_names[tensor.key.index] if tensor.key.index < len(last.output_names) else ""
    if name:
        return _find_fx(name, decoded, token)
    # Not every output descriptor is marked: the outputs of one FX operator have the same order.
    known = next((match for text in last.output_names if (match := _FX_TENSOR.fullmatch(text))), None)
    if known is None:
        return f"the graph names no FX tensor for output {tensor.key.index} of {last.name}"
    partner = _find_fx(f"{known[1]}.OUTPUT.{tensor.key.index}", decoded, token)
    if isinstance(partner, str) or not _fits(tensor, partner.tensor):
        return f"the graph names no FX tensor for output {tensor.key.index} of {last.name}"
    return _Partner(partner.tensor, partner.op, f"{partner.rule}; by the order of the outputs", _POSITION)


def _find_fx(name: str, decoded: Decoded, token: _Token, rule: str = "") -> _Partner | str:
    match = _FX_TENSOR.fullmatch(name)
    if match is None:
        return f"{name!r} in the graph is not the name of an FX tensor"
    op = token.golden.operators.get(match[1])
    if op is None:
        return f"the golden dump has no FX operator {match[1]}"
    tensor = op.find_output(int(match[2]))
    if tensor is None:
        return f"the golden dump has no output {match[2]} of {match[1]}"
    parts = " + ".join(part.name for part in decoded.operators)
    how = f" ({decoded.how}: {parts})" if decoded.is_fused or decoded.confidence < 1 else ""
    return _Partner(tensor, op, (rule or f"_fx_tensor_name {name}") + how, decoded.confidence)


def _fx_inputs(op: GraphOp, decoded: Decoded, token: _Token) -> list[_Partner | str]:
    """A partner for each input: what the graph says it is, else the FX operator's own arguments in order."""
    sources = _sources(op, decoded)
    by_order = _by_order(op, decoded, token)
    found: list[_Partner | str] = []
    for place, tensor in enumerate(op.inputs):
        partner = _named_input(sources[place], decoded, token)
        if isinstance(partner, _Partner) and not _fits(tensor, partner.tensor):
            partner = f"{partner.rule} does not have as many elements"
        if isinstance(partner, str):
            partner = by_order.get(place) or partner
        found.append(partner)
    return found


def _sources(op: GraphOp, decoded: Decoded) -> list[tuple[TextOp, int] | None]:
    """For each dumped input, the input of the graph that it is; `None` where the numbers do not fit."""
    wanted = external_inputs(decoded.operators)
    if len(wanted) != len(op.inputs) and decoded.is_fused:
        # One tensor that several parts read may be an input once.
        once: dict[tuple[str, int], tuple[TextOp, int]] = {}
        for part, index in wanted:
            once.setdefault(part.inputs[index], (part, index))
        wanted = tuple(once.values()) if len(once) == len(op.inputs) else wanted
    return [wanted[place] if place < len(wanted) else None for place in range(len(op.inputs))]


def _named_input(source: tuple[TextOp, int] | None, decoded: Decoded, token: _Token) -> _Partner | str:
    if source is None:
        return "the graph has fewer inputs of this operator than were dumped"
    part, index = source
    own = part.input_names[index] if index < len(part.input_names) else ""
    name = own or token.graph.fx_name(*part.inputs[index])
    if not name:
        return f"the graph names no FX tensor for input {index} of {part.name}"
    rule = f"_fx_tensor_name {name} of the input" if own else f"_fx_tensor_name {name} of {part.inputs[index][0]}"
    return _find_fx(name, decoded, token, rule)


def _by_order(op: GraphOp, decoded: Decoded, token: _Token) -> dict[int, _Partner]:
    """The arguments of the (first) FX operator by position; only numbers, and only as many of them as there are."""
    first = decoded.operators[0]
    match = next((match for name in first.output_names if (match := _FX_TENSOR.fullmatch(name))), None)
    fx = token.golden.operators.get(match[1]) if match else None
    if fx is None:
        return {}
    # What cannot be read is not a tensor: None, a type, a device, a text.
    arguments = [tensor for tensor in fx.inputs if not tensor.problem]
    found: dict[int, _Partner] = {}
    start = 0
    for place, tensor in enumerate(op.inputs):
        at = next((at for at in range(start, len(arguments)) if _fits(tensor, arguments[at])), None)
        if at is not None:
            rule = f"argument {arguments[at].key.index} of {fx.name}, by position"
            found[place] = _Partner(arguments[at], fx, rule, min(_POSITION, decoded.confidence))
            start = at + 1
    return found


def _fits(target: SideTensor, golden: SideTensor) -> bool:
    """Whether both have as many elements, as far as that is known."""
    return golden.count is None or target.count is None or target.count == golden.count


# Against the same graph without fusion


def _pair_ge(op: GraphOp, decoded: Decoded | None, token: _Token, stack: str) -> Iterator[Row]:
    same = token.golden.operators.get(op.name)
    if same is not None:
        yield from _pair_same(op, same, token, stack)
    elif decoded is not None and (decoded.is_fused or _find_ge(decoded.operators[0], token) is not None):
        yield from _pair_fused(op, decoded, token, stack)
    elif any(word in op.op_type for word in _CONVERTS) and op.inputs and op.outputs:
        yield from _pair_with_itself(op, token, stack)
    else:
        made = "" if decoded else ", and the graph does not have it either"
        yield _unpaired(token.unit, op, f"the golden dump has no operator {op.name}{made}", stack=stack)


def _pair_same(op: GraphOp, golden: GraphOp, token: _Token, stack: str) -> Iterator[Row]:
    for tensor in (*op.inputs, *op.outputs):
        others = golden.inputs if tensor.key.slot is Slot.INPUT else golden.outputs
        other = next((other for other in others if other.key.index == tensor.key.index), None)
        partner: _Partner | str
        if golden.problem:
            partner = f"the golden file cannot be read: {golden.problem}"
            token.used.add(golden.name)
        elif other is None:
            partner = f"the golden dump has no {tensor.key.slot} {tensor.key.index} of {op.name}"
        else:
            partner = _Partner(other, golden, "the same name in both dumps", 1.0)
        yield _row(op, tensor, partner, token, stack)


def _pair_fused(op: GraphOp, decoded: Decoded, token: _Token, stack: str) -> Iterator[Row]:
    parts = " + ".join(part.name for part in decoded.operators)
    sources = _sources(op, decoded)
    for place, tensor in enumerate(op.inputs):
        yield _row(op, tensor, _ge_input(sources[place], parts, decoded, token), token, stack)
    last = next((found for part in reversed(decoded.operators) if (found := _find_ge(part, token))), None)
    is_last = last is not None and last is _find_ge(decoded.operators[-1], token)
    for tensor in op.outputs:
        made = last.find_output(tensor.key.index) if last is not None and is_last else None
        partner: _Partner | str = f"the golden dump has no output {tensor.key.index} of {decoded.operators[-1].name}"
        if made is not None and last is not None:
            partner = _Partner(made, last, f"the last of {parts} ({decoded.how})", decoded.confidence)
        yield _row(op, tensor, partner, token, stack)


def _ge_input(source: tuple[TextOp, int] | None, parts: str, decoded: Decoded, token: _Token) -> _Partner | str:
    """The input of the part that reads it, else the output of the operator that makes it."""
    if source is None:
        return f"{parts} have fewer inputs in the graph than were dumped"
    part, index = source
    own = _find_ge(part, token)
    if own is not None and index < len(own.inputs):
        rule = f"input {index} of {part.name}, one of {parts} ({decoded.how})"
        return _Partner(own.inputs[index], own, rule, decoded.confidence)
    producer, output = part.inputs[index]
    made_by = token.by_safe_name.get(safe(producer))
    made = made_by.find_output(output) if made_by is not None else None
    if made is None or made_by is None:
        return f"the golden dump has neither input {index} of {part.name} nor output {output} of {producer}"
    rule = f"output {output} of {producer}, which {part.name} reads ({decoded.how})"
    return _Partner(made, made_by, rule, min(decoded.confidence, _PRODUCER))


def _find_ge(part: TextOp, token: _Token) -> GraphOp | None:
    found = token.by_safe_name.get(safe(part.name))
    return None if found is None or found.problem else found


# Both


def _pair_with_itself(op: GraphOp, token: _Token, stack: str) -> Iterator[Row]:
    """An inserted conversion must not change the numbers: what comes out is compared with what went in."""
    for tensor in op.outputs:
        source: Sequence[SideTensor] = [other for other in op.inputs if other.key.index == tensor.key.index]
        partner: _Partner | str = f"{op.name} has no input {tensor.key.index} to compare its output with"
        if source:
            index = tensor.key.index
            rule = f"{op.op_type} was inserted: output {index} against input {index} of the same file"
            partner = _Partner(source[0], op, rule, _SELF)
        yield _row(op, tensor, partner, token, stack)


def _row(op: GraphOp, tensor: SideTensor, partner: _Partner | str, token: _Token, stack: str) -> Row:
    if isinstance(partner, str):
        return _unpaired(token.unit, op, partner, stack, tensor)
    token.used.add(partner.op.name)
    golden = partner.tensor
    if golden.problem:
        why = f"the golden file cannot be read: {golden.problem}"
        return _unpaired(token.unit, op, why, stack, tensor)
    return Pairing(
        OpLabel(0, 0, op.op_type, op.name, partner.op.name),
        tensor,
        golden,
        rule=partner.rule,
        confidence=partner.confidence,
        unit=token.unit,
        golden_type=partner.op.op_type,
        timestamp=op.timestamp,
        stack=stack,
    )


def _unpaired(
    unit: Unit, op: GraphOp, why: str, stack: str = "", tensor: SideTensor | None = None, *, golden_only: bool = False
) -> Unpaired:
    tensors = (*op.inputs, *op.outputs) if tensor is None else (tensor,)
    return Unpaired(
        OpLabel(0, 0, op.op_type, op.name, op.name if golden_only else "*"),
        tensor.key if tensor is not None else None,
        tensor,
        why,
        unit,
        op.path,
        op.timestamp,
        stack,
        golden_only,
        has_data=not any(each.figures is not None for each in tensors),
    )


def _unused(token: _Token) -> list[Row]:
    """Golden operators that nothing was compared with, so that nothing of the golden dump is lost silently."""
    why = "no operator of the target was compared with this golden operator; it may have been fused or left out"
    return [
        _unpaired(token.unit, op, f"{why}: {op.problem}" if op.problem else why, golden_only=True)
        for name, op in token.golden.operators.items()
        if name not in token.used
    ]
