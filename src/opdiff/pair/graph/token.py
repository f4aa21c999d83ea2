"""Pairing of one token: a GE dump with an FX dump, or with a GE dump without fusion.

Every target operator has rows: its tensors with their partners, or with the reason why there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from opdiff.core.dump import GraphKind
from opdiff.core.pairing import OpLabel, Pairing, Unpaired
from opdiff.core.reasons import Reason, all_of, because
from opdiff.core.tensor import NOTHING_DECLARED, Slot, file_safe_name
from opdiff.pair.graph.edges import FX_TENSOR
from opdiff.pair.graph.fx import FxPairing, Partner
from opdiff.pair.graph.names import GraphNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.core.dump import GraphOp, SideTensor, TokenDump, Unit
    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.pair.graph.names import ResolvedOp

    Pair = Pairing | Unpaired

_CONVERSIONS = ("Cast", "TransData")
_PRODUCER_CONFIDENCE = 0.95
_INSERTED_CONFIDENCE = 0.6
# Types that carry data into and out of a graph and compute nothing.
_DATA_TYPES = frozenset({"Data", "Const", "ConstPlaceHolder", "RefData", "NetOutput", "Variable", "Constant"})


class _Token(Struct):
    """Golden side and graph of one token, and the golden operators that were paired."""

    unit: Unit
    golden: TokenDump
    graph: TextGraph
    names: GraphNames
    by_file_form: dict[str, GraphOp] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    fx: FxPairing | None = None


def pair_token(
    unit: Unit, target: TokenDump, golden: TokenDump | None, graph: TextGraph, names: GraphNames | None = None
) -> tuple[Pair, ...]:
    """Return the rows of one token: target operators as they were dumped, then golden operators without partner.

    `names` are the names of the graph, if other tokens of the graph were paired before.
    """
    if golden is None:
        reason = because("pair.no_token")
        return tuple(_unpaired(unit, op, reason) for op in target.operators.values())
    token = _Token(unit, golden, graph, names or GraphNames(graph))
    if golden.kind is GraphKind.FX:
        token.fx = FxPairing(target, golden, graph, token.names)
    else:
        token.by_file_form = {file_safe_name(name): op for name, op in golden.operators.items()}
    rows: list[Pair] = []
    for op in target.operators.values():
        rows += _pair_op(op, token)
    rows += [_unpaired(unit, op, reason) for op, reason in target.duplicates]
    rows += _unused(token)
    return tuple(rows)


def fx_operator_names(graph: TextGraph) -> frozenset[str]:
    """Return the names of the FX operators in a graph."""
    names = {name for op in graph.operators.values() for name in op.output_names}
    return frozenset(match[1] for match in map(FX_TENSOR.fullmatch, names) if match)


def _pair_op(op: GraphOp, token: _Token) -> Iterable[Pair]:
    resolved = token.names.resolve(op.name, op.full_name)
    stack = token.graph.stacks.get(resolved.operators[0].name, "") if resolved else ""
    if op.problem:
        reason = because("pair.unreadable", side="target", problem=op.problem)
        return [_unpaired(token.unit, op, reason, stack)]
    if not op.inputs and not op.outputs:
        return [_unpaired(token.unit, op, because("pair.no_tensor"), stack)]
    pair = _pair_ge if token.fx is None else _pair_fx
    return pair(op, resolved, token, stack)


# Against FX


def _pair_fx(op: GraphOp, resolved: ResolvedOp | None, token: _Token, stack: str) -> Iterable[Pair]:
    if resolved is None or token.fx is None:
        return _without_fx(op, resolved, token, stack)
    partners = token.fx.partners(op, resolved)
    if not resolved.is_named and all(isinstance(partner, Reason) for partner in partners):
        return _without_fx(op, resolved, token, stack)
    both = zip((*op.inputs, *op.outputs), partners, strict=True)
    return [_row(op, tensor, partner, token, stack) for tensor, partner in both]


def _without_fx(op: GraphOp, resolved: ResolvedOp | None, token: _Token, stack: str) -> Iterator[Pair]:
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


# Against the same graph without fusion


def _pair_ge(op: GraphOp, resolved: ResolvedOp | None, token: _Token, stack: str) -> Iterable[Pair]:
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


def _sources(op: GraphOp, resolved: ResolvedOp) -> list[tuple[TextOp, int] | None]:
    """Return the input of the graph for each dumped input; `None` where the graph has fewer."""
    wanted = resolved.external_inputs
    if len(wanted) != len(op.inputs) and resolved.is_fused:
        # One tensor that several parts read may be an input once.
        once: dict[tuple[str, int], tuple[TextOp, int]] = {}
        for part, index in wanted:
            once.setdefault(part.inputs[index], (part, index))
        wanted = tuple(once.values()) if len(once) == len(op.inputs) else wanted
    return [wanted[number] if number < len(wanted) else None for number in range(len(op.inputs))]


def _pair_same(op: GraphOp, golden: GraphOp, token: _Token, stack: str) -> Iterator[Pair]:
    for tensor in (*op.inputs, *op.outputs):
        others = golden.inputs if tensor.key.slot is Slot.INPUT else golden.outputs
        other = next((other for other in others if other.key.index == tensor.key.index), None)
        partner: Partner | Reason
        if golden.problem:
            partner = because("pair.unreadable", side="golden", problem=golden.problem)
            token.used.add(golden.name)
        elif other is None:
            code = "pair.no_input_dumped" if tensor.key.slot is Slot.INPUT else "pair.no_output_dumped"
            partner = because(code, index=tensor.key.index, name=op.name)
        else:
            partner = Partner(other, golden, because("pair.same_name_in_dumps"), 1.0)
        yield _row(op, tensor, partner, token, stack)


def _pair_fused(op: GraphOp, resolved: ResolvedOp, token: _Token, stack: str) -> Iterator[Pair]:
    for tensor, source in zip(op.inputs, _sources(op, resolved), strict=True):
        yield _row(op, tensor, _ge_input(source, resolved, token), token, stack)
    last = next((found for part in reversed(resolved.operators) if (found := _find_ge(part, token))), None)
    is_last = last is not None and last is _find_ge(resolved.operators[-1], token)
    for tensor in op.outputs:
        made = last.find_output(tensor.key.index) if last is not None and is_last else None
        partner: Partner | Reason = because("pair.no_output_dumped", index=tensor.key.index, name=resolved.names[-1])
        if made is not None and last is not None:
            evidence = because("pair.last_of", parts=resolved.names, match=resolved.match)
            partner = Partner(made, last, evidence, resolved.confidence)
        yield _row(op, tensor, partner, token, stack)


def _ge_input(source: tuple[TextOp, int] | None, resolved: ResolvedOp, token: _Token) -> Partner | Reason:
    """Return the input of the part that reads a tensor, else the output of its producer."""
    if source is None:
        return because("pair.fewer_inputs", parts=resolved.names)
    part, index = source
    own = _find_ge(part, token)
    if own is not None and index < len(own.inputs):
        evidence = because(
            "pair.input_of_part", index=index, name=part.name, parts=resolved.names, match=resolved.match
        )
        return Partner(own.inputs[index], own, evidence, resolved.confidence)
    producer, output = part.inputs[index]
    made_by = token.by_file_form.get(file_safe_name(producer))
    made = made_by.find_output(output) if made_by is not None else None
    if made is None or made_by is None:
        return because("pair.neither_dumped", index=index, name=part.name, output=output, producer=producer)
    evidence = because("pair.output_of_producer", index=output, producer=producer, name=part.name, match=resolved.match)
    return Partner(made, made_by, evidence, min(resolved.confidence, _PRODUCER_CONFIDENCE))


def _find_ge(part: TextOp, token: _Token) -> GraphOp | None:
    found = token.by_file_form.get(file_safe_name(part.name))
    return None if found is None or found.problem else found


# Both


def _pair_with_itself(op: GraphOp, token: _Token, stack: str) -> Iterator[Pair]:
    """Yield the rows of an inserted conversion, which keeps the values: each output against the input of its number."""
    for tensor in op.outputs:
        source: Sequence[SideTensor] = [other for other in op.inputs if other.key.index == tensor.key.index]
        partner: Partner | Reason = because("pair.no_own_input", name=op.name, index=tensor.key.index)
        if source:
            evidence = because("pair.inserted", op_type=op.op_type, index=tensor.key.index)
            partner = Partner(source[0], op, evidence, _INSERTED_CONFIDENCE)
        yield _row(op, tensor, partner, token, stack)


def _row(op: GraphOp, tensor: SideTensor, partner: Partner | Reason, token: _Token, stack: str) -> Pair:
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
        NOTHING_DECLARED,
        partner.evidence,
        partner.confidence,
        token.unit,
        partner.op.op_type,
        op.timestamp,
        stack,
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


def _unused(token: _Token) -> list[Pair]:
    """Return a row for each golden operator without partner, so that the report covers the whole golden dump."""
    return [
        _unpaired(token.unit, op, _unused_reason(op), golden_only=True)
        for name, op in token.golden.operators.items()
        if name not in token.used
    ]


def _unused_reason(op: GraphOp) -> Reason:
    unused = because("pair.golden_unused")
    return all_of((unused, because("pair.unreadable", side="golden", problem=op.problem))) if op.problem else unused
