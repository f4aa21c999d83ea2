"""ONNX files as original models: operators under the names of ATC, unknown operators refused before anything runs."""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.workflows.golden.computing import compute
from opdiff.workflows.golden.model_inputs import free_dimensions
from opdiff.workflows.golden.onnx_branches import add_branches
from opdiff.workflows.golden.onnx_encoder import node
from opdiff.workflows.golden.onnx_model import name_operators, read_onnx
from opdiff.workflows.golden.original import Alias, Operator, OriginalModel, PreparedModel
from opdiff.workflows.golden.runtime import FedInput, Runner, find_unknown_operators

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.workflows.golden.model_inputs import ModelInput
    from opdiff.workflows.golden.onnx_model import NamedGraph, OnnxModel

# Operators of AMCT's deployed models, which only the offline model can run.
_DEPLOYED = frozenset({"AscendQuant", "AscendDequant", "AscendAntiQuant", "AscendWeightQuant"})
_MAX_UNKNOWN_SHOWN = 20
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
        runner = make_runner(self.original, inputs, libraries)

        def run_conditions(model: OriginalModel, tensors: Sequence[str]) -> list[bool]:
            outputs = [f"opdiff:condition:{number}" for number in range(len(tensors))]
            nodes = b"".join(
                node("Identity", [tensor], [output]) for tensor, output in zip(tensors, outputs, strict=True)
            )
            session = runner.open_session(model, model.with_outputs(outputs, nodes), frees_early=True)
            return [bool(value.reshape(-1)[0]) for value in session.run(outputs)]

        model = add_branches(self.original, self._model, self._graphs, run_conditions)
        return PreparedModel(model, runner.engine, partial(compute, model, runner))


def make_runner(model: OriginalModel, inputs: Sequence[ModelInput], libraries: Sequence[str]) -> Runner:
    """Return the sessions of a model with given inputs."""
    fed = [FedInput(item.name, item.element, item.codes) for item in inputs]
    return Runner(fed, free_dimensions(model.inputs, inputs), libraries)


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
