"""Graph of the target: by the rule file, else by the device addresses of its tensors."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.comparison import GraphNode
from opdiff.core.dump import DumpKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opdiff.core.dump import Dump
    from opdiff.core.graph import RuleOp
    from opdiff.core.tensor import Tensor

# Indices of inputs come from file names, which are not trusted.
_MAX_INPUTS = 1024


def target_graph(target: Dump, golden: Dump, operators: Iterable[RuleOp] | None) -> tuple[GraphNode, ...]:
    """Return the operators of the target in the order of execution with their inputs, as far as they are known.

    `operators` are those of the rules. Without rules, operators that only the golden dump of an NPU has are missing in
    the target; they are nodes, too.
    """
    if operators is not None:
        return _graph_by_rules(operators)
    nodes = _graph_by_addresses(target)
    return _with_missing(nodes, target, _graph_by_addresses(golden)) if golden.kind is DumpKind.NPU else nodes


def _graph_by_rules(operators: Iterable[RuleOp]) -> tuple[GraphNode, ...]:
    """Return the operators of rules in the order of execution; of equal names the first."""
    distinct: dict[str, RuleOp] = {}
    for operator in operators:
        distinct.setdefault(operator.name, operator)
    ordered = sorted(distinct.values(), key=lambda operator: operator.sequence)
    return tuple([_node(operator) for operator in ordered])


def _node(operator: RuleOp) -> GraphNode:
    originals = tuple(filter(None, operator.originals)) if operator.has_originals else (operator.name,)
    passes = operator.passes, operator.buffer_passes
    return GraphNode(operator.name, operator.op_type, operator.inputs, originals, *passes)


def _graph_by_addresses(target: Dump) -> tuple[GraphNode, ...]:
    """Return the operators of a dump, oldest first. An input has the address of the output that feeds it.

    Memory is reused, so that the last output written to the address counts, and only if it has the size of the input.
    """
    writers: dict[tuple[int, int], str] = {}
    nodes = []
    for name, operator in target.operators.items():
        count = min(max(operator.inputs, default=-1) + 1, _MAX_INPUTS)
        inputs = tuple(_writer(writers, operator.inputs.get(index)) for index in range(count))
        nodes.append(GraphNode(name, operator.op_type, inputs, is_guess=True))
        for index, tensor in operator.outputs.items():
            if tensor.spec.address:
                writers[tensor.spec.address, tensor.source.nbytes] = f"{name}:{index}"
    return tuple(nodes)


def _with_missing(nodes: tuple[GraphNode, ...], target: Dump, golden: tuple[GraphNode, ...]) -> tuple[GraphNode, ...]:
    """Insert golden operators without outputs in the target, and let those read them that do so in the golden dump.

    The addresses of the target lead to another operator there, which wrote to the same memory earlier.
    """
    missing = {node.name: node for node in golden if not _has_outputs(target, node.name)}
    if not missing:
        return nodes
    reads = {node.name: node.inputs for node in golden}
    followers: dict[str, list[GraphNode]] = {}
    previous = ""
    for node in golden:
        if node.name in missing:
            followers.setdefault(previous, []).append(node)
        elif node.name in target.operators:
            previous = node.name
    known = [replace(node, inputs=_merged(node.inputs, reads.get(node.name, ()), missing)) for node in nodes]
    ordered = [*followers.get("", ())]
    for node in known:
        ordered += [] if node.name in missing else [node]
        ordered += followers.get(node.name, ())
    return tuple(ordered)


def _has_outputs(dump: Dump, name: str) -> bool:
    operator = dump.operators.get(name)
    return operator is not None and bool(operator.outputs)


def _merged(own: tuple[str, ...], golden: tuple[str, ...], missing: Mapping[str, GraphNode]) -> tuple[str, ...]:
    """Return the inputs of an operator; inputs from missing operators are taken from the golden dump."""
    pairs = zip_longest(own, golden[: len(own)], fillvalue="")
    return tuple(theirs if theirs.rpartition(":")[0] in missing else ours for ours, theirs in pairs)


def _writer(writers: dict[tuple[int, int], str], tensor: Tensor | None) -> str:
    if tensor is None or not tensor.spec.address:
        return ""
    return writers.get((tensor.spec.address, tensor.source.nbytes), "")
