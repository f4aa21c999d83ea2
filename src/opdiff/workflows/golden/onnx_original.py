"""ONNX files as original models: operators under the names of ATC, also those of the branches that run.

Operators that ONNX Runtime does not know are refused before anything runs.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core import onnx_encoder as onnx
from opdiff.core import wire
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read.cursor import Cursor
from opdiff.read.protowire import iter_fields
from opdiff.workflows.golden.computing import compute
from opdiff.workflows.golden.model_inputs import free_dimensions
from opdiff.workflows.golden.onnx_model import name_operators, read_onnx
from opdiff.workflows.golden.original import Alias, Omitted, Operator, OriginalModel, PreparedModel
from opdiff.workflows.golden.runtime import Runner, find_unknown_operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opdiff.read.protowire import RawField
    from opdiff.workflows.golden.model_inputs import ModelInput
    from opdiff.workflows.golden.onnx_model import NamedGraph, OnnxGraph, OnnxModel, OnnxNode

# Operators of AMCT's deployed models, which only the offline model can run.
_DEPLOYED = frozenset({"AscendQuant", "AscendDequant", "AscendAntiQuant", "AscendWeightQuant"})
_MAX_UNKNOWN_SHOWN = 20
_TAKEN = {True: "then_branch", False: "else_branch"}
_INSERTED = re.compile(r"(.+\.quant)\.fakequant\.[^.]+|(.+\.anti_quant)\.fake_antiquant\.[^.]+")
_DEQUANTIZED = re.compile(r"(.+?)(?:\.dequant)?\.fakedequant(?:\.[^.]+)+")


class OnnxOriginal:
    """An ONNX file: its operators, and operators of branches once inputs are there."""

    def __init__(self, path: str, *, allow_unknown: bool = False) -> None:
        self._model = read_onnx(path)
        self._graphs = name_operators(self._model.graph)
        if not allow_unknown:
            _refuse_unknown(self._model, self._graphs)
        self.original = _to_original(self._model, self._graphs)

    @property
    def operator_names(self) -> frozenset[str]:
        """Names of all operators, also of branches and loops."""
        names = (name for named in self._graphs.values() for name in named.names)
        return frozenset((*names, *(alias.name for alias in self.original.aliases)))

    def prepare(self, inputs: Sequence[ModelInput], libraries: Sequence[str]) -> PreparedModel:
        """Return the model with the operators of the branches that run; conditions are computed first."""
        runner = Runner(inputs, free_dimensions(self.original.inputs, inputs), libraries)
        model = _add_branches(self.original, self._model, self._graphs, runner)
        return PreparedModel(model, runner.engine, partial(compute, model, runner))


def _to_original(model: OnnxModel, graphs: Mapping[int, NamedGraph]) -> OriginalModel:
    operators = tuple(
        Operator(name, item.op_type, item.outputs) for name, item in graphs[model.graph.range.offset].operators()
    )
    weights = tuple(os.path.join(model.folder, name) for name in model.external_files)
    return OriginalModel(
        model.path,
        (model.path, *weights),
        model.data,
        model.folder,
        model.inputs,
        model.graph.outputs,
        operators,
        aliases=_find_aliases(operators),
    )


def _refuse_unknown(model: OnnxModel, graphs: Mapping[int, NamedGraph]) -> None:
    nodes = [item for named in graphs.values() for item in named.graph.nodes]
    counts = Counter((item.domain, item.op_type) for item in nodes)
    unknown = find_unknown_operators(counts, model.functions)
    if not unknown:
        return
    shown = [f"{domain + '.' if domain else ''}{name} ({counts[domain, name]})" for domain, name in unknown]
    left = len(shown) - _MAX_UNKNOWN_SHOWN
    more = because("core.and_more", count=left) if left > 0 else None
    is_deployed = bool(_DEPLOYED & {name for _, name in unknown})
    advice = because("golden.deployed_model") if is_deployed else because("golden.library_may_help")
    names = tuple(shown[:_MAX_UNKNOWN_SHOWN])
    raise InputError(model.path, because("golden.unknown_operators", names=names, more=more, advice=advice))


def _find_aliases(operators: Iterable[Operator]) -> tuple[Alias, ...]:
    """Return the names of the deployed model of AMCT for results of its fake-quantized model.

    The fake-quantized model computes each inserted operator of the deployed model by standard operators:

        L.quant       L.quant.fakequant.mul, …round, …add, …clip, …sub
        L.dequant     L.fakedequant.mul, or L.dequant.fakedequant.…; a cast may follow
        L.anti_quant  L.anti_quant.fake_antiquant.mul

    Rules of the offline model have the names on the left. The result of a fused layer `L` is dequantized there, so
    that `L` itself stands for the result of the dequantization, not for the bare convolution.
    """
    found: dict[str, Alias] = {}
    for operator in operators:
        if operator.outputs and operator.outputs[0]:
            # The last operator of a group has its result.
            found |= {alias.name: alias for alias in _aliases(operator.name, operator.outputs[0])}
    return tuple(found.values())


def _aliases(name: str, tensor: str) -> Iterator[Alias]:
    inserted = _INSERTED.fullmatch(name)
    if inserted:
        yield Alias(inserted[1] or inserted[2], tensor)
    layer = _DEQUANTIZED.fullmatch(name)
    if layer:
        yield Alias(f"{layer[1]}.dequant", tensor)
        yield Alias(layer[1], tensor, replaces=True)


# Branches of `If` nodes. A tensor of an inner graph cannot be an output of a model. The nodes of the branch that runs
# are therefore copied into the main graph, under tensor names of their own; the `If` itself stays and feeds the rest of
# the model as before.


class _Conditional(Struct, frozen=True):
    """An `If` of the extended main graph: its name, its node, and the new names of tensors where it stands."""

    name: str
    node: OnnxNode
    renamed: Mapping[str, str]

    @property
    def condition(self) -> str:
        """Name of the condition in the extended main graph."""
        tensor = self.node.inputs[0] if self.node.inputs else ""
        return self.renamed.get(tensor, tensor)


def _add_branches(
    original: OriginalModel, model: OnnxModel, graphs: Mapping[int, NamedGraph], runner: Runner
) -> OriginalModel:
    """Return the model with the operators of all branches that run; each level of nesting takes one run."""
    main = graphs[model.graph.range.offset]
    pending = _conditionals(main, {})
    not_run = [*_loop_bodies(main, graphs)]
    while pending:
        flags = _run_conditions(original, runner, [conditional.condition for conditional in pending])
        following: list[_Conditional] = []
        for conditional, flag in zip(pending, flags, strict=True):
            for attribute, inner in conditional.node.graphs:
                if attribute != _TAKEN[flag]:
                    not_run += _all_operators(inner, graphs, "golden.branch_not_taken", conditional.name)
                    continue
                branch = graphs[inner.range.offset]
                not_run += _loop_bodies(branch, graphs)
                original, renamed = _with_branch(original, model, branch, conditional.renamed)
                following += _conditionals(branch, renamed)
        pending = following
    return replace(original, omitted=(*original.omitted, *not_run))


def _run_conditions(model: OriginalModel, runner: Runner, tensors: Sequence[str]) -> list[bool]:
    """Run the model and return the named boolean tensors."""
    outputs = [f"opdiff:condition:{number}" for number in range(len(tensors))]
    nodes = b"".join(onnx.node("Identity", [tensor], [output]) for tensor, output in zip(tensors, outputs, strict=True))
    session = runner.open_session(model, model.with_outputs(outputs, nodes), frees_early=True)
    return [bool(value.reshape(-1)[0]) for value in session.run(outputs)]


def _is_conditional(node: OnnxNode) -> bool:
    return node.op_type == "If" and bool(node.graphs)


def _conditionals(named: NamedGraph, renamed: Mapping[str, str]) -> list[_Conditional]:
    return [_Conditional(name, node, renamed) for name, node in named.operators() if _is_conditional(node)]


def _loop_bodies(named: NamedGraph, graphs: Mapping[int, NamedGraph]) -> Iterable[Omitted]:
    """Operators in bodies of `Loop` and `Scan`, which run many times."""
    for name, node in named.operators():
        for _, inner in () if _is_conditional(node) else node.graphs:
            yield from _all_operators(inner, graphs, "golden.inside_loop", name)


def _all_operators(graph: OnnxGraph, graphs: Mapping[int, NamedGraph], code: str, owner: str) -> Iterable[Omitted]:
    named = graphs[graph.range.offset]
    for name, node in named.operators():
        yield Omitted(name, because(code, owner=owner))
        for _, inner in node.graphs:
            yield from _all_operators(inner, graphs, code, owner)


def _with_branch(
    original: OriginalModel, model: OnnxModel, named: NamedGraph, outside: Mapping[str, str]
) -> tuple[OriginalModel, Mapping[str, str]]:
    """Return the model with a copy of a branch, and the new names of tensors in the branch."""
    graph, prefix = named.graph, named.prefix
    inside = {*graph.initializers, *(name for node in graph.nodes for name in node.outputs if name)}
    renamed = {**outside, **{name: f"opdiff:{prefix}{name}" for name in inside}}
    operators = tuple(
        Operator(name, node.op_type, tuple(renamed.get(output, output) for output in node.outputs))
        for name, node in named.operators()
    )
    read = dict.fromkeys(name for node in graph.nodes for name in node.inputs if name and name not in inside)
    # ATC turns tensors from outside into `Data` operators of the branch.
    aliases = tuple(Alias(prefix + name, renamed.get(name, name)) for name in read)
    extended = replace(
        original,
        additions=original.additions + _Renaming(model, renamed).graph_parts(graph),
        operators=(*original.operators, *operators),
        aliases=(*original.aliases, *aliases),
    )
    return extended, renamed


class _Renaming:
    """Copies of nodes and weights in which tensors have new names; field numbers are those of ONNX."""

    def __init__(self, model: OnnxModel, names: Mapping[str, str]) -> None:
        self._model = model
        self._names = names

    def graph_parts(self, graph: OnnxGraph) -> bytes:
        """Return the nodes and weights of a graph as fields of another graph; nodes lose their names."""
        writers = {1: self._node, 5: self._weight}
        fields = self._fields(graph.range.offset, graph.range.nbytes)
        return b"".join(writers[field.number](field) for field in fields if field.number in writers)

    def _fields(self, offset: int, nbytes: int) -> Iterable[RawField]:
        return iter_fields(Cursor(self._model.data, self._model.path, offset, offset + nbytes))

    def _copied(self, message: RawField, writers: Mapping[int, Callable[[RawField], bytes]]) -> bytes:
        """Return a message with some fields written anew."""
        fields = self._fields(*message.content) if message.content else ()
        content = (writers[field.number](field) if field.number in writers else field.raw for field in fields)
        return wire.block(message.number, b"".join(content))

    def _name(self, field: RawField) -> bytes:
        offset, nbytes = field.content or (0, 0)
        name = bytes(self._model.data[offset : offset + nbytes]).decode()
        return wire.block(field.number, self._names.get(name, name).encode())

    def _node(self, node: RawField) -> bytes:
        return self._copied(node, {1: self._name, 2: self._name, 3: lambda _name: b"", 5: self._attribute})

    def _attribute(self, attribute: RawField) -> bytes:
        return self._copied(attribute, {6: self._inner_graph, 11: self._inner_graph})

    def _inner_graph(self, graph: RawField) -> bytes:
        """Return an inner graph; it reads renamed tensors, and its outputs may be renamed tensors."""
        return self._copied(graph, {1: self._node, 12: self._value})

    def _weight(self, weight: RawField) -> bytes:
        return self._copied(weight, {8: self._name})

    def _value(self, value: RawField) -> bytes:
        return self._copied(value, {1: self._name})
