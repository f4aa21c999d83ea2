"""Operators grouped by what they were made from: the unit in which a compiled and an original model agree."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.graph import OutputDesc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.graph import RuleFile, RuleOp

    OpKey = tuple[str, str]


class Relation(StrEnum):
    """How many original operators became how many compiled ones."""

    ONE_TO_ONE = "one to one"
    MANY_TO_ONE = "many to one"
    ONE_TO_MANY = "one to many"
    MANY_TO_MANY = "many to many"
    L1_FUSION = "L1 fusion"


class Group(NamedTuple):
    """The operators that were made from the same originals; `index` is its number in the report."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    operators: tuple[RuleOp, ...]

    @property
    def relation(self) -> Relation:
        """What the first operator, which decides, says about the group."""
        first = self.operators[0]
        if len(self.operators) == 1:
            return Relation.MANY_TO_ONE if len(first.originals) > 1 else Relation.ONE_TO_ONE
        if first.l1_number:
            return Relation.L1_FUSION
        return Relation.ONE_TO_MANY if len(first.originals) == 1 else Relation.MANY_TO_MANY

    @property
    def target_names(self) -> str:
        """Its operators, comma-separated."""
        return ",".join([operator.name for operator in self.operators])

    @property
    def golden_names(self) -> str:
        """The originals of its operators that have names, comma-separated, equal lists once; `*` for none."""
        lists = dict.fromkeys([",".join(filter(None, operator.originals)) for operator in self.operators])
        return ",".join(filter(None, lists)) or "*"


class Network(NamedTuple):
    """A rule file made ready for pairing.

    Attributes:
        groups: in the order in which each first appears in the file.
        by_graph: operators by graph and name.
        by_name: operators by name alone; of equal names the first.
    """

    groups: tuple[Group, ...]
    by_graph: Mapping[OpKey, RuleOp]
    by_name: Mapping[str, RuleOp]

    def find(self, name: str, graph_name: str) -> RuleOp | None:
        """The operator of this name: that of the given graph, else one of another graph."""
        return self.by_graph.get((graph_name, name)) or self.by_name.get(name)

    def operators(self) -> Iterator[RuleOp]:
        """All operators, group by group."""
        return (operator for group in self.groups for operator in group.operators)

    def in_sequence(self) -> list[RuleOp]:
        """All operators in the order of execution."""
        return sorted(self.operators(), key=lambda operator: operator.sequence)


def build_network(rules: RuleFile) -> Network:
    """The groups of a rule file, with the names of the originals filled in where they go without saying."""
    grouped: dict[str, list[RuleOp]] = {}
    for graph in rules.graphs:
        for operator in graph.operators:
            named = operator if operator.has_originals else fill_origin(operator, operator.name)
            grouped.setdefault(fusion_name(named), []).append(named)
        for name, members in grouped.items():
            grouped[name] = _fill_renamed(name, members)
    return network_of(grouped.values())


def network_of(grouped: Iterable[Sequence[RuleOp]]) -> Network:
    """The network of operators that are grouped already. A name repeated in a group is one operator."""
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
    return Network(tuple(groups), by_graph, by_name)


def fusion_name(operator: RuleOp) -> str:
    """What operators of one group have in common."""
    if operator.l1_number:
        return operator.l1_number
    if len(operator.originals) == 1:
        return operator.originals[0] or operator.name
    # The order of the originals counts. The separator keeps a list of names apart from a single name.
    return "\0".join(operator.originals) or operator.name


def fill_origin(operator: RuleOp, name: str) -> RuleOp:
    """The operator with this original name at every output that has none; one for all outputs if none is described."""
    if operator.outputs and all(output.origin_name for output in operator.outputs):
        return operator
    outputs = tuple(output._replace(origin_name=output.origin_name or name) for output in operator.outputs)
    return operator._replace(outputs=outputs or (OutputDesc(0, origin_name=name),))


def is_inner(operator: RuleOp) -> bool:
    """Whether it is a part of a split operator that holds nothing the original model has."""
    return operator.is_multiop and not any(output.origin_name for output in operator.outputs)


def _fill_renamed(name: str, members: list[RuleOp]) -> list[RuleOp]:
    """An operator alone in its group with one original is that original, so all its outputs are."""
    if len({operator.name for operator in members}) > 1 or any(op.originals != (name,) for op in members):
        return members
    return [fill_origin(operator, name) for operator in members]
