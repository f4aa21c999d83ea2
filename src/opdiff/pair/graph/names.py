"""From the name of a dumped operator to the operators of the graph that it stands for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.core.graphmode import GraphOp

_UNSAFE = str.maketrans(" ./\\", "____")
_NUMBER_FOLLOWS = re.compile(r"_?[0-9]")
_MAX_NAME = 4096
# Writers cut names that are too long for a file name.
_CUT_FROM = 180

EXACT, RECORDED, ORIGINALS, SPLIT, TAIL, CUT = 1.0, 1.0, 1.0, 0.8, 0.9, 0.7


class Decoded(NamedTuple):
    """The operators of the graph that a name stands for, in order; how that is known, and how sure it is."""

    operators: tuple[TextOp, ...]
    how: str
    confidence: float

    @property
    def is_fused(self) -> bool:
        """Whether it stands for several."""
        return len(self.operators) > 1


class GraphNames:
    """The names of a graph, as file names write them."""

    def __init__(self, graph: TextGraph) -> None:
        self._graph = graph
        self._by_name: dict[str, TextOp | None] = {}
        self._by_tail: dict[str, TextOp | None] = {}
        for op in graph.operators.values():
            _add(self._by_name, safe(op.name), op)
            if "/" in op.name:
                _add(self._by_tail, safe(op.name.rpartition("/")[2]), op)

    def decode(self, op: GraphOp) -> Decoded | None:
        """The operators that a dumped one stands for; `None` when the graph has none such."""
        exact = self._by_name.get(op.name)
        if exact is not None:
            return self._with_originals(exact, "the same name in the graph", EXACT)
        recorded = self._graph.operators.get(op.full_name) if op.full_name else None
        if recorded is not None:
            return self._with_originals(recorded, "the name that the dump records", RECORDED)
        if op.name in self._by_name:
            # Two operators of the graph have this name in files.
            return None
        tail = self._by_tail.get(op.name)
        if tail is not None:
            return self._with_originals(tail, "the end of a name in the graph", TAIL)
        parts = self._split(op.name)
        if parts:
            return Decoded(parts, "names in the graph, put together", SPLIT)
        cut = self._find_cut(op.name)
        return Decoded((cut,), "the beginning of a long name in the graph", CUT) if cut is not None else None

    def _with_originals(self, op: TextOp, how: str, confidence: float) -> Decoded:
        originals = [self._graph.operators.get(name) for name in op.originals if name != op.name]
        found = tuple(original for original in originals if original is not None)
        if found and not any(op.output_names):
            return Decoded(found, "the operators that the graph says it was made from", ORIGINALS)
        return Decoded((op,), how, confidence)

    def _split(self, name: str) -> tuple[TextOp, ...]:
        """The operators whose names make up the whole name: the longest first part, of all ways that reach the end.

        A name is never cut before a number: `Sub_7` is not `Sub`.
        """
        if len(name) > _MAX_NAME:
            return ()
        # From each place, the length of the first part of the best way to the end.
        ways: dict[int, tuple[int, TextOp | None]] = {len(name): (0, None)}
        for start in range(len(name) - 1, -1, -1):
            for end in range(len(name), start, -1):
                op = self._by_name.get(name[start:end]) if end in ways else None
                if op is not None and not _NUMBER_FOLLOWS.match(name, end):
                    ways[start] = (end, op)
                    break
        parts: list[TextOp] = []
        place = 0
        while place < len(name) and place in ways:
            place, op = ways[place]
            if op is not None:
                parts.append(op)
        return tuple(parts)

    def _find_cut(self, name: str) -> TextOp | None:
        if len(name) < _CUT_FROM:
            return None
        found = [op for full, op in self._by_name.items() if op is not None and full.startswith(name)]
        return found[0] if len(found) == 1 else None


def safe(name: str) -> str:
    """A name as file names write it."""
    return name.translate(_UNSAFE)


def external_inputs(operators: Iterable[TextOp]) -> tuple[tuple[TextOp, int], ...]:
    """The inputs of a fused operator: those of its parts that do not come from another part, as operator and index."""
    inner = {op.name for op in operators}
    return tuple(
        (op, index) for op in operators for index, (producer, _) in enumerate(op.inputs) if producer not in inner
    )


def _add(names: dict[str, TextOp | None], name: str, op: TextOp) -> None:
    """Two operators of one name leave it without meaning."""
    names[name] = None if name in names else op
