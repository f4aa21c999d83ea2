"""The original model of a network for fault injection as an ONNX model, for proofs by replay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from fault_injection import kernels
from onnx_models import model, node, value, weight
from opdiff.sample import ops
from opdiff.sample.golden import run_golden

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.sample.graph import SampleNetwork


def onnx_model(network: SampleNetwork) -> bytes:
    """Return the original model, whose operators have the names of the golden ones."""
    values, nodes, weights = run_golden(network), list[Any](), list[Any]()
    ports = {op.name: [port for port in values if port.op == op.name] for op in network.golden}
    for op in network.golden:
        kernel = op.kernel if isinstance(op.kernel, partial) else partial(op.kernel)
        inputs = [port.op if port.op == network.image_name else str(port) for port in op.inputs]
        shapes = [values[port].shape for port in op.inputs]
        translated = _Op(op.name, " ".join(map(str, ports[op.name])), shapes, nodes, weights)
        _TRANSLATIONS[kernel.func](translated, inputs, **kernel.keywords)
    read = {port for op in network.golden for port in op.inputs}
    outputs = [port for op in network.golden for port in ports[op.name] if port not in read]
    results = [onnx.ValueInfoProto(name=str(port)) for port in outputs]
    made = model(nodes, [value(network.image_name, network.image.shape)], results, weights)
    content: bytes = made.SerializeToString()
    return content


@dataclass(frozen=True)
class _Op:
    """One operator under translation: its last node has its name and its outputs.

    Attributes:
        name: its name.
        outputs: its tensors, which are named after its ports.
        shapes: shapes of its inputs.
        nodes: nodes of the model so far.
        weights: weights of the model so far.
    """

    name: str
    outputs: str
    shapes: list[tuple[int, ...]]
    nodes: list[Any]
    weights: list[Any]

    def last(self, op_type: str, *inputs: str, **attributes: Any) -> None:
        self.nodes.append(node(op_type, " ".join(inputs), self.outputs, self.name, **attributes))

    def step(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{self.name}/{len(self.nodes)}"
        self.nodes.append(node(op_type, " ".join(inputs), name, name, **attributes))
        return name

    def constant(self, array: Any) -> str:
        name = f"{self.name}/weight{len(self.weights)}"
        values = np.asarray(array)
        self.weights.append(weight(name, values.astype(np.float32) if values.dtype.kind == "f" else values))
        return name


def _plain(op_type: str, **attributes: Any) -> Callable[..., None]:
    return lambda op, inputs: op.last(op_type, *inputs, **attributes)


def _conv(
    op: _Op, inputs: list[str], *, weight: AnyArray, bias: AnyArray | None = None, stride: int = 1, groups: int = 1
) -> None:
    constants = [op.constant(array) for array in (weight, bias) if array is not None]
    pads, strides = [weight.shape[2] // 2] * 4, [stride, stride]
    op.last("Conv", *inputs, *constants, group=groups, pads=pads, strides=strides)


def _batch_norm(op: _Op, inputs: list[str], *, factor: AnyArray, offset: AnyArray) -> None:
    zeros, ones = np.zeros(factor.size), np.ones(factor.size)
    constants = [op.constant(array) for array in (factor, offset, zeros, ones)]
    op.last("BatchNormalization", *inputs, *constants, epsilon=0.0)


def _dense(op: _Op, inputs: list[str], *, weight: AnyArray, bias: AnyArray) -> None:
    product = op.step("MatMul", *inputs, op.constant(weight))
    op.last("Add", product, op.constant(bias))


def _relu6(op: _Op, inputs: list[str]) -> None:
    op.last("Clip", *inputs, op.constant(0.0), op.constant(6.0))


def _gelu(op: _Op, inputs: list[str]) -> None:
    (x,) = inputs
    cube = op.step("Mul", op.step("Mul", x, x), x)
    inner = op.step("Add", x, op.step("Mul", cube, op.constant(0.044715)))
    bent = op.step("Tanh", op.step("Mul", inner, op.constant(float(np.sqrt(2 / np.pi)))))
    half = op.step("Mul", x, op.constant(0.5))
    op.last("Mul", half, op.step("Add", bent, op.constant(1.0)))


def _split(op: _Op, inputs: list[str], *, parts: int) -> None:
    sizes = np.full(parts, op.shapes[0][1] // parts, np.int64)
    op.last("Split", *inputs, op.constant(sizes), axis=1)


def _top_k(op: _Op, inputs: list[str], *, k: int) -> None:
    op.last("TopK", *inputs, op.constant(np.array([k])), axis=1)


def _layer_norm(op: _Op, inputs: list[str], *, factor: AnyArray, offset: AnyArray) -> None:
    op.last("LayerNormalization", *inputs, op.constant(factor), op.constant(offset), axis=-1, epsilon=1e-5)


def _scores(op: _Op, inputs: list[str]) -> None:
    turned = op.step("Transpose", inputs[1], perm=[0, 1, 3, 2])
    product = op.step("MatMul", inputs[0], turned)
    op.last("Div", product, op.constant(float(np.sqrt(op.shapes[0][-1]))))


def _heads(op: _Op, inputs: list[str], *, number: int) -> None:
    n, rows, columns = op.shapes[0]
    shape = op.constant(np.array([n, rows, number, columns // number]))
    op.last("Transpose", op.step("Reshape", *inputs, shape), perm=[0, 2, 1, 3])


def _join_heads(op: _Op, inputs: list[str]) -> None:
    n, number, rows, columns = op.shapes[0]
    turned = op.step("Transpose", *inputs, perm=[0, 2, 1, 3])
    op.last("Reshape", turned, op.constant(np.array([n, rows, number * columns])))


def _look_up(op: _Op, inputs: list[str], *, table: AnyArray) -> None:
    op.last("Gather", op.constant(table), op.step("Cast", *inputs, to=onnx.TensorProto.INT64))


def _with(op_type: str, name: str) -> Callable[..., None]:
    """Translate an operator whose second operand is a keyword."""
    return lambda op, inputs, **keywords: op.last(op_type, *inputs, op.constant(keywords[name]))


def _enlarge(op: _Op, inputs: list[str]) -> None:
    sizes = op.constant(np.array([*op.shapes[0][:2], 2 * op.shapes[0][2], 2 * op.shapes[0][3]]))
    op.last("Resize", *inputs, "-", "-", sizes, mode="linear", coordinate_transformation_mode="half_pixel")


_TRANSLATIONS: dict[Any, Callable[..., None]] = {
    ops.add: _plain("Add"), ops.average_all: _plain("GlobalAveragePool"), ops.batch_norm: _batch_norm,
    ops.concat: _plain("Concat", axis=1), ops.conv: _conv, ops.dense: _dense, ops.flatten: _plain("Flatten"),
    ops.gelu: _gelu, ops.hard_sigmoid: _plain("HardSigmoid", alpha=1 / 6, beta=0.5),
    ops.max_pool: _plain("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), ops.multiply: _plain("Mul"),
    ops.relu: _plain("Relu"), ops.relu6: _relu6, ops.sigmoid: _plain("Sigmoid"),
    ops.softmax: _plain("Softmax", axis=1), ops.split: _split, ops.top_k: _top_k,
    kernels.attend: _plain("Softmax", axis=-1),
    kernels.divide: _plain("Div"), kernels.enlarge: _enlarge, kernels.heads: _heads, kernels.join_heads: _join_heads,
    kernels.layer_norm: _layer_norm, kernels.look_up: _look_up,
    kernels.mean_of_rows: _plain("ReduceMean", axes=[-1], keepdims=1), np.matmul: _plain("MatMul"),
    kernels.scale_columns: _with("Mul", "factor"), kernels.scores: _scores,
    kernels.shift: _with("Add", "offset"), np.subtract: _plain("Sub"), np.exp: _plain("Exp"),
    np.sqrt: _plain("Sqrt"), np.tanh: _plain("Tanh"),
}  # fmt: skip
