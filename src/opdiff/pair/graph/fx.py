"""Partners of one token's GE tensors among the FX tensors: what the evidence gives to each tensor.

This is the border between the evidence, which knows edges and files, and the dumps, which have operators and tensors.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.reasons import Status, because
from opdiff.core.tensor import Slot
from opdiff.pair.graph.arguments import find_matches
from opdiff.pair.graph.edges import CONSTANTS, FX_TENSOR, GRAPH_INPUTS
from opdiff.pair.graph.facts import Facts, Place, places_of
from opdiff.pair.graph.movement import moves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opdiff.core.dump import GraphOp, SideTensor, TokenDump
    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.core.reasons import Reason
    from opdiff.pair.graph.edges import Edge
    from opdiff.pair.graph.facts import Value
    from opdiff.pair.graph.names import GraphNames, ResolvedOp


class Partner(Struct, frozen=True, gc=False):
    """Place of a golden tensor, the evidence for the pair, and how sure that is."""

    place: Place
    evidence: Reason
    confidence: float


class _Dumped:
    """Operators and tensors of the target in one token, looked up when they are needed."""

    def __init__(self, target: TokenDump, graph: TextGraph, names: GraphNames) -> None:
        self._target = target
        self._graph = graph
        self._names = names

    def find(self, edge: Edge) -> Place | None:
        """Return the tensor of an edge; `None` if it was not dumped."""
        return self._tensors.get(edge)

    @cached_property
    def operators(self) -> frozenset[str]:
        """Names of the dumped operators of the graph."""
        return frozenset(part.name for _, found in self._resolved for part in found.operators)

    @cached_property
    def _tensors(self) -> Mapping[Edge, Place]:
        """The target's tensors by edge: outputs, and inputs whose producer was not dumped."""
        outputs: dict[Edge, Place] = {}
        inputs: dict[Edge, Place] = {}
        for op, resolved in self._resolved:
            places = [place for place, _ in places_of(op, is_target=True)]
            for place, edge in zip(places, input_edges(op, resolved, self._graph), strict=False):
                if edge is not None:
                    inputs.setdefault(edge, place)
            for place in places[len(op.inputs) :]:
                outputs[resolved.operators[-1].name, place.index] = place
        return inputs | outputs

    @cached_property
    def _resolved(self) -> list[tuple[GraphOp, ResolvedOp]]:
        found = ((op, self._names.resolve(op.name, op.full_name)) for op in self._target.operators.values())
        return [(op, resolved) for op, resolved in found if resolved is not None]


class FxPairing:
    """The partners of the tensors of one token."""

    def __init__(self, target: TokenDump, golden: TokenDump, graph: TextGraph, names: GraphNames, facts: Facts) -> None:
        """Collect the evidence for one token."""
        self._graph = graph
        self._golden = golden.operators
        self._dumped = _Dumped(target, graph, names)
        self._facts = facts
        # Not a method of this object: a cycle of references would keep all tensors of the token in memory.
        self._matches = find_matches(names.edges, facts, self._dumped.find)

    def partners(self, op: GraphOp, resolved: ResolvedOp) -> list[tuple[Place, Partner | Reason]]:
        """Return the inputs and outputs of an operator, each with its golden tensor, or why there is none."""
        places = [place for place, _ in places_of(op, is_target=True)]
        edges = input_edges(op, resolved, self._graph)
        inputs = [
            because("pair.overwritten", name=op.name)
            if edge is not None and self._is_overwritten(place, op, resolved, edge)
            else self._partner(place, resolved, edge)
            for place, edge in zip(places, edges, strict=False)
        ]
        last = resolved.operators[-1].name
        outputs = [self._partner(place, resolved, (last, place.index)) for place in places[len(edges) :]]
        return list(zip(places, inputs + outputs, strict=True))

    def _is_overwritten(self, place: Place, op: GraphOp, resolved: ResolvedOp, edge: Edge) -> bool:
        """Return whether an operator has written its result to an input before that was dumped.

        Operators that update a tensor in place have an output with the name of the input.
        """
        last = resolved.operators[-1]
        index = updated_output(last, edge)
        made = op.find_output(index) if index is not None else None
        if index is None or made is None or made.tensor is None:
            return False
        same = Facts.have_same_numbers
        if not self._facts.ask(same, place, Place(op.name, Slot.OUTPUT, index, is_target=True)):
            return False
        before, after = self._matches.found.get(edge), self._matches.found.get((last.name, index))
        if before is None or after is None or before.value == after.value:
            return False
        return not self._facts.ask(same, place, before.value.place)

    def _partner(self, place: Place, resolved: ResolvedOp, edge: Edge | None) -> Partner | Reason:
        if edge is None:
            return because("pair.fewer_inputs", parts=resolved.names)
        if place.slot is Slot.INPUT:
            edge = self._before_folded(place, edge)
        match = self._matches.found.get(edge)
        if match is None:
            return self._unreadable(edge) or self._unknown(edge)
        file = match.file or self._best(match.value, place, resolved)
        is_own_argument = file.slot is place.slot is Slot.INPUT and file.owner in _own_nodes(resolved)
        if match.file is None and not is_own_argument and (unreadable := self._unreadable(edge)):
            # Another tensor with the same numbers does not stand in for it.
            return unreadable
        has_same_count = _same_count(self._facts.tensors[place], self._facts.tensors[file])
        if not has_same_count and (match.file is None or place.slot is Slot.INPUT):
            return because("pair.size_differs", evidence=match.reason)
        evidence = match.reason
        if resolved.is_fused or resolved.confidence < 1:
            evidence = because("pair.matched", evidence=evidence, match=resolved.match, parts=resolved.names)
        return Partner(file, evidence, min(match.confidence, resolved.confidence))

    def _best(self, value: Value, place: Place, resolved: ResolvedOp) -> Place:
        """The file to compare with: of the same shape, of the operator's own node, a result."""
        shape, own = self._facts.stored(place).shape, _own_nodes(resolved)

        def order(file: Place) -> tuple[bool, bool, bool]:
            is_own = file.owner in own and file.slot is place.slot
            return self._facts.stored(file).shape == shape, is_own, file.slot is Slot.OUTPUT

        # Nothing is better than a file of the operator's own node. Other files need not be read then.
        mine = [file for node in own for file in self._facts.files_of(node) if all(order(file)[:2])]
        same = [file for file in mine if self._facts.are_equal(file, value.place)]
        return self._facts.first(same) if same else max(value.files, key=order)

    def _before_folded(self, place: Place, edge: Edge) -> Edge:
        """The edge that a dumped input is: compilers let a reader transpose its input itself, and drop the operator."""
        shape, found = self._facts.stored(place).shape, edge
        while shape is not None and self._matches.shape(found) not in (None, shape):
            op = self._graph.operators.get(found[0])
            if op is None or not op.inputs or not moves(op) or op.name in self._dumped.operators:
                return edge
            found = op.inputs[0]
        return found

    def _unreadable(self, edge: Edge) -> Partner | None:
        """The named file, if it exists and cannot be read."""
        name = FX_TENSOR.fullmatch(self._graph.fx_name(*edge))
        if name is None:
            return None
        place = Place(name[1], Slot.OUTPUT, int(name[2]))
        golden = self._facts.tensors.get(place)
        is_unreadable = golden is not None and golden.problem
        return Partner(place, because("pair.fx_name", tensor=name[0]), 1.0) if is_unreadable else None

    def _unknown(self, edge: Edge) -> Reason:
        op = self._graph.operators.get(edge[0])
        if op is None:
            return because("pair.no_producer", tensor=_edge_name(edge))
        if op.op_type in CONSTANTS:
            return because("pair.graph_constant", Status.NO_COUNTERPART, name=op.name)
        name = self._graph.fx_name(*edge)
        if edge in self._matches.refuted:
            return because("pair.name_refuted", tensor=name)
        candidates = self._matches.candidates.get(edge)
        if candidates:
            file = candidates[0].files[0]
            nearest = f"{file.owner}.{file.slot.upper()}.{file.index}"
            return because("pair.undecided", tensor=_edge_name(edge), count=len(candidates), nearest=nearest)
        if name:
            return self._not_dumped(name)
        code = "pair.no_fx_argument" if op.op_type in GRAPH_INPUTS else "pair.inner_tensor"
        return because(code, tensor=_edge_name(edge))

    def _not_dumped(self, name: str) -> Reason:
        parts = FX_TENSOR.fullmatch(name)
        if parts is None:
            return because("pair.not_an_fx_name", tensor=name)
        if parts[1] not in self._golden:
            return because("pair.no_fx_operator", name=parts[1])
        return because("pair.no_output_dumped", index=int(parts[2]), name=parts[1])


def input_edges(op: GraphOp, resolved: ResolvedOp, graph: TextGraph) -> list[Edge | None]:
    """Return the edge of each dumped input; `None` where the text has fewer.

    Optional inputs that nothing feeds are not dumped. A tensor that several parts of a fused operator read is an input
    once. Compilers make attributes of constant inputs.
    """
    if not op.inputs:
        return []
    edges = [part.inputs[index] for part, index in resolved.external_inputs]
    fed = [edge for edge in edges if edge[0]]
    once = list(dict.fromkeys(fed)) if resolved.is_fused else fed
    variable = [edge for edge in once if not _is_constant(edge, graph)]
    fitting = (found for found in (fed, once, variable, edges) if len(found) == len(op.inputs))
    chosen: Sequence[Edge] = next(fitting, fed)
    return [chosen[number] if number < len(chosen) else None for number in range(len(op.inputs))]


def updated_output(op: TextOp, edge: Edge) -> int | None:
    """Return the output that an operator writes to the memory of an input; `None` if it writes to none."""
    names = [given.name for given, source in zip(op.input_descriptors, op.inputs, strict=False) if source == edge]
    outputs = [descriptor.name for descriptor in op.output_descriptors]
    return next((outputs.index(name) for name in names if name in outputs), None)


def _is_constant(edge: Edge, graph: TextGraph) -> bool:
    op = graph.operators.get(edge[0])
    return op is not None and op.op_type in CONSTANTS


def _own_nodes(resolved: ResolvedOp) -> set[str]:
    """Return the FX nodes that the text names for an operator."""
    return {name.rpartition(".OUTPUT.")[0] for part in resolved.operators for name in part.output_names if name}


def _same_count(target: SideTensor, golden: SideTensor) -> bool:
    own, other = target.count, golden.count
    return own is None or other is None or own == other


def _edge_name(edge: Edge) -> str:
    return f"{edge[0]}:{edge[1]}"
