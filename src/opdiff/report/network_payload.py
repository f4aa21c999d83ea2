"""Networks for the HTML page, and the units of graph mode that they belong to. web/src/graph/network.ts reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from opdiff.core.reasons import because
from opdiff.report.short_names import short_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from opdiff.core.comparison import Comparison, GraphNode, ModelGraph
    from opdiff.core.dump import Unit
    from opdiff.report.packing import Packer
    from opdiff.report.row_summary import RowSummary

    Networks = tuple[list[dict[str, Any]], dict[Unit, int]]


def pack_nodes(nodes: Sequence[GraphNode], packer: Packer) -> dict[str, Any]:
    """Return the columns of a network; inputs are numbers of nodes, -1 for tensors from outside."""
    numbers = {node.name: number for number, node in enumerate(nodes)}
    inputs = [[numbers.get(source.rpartition(":")[0], -1) for source in node.inputs] for node in nodes]
    return {
        "name": packer.texts([node.name for node in nodes]),
        "short": packer.texts([short_name(node.name, node.originals) for node in nodes]),
        "type": packer.texts([node.op_type for node in nodes]),
        "fanIn": packer.integers([len(sources) for sources in inputs]),
        "inputs": packer.integers([source for sources in inputs for source in sources]),
        "originals": packer.texts(["\n".join(node.originals) for node in nodes]),
        "passes": packer.texts(["\n".join((*node.passes, *node.buffer_passes)) for node in nodes]),
        "guess": packer.integers([int(node.is_guess) for node in nodes]),
    }


def pack_networks(graphs: Sequence[ModelGraph], packer: Packer) -> Networks:
    """Return the networks of all units of graph mode, each once, and the number of each unit's network."""
    networks: dict[tuple[GraphNode, ...], int] = {}
    numbers: dict[Unit, int] = {}
    for graph in graphs:
        number = networks.setdefault(graph.nodes, len(networks))
        numbers |= dict.fromkeys(graph.units, number)
    return [pack_nodes(nodes, packer) for nodes in networks], numbers


def pack_graph_mode(comparison: Comparison, networks: Networks, summary: RowSummary, packer: Packer) -> dict[str, Any]:
    """Return the units and their networks, and the notes, which also say why documented columns are not filled."""
    packed, numbers = networks
    notes = [*comparison.notes, because("report.no_requires_grad")]
    if summary.without_stack:
        notes.append(because("report.no_stack", count=summary.without_stack, total=summary.count))
    return {
        "units": [[*structs.astuple(unit), numbers.get(unit, -1)] for unit in summary.units],
        "networks": packed,
        "notes": packer.sentences(notes),
    }
