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
    from collections.abc import Sequence

    from opdiff.core.dump import GraphOp, SideTensor, TokenDump, Unit
    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.core.pairing import PairingResult
    from opdiff.pair.graph.names import ResolvedOp

    # The tensors of an operator, each with its partner or the reason why there is none; or the reason for all of them.
    Partners = list[tuple[SideTensor, Partner | Reason]] | Reason

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
) -> tuple[PairingResult, ...]:
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
    rows: list[PairingResult] = []
    for op in target.operators.values():
        resolved = token.names.resolve(op.name, op.full_name)
        stack = graph.stacks.get(resolved.operators[0].name, "") if resolved else ""
        partners = _partners(op, resolved, token)
        if isinstance(partners, Reason):
            rows.append(_unpaired(unit, op, partners, stack))
        else:
            rows += [_row(op, tensor, partner, token, stack) for tensor, partner in partners]
    rows += [_unpaired(unit, op, reason) for op, reason in target.duplicates]
    # So that the report covers the whole golden dump.
    unused = [op for name, op in golden.operators.items() if name not in token.used]
    rows += [_unpaired(unit, op, _unused_reason(op), golden_only=True) for op in unused]
    rows += [_unpaired(unit, op, reason, golden_only=True) for op, reason in golden.duplicates]
    return tuple(rows)


def fx_operator_names(graph: TextGraph) -> frozenset[str]:
    """Return the names of the FX operators in a graph."""
    names = {name for op in graph.operators.values() for name in op.output_names}
    return frozenset(match[1] for match in map(FX_TENSOR.fullmatch, names) if match)


def _partners(op: GraphOp, resolved: ResolvedOp | None, token: _Token) -> Partners:
    if op.problem:
        return because("pair.unreadable", side="target", problem=op.problem)
    if not op.inputs and not op.outputs:
        return because("pair.no_tensor")
    return _ge_partners(op, resolved, token) if token.fx is None else _fx_partners(op, resolved, token.fx)


def _fx_partners(op: GraphOp, resolved: ResolvedOp | None, fx: FxPairing) -> Partners:
    """Return partners in an FX dump; it lacks operators that the compiler made, and helpers of other operators."""
    if resolved is not None:
        partners = fx.partners(op, resolved)
        if resolved.is_named or not all(isinstance(partner, Reason) for partner in partners):
            return list(zip((*op.inputs, *op.outputs), partners, strict=True))
    if _is_conversion(op):
        return _own_inputs(op)
    if resolved is None:
        return because("pair.not_in_graph", name=op.name)
    if resolved.operators[0].op_type in _DATA_TYPES:
        return because("pair.carries_data", name=op.name, op_type=resolved.operators[0].op_type)
    return because("pair.helper", name=op.name)


def _is_conversion(op: GraphOp) -> bool:
    return any(word in op.op_type for word in _CONVERSIONS) and bool(op.inputs and op.outputs)


def _own_inputs(op: GraphOp) -> Partners:
    """Return the partners in an inserted conversion, which keeps the values: for an output, the input of its number."""
    return [(tensor, _own_input(op, tensor.key.index)) for tensor in op.outputs]


def _own_input(op: GraphOp, index: int) -> Partner | Reason:
    source = _tensor_at(index, op.inputs)
    if source is None:
        return because("pair.no_own_input", name=op.name, index=index)
    return Partner(source, op, because("pair.inserted", op_type=op.op_type, index=index), _INSERTED_CONFIDENCE)


def _tensor_at(index: int, tensors: Sequence[SideTensor]) -> SideTensor | None:
    return next((tensor for tensor in tensors if tensor.key.index == index), None)


# Against the same graph without fusion


def _ge_partners(op: GraphOp, resolved: ResolvedOp | None, token: _Token) -> Partners:
    same = token.golden.operators.get(op.name)
    if same is not None:
        if same.problem:
            token.used.add(same.name)
        return [(tensor, _same_partner(tensor, same)) for tensor in (*op.inputs, *op.outputs)]
    if resolved is not None and (resolved.is_fused or _find_ge(resolved.operators[0], token) is not None):
        sources = zip(op.inputs, _sources(op, resolved), strict=True)
        inputs = [(tensor, _fused_input(source, resolved, token)) for tensor, source in sources]
        return inputs + [(tensor, _fused_output(tensor.key.index, resolved, token)) for tensor in op.outputs]
    if _is_conversion(op):
        return _own_inputs(op)
    return because("pair.no_operator_dumped" if resolved else "pair.no_operator_anywhere", name=op.name)


def _same_partner(tensor: SideTensor, golden: GraphOp) -> Partner | Reason:
    """Return the tensor of the golden operator with the same name."""
    slot, index = tensor.key.slot, tensor.key.index
    other = _tensor_at(index, golden.inputs if slot is Slot.INPUT else golden.outputs)
    if golden.problem:
        return _unreadable(golden)
    if other is None:
        code = "pair.no_input_dumped" if slot is Slot.INPUT else "pair.no_output_dumped"
        return because(code, index=index, name=golden.name)
    return Partner(other, golden, because("pair.same_name_in_dumps"), 1.0)


def _fused_output(index: int, resolved: ResolvedOp, token: _Token) -> Partner | Reason:
    """Return the output of the last part of a fused operator."""
    last = _find_ge(resolved.operators[-1], token)
    if last is not None and last.problem:
        return _unreadable(last)
    made = last.find_output(index) if last is not None else None
    if made is None or last is None:
        return because("pair.no_output_dumped", index=index, name=resolved.names[-1])
    evidence = because("pair.last_of", parts=resolved.names, match=resolved.match)
    return Partner(made, last, evidence, resolved.confidence)


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


def _fused_input(source: tuple[TextOp, int] | None, resolved: ResolvedOp, token: _Token) -> Partner | Reason:
    """Return the input of the part that reads a tensor, else the output of its producer."""
    if source is None:
        return because("pair.fewer_inputs", parts=resolved.names)
    part, index = source
    own = _find_ge(part, token)
    if own is not None and own.problem:
        return _unreadable(own)
    if own is not None and index < len(own.inputs):
        evidence = because(
            "pair.input_of_part", index=index, name=part.name, parts=resolved.names, match=resolved.match
        )
        return Partner(own.inputs[index], own, evidence, resolved.confidence)
    producer, output = part.inputs[index]
    made_by = token.by_file_form.get(file_safe_name(producer))
    if made_by is not None and made_by.problem:
        return _unreadable(made_by)
    made = made_by.find_output(output) if made_by is not None else None
    if made is None or made_by is None:
        return because("pair.neither_dumped", index=index, name=part.name, output=output, producer=producer)
    evidence = because("pair.output_of_producer", index=output, producer=producer, name=part.name, match=resolved.match)
    return Partner(made, made_by, evidence, min(resolved.confidence, _PRODUCER_CONFIDENCE))


def _find_ge(part: TextOp, token: _Token) -> GraphOp | None:
    return token.by_file_form.get(file_safe_name(part.name))


def _unreadable(golden: GraphOp) -> Reason:
    return because("pair.unreadable", side="golden", problem=golden.problem)


# Rows


def _row(op: GraphOp, tensor: SideTensor, partner: Partner | Reason, token: _Token, stack: str) -> PairingResult:
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


def _unused_reason(op: GraphOp) -> Reason:
    unused = because("pair.golden_unused")
    return all_of((unused, because("pair.unreadable", side="golden", problem=op.problem))) if op.problem else unused
