"""A compiled model as its rule file tells it: operators, what they were made from, and what feeds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opdiff.core.tensor import Shape

_MAX_INDEX_DIGITS = 9


def parse_input(entry: str) -> tuple[str, int] | None:
    """Return producer and output number of an input written as `producer:output`; `None` for any other form."""
    name, _, number = entry.rpartition(":")
    if not name or not number.isdecimal() or len(number) > _MAX_INDEX_DIGITS:
        return None
    return name, int(number)


class OutputDesc(NamedTuple):
    """One output of an operator, and which output of the original model it holds.

    Attributes:
        position: the number of the output.
        dtype: its element type, as `DT_FLOAT16`; empty when not told.
        origin_name: the operator of the original model; empty when it has no counterpart there.
        origin_index: which output of that operator; `None` when it is the same number as this one.
        layout: the layout that the original tensor has; empty when not told.
        shape: the shape that the original tensor has; empty when not told.
    """

    position: int
    dtype: str = ""
    origin_name: str = ""
    origin_index: int | None = None
    layout: str = ""
    shape: Shape = ()


class RuleOp(NamedTuple):
    """An operator of a compiled model.

    Attributes:
        name: its name.
        op_type: its type.
        sequence: its number in the order of execution; 0 when not told.
        inputs: `producer:output` for each input, control edges left out.
        outputs: its outputs, each at its place.
        originals: the operators it was made from; its own name when the file does not tell.
        has_originals: whether the file tells.
        is_multiop: whether it is one of several operators that one original became.
        l1_number: the number of the L1-fusion sub-graph it belongs to; empty for none.
        graph_name: the graph it stands in; the place of that graph in the file when it has no name.
        passes: the fusion passes of the graph that made it.
        buffer_passes: the passes that fused operators through the unified buffer into it.
    """

    name: str
    op_type: str
    sequence: int = 0
    inputs: tuple[str, ...] = ()
    outputs: tuple[OutputDesc, ...] = ()
    originals: tuple[str, ...] = ()
    has_originals: bool = False
    is_multiop: bool = False
    l1_number: str = ""
    graph_name: str = ""
    passes: tuple[str, ...] = ()
    buffer_passes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Graph and name: sub-graphs may have operators of the same name."""
        return self.graph_name, self.name

    def output(self, index: int) -> OutputDesc | None:
        """What is known about an output; a description that stands for all outputs stands for this one too."""
        if index < len(self.outputs):
            return self.outputs[index]
        if len(self.outputs) == 1 and self.outputs[0].origin_index is None:
            return self.outputs[0]
        return None


class RuleGraph(NamedTuple):
    """One graph of a rule file; the first is the model, the others are its sub-graphs."""

    name: str
    operators: tuple[RuleOp, ...]


class RuleFile(NamedTuple):
    """A rule file: the network-wide information of a compiled model, or of a quantized one."""

    path: str
    graphs: tuple[RuleGraph, ...]

    def operators(self) -> Iterator[RuleOp]:
        """The operators of all graphs, as they stand in the file."""
        return (operator for graph in self.graphs for operator in graph.operators)


class TextOp(NamedTuple):
    """One operator of a graph text.

    Attributes:
        name: its name.
        op_type: its type.
        number: its place in the text.
        inputs: the operators its inputs come from, and which of their outputs; control edges are left out.
        input_names: the FX tensor that each input descriptor names, else empty.
        output_names: the FX tensor that each output descriptor names, else empty.
        originals: the operators that it was made from, where the text tells.
    """

    name: str
    op_type: str
    number: int
    inputs: tuple[tuple[str, int], ...] = ()
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextGraph:
    """A graph text: its name, its operators by name, and what was wrong with it. `stacks` is by operator."""

    name: str
    operators: Mapping[str, TextOp]
    problems: tuple[str, ...] = ()
    stacks: Mapping[str, str] = field(default_factory=dict)

    def fx_name(self, producer: str, index: int) -> str:
        """The FX tensor that an output of an operator stands for, else nothing."""
        op = self.operators.get(producer)
        return op.output_names[index] if op is not None and 0 <= index < len(op.output_names) else ""
