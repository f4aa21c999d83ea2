"""Small ONNX models for tests of golden data, built with the `onnx` package, and plain runs of them as oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from opdiff.workflows.golden.options import GoldenOptions
from opdiff.workflows.golden.pipeline import GoldenResult, make_golden

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from opdiff.core.reasons import Reason

FLOAT = TensorProto.FLOAT
Array = np.ndarray[Any, Any]


def value(name: str, shape: Sequence[int | str | None] | None = (2, 3), element: int = FLOAT) -> Any:
    """An input or output of a graph."""
    return helper.make_tensor_value_info(name, element, shape)


def node(op_type: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> Any:
    """A node; tensors are separated by blanks, `-` is an absent one."""
    sources, results = (["" if item == "-" else item for item in side.split()] for side in (inputs, outputs))
    return helper.make_node(op_type, sources, results, name=name or None, **attributes)


def weight(name: str, array: Array) -> Any:
    """A constant of a graph."""
    return numpy_helper.from_array(np.asarray(array), name)


def graph(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], weights: Sequence[Any] = ()) -> Any:
    return helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights))


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    weights: Sequence[Any] = (),
    opset: int = 17,
    **more: Any,
) -> Any:
    """A model; by default with the input `x` and the last node's first output, without a stated type."""
    given = list(inputs) or [value("x")]
    results = list(outputs) or [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    opsets = [helper.make_opsetid("", opset), *more.pop("opsets", ())]
    return helper.make_model(graph(nodes, given, results, weights), opset_imports=opsets, ir_version=10, **more)


def write(path: Path, made: Any) -> Path:
    path.write_bytes(made.SerializeToString())
    return path


def golden(path: Path, folder: Path, notes: list[Reason] | None = None, **options: Any) -> GoldenResult:
    """Run a model; inputs are arrays or paths by name."""
    files = {}
    for name, data in options.pop("inputs", {}).items():
        if isinstance(data, np.ndarray):
            files[name] = str(folder.parent / f"{name or 'only'}.npy")
            np.save(files[name], data)
        else:
            files[name] = str(data)
    wanted = GoldenOptions(str(path), output=str(folder), inputs=files, **options)
    return make_golden(wanted, (notes if notes is not None else []).append, lambda _done, _total: None)


def run_model(folder: Path, made: Any, **options: Any) -> tuple[GoldenResult, dict[str, Array]]:
    """Run a model in a folder; return the result and its golden files."""
    result = golden(write(folder / "m.onnx", made), folder / "g", **options)
    return result, files_of(folder / "g")


def files_of(folder: Path) -> dict[str, Array]:
    """The golden files of a directory by name, without their timestamp."""
    return {path.name.rsplit(".", 2)[0]: np.load(path) for path in sorted(folder.glob("*.npy"))}


def plain_run(made: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """All tensors of the main graph by name, from an ordinary session without optimizations."""
    extended = onnx.ModelProto()
    extended.CopyFrom(made)
    known = {output.name for output in made.graph.output}
    names = [name for item in made.graph.node for name in item.output if name and name not in known]
    extended.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(extended.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = session.run(None, dict(inputs))
    return {output.name: array for output, array in zip(session.get_outputs(), found, strict=True)}
