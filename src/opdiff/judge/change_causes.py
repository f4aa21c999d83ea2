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
    """Return the changes that can cause a finding.

    Fusion of other operators changes memory and layouts, so that fusion may be the cause for any operator.
    """
    if len(changes) < 2:
        return changes
    is_known = any(node.name == finding.operator for node in nodes)
    if finding.kind in _NOT_BY_QUANTIZATION or (is_known and not is_on_quantized_values(finding, nodes)):
        return tuple(change for change in changes if change is not Change.QUANTIZATION)
    return changes


def is_not_fused(finding: Finding, nodes: Sequence[GraphNode]) -> bool:
    """Return whether an operator at fault is known to be compiled from one original, without a fusion pass."""
    node = next((node for node in nodes if node.name == finding.operator), None)
    if node is None or finding.before:
        return False
    return not (len(node.originals) > 1 or node.passes or node.buffer_passes)


def is_on_quantized_values(finding: Finding, nodes: Sequence[GraphNode]) -> bool:
    """Return whether an operator at fault, a producer, or an uncompared operator before it quantizes or dequantizes."""
    by_name = {node.name: node for node in nodes}
    inputs = by_name[finding.operator].inputs if finding.operator in by_name else ()
    names = (finding.operator, *finding.before, *(text.rpartition(":")[0] for text in inputs))
    return any(_is_quantizing(by_name[name]) for name in names if name in by_name)


def _is_quantizing(node: GraphNode) -> bool:
    return is_quantizing(node.op_type) or any("quant" in name.lower() for name in (node.name, *node.originals))
