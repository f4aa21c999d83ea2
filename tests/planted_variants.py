"""Small operators of which a device computes a variant, by the name of the variant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from onnx_models import node
from opdiff.core import codes as elements
from opdiff.core.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT32, DType
from planted_changes import Array, Case, attribute, identity, normal

if TYPE_CHECKING:
    from collections.abc import Callable


def half(array: Array) -> Array:
    """Numbers of float16, as float32."""
    return array.astype(np.float16).astype(np.float32)


def insert_before_first(part: Any, *nodes: Any) -> None:
    kept = [onnx.NodeProto.FromString(item.SerializeToString()) for item in (*nodes, *part.graph.node)]
    del part.graph.node[:]
    part.graph.node.extend(kept)


def reflected(part: Any) -> None:
    """A change: the image of the first node, a convolution, padded with its reflection."""
    first = part.graph.node[0]
    pads = onnx.helper.make_node("Constant", [], ["pads"], value_ints=[0, 0, 1, 1, 0, 0, 1, 1])
    pad = node("Pad", f"{first.input[0]} pads", "padded", mode="reflect")
    first.input[0] = "padded"
    attribute("pads", [0, 0, 0, 0])(part)
    insert_before_first(part, pads, pad)


def transposed_operand(position: int) -> Callable[[Any], None]:
    """A change: a matrix of the first node is transposed."""

    def change(part: Any) -> None:
        first = part.graph.node[0]
        transpose = node("Transpose", first.input[position], "moved", perm=[1, 0])
        first.input[position] = "moved"
        insert_before_first(part, transpose)

    return change


def rounded_to(dtype: DType) -> Callable[[Array], Array]:
    return lambda array: elements.decode(elements.encode(array, dtype), dtype).astype(np.float32)


def as_int8(array: Array) -> Array:
    scale = np.abs(array).max() / 127
    result: Array = np.rint(array / scale) * scale
    return result


def product(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The product of the matrices below with changed operands, in place of the right one."""
    return lambda _array: (change(half(LEFT)) @ change(half(RIGHT))).astype(np.float32)


def narrow_product(size: int) -> Callable[[Array], Array]:
    """The product with its sum rounded to float16 after so many products each."""

    def compute(_array: Array) -> Array:
        left, right = half(LONG_LEFT), half(LONG_RIGHT)
        total = np.zeros((left.shape[0], right.shape[1]), np.float32)
        for start in range(0, left.shape[1], size):
            part = left[:, start : start + size] @ right[start : start + size]
            total = half(total + part)
        return total

    return compute


def other_order(_array: Array) -> Array:
    """The product with its sum rounded to float16, in an order that nobody would try."""
    left, right = half(LONG_LEFT), half(LONG_RIGHT)
    order = np.concatenate([half_of + np.random.default_rng(5).permutation(256) for half_of in (0, 256)])
    total = np.zeros((left.shape[0], right.shape[1]), np.float32)
    for start in range(0, order.size, 16):
        chosen = order[start : start + 16]
        total = half(total + left[:, chosen] @ right[chosen])
    return total


def narrow_convolution(_array: Array) -> Array:
    """A convolution whose sums are rounded to float16 after each 16 channels of each position of the kernel."""
    image, kernel = np.pad(half(IMAGE["x"]), ((0, 0), (0, 0), (1, 1), (1, 1))), half(WEIGHTS["w"])
    height, width = IMAGE["x"].shape[2:]
    total = np.zeros((1, kernel.shape[0], height, width), np.float32)
    for start in range(0, kernel.shape[1], 16):
        for row, column in np.ndindex(3, 3):
            part = image[:, start : start + 16, row : row + height, column : column + width]
            total = half(total + np.einsum("nchw,oc->nohw", part, kernel[:, start : start + 16, row, column]))
    return total


def shuffled(array: Array) -> Array:
    return np.random.default_rng(7).permutation(array.ravel()).reshape(array.shape)


def wrong_border(array: Array) -> Array:
    changed = normal(*array.shape, seed=3)
    changed[:, :, 1:-1, 1:-1] = array[:, :, 1:-1, 1:-1]
    return changed


def saturated(_array: Array) -> Array:
    return half(np.clip(half(LARGE["x"]) * half(LARGE["y"]), -65504, 65504) * half(SMALL))


IMAGE = {"x": np.abs(normal(1, 48, 9, 10))}
# The first and the second half of each sum cancel out, so that its rounding errors are large.
SIGNS = np.where(np.arange(48) < 24, np.float32(1), np.float32(-1))
WEIGHTS = {"w": np.abs(normal(24, 48, 3, 3)) * SIGNS.reshape(1, -1, 1, 1) / 20}
PADDED = [node("Conv", "x w", "a", "conv", pads=[1, 1, 1, 1])]
UNEVEN = [node("Conv", "x w", "a", "conv", pads=[0, 0, 2, 2])]
SQUARE = {"x": normal(12, 12), "y": normal(12, 12, seed=1)}
ROWS = {"x": normal(6, 16)}
LEFT, RIGHT = normal(16, 32), normal(32, 24, seed=1)
MATRICES = {"x": LEFT, "y": RIGHT}
PRODUCT = [node("MatMul", "x y", "z", "mm")]
LONG_LEFT = np.abs(normal(16, 512))
LONG_RIGHT = np.abs(normal(512, 24, seed=1)) * np.repeat(SIGNS[[0, -1]], 256).reshape(-1, 1)
LONG = {"x": LONG_LEFT, "y": LONG_RIGHT}
LARGE = {"x": 300 * normal(8, 32), "y": 300 * normal(8, 32, seed=1)}
SMALL = np.array([0.001], np.float32)
SCALED_PRODUCT = [node("Mul", "x y", "a", "first"), node("Mul", "a s", "z", "second")]
POOLS = {"x": normal(1, 4, 8, 8)}
BN_WEIGHTS = {
    "g": 1 + normal(24) / 4, "b": normal(24, seed=1), "m": normal(24, seed=2), "v": np.abs(normal(24, seed=3)) / 500,
}  # fmt: skip
WINDOW = {"kernel_shape": [3, 3], "strides": [2, 2]}
CUBE = {"x": normal(6, 6, 6)}
CASES = {
    "slope of LeakyRelu": Case(
        [node("LeakyRelu", "x", "z", "act", alpha=0.1)],
        ROWS,
        "activation",
        "act (LeakyRelu) is computed with alpha=0.01",
        attribute("alpha", 0.01),
    ),
    "slope of HardSigmoid": Case(
        [node("HardSigmoid", "x", "z", "act", alpha=1 / 6)],
        ROWS,
        "activation",
        "act (HardSigmoid) is computed with alpha=0.2, beta=0.5",
        attribute("alpha", 0.2),
    ),
    "Clip left out": Case(
        [node("Clip", "x low high", "z", "clip")],
        {"x": 5 * normal(6, 16)},
        "activation",
        "the activation clip (Clip) is not applied",
        identity(0),
        weights={"low": np.array(0, np.float32), "high": np.array(6, np.float32)},
    ),
    "product left out": Case(
        [node("Mul", "x y", "z", "mul")],
        SQUARE,
        "operand",
        "mul (Mul) is left out: the operand y is missing",
        identity(0),
    ),
    "fused operator left out": Case(
        [node("Exp", "x", "a", "exp"), node("Softmax", "a", "z", "soft")],
        {"x": normal(6, 16) / 2},
        "fusion",
        "soft (Softmax) is left out",
        identity(1),
    ),
    "padding at the other end": Case(
        UNEVEN,
        IMAGE,
        "padding",
        "conv (Conv) is computed with pads=[2, 2, 0, 0]",
        attribute("pads", [2, 2, 0, 0]),
        weights=WEIGHTS,
    ),
    "padding moved by one": Case(
        PADDED,
        IMAGE,
        "padding",
        "conv (Conv) is computed with pads=[2, 1, 0, 1]",
        attribute("pads", [2, 1, 0, 1]),
        weights=WEIGHTS,
    ),
    "reflected padding": Case(PADDED, IMAGE, "padding", "padding=reflect", reflected, weights=WEIGHTS),
    "border": Case(
        PADDED, IMAGE, "padding", "only the border of the image is wrong", spoil=wrong_border, weights=WEIGHTS
    ),
    "mode of Pad": Case(
        [node("Pad", "x pads", "z", "pad", mode="reflect")],
        POOLS,
        "padding",
        "pad (Pad) is computed with mode=edge",
        attribute("mode", "edge"),
        weights={"pads": np.array([0, 0, 2, 2, 0, 0, 2, 2])},
    ),
    "padding that is not counted": Case(
        [node("AveragePool", "x", "z", "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)],
        POOLS,
        "padding",
        "pool (AveragePool) is computed with count_include_pad=0",
        attribute("count_include_pad", 0),
    ),
    "windows rounded up": Case(
        [
            node("MaxPool", "x", "a", "pool", kernel_shape=[3, 3], strides=[2, 2]),
            node("GlobalMaxPool", "a", "z", "max"),
        ],
        {"x": np.cumsum(np.abs(normal(1, 4, 8, 8)), axis=2)},
        "padding",
        "pool (MaxPool) is computed with ceil_mode=1",
        attribute("ceil_mode", 1),
    ),
    "axis of a concatenation": Case(
        [node("Concat", "x y", "a", "cat", axis=0), node("Reshape", "a shape", "z", "flat")],
        SQUARE,
        "axis",
        "cat (Concat) is computed with axis=1",
        attribute("axis", 1),
        weights={"shape": np.array([288])},
    ),
    "axis of Gather": Case(
        [node("Gather", "x i", "z", "gather", axis=0)],
        {"x": normal(6, 6)},
        "axis",
        "gather (Gather) is computed with axis=1",
        attribute("axis", 1),
        weights={"i": np.array([5, 4, 3, 0, 1, 2])},
    ),
    "axis of a reduction": Case(
        [node("ReduceMean", "x", "z", "mean", axes=[2], keepdims=0)],
        CUBE,
        "axis",
        "mean (ReduceMean) is computed with axes=[1]",
        attribute("axes", [1]),
    ),
    "transposed left matrix": Case(
        PRODUCT, SQUARE, "axis", "a matrix of mm (MatMul) is transposed", transposed_operand(0)
    ),
    "transposed right matrix": Case(
        PRODUCT, SQUARE, "axis", "a matrix of mm (MatMul) is transposed", transposed_operand(1)
    ),
    "epsilon of BatchNormalization": Case(
        [node("BatchNormalization", "x g b m v", "z", "bn", epsilon=1e-5)],
        {"x": normal(2, 24, 4, 4)},
        "function",
        "bn (BatchNormalization) is computed with epsilon=0.001",
        attribute("epsilon", 1e-3),
        weights=BN_WEIGHTS,
    ),
    "mode of Resize": Case(
        [node("Resize", "x - s", "z", "up", mode="linear", coordinate_transformation_mode="half_pixel")],
        POOLS,
        "function",
        "up (Resize) is computed with mode=nearest, coordinate_transformation_mode=align_corners, nearest_mode=ceil",
        lambda part: [
            attribute("mode", "nearest")(part),
            attribute("coordinate_transformation_mode", "align_corners")(part),
            attribute("nearest_mode", "ceil")(part),
        ][0],
        weights={"s": np.array([1, 1, 2.5, 2.5], np.float32)},
    ),
    "approximation of Gelu": Case(
        [node("Gelu", "x", "z", "gelu")],
        {"x": normal(16, 64) / 2 - 2},
        "function",
        "gelu (Gelu) is computed with approximate=tanh",
        attribute("approximate", "tanh"),
        dtype=FLOAT32,
        opset=20,
    ),
    "bfloat16": Case(
        PRODUCT, MATRICES, "precision", "inputs are rounded to bfloat16 first", spoil=product(rounded_to(BFLOAT16))
    ),
    "float8": Case(
        PRODUCT,
        MATRICES,
        "precision",
        "inputs are rounded to float8_e4m3fn first",
        spoil=product(rounded_to(FLOAT8_E4M3FN)),
    ),
    "8-bit integers": Case(
        PRODUCT, MATRICES, "quantization", "inputs are rounded to int8 first", spoil=product(as_int8)
    ),
    "accumulation in 16 bits": Case(
        PRODUCT, LONG, "precision", "mm (MatMul) accumulates in float16", spoil=narrow_product(16)
    ),
    "accumulation product by product": Case(
        PRODUCT, LONG, "precision", "mm (MatMul) accumulates in float16", spoil=narrow_product(1)
    ),
    "accumulation in another order": Case(
        PRODUCT, LONG, "precision", "as large as accumulation of mm (MatMul) in float16 makes them", spoil=other_order
    ),
    "convolution that accumulates in 16 bits": Case(
        PADDED,
        IMAGE,
        "precision",
        "as large as accumulation of conv (Conv) in float16 makes them",
        spoil=narrow_convolution,
        weights=WEIGHTS,
    ),
    "saturated step": Case(
        SCALED_PRODUCT,
        LARGE,
        "overflow",
        "the result of first (Mul) ends at 65504, the end of the range of float16",
        spoil=saturated,
        weights={"s": SMALL},
    ),
    "saturated result": Case(
        [node("Mul", "x s", "z", "mul")],
        {"x": normal(6, 64)},
        "overflow",
        "3 elements overflowed",
        spoil=lambda array: np.where(np.arange(array.size).reshape(array.shape) % 150 == 0, 65504, array),
        weights={"s": np.array(2, np.float32)},
    ),
    "swapped axes": Case(
        [node("Neg", "x", "z", "neg")],
        {"x": normal(3, 6, 6)},
        "permuted",
        "the result is right, but axes 1, 2 are swapped",
        spoil=lambda array: array.swapaxes(1, 2),
    ),
    "reversed axis": Case(
        [node("Neg", "x", "z", "neg")],
        {"x": normal(3, 6, 7)},
        "permuted",
        "the result is right, but axis 1 is reversed",
        spoil=lambda array: array[:, ::-1],
    ),
    "any other order": Case(
        [node("Neg", "x", "z", "neg")],
        {"x": normal(3, 6, 7)},
        "permuted",
        "the values are right, but in another order",
        spoil=shuffled,
    ),
    "offset": Case(
        PRODUCT, MATRICES, "offset", "the result is shifted by 0.5", spoil=lambda array: array + 0.5, dtype=FLOAT32
    ),
    "factor and offset": Case(
        PRODUCT,
        MATRICES,
        "scale",
        "the result is multiplied by 1.5 and shifted by 0.5",
        spoil=lambda array: 1.5 * array + 0.5,
        dtype=FLOAT32,
    ),
    "factor for each channel": Case(
        PADDED,
        IMAGE,
        "scale",
        "every index of axis 1 is multiplied by a number of its own",
        spoil=lambda array: array * (1 + np.abs(normal(1, 24, 1, 1))),
        weights=WEIGHTS,
    ),
}
