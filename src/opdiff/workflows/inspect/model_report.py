"""Description of a compiled model for `opdiff inspect`: graphs, operators, versions, fusion passes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.errors import InputError
from opdiff.read.rules import read_model
from opdiff.read.rules.description import ModelKind, find_kind
from opdiff.read.rules.model import to_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.graph import ModelOrigin, RuleGraph
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.read.rules.model import CompiledGraph, ModelOp, OmHeader, TensorDesc

_MODEL_SUFFIXES = (".om", ".om2", ".air", ".json", ".txt", ".pbtxt")
_INPUT_TYPES = frozenset({"Data", "AippData", "RefData", "AnnData"})


class ModelTensor(Struct, frozen=True):
    """An input or an output of a graph; the `name` of an output is the operator and the index of its output."""

    name: str
    dtype: str
    shape: Shape
    layout: str


class GraphReport(Struct, frozen=True):
    """One graph: its operators by type, fused and inserted operators, inputs and outputs."""

    name: str
    operators: int
    fused: int
    inserted: int
    op_types: tuple[tuple[str, int], ...]
    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]


class ModelReport(Struct, frozen=True):
    """A file that describes a compiled model."""

    path: str
    nbytes: int
    kind: str
    header: OmHeader | None
    origin: ModelOrigin
    graphs: tuple[GraphReport, ...]
    passes: tuple[tuple[str, int], ...]
    notes: tuple[Reason, ...]


def describes_model(path: str) -> bool:
    """Return whether a file is, by its first bytes or its name, one that describes a compiled model."""
    try:
        kind = find_kind(path)
    except InputError:
        return False
    return kind is ModelKind.OM or path.lower().endswith(_MODEL_SUFFIXES)


def inspect_model(path: str) -> ModelReport:
    """Describe a file with a compiled model.

    Raises:
        InputError: the file cannot be read, or does not describe a model.
    """
    model, kind = read_model(path)
    rules = to_rules(model, path)
    passes = (name for op in rules.operators() for name in (*op.passes, *op.buffer_passes))
    graphs = zip(model.graphs, rules.graphs, strict=True)
    return ModelReport(
        path,
        filesystem.getsize(path),
        str(kind),
        model.header,
        rules.origin,
        tuple(_graph(graph, rule_graph) for graph, rule_graph in graphs),
        _by_count(passes),
        model.notes,
    )


def _graph(graph: CompiledGraph, rules: RuleGraph) -> GraphReport:
    return GraphReport(
        graph.name,
        len(graph.operators),
        sum(len(set(op.originals)) > 1 for op in rules.operators),
        sum(op.is_inserted for op in rules.operators),
        _by_count(op.op_type for op in graph.operators),
        tuple(_tensor(op.name, op.output_descs[:1]) for op in graph.operators if op.op_type in _INPUT_TYPES),
        tuple(tensor for op in graph.operators if op.op_type == "NetOutput" for tensor in _outputs(op)),
    )


def _outputs(op: ModelOp) -> Iterable[ModelTensor]:
    edges = [edge for edge in op.inputs if edge and not edge.endswith(":-1")]
    return (_tensor(edge, op.input_descs[index : index + 1]) for index, edge in enumerate(edges))


def _tensor(name: str, descs: tuple[TensorDesc, ...]) -> ModelTensor:
    return (
        ModelTensor(name, descs[0].dtype, descs[0].shape, descs[0].layout) if descs else ModelTensor(name, "", (), "")
    )


def _by_count(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))
