"""Operators of a compiled model grouped by their originals; each group has an index in the report."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.tensor import file_safe_name
from opdiff.pair.true_origins import correct_origins, declared_origins, drop_constant_origins, fill_origin_at_chain_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.graph import RuleFile, RuleOp

    OpKey = tuple[str, str]


NOT_RUN_TYPES = frozenset({"Const", "Constant", "Data", "NetOutput", "RefData", "Variable"})
"""Types that hold values or mark the borders of a model; no device runs them, so that they are not dumped."""


class Relation(StrEnum):
    """Number of original operators to number of compiled operators, or L1 fusion."""

    ONE_TO_ONE = "one to one"
    MANY_TO_ONE = "many to one"
    ONE_TO_MANY = "one to many"
    MANY_TO_MANY = "many to many"
    L1_FUSION = "L1 fusion"
    """The compiler runs the operators in turn, tile by tile, in the L1 buffer of a core."""


class Group(Struct, frozen=True):
    """Operators compiled from the same originals; `index` is the number of the group in the report."""

    index: int
    operators: tuple[RuleOp, ...]

    @property
    def relation(self) -> Relation:
        """Relation of the group, decided by its first operator."""
        first = self.operators[0]
        if len(self.operators) == 1:
            return Relation.MANY_TO_ONE if len(first.originals) > 1 else Relation.ONE_TO_ONE
        if first.l1_subgraph:
            return Relation.L1_FUSION
        return Relation.ONE_TO_MANY if len(first.originals) == 1 else Relation.MANY_TO_MANY

    @property
    def target_names(self) -> str:
        """Names of its operators, comma-separated."""
        return ",".join([operator.name for operator in self.operators])

    @property
    def golden_names(self) -> str:
        """Names of the originals, comma-separated; `*` for none. Originals that several operators share come once."""
        lists = dict.fromkeys([",".join(filter(None, operator.originals)) for operator in self.operators])
        return ",".join(filter(None, lists)) or "*"


class GroupedModel(Struct, frozen=True):
    """Operators of a rule file, grouped and by name.

    Attributes:
        groups: in the order of their first operators in the file.
        by_graph: operators by graph and name.
        by_name: operators by name alone; of equal names the first.
        owners: the operator that owns each sub-graph, by the name of the sub-graph.
        ends: the operator that ends each graph, by the graph's name.
        colliding_names: names of operators whose dump files have the same name, by that file name.
    """

    groups: tuple[Group, ...]
    by_graph: Mapping[OpKey, RuleOp]
    by_name: Mapping[str, RuleOp]
    owners: Mapping[str, RuleOp]
    ends: Mapping[str, RuleOp]
    colliding_names: Mapping[str, tuple[str, ...]]

    def names_with_same_file(self, name: str) -> tuple[str, ...]:
        """Return the other operators whose files have the same name."""
        return tuple(other for other in self.colliding_names.get(file_safe_name(name), ()) if other != name)

    def find(self, name: str, graph_name: str) -> RuleOp | None:
        """Return the operator of this name: the operator of the given graph, else an operator of another graph."""
        return self.by_graph.get((graph_name, name)) or self.by_name.get(name)

    def operators(self) -> Iterator[RuleOp]:
        """Yield all operators, group by group."""
        return (operator for group in self.groups for operator in group.operators)

    def in_sequence(self) -> list[RuleOp]:
        """Return all operators in the order of execution."""
        return sorted(self.operators(), key=lambda operator: operator.sequence)


def group_operators(rules: RuleFile) -> GroupedModel:
    """Group the operators of a rule file, with the origins of their outputs corrected by the rules of `true_origins`.

    Missing origins are filled in where they are unambiguous.
    """
    # Rules 1 to 4 look at the operators of one graph.
    grouped: dict[str, list[RuleOp]] = {}
    for graph in rules.graphs:
        for operator in correct_origins(graph.operators):
            grouped.setdefault(group_key(operator), []).append(operator)
    # Rule 5 looks at a group: the last operator of its chain has the outputs of the original, unless the rule file
    # declares another operator that has them.
    declared_in_file = declared_origins(rules.operators())
    groups = [fill_origin_at_chain_end(name, members, declared_in_file) for name, members in grouped.items()]
    # Rule 6 looks at all groups: a constant loses an origin that an operator which computes has, too.
    computed_origins = declared_origins((operator for members in groups for operator in members), constants=False)
    return index_groups(
        [drop_constant_origins(operator, computed_origins) for operator in members] for members in groups
    )


def index_groups(grouped: Iterable[Sequence[RuleOp]]) -> GroupedModel:
    """Return the model of operators that are grouped already. Operators of one name in a group count once."""
    groups = []
    by_graph: dict[OpKey, RuleOp] = {}
    by_name: dict[str, RuleOp] = {}
    for index, members in enumerate(grouped):
        distinct: dict[str, RuleOp] = {}
        for operator in members:
            distinct.setdefault(operator.name, operator)
            by_graph.setdefault(operator.key, operator)
            by_name.setdefault(operator.name, operator)
        groups.append(Group(index, tuple(distinct.values())))
    owners = {name: operator for operator in by_graph.values() for name in operator.subgraphs}
    ends = {operator.graph_name: operator for operator in by_graph.values() if operator.op_type == "NetOutput"}
    return GroupedModel(tuple(groups), by_graph, by_name, owners, ends, _colliding_names(by_name.values()))


def _colliding_names(operators: Iterable[RuleOp]) -> dict[str, tuple[str, ...]]:
    names_by_file: dict[str, list[str]] = defaultdict(list)
    for operator in operators:
        if operator.op_type not in NOT_RUN_TYPES:
            names_by_file[file_safe_name(operator.name)].append(operator.name)
    return {file: tuple(names) for file, names in names_by_file.items() if len(names) > 1}


def group_key(operator: RuleOp) -> str:
    """Return the key that operators of one group share."""
    if operator.l1_subgraph:
        return operator.l1_subgraph
    if len(operator.originals) == 1:
        return operator.originals[0] or operator.name
    # The order of the originals counts. The separator distinguishes a list of names from a single name.
    return "\0".join(operator.originals) or operator.name


def is_inner_part(operator: RuleOp) -> bool:
    """Return whether an operator is a part of a split operator and has no output of the original model."""
    return operator.is_multiop and not any(output.origin_name for output in operator.outputs)
