"""Variants of operands: left out, exchanged, transposed, without bias, rounded first, or with reversed channels."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.workflows.replay.attributes import read_attributes, with_attributes
from opdiff.workflows.replay.encoded_model import added_node
from opdiff.workflows.replay.variants.variant import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.workflows.replay.encoded_model import EncodedNode, Subgraph
    from opdiff.workflows.replay.variants.variant import Computation

ACTIVATIONS = frozenset({
    "Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu", "Selu", "Gelu", "Mish",
    "Softplus", "Softsign", "Celu", "ThresholdedRelu", "Erf",
})  # fmt: skip
"""Types of activations in ONNX."""

_BINARY = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean"})
_ORDERED = frozenset({"Sub", "Div", "Pow", "MatMul", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Mod"})
_WITH_BIAS = frozenset({"Conv", "ConvTranspose", "Gemm"})
_LINEAR = _WITH_BIAS | {"MatMul", "MatMulInteger", "ConvInteger"}
_IMAGE_CHANNELS = (3, 4)
_IMAGE_RANK = 4
_LARGEST_INT8 = 127
# From the finest to the coarsest type.
_COARSER_TYPES = (dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.FLOAT8_E4M3FN, dtypes.FLOAT8_E5M2)


def left_out(computation: Computation) -> Iterator[Variant]:
    """Yield variants in which one original operator passes an input on, the last operator first."""
    for node in computation.computing_nodes():
        shape = computation.shape_of(node.outputs[0])
        sources = [name for name in dict.fromkeys(node.inputs) if name and not computation.is_constant(name)]
        for source in sources:
            if shape is None or computation.shape_of(source) != shape or node.op_type == "Identity":
                continue
            missing = next((name for name in node.inputs if name != source), "")
            is_bias = len(sources) < len(node.inputs) or _is_bias(computation, source, missing)
            kind, code = _meaning(node, len(sources), is_bias=is_bias)
            reason = because(code, operator=node.name, op_type=node.op_type, operand=missing)
            yield Variant(kind, reason, computation.passing_on(node, source))


def _is_bias(computation: Computation, result: str, added: str) -> bool:
    """Return whether a vector is added to the result of a convolution or matrix product."""
    node, shape = computation.encoded.producers.get(result), computation.shape_of(added)
    if node is None or node.op_type not in _LINEAR or shape is None or shape == computation.shape_of(result):
        return False
    return max(shape, default=1) == prod(shape)


def _meaning(node: EncodedNode, sources: int, *, is_bias: bool) -> tuple[ErrorKind, str]:
    """Return what it means that a node passes an input on."""
    if node.op_type in ACTIVATIONS:
        return ErrorKind.ACTIVATION, "replay.cause_no_activation"
    if node.op_type in ("Add", "Sub") and is_bias:
        return ErrorKind.BIAS, "replay.cause_bias_missing"
    if node.op_type in _BINARY and sources > 1:
        return ErrorKind.OPERAND, "replay.cause_operand_missing"
    return ErrorKind.FUSION, "replay.cause_left_out"


def without_bias(computation: Computation) -> Iterator[Variant]:
    """Yield variants without the bias of a convolution, matrix product or normalization."""
    for node in computation.computing_nodes():
        reason = because("replay.cause_bias_missing", operator=node.name, op_type=node.op_type, operand="")
        if node.op_type in _WITH_BIAS and len(node.inputs) > 2 and node.inputs[2]:
            yield Variant(ErrorKind.BIAS, reason, computation.with_node(node, replace(node, inputs=node.inputs[:2])))
        if node.op_type == "BatchNormalization" and len(node.inputs) == 5:
            yield Variant(ErrorKind.BIAS, reason, _without_shift(computation, node))


def _without_shift(computation: Computation, node: EncodedNode) -> Subgraph:
    """Return the subgraph with a normalization that scales only: mean and offset are differences of equal numbers."""
    data, gamma, beta, mean, variance = node.inputs
    zeros = [added_node("Sub", (name, name), f"opdiff:zero:{name}") for name in dict.fromkeys((beta, mean))]
    inputs = (data, gamma, f"opdiff:zero:{beta}", f"opdiff:zero:{mean}", variance)
    return computation.with_node(node, *zeros, replace(node, inputs=inputs))


def exchanged(computation: Computation) -> Iterator[Variant]:
    """Yield variants with exchanged operands."""
    for node in computation.computing_nodes():
        inputs = _exchanged(node)
        if inputs != node.inputs:
            reason = because("replay.cause_exchanged", operator=node.name, op_type=node.op_type)
            yield Variant(ErrorKind.OPERAND, reason, computation.with_node(node, replace(node, inputs=inputs)))


def _exchanged(node: EncodedNode) -> tuple[str, ...]:
    """Return the inputs of a node in the other order, if the order matters."""
    if node.op_type == "Where":
        condition, first, second = node.inputs
        return condition, second, first
    has_order = node.op_type == "Concat" or (node.op_type in _ORDERED and len(node.inputs) == 2)
    return node.inputs[::-1] if has_order else node.inputs


def transposed_weights(computation: Computation) -> Iterator[Variant]:
    """Yield variants of matrix products with transposed square matrices."""
    for node in computation.computing_nodes():
        if node.op_type == "Gemm":
            given = read_attributes(computation.encoded, node)
            for name in ("transB", "transA"):
                changed = with_attributes(computation.encoded, node, {name: 1 - int(str(given.get(name, 0)))})
                yield Variant(ErrorKind.AXIS, _transposed(node), computation.with_node(node, changed))
        if node.op_type == "MatMul":
            for position, name in enumerate(node.inputs):
                shape = computation.shape_of(name)
                if shape is not None and len(shape) > 1 and shape[-1] == shape[-2]:
                    yield Variant(
                        ErrorKind.AXIS, _transposed(node), _with_transpose(computation, node, position, len(shape))
                    )


def _transposed(node: EncodedNode) -> Reason:
    return because("replay.cause_transposed", operator=node.name, op_type=node.op_type)


def _with_transpose(computation: Computation, node: EncodedNode, position: int, rank: int) -> Subgraph:
    source = node.inputs[position]
    order = (*range(rank - 2), rank - 1, rank - 2)
    moved = f"opdiff:transposed:{source}"
    transpose = added_node("Transpose", (source,), moved, perm=order)
    inputs = tuple(moved if number == position else name for number, name in enumerate(node.inputs))
    return computation.with_node(node, transpose, replace(node, inputs=inputs))


def rounded_inputs(computation: Computation, device: DType) -> Iterator[Variant]:
    """Yield variants whose inputs are first rounded to a coarser type than the type of the device."""
    start = _COARSER_TYPES.index(device) + 1 if device in _COARSER_TYPES else 0
    for dtype in _COARSER_TYPES[start:]:
        reason = because("replay.cause_input_rounded", dtype=dtype.name)
        yield Variant(ErrorKind.PRECISION, reason, computation.subgraph, partial(_rounded, dtype))
    reason = because("replay.cause_input_rounded", dtype="int8")
    yield Variant(ErrorKind.QUANTIZATION, reason, computation.subgraph, _quantized)


def _rounded(dtype: DType, _name: str, array: AnyArray) -> AnyArray:
    if array.dtype.kind != "f":
        return array
    return elements.decode(elements.encode(array, dtype), dtype).astype(array.dtype)


def _quantized(_name: str, array: AnyArray) -> AnyArray:
    """Round to the 8-bit integers of a symmetric scale."""
    largest = float(np.abs(array).max(initial=0.0)) if array.dtype.kind == "f" else 0.0
    if not largest or not np.isfinite(largest):
        return array
    scale = largest / _LARGEST_INT8
    return (np.rint(array / scale) * scale).astype(array.dtype)


def reversed_channels(computation: Computation) -> Iterator[Variant]:
    """Yield variants with images whose channels are in reverse order, as BGR in place of RGB."""
    for name in computation.subgraph.inputs:
        shape = computation.shape_of(name)
        if shape is not None and len(shape) == _IMAGE_RANK and shape[1] in _IMAGE_CHANNELS:
            reason = because("replay.cause_channels_reversed", tensor=name)
            yield Variant(ErrorKind.INPUT, reason, computation.subgraph, partial(_reversed, name))


def _reversed(wanted: str, name: str, array: AnyArray) -> AnyArray:
    return np.ascontiguousarray(array[:, ::-1]) if name == wanted else array
