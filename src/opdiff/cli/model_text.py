"""A compiled model on the terminal, for `opdiff inspect`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from opdiff.cli.language import in_language, said, worded
from opdiff.cli.terminal import shown_counts, shown_shape, table
from opdiff.core.formatting import printable, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.workflows.inspect.model_report import GraphReport, ModelReport, ModelTensor

_MAX_GRAPHS = 20
_MAX_TENSORS = 20


def print_model(report: ModelReport) -> None:
    """Print the facts about a model, its graphs, and inputs and outputs of the first."""
    print(f"{printable(report.path)}: {worded(report.kind)}, {size(report.nbytes)}")
    for name, value in _facts(report):
        if value:
            print(f"  {worded(name)}: {printable(value)}")
    for note in report.notes:
        print(f"  {worded('note')}: {printable(in_language(note))}")
    if len(report.graphs) > 1:
        _print_graphs(report.graphs)
    for graph in report.graphs[:1]:
        _print_tensors("inputs", graph.inputs)
        _print_tensors("outputs", graph.outputs)


def _facts(report: ModelReport) -> Iterator[tuple[str, str]]:
    origin, header, graphs = report.origin, report.header, report.graphs
    yield "model", origin.name
    yield "processor", origin.processor
    yield "framework", origin.framework
    yield "versions", _versions(report)
    yield "shapes", worded("dynamic") if header and header.is_dynamic else ""
    yield "command line", shlex.join(origin.command_line)
    operators, fused, inserted = (
        sum(counts) for counts in zip(*((g.operators, g.fused, g.inserted) for g in graphs), strict=True)
    )
    yield "graphs", str(len(graphs))
    yield "operators", said("cli.operators_of_model", count=operators, fused=fused, inserted=inserted)
    types: dict[str, int] = {}
    for graph in graphs:
        for name, count in graph.op_types:
            types[name] = types.get(name, 0) + count
    yield "operators by type", shown_counts(tuple(sorted(types.items(), key=lambda pair: (-pair[1], pair[0]))))
    yield "fusion passes", shown_counts(report.passes)


def _versions(report: ModelReport) -> str:
    origin, header = report.origin, report.header
    facts = (("ATC", origin.compiler), ("operators", origin.operators), ("platform", header.platform if header else ""))
    known = [f"{name} {version}" for name, version in facts if version]
    if header:
        known.append(f"file {header.version}" + (f" with {header.models} models" if header.models > 1 else ""))
    return ", ".join(known)


def _print_graphs(graphs: tuple[GraphReport, ...]) -> None:
    columns = ("graph", "operators", "fused", "without original", "inputs", "outputs")
    rows = [(g.name, g.operators, g.fused, g.inserted, len(g.inputs), len(g.outputs)) for g in graphs[:_MAX_GRAPHS]]
    table(worded("graphs"), columns, rows, right=columns[1:])
    if len(graphs) > _MAX_GRAPHS:
        print(said("cli.more_graphs", count=len(graphs) - _MAX_GRAPHS))


def _print_tensors(title: str, tensors: tuple[ModelTensor, ...]) -> None:
    if not tensors:
        return
    rows = [(each.name, each.dtype, each.layout, shown_shape(each.shape)) for each in tensors[:_MAX_TENSORS]]
    table(worded(title), ("tensor", "type", "layout", "shape"), rows)
    if len(tensors) > _MAX_TENSORS:
        print(said("cli.more_tensors", count=len(tensors) - _MAX_TENSORS))
