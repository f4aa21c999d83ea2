"""Branches of `If` nodes: the operators of the branch that runs are added to the main graph under their ATC names.

A tensor of an inner graph cannot be an output of a model. The nodes of a branch are therefore copied into the main
graph, under tensor names of their own; the `If` itself stays and feeds the rest of the model as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core import wire
from opdiff.core.reasons import because
from opdiff.read.cursor import Cursor
from opdiff.read.protowire import iter_fields
from opdiff.workflows.golden.original import Alias, Omitted, Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opdiff.read.protowire import RawField
    from opdiff.workflows.golden.onnx_model import NamedGraph, OnnxGraph, OnnxModel, OnnxNode
    from opdiff.workflows.golden.original import OriginalModel

    # Runs a model and returns the named boolean tensors.
    Conditions = Callable[[OriginalModel, Sequence[str]], Sequence[bool]]

_TAKEN = {True: "then_branch", False: "else_branch"}


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


def add_branches(
    original: OriginalModel, model: OnnxModel, graphs: Mapping[int, NamedGraph], run_conditions: Conditions
) -> OriginalModel:
    """Return the model with the operators of all branches that run; each level of nesting takes one run."""
    main = graphs[model.graph.range.offset]
    pending = _conditionals(main, {})
    not_run = [*_loop_bodies(main, graphs)]
    while pending:
        flags = run_conditions(original, [conditional.condition for conditional in pending])
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
