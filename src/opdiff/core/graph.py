"""A compiled model as described by its rule file or graph text: operators, their originals and their inputs.

Also the types of operators that quantize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape, StatedTensor

QUANTIZING_TYPES = frozenset({"AscendQuant", "AscendQuantV2", "AscendWeightQuant"})
DEQUANTIZING_TYPES = frozenset({"AscendDequant", "AscendDequantS16", "AscendAntiQuant", "AscendAntiQuantV2"})
REQUANTIZING_TYPES = frozenset({"AscendRequant", "AscendRequantS16"})
"""Types with quantized inputs and outputs."""

QUANTIZATION_TYPES = QUANTIZING_TYPES | DEQUANTIZING_TYPES | REQUANTIZING_TYPES

_MAX_INDEX_DIGITS = 9


def parse_input(entry: str) -> tuple[str, int] | None:
    """Return producer and output number of an input written as `producer:output`; `None` for any other form."""
    name, _, number = entry.rpartition(":")
    if not name or not number.isdecimal() or len(number) > _MAX_INDEX_DIGITS:
        return None
    return name, int(number)


class OutputDesc(Struct, frozen=True, gc=False):
    """One output of an operator, and the output of the original model that it holds.

    Attributes:
        position: index of the output.
        dtype: its element type, as `DT_FLOAT16`; empty if unknown.
        origin_name: the operator of the original model; empty if there is none.
        origin_index: index of the output of that operator; `None` if it is the same index.
        layout: the layout of the original tensor; empty if unknown.
        shape: the shape of the original tensor; empty if unknown.
        stated: what is stated about the output itself, as it is stored.
        problem: why the operator of the original model is not known; `None` if no file says more.
    """

    position: int
    dtype: str = ""
    origin_name: str = ""
    origin_index: int | None = None
    layout: str = ""
    shape: Shape = ()
    stated: StatedTensor | None = None
    problem: Reason | None = None


class RuleOp(Struct, frozen=True, gc=False):
    """An operator of a compiled model.

    Attributes:
        name: its name.
        op_type: its type.
        sequence: its number in the order of execution; 0 if unknown.
        inputs: `producer:output` for each input, control edges left out.
        outputs: its outputs by index.
        originals: the operators it was compiled from; its own name if the file has none.
        has_originals: whether the file has the originals.
        is_multiop: whether it is one of several operators compiled from one original.
        l1_subgraph: the number of the L1-fusion sub-graph that it belongs to; empty for none.
        graph_name: its graph; the number of the graph in the file if it has no name.
        passes: the fusion passes of the graph that created it.
        buffer_passes: the passes that fused operators through the unified buffer into it.
        subgraphs: names of the graphs that it owns.
        parent_input: input of the owner that a `Data` operator of a sub-graph represents.
        parent_outputs: of the `NetOutput` of a sub-graph, the output of the owner for each of its inputs.
    """

    name: str
    op_type: str
    sequence: int = 0
    inputs: tuple[str, ...] = ()
    outputs: tuple[OutputDesc, ...] = ()
    originals: tuple[str, ...] = ()
    has_originals: bool = False
    is_multiop: bool = False
    l1_subgraph: str = ""
    graph_name: str = ""
    passes: tuple[str, ...] = ()
    buffer_passes: tuple[str, ...] = ()
    subgraphs: tuple[str, ...] = ()
    parent_input: int | None = None
    parent_outputs: tuple[int | None, ...] = ()

    @property
    def is_inserted(self) -> bool:
        """Whether the compiler added it, so that its list of originals is empty."""
        return self.has_originals and not any(self.originals)

    @property
    def is_constant(self) -> bool:
        """Whether it holds values that the model brings with it."""
        return self.op_type in {"Const", "Constant"}

    @property
    def key(self) -> tuple[str, str]:
        """Graph and name: sub-graphs may have operators of the same name."""
        return self.graph_name, self.name

    def output(self, index: int) -> OutputDesc | None:
        """Return the description of an output; a single description without index applies to all outputs."""
        if index < len(self.outputs):
            return self.outputs[index]
        if len(self.outputs) == 1 and self.outputs[0].origin_index is None:
            return self.outputs[0]
        return None


class RuleGraph(Struct, frozen=True):
    """One graph of a rule file: the model comes first, then its sub-graphs."""

    name: str
    operators: tuple[RuleOp, ...]


class ModelOrigin(Struct, frozen=True):
    """Compilation of a model; unknown values are empty.

    Attributes:
        name: name of the model.
        command_line: arguments of the compiler, of paths only the last part.
        framework: framework of the original model, as `Onnx`.
        compiler: version of the compiler.
        operators: version of the operator library.
        processor: processor that it was compiled for, as `Ascend310`.
        platform: version of the platform that wrote the file.
    """

    name: str = ""
    command_line: tuple[str, ...] = ()
    framework: str = ""
    compiler: str = ""
    operators: str = ""
    processor: str = ""
    platform: str = ""

    def option(self, name: str) -> str:
        """Return the value of an option of the command line, written `--name=value` or `--name value`."""
        for position, argument in enumerate(self.command_line, 1):
            if argument == name:
                return "".join(self.command_line[position : position + 1])
            if argument.startswith(f"{name}="):
                return argument.removeprefix(f"{name}=")
        return ""


class RuleFile(Struct, frozen=True):
    """A rule file: the operators of a compiled or a quantized model.

    Attributes:
        path: the file.
        graphs: the root graph, then its sub-graphs.
        origin: how the model was compiled.
        notes: parts of the file that were not read.
    """

    path: str
    graphs: tuple[RuleGraph, ...]
    origin: ModelOrigin = ModelOrigin()
    notes: tuple[Reason, ...] = ()

    def operators(self) -> Iterator[RuleOp]:
        """Yield the operators of all graphs, in the order of the file."""
        return (operator for graph in self.graphs for operator in graph.operators)

    def equals(self, other: RuleFile) -> bool:
        """Return whether two files describe the same model, compiled alike."""
        return (self.graphs, self.origin) == (other.graphs, other.origin)


class TextDescriptor(Struct, frozen=True):
    """Descriptor of one input or output in a graph text.

    Attributes:
        name: name of the input or output, as `x1` or `perm`; empty if not recorded.
        dtype: element type, as `DT_FLOAT16`; empty if not recorded.
        shape: shape; `None` if not recorded. Unknown extents are negative.
    """

    name: str = ""
    dtype: str = ""
    shape: Shape | None = None


class TextOp(Struct, frozen=True):
    """One operator of a graph text.

    Attributes:
        name: its name.
        op_type: its type.
        number: its position in the text.
        inputs: producer and output index of each input, without control edges; the producer of an optional input that
            nothing feeds is empty.
        input_names: the FX tensor in each input descriptor; empty if there is none.
        output_names: the FX tensor in each output descriptor; empty if there is none.
        originals: the operators it was compiled from, where the text has them.
        input_descriptors: descriptors of the inputs.
        output_descriptors: descriptors of the outputs.
        integers: integer attributes by name, single numbers as tuples of one.
        constant: elements of an integer constant; `None` for other operators and long constants.
    """

    name: str
    op_type: str
    number: int
    inputs: tuple[tuple[str, int], ...] = ()
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()
    input_descriptors: tuple[TextDescriptor, ...] = ()
    output_descriptors: tuple[TextDescriptor, ...] = ()
    integers: tuple[tuple[str, tuple[int, ...]], ...] = ()
    constant: tuple[int, ...] | None = None

    def integer(self, name: str) -> tuple[int, ...]:
        """Return an integer attribute, or nothing."""
        return next((values for key, values in self.integers if key == name), ())


class TextGraph(Struct, frozen=True):
    """A graph text.

    Attributes:
        name: its name.
        operators: its operators by name.
        problems: problems of the text.
        stacks: lines of source code and modules by operator.
        versions: attributes of the whole graph that name a processor or a version.
    """

    name: str
    operators: Mapping[str, TextOp]
    problems: tuple[Reason, ...] = ()
    stacks: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def fx_name(self, producer: str, index: int) -> str:
        """Return the FX tensor of an operator's output; an empty string if there is none."""
        op = self.operators.get(producer)
        return op.output_names[index] if op is not None and 0 <= index < len(op.output_names) else ""
