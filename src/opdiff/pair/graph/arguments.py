"""Assignment of the tensors of an FX run to the tensors of a graph, with the evidence.

From the strongest evidence:

1. Names: the text names the FX tensor on the descriptor (`matches`).
2. Movements: an operator that only moves elements joins two tensors. Its result on a golden tensor is looked up
   among the golden files (`matches`).
3. Arguments: an FX node and the operators it became read the same tensors. Known tensors are left out; shapes, element
   types, all readers and the names of descriptors (`bias`, `gamma`) decide on the others. Unnamed tensors are graph
   inputs, and results that FX did not write.
4. Content: of several candidates the tensor with the target's numbers, with low confidence.

Positions and equal element counts are no evidence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.reasons import because
from opdiff.pair.graph.edges import fx_node
from opdiff.pair.graph.facts import Facts
from opdiff.pair.graph.matches import Match, Matches
from opdiff.pair.graph.movement import are_alike
from opdiff.pair.graph.roles import argument_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opdiff.core.graph import TextOp
    from opdiff.pair.graph.edges import Edge, GraphEdges, Read
    from opdiff.pair.graph.facts import Place, Value

    Argument = tuple[int, int]
    # Values that an edge may have, and for each node that reads the edge the arguments that have these values.
    Options = dict[Value, list[tuple[str, frozenset[Argument]]]]

_BY_ARGUMENT, _BY_CONTENT = 0.95, 0.6


def find_matches(edges: GraphEdges, facts: Facts, dumped: Callable[[Edge], Place | None]) -> Matches:
    """Return the golden values of the edges of one graph in one token; the arguments are those of `Matches`."""
    matches = Matches(edges, facts, dumped)
    matcher = _ArgumentMatcher(matches)
    while matcher.decide():
        matches.trace()
    return matches


class Use(Struct, frozen=True):
    """A read of an argument of an FX node; `taken` are its arguments that are assigned to other edges already."""

    read: Read
    node: str
    taken: frozenset[Argument] = frozenset()


class _ArgumentMatcher:
    """Assignment of golden values to edges without a name."""

    def __init__(self, known: Matches) -> None:
        """Take the known edges; their reads are those of the graph."""
        self._facts = known.facts
        self._known = known
        self._reads = known.edges.reads
        self._operators = known.edges.graph.operators

    def decide(self) -> bool:
        """Decide on as many edges as the evidence allows; return whether one was decided."""
        options = {edge: self._options(edge, uses) for edge, uses in self._uses().items()}
        self._known.candidates = {edge: tuple(found) for edge, found in options.items()}
        return self._by_elimination(options) or self._by_content(options)

    # Uses

    def _uses(self) -> dict[Edge, list[Use]]:
        """The uses of every unknown edge."""
        uses: dict[Edge, list[Use]] = defaultdict(list)
        for name, reads in self._reads.items():
            unknown = [read for read in reads if self._known.found.get(read.edge) is None]
            node = self._node_of(self._operators[name]) if unknown else ""
            if not node:
                continue
            taken = self._taken([read for read in reads if read not in unknown], node)
            for read in unknown:
                uses[read.edge].append(Use(read, node, taken))
        return uses

    def _node_of(self, owner: TextOp) -> str:
        """Return the FX node of an operator: the node with the most arguments among the edges that are read.

        Usually the node with the operator's name; a view without effect may have replaced the name of an earlier one.
        """
        best, most = "", -1
        for node in self._possible_nodes(owner):
            hits = sum(bool(self._arguments_read(read, node)) for read in self._reads[owner.name])
            if hits > most:
                best, most = node, hits
        return best

    def _possible_nodes(self, owner: TextOp) -> Iterable[str]:
        """The named node first, then earlier nodes that returned the same value, the latest first."""
        named = fx_node(owner)
        nodes: dict[str, None] = {named: None} if self._facts.arguments(named) else {}
        for index in range(len(owner.output_names)):
            value = self._known.value((owner.name, index))
            if value is not None:
                nodes |= dict.fromkeys(reversed(value.results_before(named)))
        return nodes

    def _taken(self, reads: Iterable[Read], node: str) -> frozenset[Argument]:
        """Arguments of a node that are known to be read by other edges."""
        found = [self._arguments_read(read, node) for read in reads]
        return frozenset(argument for arguments in found if len(arguments) == 1 for argument in arguments)

    def _arguments_read(self, read: Read, node: str) -> set[Argument]:
        """Arguments of a node that a read may be."""
        value = self._known.value(read.edge)
        if value is None:
            return set().union(*self._accepted(Use(read, node)).values())
        held = [value, *(self._known.value((op.name, 0)) for op in read.chain)]
        return {(file.index, file.element) for file in self._facts.arguments(node) if self._facts.value(file) in held}

    # Options

    def _options(self, edge: Edge, uses: list[Use]) -> Options:
        """Values that an edge may have: values that are arguments of most of its readers."""
        options: Options = defaultdict(list)
        for use in uses:
            for value, arguments in self._accepted(use).items():
                options[value].append((use.node, frozenset(arguments)))
        most = max(map(len, options.values()), default=0)
        best = [value for value, found in options.items() if len(found) == most]
        if self._known.edges.is_graph_input(edge):
            # Several readers outweigh the order of files: a graph input may be the transpose of another one.
            given = [value for value in best if value.can_be_graph_input]
            best = best if most > 1 and not given else given
        dtype = self._known.dtype(edge)
        best = [value for value in best if value.stored.dtype == dtype] or best
        return {value: options[value] for value in best}

    def _accepted(self, use: Use) -> dict[Value, set[Argument]]:
        """Values that would make a read an argument of its node, and which argument."""
        accepted: dict[Value, set[Argument]] = defaultdict(set)
        files = self._facts.arguments(use.node)
        for file in files:
            argument = (file.index, file.element)
            for value in self._before(file, use.read) if argument not in use.taken else ():
                if self._fits(value, use.read.edge):
                    accepted[value].add(argument)
        role = argument_of(use.node, use.read.reader, use.read.index, Counter(file.index for file in files))
        return {value: {role} for value, found in accepted.items() if role in found} if role else accepted

    def _before(self, argument: Place, read: Read) -> Iterator[Value]:
        """Values that become an argument on the way of a read, the argument itself first."""
        value = self._facts.value(argument)
        yield value
        for length in range(1, len(read.chain) + 1):
            before = self._known.moved_back(value, read.chain[:length], read.edge)
            if before is not None and before != value:
                yield before

    def _fits(self, value: Value, edge: Edge) -> bool:
        return value.has_shape(self._known.shape(edge)) and are_alike(value.stored.dtype, self._known.dtype(edge))

    # Decisions

    def _by_elimination(self, options: dict[Edge, Options]) -> bool:
        """Decide where one value is left, unless two edges claim the same argument of a node."""
        single = {edge: next(iter(found)) for edge, found in options.items() if len(found) == 1}
        claims = {edge: _claims(options[edge][value]) for edge, value in single.items()}
        counts = Counter(claim for found in claims.values() for claim in found)
        decided = [edge for edge in single if all(counts[claim] == 1 for claim in claims[edge])]
        for edge in decided:
            node, arguments = options[edge][single[edge]][0]
            reason = because("pair.fx_argument", index=min(arguments)[0], name=node)
            self._known.found[edge] = Match(single[edge], reason, _BY_ARGUMENT)
        return bool(decided)

    def _by_content(self, options: dict[Edge, Options]) -> bool:
        """Decide by the target's numbers where several values are left."""
        decided = False
        for edge, found in options.items():
            dumped = self._known.dumped(edge)
            same = Facts.have_same_numbers
            equal = [value for value in found if dumped is not None and self._facts.ask(same, dumped, value.place)]
            if len(equal) == 1:
                node, arguments = found[equal[0]][0]
                reason = because("pair.fx_content", index=min(arguments)[0], name=node, candidates=len(found))
                self._known.found[edge] = Match(equal[0], reason, _BY_CONTENT)
                decided = True
        return decided


def _claims(found: list[tuple[str, frozenset[Argument]]]) -> set[tuple[str, Argument]]:
    """Return the arguments that only one value can be."""
    return {(node, argument) for node, arguments in found if len(arguments) == 1 for argument in arguments}
