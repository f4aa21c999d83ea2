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
    from opdiff.workflows.golden.atc_names import NamedGraph
    from opdiff.workflows.golden.onnx_model import OnnxGraph, OnnxModel, OnnxNode
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


class _Branch(Struct, frozen=True):
    """A copied branch: encoded nodes and weights, its operators, aliases, and the conditionals in it."""

    additions: bytes
    operators: tuple[Operator, ...]
    aliases: tuple[Alias, ...]
    conditionals: tuple[_Conditional, ...]


def add_branches(
    original: OriginalModel, model: OnnxModel, graphs: Mapping[int, NamedGraph], run_conditions: Conditions
) -> OriginalModel:
    """Return the model with the operators of all branches that run; each level of nesting takes one run."""
    main = graphs[model.graph.position]
    pending = [_Conditional(name, node, {}) for name, node in main.operators() if _is_conditional(node)]
    not_run = [*_loop_bodies(main, graphs)]
    while pending:
        flags = run_conditions(original, [conditional.condition for conditional in pending])
        following: list[_Conditional] = []
        for conditional, flag in zip(pending, flags, strict=True):
            for attribute, inner in conditional.node.graphs:
                if attribute != _TAKEN[flag]:
                    not_run += _all_operators(inner, graphs, "golden.branch_not_taken", conditional.name)
                    continue
                branch = _copy_branch(model, graphs[inner.position], conditional.renamed)
                not_run += _loop_bodies(graphs[inner.position], graphs)
                original = _extended(original, branch)
                following += branch.conditionals
        pending = following
    return replace(original, omitted=(*original.omitted, *not_run))


def _is_conditional(node: OnnxNode) -> bool:
    return node.op_type == "If" and bool(node.graphs)


def _extended(original: OriginalModel, branch: _Branch) -> OriginalModel:
    return replace(
        original,
        additions=original.additions + branch.additions,
        operators=(*original.operators, *branch.operators),
        aliases=(*original.aliases, *branch.aliases),
    )


def _loop_bodies(named: NamedGraph, graphs: Mapping[int, NamedGraph]) -> Iterable[Omitted]:
    """Operators in bodies of `Loop` and `Scan`, which run many times."""
    for name, node in named.operators():
        for _, inner in () if _is_conditional(node) else node.graphs:
            yield from _all_operators(inner, graphs, "golden.inside_loop", name)


def _all_operators(graph: OnnxGraph, graphs: Mapping[int, NamedGraph], code: str, owner: str) -> Iterable[Omitted]:
    named = graphs[graph.position]
    for name, node in named.operators():
        yield Omitted(name, because(code, owner=owner))
        for _, inner in node.graphs:
            yield from _all_operators(inner, graphs, code, owner)


def _copy_branch(model: OnnxModel, named: NamedGraph, outside: Mapping[str, str]) -> _Branch:
    graph, prefix = named.graph, named.prefix
    inside = [*graph.initializers, *(name for node in graph.nodes for name in node.outputs if name)]
    renamed = {**outside, **{name: f"opdiff:{prefix}{name}" for name in inside}}
    operators = tuple(
        Operator(name, node.op_type, tuple(renamed.get(output, output) for output in node.outputs))
        for name, node in named.operators()
    )
    read = dict.fromkeys(name for node in graph.nodes for name in node.inputs if name and name not in set(inside))
    # ATC turns tensors from outside into `Data` operators of the branch.
    aliases = tuple(Alias(prefix + name, renamed.get(name, name)) for name in read)
    conditionals = tuple(_Conditional(name, node, renamed) for name, node in named.operators() if _is_conditional(node))
    return _Branch(_Renaming(model, renamed).graph_parts(graph), operators, aliases, conditionals)


class _Renaming:
    """Copies of nodes and weights in which tensors have new names."""

    def __init__(self, model: OnnxModel, names: Mapping[str, str]) -> None:
        self._model = model
        self._names = names

    def graph_parts(self, graph: OnnxGraph) -> bytes:
        """Return the nodes and weights of a graph as fields of another graph; nodes lose their names."""
        writers = {1: self._node, 5: self._weight}
        fields = self._fields(graph.range.offset, graph.range.nbytes)
        return b"".join(
            wire.block(field.number, writers[field.number](field)) for field in fields if field.number in writers
        )

    def _fields(self, offset: int, nbytes: int) -> Iterable[RawField]:
        return iter_fields(Cursor(self._model.data, self._model.path, offset, offset + nbytes))

    def _content(self, field: RawField) -> Iterable[RawField]:
        return self._fields(*field.content) if field.content else ()

    def _renamed(self, field: RawField) -> bytes:
        offset, nbytes = field.content or (0, 0)
        name = bytes(self._model.data[offset : offset + nbytes]).decode()
        return wire.block(field.number, self._names.get(name, name).encode())

    def _node(self, node: RawField) -> bytes:
        return b"".join(self._node_field(field) for field in self._content(node))

    def _node_field(self, field: RawField) -> bytes:
        if field.number in (1, 2):
            return self._renamed(field)
        if field.number == 3:
            return b""
        return wire.block(5, self._attribute(field)) if field.number == 5 else field.raw

    def _attribute(self, attribute: RawField) -> bytes:
        return b"".join(
            wire.block(field.number, self._inner_graph(field)) if field.number in (6, 11) else field.raw
            for field in self._content(attribute)
        )

    def _inner_graph(self, graph: RawField) -> bytes:
        """Return an inner graph; it reads renamed tensors, and its outputs may be renamed tensors."""
        writers = {1: self._node, 12: self._value}
        return b"".join(
            wire.block(field.number, writers[field.number](field)) if field.number in writers else field.raw
            for field in self._content(graph)
        )

    def _weight(self, weight: RawField) -> bytes:
        return b"".join(self._renamed(field) if field.number == 8 else field.raw for field in self._content(weight))

    def _value(self, value: RawField) -> bytes:
        return b"".join(self._renamed(field) if field.number == 1 else field.raw for field in self._content(value))
