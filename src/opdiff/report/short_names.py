"""Names that people can read: of a fused operator the path that its parts share, and what each part is."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.core.reasons import Reason


def short_names(comparison: Comparison) -> dict[str, str]:
    """Return the short names of fused operators by their own."""
    nodes = (node for graph in comparison.graphs for node in graph.nodes if len(node.originals) > 1)
    return {node.name: short_name(node.name, node.originals) for node in nodes}


def short_name(operator: str, originals: Sequence[str]) -> str:
    """Return the short form of a name that is made of those of the originals; others stay.

    `/a/b/conv/Conv/a/b/act/Relu` is `a/b · Conv + Relu`.
    """
    named = [original for original in originals if original and original in operator]
    if len(named) < 2 or not operator.startswith(named[0]) or not operator.endswith(named[-1]):
        return operator
    paths = [[step for step in name.split("/") if step] or [""] for name in named]
    steps = zip(*(path[:-1] for path in paths), strict=False)
    shared = [same[0] for same in takewhile(lambda same: len(set(same)) == 1, steps)]
    parts = " + ".join(path[-1] for path in paths)
    return f"{'/'.join(shared)} · {parts}" if shared else parts


def with_short_names(reason: Reason, names: Mapping[str, str]) -> Reason:
    """Return a reason whose operator has its short name."""
    operator = reason.fact("operator")
    if not isinstance(operator, str) or operator not in names:
        return reason
    facts = tuple((key, names[operator] if key == "operator" else fact) for key, fact in reason.facts)
    return replace(reason, facts=facts)
