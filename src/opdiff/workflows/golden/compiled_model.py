"""The compiled model beside the original: original names in its rules, its input shapes, and its AIPP."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import InputError
from opdiff.core.filesystem import natural_key
from opdiff.core.reasons import because
from opdiff.core.tensor import file_safe_name
from opdiff.pair.groups import declared_origins, group_operators
from opdiff.read.rules import read_model
from opdiff.read.rules.model import to_rules

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from opdiff.core.graph import RuleFile
    from opdiff.core.reasons import Fact, Reason
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.onnx_model import InputSpec

_MAX_NAMES_SHOWN = 3
# As with rules of another model, see docs/locating.md.
_MAX_SHARE_MISSING = 0.5


class CompiledModel(Struct, frozen=True):
    """Facts about a compiled model.

    Attributes:
        path: its rule file or offline model.
        original_model: base name of the model file it was compiled from; empty if unknown.
        originals: names of original operators that its rules refer to.
        compared: names of original operators whose outputs a comparison looks up, in the form of file names.
        shapes: shapes of its inputs.
        has_aipp: whether it prepares images itself, so that its input is not the input of the original model.
    """

    path: str
    original_model: str
    originals: tuple[str, ...]
    compared: frozenset[str]
    shapes: Mapping[str, Shape]
    has_aipp: bool


def read_compiled(path: str) -> CompiledModel:
    """Read a rule file of any kind.

    Raises:
        InputError: it cannot be read.
    """
    model, _ = read_model(path)
    has_aipp = any(
        op.op_type == "Aipp" or "aipp" in op.name.lower() for graph in model.graphs for op in graph.operators
    )
    shapes = {
        op.name: op.output_descs[0].shape
        for op in (model.graphs[0].operators if model.graphs else ())
        if op.op_type == "Data" and op.output_descs and all(extent > 0 for extent in op.output_descs[0].shape)
    }
    rules = to_rules(model, path)
    return CompiledModel(
        path,
        rules.origin.option("--model"),
        _originals(rules),
        frozenset(file_safe_name(name) for name, _ in declared_origins(group_operators(rules).operators())),
        {} if has_aipp else shapes,
        has_aipp,
    )


def check_original(
    compiled: CompiledModel, model_file: str, names: Collection[str], *, force: bool
) -> tuple[Reason, ...]:
    """Return remarks about an original model: operators that the rules ask for and it lacks, its file, and AIPP.

    Raises:
        InputError: it lacks most of these operators, and `force` is not set.
    """
    known = {file_safe_name(name) for name in names}
    missing = tuple(name for name in compiled.originals if file_safe_name(name) not in known)
    notes = []
    if missing:
        facts: dict[str, Fact] = {
            "count": len(missing),
            "total": len(compiled.originals),
            "examples": missing[:_MAX_NAMES_SHOWN],
            "path": compiled.path,
        }
        if len(missing) > _MAX_SHARE_MISSING * len(compiled.originals) and not force:
            own = tuple(sorted(names, key=natural_key)[:_MAX_NAMES_SHOWN])
            source = because("golden.compiled_from", name=compiled.original_model) if compiled.original_model else None
            raise InputError(model_file, because("golden.model_of_others", **facts, own=own, source=source))
        notes.append(because("golden.names_missing", **facts))
    if is_other_model(compiled.original_model, model_file):
        notes.append(because("golden.other_model", path=compiled.path, compiled=compiled.original_model))
    if compiled.has_aipp:
        notes.append(because("golden.aipp", path=compiled.path))
    return tuple(notes)


def is_other_model(compiled: str, used: str) -> bool:
    """Return whether a compiled model says that it was made from a file of another name."""
    return bool(compiled) and os.path.splitext(os.path.basename(used))[0] != os.path.splitext(compiled)[0]


def fitting_shapes(compiled: Mapping[str, Shape], specs: Sequence[InputSpec]) -> dict[str, Shape]:
    """Return the compiled shapes of inputs whose shape the original model leaves open."""
    return {
        spec.name: compiled[spec.name]
        for spec in specs
        if spec.name in compiled and spec.is_open and spec.fits(compiled[spec.name])
    }


def _originals(rules: RuleFile) -> tuple[str, ...]:
    """Return the names of original operators behind everything that is dumped."""
    operators = [op for op in rules.operators() if not op.is_constant and op.op_type != "NetOutput"]
    # In files that record no originals at all, operators stand for themselves.
    are_recorded = any(op.has_originals for op in operators)
    found: dict[str, None] = {}
    for op in operators:
        names = op.originals if op.has_originals or not are_recorded else ()
        found |= dict.fromkeys(name for name in (*names, *(output.origin_name for output in op.outputs)) if name)
    return tuple(found)
