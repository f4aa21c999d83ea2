"""Changes between two stages that can cause an error, by its kind and its operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.judgement import ErrorKind
from opdiff.core.stages import Change
from opdiff.judge.error_model import is_quantizing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import GraphNode
    from opdiff.core.judgement import Finding

# Kinds of error that quantized values cannot have because they are quantized.
_NOT_BY_QUANTIZATION = frozenset({
    ErrorKind.OVERFLOW, ErrorKind.PERMUTED, ErrorKind.MEMORY, ErrorKind.OPERAND, ErrorKind.INDICES,
})  # fmt: skip


def possible_changes(changes: tuple[Change, ...], finding: Finding, nodes: Sequence[GraphNode]) -> tuple[Change, ...]:
    """Return those of several changes that can cause a finding; all of them if none can."""
    if len(changes) < 2:
        return changes
    node = next((node for node in nodes if node.name == finding.operator), None)
    excluded = set()
    if finding.kind in _NOT_BY_QUANTIZATION or (node and not is_on_quantized_values(finding, nodes)):
        excluded.add(Change.QUANTIZATION)
    if node and not finding.before and not (len(node.originals) > 1 or node.passes or node.buffer_passes):
        excluded.add(Change.FUSION)
    return tuple(change for change in changes if change not in excluded) or changes


def is_on_quantized_values(finding: Finding, nodes: Sequence[GraphNode]) -> bool:
    """Return whether an operator at fault, its producers, or uncompared operators before it quantize or dequantize."""
    by_name = {node.name: node for node in nodes}
    inputs = by_name[finding.operator].inputs if finding.operator in by_name else ()
    names = (finding.operator, *finding.before, *(text.rpartition(":")[0] for text in inputs))
    return any(_is_quantizing(by_name[name]) for name in names if name in by_name)


def _is_quantizing(node: GraphNode) -> bool:
    return is_quantizing(node.op_type) or any("quant" in name.lower() for name in (node.name, *node.originals))
