"""Operators of a compiled model grouped by their originals; each group has an index in the report.

Origins of outputs, as real compilers leave them, are corrected, completed, or dropped:

1. If the rule file names no origin for an output and no original for its operator, the origin has the operator's name.
2. If the compiler inserted a transpose after an operator, the output of the transpose is the original tensor, and its
   input is not.
3. A fused operator that writes into the output of a concatenation (`StridedWrite`) has the output of the original that
   its name contains.
4. The input of the original model is the output of image preprocessing on the device (`Aipp`), not the image before it.
5. If one original became a chain of operators, the last operator of the chain has the outputs of the original.
6. A folded constant often has the name of an operator that reads it. If an operator that computes declares the same
   origin, the constant loses the origin.
"""

from __future__ import annotations

import re
from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.graph import OutputDesc, parse_input
from opdiff.core.tensor import file_safe_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.graph import RuleFile, RuleOp

    OpKey = tuple[str, str]
    Origin = tuple[str, int]

NOT_RUN_TYPES = frozenset({"Const", "Constant", "Data", "NetOutput", "RefData", "Variable"})
"""Types that hold values or mark the borders of a model; no device runs them, so that they are not dumped."""

_TRANSPOSES = frozenset({"Transpose", "TransposeD"})
_TRANSPOSE_BEFORE = r".+_Input\d{1,4}_?TransposeBefore"
_TRANSPOSE_AFTER = r"(.+)_Output(\d{1,4})_?TransposeAfter"
_AIPP_TYPE = "Aipp"
# Name of the preprocessing in the name of an operator that it was fused into.
_AIPP_MARK = "_huawei_aipp"
_STRIDED_WRITE = "_StridedWrite"


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
    """Group the operators of a rule file, with the origins of their outputs corrected by the rules above."""
    # Rules 1 to 4 look at the operators of one graph.
    grouped: dict[str, list[RuleOp]] = {}
    for graph in rules.graphs:
        for operator in _correct_origins(graph.operators):
            grouped.setdefault(group_key(operator), []).append(operator)
    # Rule 5 looks at a group: the last operator of its chain has the outputs of the original, unless the rule file
    # declares another operator that has them.
    declared_in_file = declared_origins(rules.operators())
    groups = [_fill_origin_at_chain_end(name, members, declared_in_file) for name, members in grouped.items()]
    # Rule 6 looks at all groups: a constant loses an origin that an operator which computes has, too.
    computed_origins = declared_origins((operator for members in groups for operator in members), constants=False)
    return index_groups(
        [_drop_constant_origins(operator, computed_origins) for operator in members] for members in groups
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


# Rules for origins


def _correct_origins(operators: Sequence[RuleOp]) -> list[RuleOp]:
    """Return the operators of a graph, with the origins that rules 1 to 4 give, and each original listed once."""
    transposed = _transposed_outputs(operators)
    moved: dict[str, set[int]] = {}
    for name, index in transposed.values():
        moved.setdefault(name, set()).add(index)
    completed = []
    for operator in operators:
        unique = replace(operator, originals=tuple(dict.fromkeys(operator.originals)))
        if operator.name in transposed:
            unique = _with_origin(unique, *transposed[operator.name])
        elif not operator.has_originals and not _is_inserted_transpose(operator, _TRANSPOSE_BEFORE):
            unique = _fill_origin(unique, operator.name)
        elif operator.op_type == _AIPP_TYPE and (source := _source_name(operator)):
            unique = _fill_origin(unique, source)
        elif written := _written_original(operator):
            unique = _fill_origin(unique, written)
        completed.append(_without_origins(unique, moved.get(operator.name, set())))
    return completed


def _fill_origin_at_chain_end(name: str, members: list[RuleOp], declared: Iterable[Origin]) -> list[RuleOp]:
    """Return the operators compiled from one original, with the original as the origin at the end of the chain.

    Args:
        name: the original.
        members: operators compiled from the original.
        declared: origins that the rule file declares for outputs.
    """
    working = [operator for operator in members if not operator.is_constant]
    if any(operator.originals != (name,) for operator in working):
        return members
    ends = {operator.name for operator in working}
    if len({operator.name for operator in members}) > 1:
        ends -= {parsed[0] for operator in working for entry in operator.inputs if (parsed := parse_input(entry))}
        if any(origin == name for origin, _ in declared):
            return members
    if len(ends) != 1:
        return members
    return [
        _fill_origin(operator, name) if operator.name in ends and operator.has_originals else operator
        for operator in members
    ]


def declared_origins(operators: Iterable[RuleOp], *, constants: bool = True) -> set[Origin]:
    """Return the original tensors that the rule file declares for outputs."""
    return {
        _origin(output)
        for operator in operators
        if constants or not operator.is_constant
        for output in operator.outputs
        if output.origin_name
    }


def _drop_constant_origins(operator: RuleOp, origins: set[Origin]) -> RuleOp:
    """Return a constant without the origins that computing operators have; other operators are unchanged."""
    if not operator.is_constant:
        return operator
    return _without_origins(operator, {output.position for output in operator.outputs if _origin(output) in origins})


def _fill_origin(operator: RuleOp, name: str) -> RuleOp:
    """Return the operator with this original at every output without an origin; if none is described, at output 0."""
    if operator.outputs and all(output.origin_name for output in operator.outputs):
        return operator
    outputs = tuple(replace(output, origin_name=output.origin_name or name) for output in operator.outputs)
    return replace(operator, outputs=outputs or (OutputDesc(0, origin_name=name),))


def _origin(output: OutputDesc) -> Origin:
    return output.origin_name, output.position if output.origin_index is None else output.origin_index


def _without_origins(operator: RuleOp, positions: set[int]) -> RuleOp:
    if not positions:
        return operator
    outputs = (
        replace(output, origin_name="") if output.position in positions else output for output in operator.outputs
    )
    return replace(operator, outputs=tuple(outputs))


def _with_origin(operator: RuleOp, name: str, index: int) -> RuleOp:
    output = operator.outputs[0] if operator.outputs else OutputDesc(0)
    return replace(operator, outputs=(replace(output, origin_name=name, origin_index=index),))


def reads_image(operator: RuleOp, producer: RuleOp) -> bool:
    """Return whether the producer feeds an image that the operator preprocesses on the device (AIPP)."""
    return producer.op_type == "Data" and (operator.op_type == _AIPP_TYPE or _AIPP_MARK in operator.name)


def _source_name(operator: RuleOp) -> str:
    source = parse_input(operator.inputs[0]) if operator.inputs else None
    return source[0] if source else ""


def _written_original(operator: RuleOp) -> str:
    """Return the original whose output a fused operator writes with strides; an empty string for other operators."""
    if len(operator.outputs) > 1:
        return ""
    return next((name for name in operator.originals if name and operator.name.endswith(f"{name}{_STRIDED_WRITE}")), "")


def _transposed_outputs(operators: Iterable[RuleOp]) -> dict[str, Origin]:
    """Return the transposes inserted after operators, and the output that each brings into the original order."""
    found = {}
    for operator in operators:
        is_transpose = _is_inserted_transpose(operator, _TRANSPOSE_AFTER)
        match = re.fullmatch(_TRANSPOSE_AFTER, operator.name) if is_transpose else None
        source = parse_input(operator.inputs[0]) if operator.inputs else None
        if match and source == (match[1], int(match[2])):
            found[operator.name] = source
    return found


def _is_inserted_transpose(operator: RuleOp, name: str) -> bool:
    """Return whether an operator is a transpose that the compiler inserted before or after another operator."""
    has_no_original = not operator.has_originals or operator.is_inserted
    return operator.op_type in _TRANSPOSES and has_no_original and re.fullmatch(name, operator.name) is not None
