"""Pairing of one token: a GE dump with an FX dump, or with a GE dump without fusion.

Every target operator has rows: its tensors with their partners, or with the reason why there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from opdiff.core.dump import GraphKind
from opdiff.core.reasons import Reason, all_of, because
from opdiff.core.tensor import Slot, file_safe_name
from opdiff.pair.graph.edges import FX_TENSOR
from opdiff.pair.graph.facts import Facts, Place, places_of
from opdiff.pair.graph.fx import FxPairing, Partner
from opdiff.pair.graph.names import GraphNames
from opdiff.pair.graph.plans import PlannedRow, Plans, fill, unpaired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.dump import GraphOp, TokenDump, Unit
    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.core.pairing import PairingResult
    from opdiff.pair.graph.names import ResolvedOp

    # Tensors of an operator, each with its partner or the reason why there is none; or the reason for all of them.
    Partners = list[tuple[Place, Partner | Reason]] | Reason

_CONVERSIONS = ("Cast", "TransData")
_PRODUCER_CONFIDENCE = 0.95
_INSERTED_CONFIDENCE = 0.6
# Types that carry data into and out of a graph and compute nothing.
_DATA_TYPES = frozenset({"Data", "Const", "ConstPlaceHolder", "RefData", "NetOutput", "Variable", "Constant"})


class _Token(Struct):
    """Golden side and tensors of one token, and the golden operators that were paired."""

    golden: TokenDump
    facts: Facts
    by_file_form: dict[str, GraphOp] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    fx: FxPairing | None = None


class GraphPairing:
    """Pairs the tokens of one graph, which mostly have the same operators: what they share is found once."""

    def __init__(self, graph: TextGraph) -> None:
        self.graph = graph
        self._names = GraphNames(graph)
        self._plans = Plans()

    def pair(self, unit: Unit, target: TokenDump, golden: TokenDump | None) -> tuple[PairingResult, ...]:
        """Return the rows of one token: target operators as they were dumped, then golden ones without partner."""
        if golden is None:
            reason = because("pair.no_token")
            return tuple(unpaired(unit, op, reason) for op in target.operators.values())
        facts = Facts(target, golden)
        rows = self._plans.find(facts, lambda: tuple(self._plan(target, golden, facts)))
        return (
            *fill(rows, unit, target, golden, facts),
            *(unpaired(unit, op, reason) for op, reason in target.duplicates),
            *(unpaired(unit, op, reason, golden_only=True) for op, reason in golden.duplicates),
        )

    def _plan(self, target: TokenDump, golden: TokenDump, facts: Facts) -> Iterator[PlannedRow]:
        token = _Token(golden, facts)
        if golden.kind is GraphKind.FX:
            token.fx = FxPairing(target, golden, self.graph, self._names, facts)
        else:
            token.by_file_form = {file_safe_name(name): op for name, op in golden.operators.items()}
        for op in target.operators.values():
            resolved = self._names.resolve(op.name, op.full_name)
            stack = self.graph.stacks.get(resolved.operators[0].name, "") if resolved else ""
            partners = _partners(op, resolved, token)
            if isinstance(partners, Reason):
                yield PlannedRow(op.name, partners, stack=stack)
            else:
                yield from (_row(place, partner, token, stack) for place, partner in partners)
        # So that the report covers the whole golden dump.
        for name, op in golden.operators.items():
            if name not in token.used:
                yield PlannedRow(name, _unused_reason(op), is_golden_only=True)


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
        if resolved.is_named or not all(isinstance(partner, Reason) for _, partner in partners):
            return partners
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
    outputs = [place for place, _ in places_of(op, is_target=True)][len(op.inputs) :]
    return [(place, _own_input(op, place.index)) for place in outputs]


def _own_input(op: GraphOp, index: int) -> Partner | Reason:
    if all(tensor.key.index != index for tensor in op.inputs):
        return because("pair.no_own_input", name=op.name, index=index)
    place = Place(op.name, Slot.INPUT, index, is_target=True)
    return Partner(place, because("pair.inserted", op_type=op.op_type, index=index), _INSERTED_CONFIDENCE)


# Against the same graph without fusion


def _ge_partners(op: GraphOp, resolved: ResolvedOp | None, token: _Token) -> Partners:
    places = [place for place, _ in places_of(op, is_target=True)]
    same = token.golden.operators.get(op.name)
    if same is not None:
        if same.problem:
            token.used.add(same.name)
        return [(place, _same_partner(place, same, token)) for place in places]
    if resolved is not None and (resolved.is_fused or _find_ge(resolved.operators[0], token) is not None):
        sources = zip(places, _sources(op, resolved), strict=False)
        inputs = [(place, _fused_input(source, resolved, token)) for place, source in sources]
        return inputs + [(place, _fused_output(place.index, resolved, token)) for place in places[len(op.inputs) :]]
    if _is_conversion(op):
        return _own_inputs(op)
    return because("pair.no_operator_dumped" if resolved else "pair.no_operator_anywhere", name=op.name)


def _same_partner(place: Place, golden: GraphOp, token: _Token) -> Partner | Reason:
    """Return the tensor of the golden operator with the same name."""
    if golden.problem:
        return _unreadable(golden)
    other = Place(golden.name, place.slot, place.index)
    if other not in token.facts.tensors:
        code = "pair.no_input_dumped" if place.slot is Slot.INPUT else "pair.no_output_dumped"
        return because(code, index=place.index, name=golden.name)
    return Partner(other, because("pair.same_name_in_dumps"), 1.0)


def _fused_output(index: int, resolved: ResolvedOp, token: _Token) -> Partner | Reason:
    """Return the output of the last part of a fused operator."""
    last = _find_ge(resolved.operators[-1], token)
    if last is not None and last.problem:
        return _unreadable(last)
    made = Place(last.name, Slot.OUTPUT, index) if last is not None else None
    if made not in token.facts.tensors:
        return because("pair.no_output_dumped", index=index, name=resolved.names[-1])
    evidence = because("pair.last_of", parts=resolved.names, match=resolved.match)
    return Partner(made, evidence, resolved.confidence)


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
        return Partner(Place(own.name, Slot.INPUT, own.inputs[index].key.index), evidence, resolved.confidence)
    producer, output = part.inputs[index]
    made_by = token.by_file_form.get(file_safe_name(producer))
    if made_by is not None and made_by.problem:
        return _unreadable(made_by)
    made = Place(made_by.name, Slot.OUTPUT, output) if made_by is not None else None
    if made not in token.facts.tensors:
        return because("pair.neither_dumped", index=index, name=part.name, output=output, producer=producer)
    evidence = because("pair.output_of_producer", index=output, producer=producer, name=part.name, match=resolved.match)
    return Partner(made, evidence, min(resolved.confidence, _PRODUCER_CONFIDENCE))


def _find_ge(part: TextOp, token: _Token) -> GraphOp | None:
    return token.by_file_form.get(file_safe_name(part.name))


def _unreadable(golden: GraphOp) -> Reason:
    return because("pair.unreadable", side="golden", problem=golden.problem)


def _row(place: Place, partner: Partner | Reason, token: _Token, stack: str) -> PlannedRow:
    if isinstance(partner, Reason):
        return PlannedRow(place.owner, partner, place, stack=stack)
    if not partner.place.is_target:
        token.used.add(partner.place.owner)
    problem = token.facts.tensors[partner.place].problem
    if problem:
        return PlannedRow(place.owner, because("pair.unreadable", side="golden", problem=problem), place, stack=stack)
    return PlannedRow(place.owner, partner.evidence, place, partner.place, partner.confidence, stack)


def _unused_reason(op: GraphOp) -> Reason:
    unused = because("pair.golden_unused")
    return all_of((unused, because("pair.unreadable", side="golden", problem=op.problem))) if op.problem else unused
