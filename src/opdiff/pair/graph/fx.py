"""Partners of one token's GE tensors among the FX tensors: what the evidence gives to each tensor.

This is the border between the evidence, which knows edges and files, and the dumps, which have operators and tensors.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.reasons import because
from opdiff.core.tensor import Slot
from opdiff.pair.graph.arguments import find_matches
from opdiff.pair.graph.contents import FxFile, FxValues, Stored, same_numbers
from opdiff.pair.graph.edges import CONSTANTS, FX_TENSOR, GRAPH_INPUTS
from opdiff.pair.graph.movement import moves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.dump import GraphOp, SideTensor, TokenDump
    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.core.reasons import Reason
    from opdiff.pair.graph.edges import Edge
    from opdiff.pair.graph.matches import Match
    from opdiff.pair.graph.names import GraphNames, ResolvedOp


class Partner(Struct, frozen=True, gc=False):
    """A golden tensor, its operator, the evidence for the pair, and how sure that is."""

    tensor: SideTensor
    op: GraphOp
    evidence: Reason
    confidence: float


class _Dumped:
    """Operators and tensors of the target in one token, looked up when they are needed."""

    def __init__(self, target: TokenDump, graph: TextGraph, names: GraphNames) -> None:
        self._target = target
        self._graph = graph
        self._names = names

    def find(self, edge: Edge) -> Stored | None:
        """Return the tensor of an edge; `None` if it was not dumped."""
        return self._tensors.get(edge)

    @cached_property
    def operators(self) -> frozenset[str]:
        """Names of the dumped operators of the graph."""
        return frozenset(part.name for _, found in self._resolved for part in found.operators)

    @cached_property
    def _tensors(self) -> Mapping[Edge, Stored]:
        """The target's tensors by edge: outputs, and inputs whose producer was not dumped."""
        outputs: dict[Edge, Stored] = {}
        inputs: dict[Edge, Stored] = {}
        for op, resolved in self._resolved:
            for tensor, edge in zip(op.inputs, input_edges(op, resolved, self._graph), strict=True):
                if edge is not None:
                    inputs.setdefault(edge, stored(tensor))
            for tensor in op.outputs:
                outputs[resolved.operators[-1].name, tensor.key.index] = stored(tensor)
        return inputs | outputs

    @cached_property
    def _resolved(self) -> list[tuple[GraphOp, ResolvedOp]]:
        found = ((op, self._names.resolve(op.name, op.full_name)) for op in self._target.operators.values())
        return [(op, resolved) for op, resolved in found if resolved is not None]


class FxPairing:
    """The partners of the tensors of one token."""

    def __init__(self, target: TokenDump, golden: TokenDump, graph: TextGraph, names: GraphNames) -> None:
        """Collect the evidence for one token."""
        self._graph = graph
        self._golden = golden.operators
        self._tensors: dict[tuple[str, Slot, int, int], SideTensor] = {}
        self._dumped = _Dumped(target, graph, names)
        values = FxValues(self._files(golden.operators.values()))
        # Not a method of this object: a cycle of references would keep all tensors of the token in memory.
        self._matches = find_matches(names.edges, values, self._dumped.find)

    def partners(self, op: GraphOp, resolved: ResolvedOp) -> list[Partner | Reason]:
        """Return the golden tensor of each input and output of an operator, or why there is none."""
        edges = input_edges(op, resolved, self._graph)
        inputs = [
            because("pair.overwritten", name=op.name)
            if edge is not None and self._is_overwritten(op, resolved, tensor, edge)
            else self._partner(tensor, resolved, edge)
            for tensor, edge in zip(op.inputs, edges, strict=True)
        ]
        last = resolved.operators[-1].name
        return inputs + [self._partner(tensor, resolved, (last, tensor.key.index)) for tensor in op.outputs]

    def _is_overwritten(self, op: GraphOp, resolved: ResolvedOp, tensor: SideTensor, edge: Edge) -> bool:
        """Return whether an operator has written its result to an input before that was dumped.

        Operators that update a tensor in place have an output with the name of the input.
        """
        last = resolved.operators[-1]
        index = updated_output(last, edge)
        made = op.find_output(index) if index is not None else None
        if made is None or stored(made).tensor is None or not same_numbers(stored(tensor), stored(made)):
            return False
        before, after = self._matches.found.get(edge), self._matches.found.get((last.name, made.key.index))
        if before is None or after is None or before.value is after.value:
            return False
        return not same_numbers(stored(tensor), before.value.stored)

    def _partner(self, tensor: SideTensor, resolved: ResolvedOp, edge: Edge | None) -> Partner | Reason:
        if edge is None:
            return because("pair.fewer_inputs", parts=resolved.names)
        if tensor.key.slot is Slot.INPUT:
            edge = self._before_folded(tensor, edge)
        match = self._matches.found.get(edge)
        if match is None:
            return self._unreadable(edge) or self._unknown(edge)
        file = match.file or _best(match, tensor, resolved)
        is_own_argument = file.slot is tensor.key.slot is Slot.INPUT and file.node in _own_nodes(resolved)
        if match.file is None and not is_own_argument and (unreadable := self._unreadable(edge)):
            # Another tensor with the same numbers does not stand in for it.
            return unreadable
        golden = self._tensors[file[:4]]
        if not _same_count(tensor, golden) and (match.file is None or tensor.key.slot is Slot.INPUT):
            return because("pair.size_differs", evidence=match.reason)
        evidence = match.reason
        if resolved.is_fused or resolved.confidence < 1:
            evidence = because("pair.matched", evidence=evidence, match=resolved.match, parts=resolved.names)
        return Partner(golden, self._golden[file.node], evidence, min(match.confidence, resolved.confidence))

    def _before_folded(self, tensor: SideTensor, edge: Edge) -> Edge:
        """The edge that a dumped input is: compilers let a reader transpose its input itself, and drop the operator."""
        shape, found = stored(tensor).shape, edge
        while shape is not None and self._matches.shape(found) not in (None, shape):
            op = self._graph.operators.get(found[0])
            if op is None or not op.inputs or not moves(op) or op.name in self._dumped.operators:
                return edge
            found = op.inputs[0]
        return found

    def _unreadable(self, edge: Edge) -> Partner | None:
        """The named file, if it exists and cannot be read."""
        name = FX_TENSOR.fullmatch(self._graph.fx_name(*edge))
        golden = self._tensors.get((name[1], Slot.OUTPUT, int(name[2]), 0)) if name else None
        if name is None or golden is None or not golden.problem:
            return None
        return Partner(golden, self._golden[name[1]], because("pair.fx_name", tensor=name[0]), 1.0)

    def _unknown(self, edge: Edge) -> Reason:
        op = self._graph.operators.get(edge[0])
        if op is None:
            return because("pair.no_producer", tensor=_edge_name(edge))
        if op.op_type in CONSTANTS:
            return because("pair.graph_constant", name=op.name)
        name = self._graph.fx_name(*edge)
        if edge in self._matches.refuted:
            return because("pair.name_refuted", tensor=name)
        candidates = self._matches.candidates.get(edge)
        if candidates:
            file = candidates[0].files[0]
            nearest = f"{file.node}.{file.slot.upper()}.{file.index}"
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

    def _files(self, operators: Iterable[GraphOp]) -> Iterator[FxFile]:
        for op in operators:
            for tensors in (op.inputs, op.outputs):
                elements: dict[int, int] = {}
                for tensor in tensors:
                    key = tensor.key
                    element = elements.get(key.index, 0)
                    elements[key.index] = element + 1
                    file = FxFile(op.name, key.slot, key.index, element, stored(tensor))
                    self._tensors[file[:4]] = tensor
                    if not tensor.problem:
                        yield file


def stored(tensor: SideTensor) -> Stored:
    """Return the data of a tensor, or its extremes where only they are known."""
    figures = tensor.stats
    if tensor.tensor is not None or figures is None or figures.minimum is None or figures.maximum is None:
        return Stored(tensor.tensor)
    return Stored(None, (figures.minimum, figures.maximum))


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


def _best(match: Match, tensor: SideTensor, resolved: ResolvedOp) -> FxFile:
    """The file to compare with: of the same shape, of the operator's own node, a result."""
    shape = stored(tensor).shape
    own = _own_nodes(resolved)

    def order(file: FxFile) -> tuple[bool, bool, bool]:
        is_own = file.node in own and file.slot is tensor.key.slot
        return file.stored.shape == shape, is_own, file.slot is Slot.OUTPUT

    return max(match.value.files, key=order)


def _own_nodes(resolved: ResolvedOp) -> set[str]:
    """Return the FX nodes that the text names for an operator."""
    return {name.rpartition(".OUTPUT.")[0] for part in resolved.operators for name in part.output_names if name}


def _same_count(target: SideTensor, golden: SideTensor) -> bool:
    own, other = target.count, golden.count
    return own is None or other is None or own == other


def _edge_name(edge: Edge) -> str:
    return f"{edge[0]}:{edge[1]}"
