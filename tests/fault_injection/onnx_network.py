"""The original model of a network for fault injection as an ONNX model, for proofs by replay."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from fault_injection import kernels
from onnx_models import model, node, value, weight
from opdiff.sample import ops
from opdiff.sample.golden import run_golden

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opdiff.core.codes import AnyArray
    from opdiff.sample.graph import GoldenOp, Port, SampleNetwork


def onnx_model(network: SampleNetwork) -> bytes:
    """Return the original model, whose operators have the names of the golden ones."""
    builder = _Builder(network.image_name, run_golden(network))
    for op in network.golden:
        builder.add(op)
    read = {port for op in network.golden for port in op.inputs}
    outputs = [port for op in network.golden for port in builder.ports_of(op) if port not in read]
    inputs = [value(network.image_name, network.image.shape)]
    results = [onnx.ValueInfoProto(name=str(port)) for port in outputs]
    content: bytes = model(builder.nodes, inputs, results, builder.weights).SerializeToString()
    return content


class _Builder:
    """Nodes and weights so far; the tensors of an operator are named after its ports."""

    def __init__(self, image_name: str, values: Mapping[Port, AnyArray]) -> None:
        self._image_name = image_name
        self._values = values
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def ports_of(self, op: GoldenOp) -> list[Port]:
        return [port for port in self._values if port.op == op.name]

    def add(self, op: GoldenOp) -> None:
        bound = op.kernel if isinstance(op.kernel, partial) else partial(op.kernel)
        inputs = [port.op if port.op == self._image_name else str(port) for port in op.inputs]
        inner = _Inner(self, op, [self._values[port].shape for port in op.inputs])
        _TRANSLATIONS[bound.func](inner, inputs, **bound.keywords)

    def outputs_of(self, op: GoldenOp) -> str:
        return " ".join(str(port) for port in self.ports_of(op))


class _Inner:
    """One operator under translation: its last node has its name and its outputs."""

    def __init__(self, builder: _Builder, op: GoldenOp, shapes: list[tuple[int, ...]]) -> None:
        self._builder = builder
        self._op = op
        self.shapes = shapes

    def last(self, op_type: str, *inputs: str, **attributes: Any) -> None:
        outputs = self._builder.outputs_of(self._op)
        self._builder.nodes.append(node(op_type, " ".join(inputs), outputs, self._op.name, **attributes))

    def step(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{self._op.name}/{len(self._builder.nodes)}"
        self._builder.nodes.append(node(op_type, " ".join(inputs), name, name, **attributes))
        return name

    def constant(self, array: Any) -> str:
        name = f"{self._op.name}/weight{len(self._builder.weights)}"
        values = np.asarray(array)
        self._builder.weights.append(weight(name, values.astype(np.float32) if values.dtype.kind == "f" else values))
        return name


def _plain(op_type: str, **attributes: Any) -> Callable[..., None]:
    return lambda op, inputs: op.last(op_type, *inputs, **attributes)


def _conv(
    op: _Inner, inputs: list[str], *, weight: AnyArray, bias: AnyArray | None = None, stride: int = 1, groups: int = 1
) -> None:
    constants = [op.constant(array) for array in (weight, bias) if array is not None]
    pads, strides = [weight.shape[2] // 2] * 4, [stride, stride]
    op.last("Conv", *inputs, *constants, group=groups, pads=pads, strides=strides)


def _batch_norm(op: _Inner, inputs: list[str], *, factor: AnyArray, offset: AnyArray) -> None:
    zeros, ones = np.zeros(factor.size), np.ones(factor.size)
    constants = [op.constant(array) for array in (factor, offset, zeros, ones)]
    op.last("BatchNormalization", *inputs, *constants, epsilon=0.0)


def _dense(op: _Inner, inputs: list[str], *, weight: AnyArray, bias: AnyArray) -> None:
    product = op.step("MatMul", *inputs, op.constant(weight))
    op.last("Add", product, op.constant(bias))


def _relu6(op: _Inner, inputs: list[str]) -> None:
    op.last("Clip", *inputs, op.constant(0.0), op.constant(6.0))


def _gelu(op: _Inner, inputs: list[str]) -> None:
    (x,) = inputs
    cube = op.step("Mul", op.step("Mul", x, x), x)
    inner = op.step("Add", x, op.step("Mul", cube, op.constant(0.044715)))
    bent = op.step("Tanh", op.step("Mul", inner, op.constant(float(np.sqrt(2 / np.pi)))))
    half = op.step("Mul", x, op.constant(0.5))
    op.last("Mul", half, op.step("Add", bent, op.constant(1.0)))


def _split(op: _Inner, inputs: list[str], *, parts: int) -> None:
    sizes = np.full(parts, op.shapes[0][1] // parts, np.int64)
    op.last("Split", *inputs, op.constant(sizes), axis=1)


def _top_k(op: _Inner, inputs: list[str], *, k: int) -> None:
    op.last("TopK", *inputs, op.constant(np.array([k])), axis=1)


def _layer_norm(op: _Inner, inputs: list[str], *, factor: AnyArray, offset: AnyArray) -> None:
    op.last("LayerNormalization", *inputs, op.constant(factor), op.constant(offset), axis=-1, epsilon=1e-5)


def _scores(op: _Inner, inputs: list[str]) -> None:
    turned = op.step("Transpose", inputs[1], perm=[0, 1, 3, 2])
    product = op.step("MatMul", inputs[0], turned)
    op.last("Div", product, op.constant(float(np.sqrt(op.shapes[0][-1]))))


def _heads(op: _Inner, inputs: list[str], *, number: int) -> None:
    n, rows, columns = op.shapes[0]
    shape = op.constant(np.array([n, rows, number, columns // number]))
    op.last("Transpose", op.step("Reshape", *inputs, shape), perm=[0, 2, 1, 3])


def _join_heads(op: _Inner, inputs: list[str]) -> None:
    n, number, rows, columns = op.shapes[0]
    turned = op.step("Transpose", *inputs, perm=[0, 2, 1, 3])
    op.last("Reshape", turned, op.constant(np.array([n, rows, number * columns])))


def _look_up(op: _Inner, inputs: list[str], *, table: AnyArray) -> None:
    op.last("Gather", op.constant(table), op.step("Cast", *inputs, to=onnx.TensorProto.INT64))


def _with(op_type: str, name: str) -> Callable[..., None]:
    """Translate an operator whose second operand is a keyword."""
    return lambda op, inputs, **keywords: op.last(op_type, *inputs, op.constant(keywords[name]))


def _enlarge(op: _Inner, inputs: list[str]) -> None:
    sizes = op.constant(np.array([*op.shapes[0][:2], 2 * op.shapes[0][2], 2 * op.shapes[0][3]]))
    op.last("Resize", *inputs, "-", "-", sizes, mode="linear", coordinate_transformation_mode="half_pixel")


_TRANSLATIONS: dict[Any, Callable[..., None]] = {
    ops.add: _plain("Add"), ops.average_all: _plain("GlobalAveragePool"), ops.batch_norm: _batch_norm,
    ops.concat: _plain("Concat", axis=1), ops.conv: _conv, ops.dense: _dense, ops.flatten: _plain("Flatten"),
    ops.gelu: _gelu, ops.hard_sigmoid: _plain("HardSigmoid", alpha=1 / 6, beta=0.5),
    ops.max_pool: _plain("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), ops.multiply: _plain("Mul"),
    ops.relu: _plain("Relu"), ops.relu6: _relu6, ops.sigmoid: _plain("Sigmoid"),
    ops.softmax: _plain("Softmax", axis=1), ops.split: _split, ops.top_k: _top_k,
    kernels.add_scalar: _with("Add", "scalar"), kernels.attend: _plain("Softmax", axis=-1),
    kernels.divide: _plain("Div"), kernels.enlarge: _enlarge, kernels.heads: _heads, kernels.join_heads: _join_heads,
    kernels.layer_norm: _layer_norm, kernels.look_up: _look_up,
    kernels.mean_of_rows: _plain("ReduceMean", axes=[-1], keepdims=1), kernels.product: _plain("MatMul"),
    kernels.scale_columns: _with("Mul", "factor"), kernels.scores: _scores,
    kernels.shift_columns: _with("Add", "offset"), kernels.subtract: _plain("Sub"), np.exp: _plain("Exp"),
    np.sqrt: _plain("Sqrt"), np.tanh: _plain("Tanh"),
}  # fmt: skip
