"""Operators of a compiled model grouped by their originals, the unit of the report."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.graph import OutputDesc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.graph import RuleFile, RuleOp

    OpKey = tuple[str, str]


class Relation(StrEnum):
    """Number of original operators to number of compiled ones."""

    ONE_TO_ONE = "one to one"
    MANY_TO_ONE = "many to one"
    ONE_TO_MANY = "one to many"
    MANY_TO_MANY = "many to many"
    L1_FUSION = "L1 fusion"


class Group(NamedTuple):
    """Operators compiled from the same originals; `index` is the number of the group in the report."""

    index: int  # type: ignore[assignment]  # hides tuple.index
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


class GroupedModel(NamedTuple):
    """Operators of a rule file, grouped and by name.

    Attributes:
        groups: in the order of their first operators in the file.
        by_graph: operators by graph and name.
        by_name: operators by name alone; of equal names the first.
    """

    groups: tuple[Group, ...]
    by_graph: Mapping[OpKey, RuleOp]
    by_name: Mapping[str, RuleOp]

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
        for operator in graph.operators:
            named = operator if operator.has_originals else fill_origin(operator, operator.name)
            grouped.setdefault(group_key(named), []).append(named)
        for name, members in grouped.items():
            grouped[name] = _fill_renamed(name, members)
    return index_groups(grouped.values())


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
    return GroupedModel(tuple(groups), by_graph, by_name)


def group_key(operator: RuleOp) -> str:
    """Return the key that operators of one group share."""
    if operator.l1_number:
        return operator.l1_number
    if len(operator.originals) == 1:
        return operator.originals[0] or operator.name
    # The order of the originals counts. The separator distinguishes a list of names from a single name.
    return "\0".join(operator.originals) or operator.name


def fill_origin(operator: RuleOp, name: str) -> RuleOp:
    """Return the operator with this original name at every output without one; a single output if none is described."""
    if operator.outputs and all(output.origin_name for output in operator.outputs):
        return operator
    outputs = tuple(output._replace(origin_name=output.origin_name or name) for output in operator.outputs)
    return operator._replace(outputs=outputs or (OutputDesc(0, origin_name=name),))


def is_inner(operator: RuleOp) -> bool:
    """Whether it is a part of a split operator without any tensor of the original model."""
    return operator.is_multiop and not any(output.origin_name for output in operator.outputs)


def _fill_renamed(name: str, members: list[RuleOp]) -> list[RuleOp]:
    """Name the outputs of an operator that is alone in its group after its only original."""
    if len({operator.name for operator in members}) > 1 or any(op.originals != (name,) for op in members):
        return members
    return [fill_origin(operator, name) for operator in members]
