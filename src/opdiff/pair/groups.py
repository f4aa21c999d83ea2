"""Operators of a compiled model grouped by their originals, the unit of the report."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.tensor import file_safe_name
from opdiff.pair.true_origins import complete_origins, declared_origins, drop_origins_of_constants, name_last_outputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.graph import RuleFile, RuleOp

    OpKey = tuple[str, str]


NOT_RUN_TYPES = frozenset({"Const", "Constant", "Data", "NetOutput", "RefData", "Variable"})
"""Types that hold values or mark the borders of a model; no device runs them, so that they are not dumped."""


class Relation(StrEnum):
    """Number of original operators to number of compiled ones."""

    ONE_TO_ONE = "one to one"
    MANY_TO_ONE = "many to one"
    ONE_TO_MANY = "one to many"
    MANY_TO_MANY = "many to many"
    L1_FUSION = "L1 fusion"


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
        if first.l1_number:
            return Relation.L1_FUSION
        return Relation.ONE_TO_MANY if len(first.originals) == 1 else Relation.MANY_TO_MANY

    @property
    def target_names(self) -> str:
        """Names of its operators, comma-separated."""
        return ",".join([operator.name for operator in self.operators])

    @property
    def golden_names(self) -> str:
        """Named originals of its operators, comma-separated, equal lists once; `*` for none."""
        lists = dict.fromkeys([",".join(filter(None, operator.originals)) for operator in self.operators])
        return ",".join(filter(None, lists)) or "*"


class GroupedModel(Struct, frozen=True):
    """Operators of a rule file, grouped and by name.

    Attributes:
        groups: in the order of their first operators in the file.
        by_graph: operators by graph and name.
        by_name: operators by name alone; of equal names the first.
        owners: operators that own sub-graphs, by the names of these.
        ends: the operator that ends each graph, by the graph's name.
        by_file_form: names of operators that run, by the form that file names have, where several share one.
    """

    groups: tuple[Group, ...]
    by_graph: Mapping[OpKey, RuleOp]
    by_name: Mapping[str, RuleOp]
    owners: Mapping[str, RuleOp]
    ends: Mapping[str, RuleOp]
    by_file_form: Mapping[str, tuple[str, ...]]

    def sharing_file_form(self, name: str) -> tuple[str, ...]:
        """Return the other operators whose files have the same name."""
        return tuple(other for other in self.by_file_form.get(file_safe_name(name), ()) if other != name)

    def find(self, name: str, graph_name: str) -> RuleOp | None:
        """Return the operator of this name: that of the given graph, else one of another graph."""
        return self.by_graph.get((graph_name, name)) or self.by_name.get(name)

    def operators(self) -> Iterator[RuleOp]:
        """Yield all operators, group by group."""
        return (operator for group in self.groups for operator in group.operators)

    def in_sequence(self) -> list[RuleOp]:
        """Return all operators in the order of execution."""
        return sorted(self.operators(), key=lambda operator: operator.sequence)


def group_rules(rules: RuleFile) -> GroupedModel:
    """Group the operators of a rule file; missing names of originals are filled in where they are unambiguous."""
    grouped: dict[str, list[RuleOp]] = {}
    for graph in rules.graphs:
        for operator in complete_origins(graph.operators):
            grouped.setdefault(group_key(operator), []).append(operator)
    declared = declared_origins(rules.operators())
    named = [name_last_outputs(name, members, declared) for name, members in grouped.items()]
    computed = declared_origins((operator for members in named for operator in members), constants=False)
    return index_groups([drop_origins_of_constants(operator, computed) for operator in members] for members in named)


def index_groups(grouped: Iterable[Sequence[RuleOp]]) -> GroupedModel:
    """Return the model of operators that are grouped already. A name repeated in a group is one operator."""
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
    return GroupedModel(tuple(groups), by_graph, by_name, owners, ends, _shared_file_forms(by_name.values()))


def _shared_file_forms(operators: Iterable[RuleOp]) -> dict[str, tuple[str, ...]]:
    forms: dict[str, list[str]] = defaultdict(list)
    for operator in operators:
        if operator.op_type not in NOT_RUN_TYPES:
            forms[file_safe_name(operator.name)].append(operator.name)
    return {form: tuple(names) for form, names in forms.items() if len(names) > 1}


def group_key(operator: RuleOp) -> str:
    """Return the key that operators of one group share."""
    if operator.l1_number:
        return operator.l1_number
    if len(operator.originals) == 1:
        return operator.originals[0] or operator.name
    # The order of the originals counts. The separator distinguishes a list of names from a single name.
    return "\0".join(operator.originals) or operator.name


def is_inner_part(operator: RuleOp) -> bool:
    """Return whether it is a part of a split operator without any tensor of the original model."""
    return operator.is_multiop and not any(output.origin_name for output in operator.outputs)
