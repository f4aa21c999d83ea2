"""The target's network: what feeds what, by the rule file or else by the addresses at which tensors lay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.comparison import GraphNode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.dump import Dump
    from opdiff.core.graph import RuleFile, RuleOp
    from opdiff.core.tensor import Tensor

# Numbers of inputs come from file names that are not trusted.
_MOST_INPUTS = 1024


def graph_of(target: Dump, rules: RuleFile | None) -> tuple[GraphNode, ...]:
    """The target's network in the order of execution, as far as anything is known of it."""
    return guessed_nodes(target) if rules is None else nodes_of(rules)


def nodes_of(rules: RuleFile) -> tuple[GraphNode, ...]:
    """The operators of a rule file in the order of execution, those of equal names once."""
    distinct: dict[str, RuleOp] = {}
    for operator in rules.operators():
        distinct.setdefault(operator.name, operator)
    ordered = sorted(distinct.values(), key=lambda operator: operator.sequence)
    return tuple([_node(operator) for operator in ordered])


def _node(operator: RuleOp) -> GraphNode:
    originals = tuple(filter(None, operator.originals)) if operator.has_originals else (operator.name,)
    passes = operator.passes, operator.buffer_passes
    return GraphNode(operator.name, operator.op_type, operator.inputs, originals, *passes)


def guessed_nodes(target: Dump) -> tuple[GraphNode, ...]:
    """The operators of a dump, oldest first. An input lies where an earlier operator put its output.

    Memory is used again: the last one to write there counts, and only if it wrote as many bytes.
    """
    writers: dict[tuple[int, int], str] = {}
    nodes = []
    for name, operator in target.operators.items():
        inputs = tuple(_writer(writers, tensor) for tensor in _in_order(operator.inputs.items()))
        nodes.append(GraphNode(name, operator.op_type, inputs, is_guess=True))
        for index, tensor in operator.outputs.items():
            if tensor.spec.address:
                writers[tensor.spec.address, tensor.source.nbytes] = f"{name}:{index}"
    return tuple(nodes)


def _in_order(tensors: Iterable[tuple[int, Tensor]]) -> list[Tensor | None]:
    """Every input at its number; there may be gaps."""
    found = dict(tensors)
    return [found.get(index) for index in range(min(max(found, default=-1) + 1, _MOST_INPUTS))]


def _writer(writers: dict[tuple[int, int], str], tensor: Tensor | None) -> str:
    if tensor is None or not tensor.spec.address:
        return ""
    return writers.get((tensor.spec.address, tensor.source.nbytes), "")
