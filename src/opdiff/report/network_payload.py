"""Networks for the HTML page. web/src/graph/network.ts reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.report.short_names import short_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from opdiff.core.comparison import GraphNode
    from opdiff.report.packing import Packer


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
