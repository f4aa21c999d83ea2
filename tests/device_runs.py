"""ONNX models run as a device would: operators fused, weights and results rounded, tensors dumped in device layouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import numpy_helper

from dump_files import TIME, add, dump, tensor
from onnx_models import plain_run, write
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import replay
from rule_files import described, described_output, write_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from opdiff.core.dtypes import DType
    from opdiff.core.replay import Replay
    from opdiff.sample.container import EncodedTensor

    Array = np.ndarray[Any, Any]
    Change = Callable[[Any], None]

_TYPE_NAMES = {dtypes.FLOAT16: "DT_FLOAT16", dtypes.FLOAT32: "DT_FLOAT", dtypes.BFLOAT16: "DT_BF16"}
# Types with parameters that devices keep in float32.
_EXACT = {"BatchNormalization", "Resize", "Clip", "Pow", "QuantizeLinear", "DequantizeLinear"}
_QUANTIZED = {"int8": dtypes.INT8, "uint8": dtypes.UINT8, "int32": dtypes.INT32}
_JOINED = {"BatchNormalization", "Relu", "Clip", "Sigmoid", "HardSigmoid", "LeakyRelu"}


@dataclass(frozen=True)
class Fused:
    """A compiled operator.

    Attributes:
        name: its name.
        op_type: its type.
        originals: the nodes that it was compiled from.
        change: changes its part of the model before it runs: a fault of its computation.
        spoil: changes its output: a fault of its result.
        is_dumped: whether its outputs are in the dump.
        has_inputs: whether its inputs are in the dump.
    """

    name: str
    op_type: str
    originals: tuple[str, ...]
    change: Change | None = None
    spoil: Callable[[Array], Array] | None = None
    is_dumped: bool = True
    has_inputs: bool = True


@dataclass
class DeviceRun:
    """A model, its compiled operators, and the folder of its files.

    Attributes:
        folder: folder of the files.
        made: the model.
        inputs: inputs of the model.
        operators: compiled operators in the order of execution.
        dtype: element type of all tensors on the device.
        layout: layout of tensors with four axes.
        folds: whether normalizations are folded into convolutions.
        rounds_steps: whether the result of every original operator is rounded.
        tensors: values on the device, by tensor of the model.
        producers: compiled operator and output of each of these.
    """

    folder: Path
    made: Any
    inputs: Mapping[str, Array]
    operators: Sequence[Fused]
    dtype: DType = dtypes.FLOAT16
    layout: str = "NC1HWC0"
    folds: bool = True
    rounds_steps: bool = False
    tensors: dict[str, Array] = field(default_factory=dict)
    producers: dict[str, str] = field(default_factory=dict)

    @property
    def model(self) -> Path:
        return self.folder / "m.onnx"

    @property
    def rules(self) -> Path:
        return self.folder / "rules.json"

    @property
    def npu(self) -> Path:
        return self.folder / "npu"

    def write(self) -> DeviceRun:
        """Run all operators and write the model, the rules and the dump."""
        write(self.model, self.made)
        self.tensors = {name: self.rounded(array) for name, array in self.inputs.items()}
        inputs = [self._described(Fused(name, "Data", (name,)), (), (name,)) for name in self.inputs]
        write_rules(self.rules, [*inputs, *map(self._run, self.operators)])
        return self

    def replay(self, target: Path | None = None, **options: Any) -> list[Replay]:
        """Compute operators of the dump again by the model, or of a dump that was moved to `target`."""
        wanted = ReplayOptions(str(target or self.npu), str(self.rules), str(self.model), **options)
        return list(replay(wanted, lambda _done, _total: None))

    def rounded(self, array: Array) -> Array:
        """Numbers in the type of the device, as float32."""
        if array.dtype.kind != "f":
            return array
        return elements.decode(elements.encode(array, self.dtype), self.dtype).astype(np.float32)

    def _run(self, operator: Fused) -> dict[str, Any]:
        part = self._part(operator)
        reads = [item.name for item in part.graph.input]
        results = [item.name for item in part.graph.output]
        if operator.change:
            operator.change(part)
        found = self._compute(part, {name: self.tensors[name] for name in reads})
        for name in results:
            value = operator.spoil(found[name]) if operator.spoil else found[name]
            self.tensors[name] = self.rounded(value)
        if operator.is_dumped or operator.has_inputs:
            inputs = tuple(self._encoded(self.tensors[name]) for name in reads) if operator.has_inputs else ()
            outputs = [self._encoded(self.tensors[name]) for name in results] if operator.is_dumped else []
            content = dump(*outputs, inputs=inputs)
            file_name = operator.name.replace("/", "_").replace(".", "_")
            add(self.npu, f"{operator.op_type}.{file_name}.1.0.{TIME + len(self.tensors)}", content)
        producers = [self.producers.get(name, f"{name}:0") for name in reads]
        self.producers |= {name: f"{operator.name}:{index}" for index, name in enumerate(results)}
        return self._described(operator, producers, results)

    def _compute(self, part: Any, inputs: dict[str, Array]) -> dict[str, Array]:
        if not self.rounds_steps:
            return plain_run(part, inputs)
        found = dict(inputs)
        for node in part.graph.node:
            step = onnx.ModelProto()
            step.CopyFrom(part)
            weights = [item for item in part.graph.initializer if item.name in node.input]
            for target in (step.graph.node, step.graph.initializer, step.graph.input, step.graph.output):
                del target[:]
            step.graph.node.append(node)
            step.graph.initializer.extend(weights)
            read = [name for name in dict.fromkeys(node.input) if name in found]
            step.graph.input.extend(_value(name, found[name]) for name in read)
            step.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
            computed = plain_run(step, {name: found[name] for name in read})
            found |= {name: self.rounded(array) for name, array in computed.items()}
        return found

    def _part(self, operator: Fused) -> Any:
        """The nodes of an operator as a model whose weights are rounded and whose normalizations are folded."""
        part = onnx.ModelProto()
        part.CopyFrom(self.made)
        outputs = [name for node in part.graph.node if node.name == operator.originals[-1] for name in node.output]
        nodes, reads = _ancestors(part, outputs, self.tensors)
        weights = {item.name: numpy_helper.to_array(item) for item in part.graph.initializer}
        weights |= {node.output[0]: _constant(node) for node in nodes if node.op_type == "Constant"}
        nodes = [node for node in nodes if node.op_type != "Constant"]
        nodes = _folded(nodes, weights) if self.folds else nodes
        for target in (part.graph.node, part.graph.initializer, part.graph.input, part.graph.output):
            del target[:]
        part.graph.node.extend(nodes)
        used = {name for node in nodes for name in node.input}
        exact = {name for node in nodes if node.op_type in _EXACT for name in node.input}
        part.graph.initializer.extend(
            numpy_helper.from_array(array if name in exact else self.rounded(array), name)
            for name, array in weights.items()
            if name in used
        )
        part.graph.input.extend(_value(name, self.tensors[name]) for name in reads)
        part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        return part

    def _encoded(self, array: Array) -> EncodedTensor:
        dtype = _QUANTIZED.get(array.dtype.name, self.dtype)
        return tensor(array, dtype, self.layout if array.ndim == 4 else "ND")

    def _described(self, operator: Fused, inputs: Sequence[str], results: Sequence[str]) -> dict[str, Any]:
        last, dtype = operator.originals[-1], _TYPE_NAMES[self.dtype]
        outputs = [described_output(last, self.tensors[name].shape, index, dtype) for index, name in enumerate(results)]
        return described(operator.name, operator.op_type, inputs, operator.originals, outputs=outputs)


def _constant(node: Any) -> Array:
    return numpy_helper.to_array(next(item.t for item in node.attribute if item.name == "value"))


def _value(name: str, array: Array) -> Any:
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _ancestors(made: Any, outputs: Sequence[str], known: Mapping[str, Array]) -> tuple[list[Any], list[str]]:
    """The nodes that compute some tensors from known ones, and the known tensors that they read."""
    producers = {name: node for node in made.graph.node for name in node.output}
    weights = {item.name for item in made.graph.initializer}
    needed, reads = set(), dict[str, None]()
    pending = list(outputs)
    while pending:
        name = pending.pop(0)
        if name in known and name not in outputs:
            reads[name] = None
        elif name and name not in weights and name not in needed:
            needed |= set(producers[name].output)
            pending += producers[name].input
    return [node for node in made.graph.node if needed & set(node.output)], list(reads)


def _folded(nodes: list[Any], weights: dict[str, Array]) -> list[Any]:
    """The nodes without normalizations behind convolutions, whose weights change, as compilers do."""
    found: list[Any] = []
    for node in nodes:
        if node.op_type != "BatchNormalization" or not found or found[-1].op_type != "Conv":
            found.append(node)
            continue
        convolution = found[-1]
        gamma, beta, mean, variance = (weights[name].astype(np.float64) for name in node.input[1:5])
        epsilon = next((item.f for item in node.attribute if item.name == "epsilon"), 1e-5)
        scale = gamma / np.sqrt(variance + epsilon)
        kernel = weights[convolution.input[1]]
        bias = weights[convolution.input[2]] if len(convolution.input) > 2 else 0.0
        name = f"folded_{node.name}"
        weights[f"{name}_w"] = (kernel * scale.reshape(-1, *[1] * (kernel.ndim - 1))).astype(np.float32)
        weights[f"{name}_b"] = ((bias - mean) * scale + beta).astype(np.float32)
        inputs = [convolution.input[0], f"{name}_w", f"{name}_b"]
        del convolution.input[:], convolution.output[:]
        convolution.input.extend(inputs)
        convolution.output.append(node.output[0])
    return found


def fuse(made: Any, inputs: Mapping[str, Array]) -> list[Fused]:
    """Compiled operators of a whole model: convolutions with what follows them, all other float operators alone.

    Nodes without a name get one. Constants and computations of shapes are left to the compiler.
    """
    for number, node in enumerate(made.graph.node):
        node.name = node.name or f"{node.op_type}_{number}"
    floats = {name for name, array in plain_run(made, inputs).items() if array.dtype.kind == "f"}
    readers: dict[str, list[Any]] = {}
    for node in made.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found: list[Fused] = []
    taken: set[str] = set()
    for node in made.graph.node:
        if node.name in taken or node.op_type == "Constant" or node.output[0] not in floats:
            continue
        chain = [node]
        while chain[0].op_type == "Conv" and len(readers.get(chain[-1].output[0], ())) == 1:
            (reader,) = readers[chain[-1].output[0]]
            if reader.op_type not in _JOINED:
                break
            chain.append(reader)
        names = tuple(item.name for item in chain)
        taken |= set(names)
        found.append(Fused("".join(names), node.op_type, names))
    return found
