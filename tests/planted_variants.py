"""Small operators of which a device computes a variant, with the kind of the cause and a part of its sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onnx_models import Array, node
from opdiff.core import codes as elements
from opdiff.core.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT32, DType
from planted_changes import (
    Operator,
    as_nhwc,
    attribute,
    exchanged,
    foreign_channel,
    left_out,
    normal,
    padded,
    reversed_image,
    rough,
    rounded_operands,
    set_weight,
    single,
    swapped_channels,
    transposed_operand,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from planted_changes import Change, Spoil


class Case(NamedTuple):
    """An operator with a fault: the kind of its cause, a part of the sentence, and what causes it."""

    operator: Operator
    kind: str
    sentence: str
    change: Change | None = None
    spoil: Spoil | None = None


def half(array: Array) -> Array:
    """Numbers of float16, as float32."""
    return array.astype(np.float16).astype(np.float32)


def rounded_to(dtype: DType) -> Callable[[Array], Array]:
    return lambda array: elements.decode(elements.encode(array, dtype), dtype).astype(np.float32)


def as_int8(array: Array) -> Array:
    scale = np.abs(array).max() / 127
    result: Array = np.rint(array / scale) * scale
    return result


def product(change: Callable[[Array], Array]) -> Spoil:
    """The product of the matrices below with changed operands, in place of the right one."""
    return lambda _array: (change(half(MATRICES["x"])) @ change(half(MATRICES["y"]))).astype(np.float32)


def narrow_product(size: int, order: Array | None = None) -> Spoil:
    """The product of the long matrices with its sum rounded to float16 after so many products each."""

    def compute(_array: Array) -> Array:
        left, right = half(LONG["x"]), half(LONG["y"])
        positions = np.arange(left.shape[1]) if order is None else order
        total = np.zeros((left.shape[0], right.shape[1]), np.float32)
        for start in range(0, positions.size, size):
            chosen = positions[start : start + size]
            total = half(total + left[:, chosen] @ right[chosen])
        return total

    return compute


def narrow_convolution(_array: Array) -> Array:
    """A convolution whose sums are rounded to float16 after each 16 channels of each position of the kernel."""
    image, kernel = np.pad(half(WIDE_IMAGE["x"]), ((0, 0), (0, 0), (1, 1), (1, 1))), half(WIDE_WEIGHTS["w"])
    height, width = WIDE_IMAGE["x"].shape[2:]
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
    return half(np.clip(half(LARGE["x"]) * half(LARGE["y"]), -65504, 65504) * half(SMALL["s"]))


def rough_softmax(array: Array) -> Array:
    """A softmax whose exponentials have an error that depends on the operand."""
    operand = np.log(array / array.max(-1, keepdims=True))
    powers = np.exp(operand) * (1 + 0.05 * np.sin(4 * operand))
    result: Array = powers / powers.sum(-1, keepdims=True)
    return result.astype(np.float32)


def spoil_two_elements(array: Array) -> Array:
    changed = array.copy()
    changed[0, [3, 9]] = 5.0
    return changed


def nearest_to_corners(part: Any) -> None:
    """Resize with three other attributes."""
    changed = {"mode": "nearest", "coordinate_transformation_mode": "align_corners", "nearest_mode": "ceil"}
    for name, value in changed.items():
        attribute(name, value)(part)


ROWS, PAIR = {"x": normal(6, 16)}, {"x": normal(6, 16), "y": normal(6, 16, seed=1)}
SQUARES = {"x": normal(12, 12), "y": normal(12, 12, seed=1)}
IMAGE, SQUARE_IMAGE = {"x": normal(1, 8, 10, 12)}, {"x": normal(1, 4, 8, 8)}
NEG, NEG_ROWS = single("Neg", IMAGE), single("Neg", {"x": normal(3, 6, 7)})

CONV_WEIGHTS = {"w": normal(16, 8, 3, 3) / 5, "b": normal(16)}
DEAD_CHANNELS = {"w": normal(16, 8, 3, 3) / 5, "b": np.where(np.arange(16) % 4 == 3, -99, normal(16)).astype("f")}
CONV_NODES = [node("Conv", "x w b", "a", "conv", pads=[1, 1, 1, 1]), node("Relu", "a", "r", "relu")]
CONV = Operator(CONV_NODES, IMAGE, CONV_WEIGHTS)
DEAD_CONV = Operator(CONV_NODES, IMAGE, DEAD_CHANNELS)
NORM = Operator(
    [
        node("Conv", "x w", "a", "conv"),
        node("BatchNormalization", "a g b m v", "n", "bn"),
        node("Relu", "n", "r", "relu"),
    ],
    IMAGE,
    {
        "w": normal(16, 8, 3, 3) / 5, "g": 1 + normal(16) / 9, "b": normal(16, seed=1), "m": normal(16, seed=2),
        "v": np.abs(normal(16, seed=3)) / 100,
    },
)  # fmt: skip
BN_WEIGHTS = {
    "g": 1 + normal(24) / 4, "b": normal(24, seed=1), "m": normal(24, seed=2), "v": np.abs(normal(24, seed=3)) / 500,
}  # fmt: skip
SILU = Operator([node("Sigmoid", "x", "s", "sigmoid"), node("Mul", "x s", "z", "mul")], IMAGE)
POOL: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}

WIDE_IMAGE = {"x": np.abs(normal(1, 48, 9, 10))}
# The first and the second half of each sum cancel out, so that its rounding errors are large.
SIGNS = np.where(np.arange(48) < 24, np.float32(1), np.float32(-1))
WIDE_WEIGHTS = {"w": np.abs(normal(24, 48, 3, 3)) * SIGNS.reshape(1, -1, 1, 1) / 20}
PADDED = single("Conv", WIDE_IMAGE, WIDE_WEIGHTS, pads=[1, 1, 1, 1])

MATRICES = {"x": normal(16, 32), "y": normal(32, 24, seed=1)}
LONG = {
    "x": np.abs(normal(16, 512)),
    "y": np.abs(normal(512, 24, seed=1)) * np.repeat(SIGNS[[0, -1]], 256).reshape(-1, 1),
}
PRODUCT, LONG_PRODUCT = single("MatMul", MATRICES), single("MatMul", LONG)
EXACT_PRODUCT = replace(PRODUCT, dtype=FLOAT32)
OTHER_ORDER = np.concatenate([start + np.random.default_rng(5).permutation(256) for start in (0, 256)])
LARGE, SMALL = {"x": 300 * normal(8, 32), "y": 300 * normal(8, 32, seed=1)}, {"s": np.array([0.001], np.float32)}
SCALED_PRODUCT = Operator([node("Mul", "x y", "a", "first"), node("Mul", "a s", "z", "second")], LARGE, SMALL)


def resize(factor: float, **attributes: Any) -> Operator:
    up = node("Resize", "x - s", "z", "up", mode="linear", **attributes)
    return Operator([up], SQUARE_IMAGE, {"s": np.array([1, 1, factor, factor], np.float32)})


CASES = [
    # Activations and bias
    Case(CONV, "activation", "the activation relu (Relu) is not applied", left_out(1)),
    Case(SILU, "activation", "the activation mul (Mul) is not applied", left_out(0, 1)),
    Case(
        single("Clip", {"x": 5 * normal(6, 16)}, {"low": np.array(0, "f"), "high": np.array(6, "f")}),
        "activation",
        "the activation clip (Clip) is not applied",
        left_out(0),
    ),
    Case(single("LeakyRelu", ROWS, alpha=0.1), "activation", "computed with alpha=0.01", attribute("alpha", 0.01)),
    Case(single("HardSigmoid", ROWS, alpha=1 / 6), "activation", "with alpha=0.2, beta=0.5", attribute("alpha", 0.2)),
    Case(CONV, "bias", "the bias of conv (Conv) is missing", set_weight("b", np.zeros_like)),
    Case(NORM, "bias", "the bias of bn (BatchNormalization) is missing", set_weight("folded_bn_b", np.zeros_like)),
    Case(
        single("Conv", IMAGE, CONV_WEIGHTS),
        "bias",
        "every index of axis 1 is shifted by a number of its own",
        spoil=lambda array: array + normal(1, 16, 1, 1, seed=4),
    ),
    # Operands
    Case(single("Mul", SQUARES), "operand", "mul (Mul) is left out: the operand y is missing", left_out(0)),
    Case(single("Add", PAIR), "operand", "add (Add) is left out: the operand y is missing", left_out(0)),
    Case(single("Sub", PAIR), "operand", "the operands of sub (Sub) are exchanged", exchanged),
    Case(single("MatMul", SQUARES), "operand", "the operands of matmul (MatMul) are exchanged", exchanged),
    Case(single("Concat", PAIR, axis=1), "operand", "the operands of concat (Concat) are exchanged", exchanged),
    Case(
        Operator([node("Exp", "x", "a", "exp"), node("Softmax", "a", "z", "softmax")], {"x": normal(6, 16) / 2}),
        "fusion",
        "softmax (Softmax) is left out",
        left_out(1),
    ),
    Case(
        single("Conv", {"x": normal(1, 3, 9, 9)}, {"w": normal(8, 3, 3, 3)}),
        "input",
        "channels of x are in reverse order",
        reversed_image,
    ),
    # Padding
    Case(CONV, "padding", "conv (Conv) is computed with pads=[2, 2, 0, 0]", attribute("pads", [2, 2, 0, 0])),
    Case(
        single("Conv", WIDE_IMAGE, WIDE_WEIGHTS, pads=[0, 0, 2, 2]),
        "padding",
        "with pads=[2, 2, 0, 0]",
        attribute("pads", [2, 2, 0, 0]),
    ),
    Case(PADDED, "padding", "conv (Conv) is computed with pads=[2, 1, 0, 1]", attribute("pads", [2, 1, 0, 1])),
    Case(PADDED, "padding", "padding=reflect", padded("reflect")),
    Case(CONV, "padding", "padding=edge", padded("edge")),
    Case(PADDED, "padding", "only the border of the image is wrong", spoil=wrong_border),
    Case(
        single("Pad", SQUARE_IMAGE, {"pads": np.array([0, 0, 2, 2, 0, 0, 2, 2])}, mode="reflect"),
        "padding",
        "computed with mode=edge",
        attribute("mode", "edge"),
    ),
    Case(
        single("AveragePool", SQUARE_IMAGE, count_include_pad=1, **POOL),
        "padding",
        "computed with count_include_pad=0",
        attribute("count_include_pad", 0),
    ),
    Case(
        single("AveragePool", IMAGE, strides=[2, 2], **POOL),
        "padding",
        "computed with count_include_pad=1",
        attribute("count_include_pad", 1),
    ),
    Case(
        Operator(
            [
                node("MaxPool", "x", "a", "pool", kernel_shape=[3, 3], strides=[2, 2]),
                node("GlobalMaxPool", "a", "z", "max"),
            ],
            {"x": np.cumsum(np.abs(normal(1, 4, 8, 8)), axis=2)},
        ),
        "padding",
        "computed with ceil_mode=1",
        attribute("ceil_mode", 1),
    ),
    # Axes
    Case(
        Operator(
            [node("Concat", "x y", "a", "cat", axis=0), node("Reshape", "a shape", "z", "flat")],
            SQUARES,
            {"shape": np.array([288])},
        ),
        "axis",
        "computed with axis=1",
        attribute("axis", 1),
    ),
    Case(
        single("Gather", {"x": normal(6, 6)}, {"i": np.array([5, 4, 3, 0, 1, 2])}, axis=0),
        "axis",
        "gather (Gather) is computed with axis=1",
        attribute("axis", 1),
    ),
    Case(
        single("ReduceMean", {"x": normal(6, 6, 6)}, axes=[2], keepdims=0),
        "axis",
        "computed with axes=[1]",
        attribute("axes", [1]),
    ),
    Case(single("Softmax", ROWS), "axis", "is computed with axis=0", attribute("axis", 0)),
    Case(
        single("Transpose", {"x": normal(1, 6, 6, 6)}, perm=[0, 1, 3, 2]),
        "axis",
        "with perm=[0, 3, 2, 1]",
        attribute("perm", [0, 3, 2, 1]),
    ),
    Case(single("MatMul", SQUARES), "axis", "a matrix of matmul (MatMul) is transposed", transposed_operand(0)),
    Case(single("MatMul", SQUARES), "axis", "a matrix of matmul (MatMul) is transposed", transposed_operand(1)),
    Case(
        single("Gemm", {"x": normal(5, 8)}, {"w": normal(8, 8)}),
        "axis",
        "gemm (Gemm) is transposed",
        attribute("transB", 1),
    ),
    # Functions
    Case(
        single("BatchNormalization", {"x": normal(2, 24, 4, 4)}, BN_WEIGHTS, epsilon=1e-5),
        "function",
        "(BatchNormalization) is computed with epsilon=0.001",
        attribute("epsilon", 1e-3),
    ),
    Case(
        single(
            "LayerNormalization", {"x": normal(6, 16) / 50}, {"g": normal(16), "b": normal(16, seed=1)}, epsilon=1e-5
        ),
        "function",
        "(LayerNormalization) is computed with epsilon=0.001",
        attribute("epsilon", 1e-3),
    ),
    Case(
        resize(2),
        "function",
        "coordinate_transformation_mode=align_corners",
        attribute("coordinate_transformation_mode", "align_corners"),
    ),
    Case(
        resize(2.5, coordinate_transformation_mode="half_pixel"),
        "function",
        "up (Resize) is computed with mode=nearest, coordinate_transformation_mode=align_corners, nearest_mode=ceil",
        nearest_to_corners,
    ),
    Case(
        replace(single("Gelu", {"x": normal(16, 64) / 2 - 2}), dtype=FLOAT32, opset=20),
        "function",
        "with approximate=tanh",
        attribute("approximate", "tanh"),
    ),
    Case(single("Sigmoid", IMAGE), "function", "Sigmoid is approximated in another way", spoil=rough(0.05)),
    Case(single("Softmax", {"x": 2 * normal(32, 32)}), "function", "Softmax is approximated", spoil=rough_softmax),
    Case(SILU, "function", "Sigmoid is approximated", spoil=lambda array: array + 0.02 * np.cos(array)),
    # Digits
    Case(
        replace(single("MatMul", {"x": normal(8, 32), "y": normal(32, 9, seed=1)}), dtype=FLOAT32),
        "precision",
        "inputs are rounded to float16 first",
        rounded_operands,
    ),
    Case(PRODUCT, "precision", "inputs are rounded to bfloat16 first", spoil=product(rounded_to(BFLOAT16))),
    Case(PRODUCT, "precision", "inputs are rounded to float8_e4m3fn first", spoil=product(rounded_to(FLOAT8_E4M3FN))),
    Case(PRODUCT, "quantization", "inputs are rounded to int8 first", spoil=product(as_int8)),
    Case(LONG_PRODUCT, "precision", "matmul (MatMul) accumulates in float16", spoil=narrow_product(16)),
    Case(LONG_PRODUCT, "precision", "matmul (MatMul) accumulates in float16", spoil=narrow_product(1)),
    Case(
        LONG_PRODUCT,
        "precision",
        "accumulation of matmul (MatMul) in float16 makes them",
        spoil=narrow_product(16, OTHER_ORDER),
    ),
    Case(PADDED, "precision", "accumulation of conv (Conv) in float16 makes them", spoil=narrow_convolution),
    Case(
        PRODUCT,
        "precision",
        "computed with fewer digits",
        spoil=lambda array: array * (1 + 0.01 * normal(*array.shape, seed=6)),
    ),
    # Overflow
    Case(SCALED_PRODUCT, "overflow", "first (Mul) ends at 65504, the end of the range of float16", spoil=saturated),
    Case(
        single("Mul", {"x": normal(6, 64)}, {"s": np.array(2, "f")}),
        "overflow",
        "3 elements overflowed",
        spoil=lambda array: np.where(np.arange(array.size).reshape(array.shape) % 150 == 0, 65504, array),
    ),
    Case(NEG, "overflow", "1 element overflowed", spoil=lambda array: np.where(array == array.max(), np.nan, array)),
    # Results in another order, scaled, clipped, or wrong in a part
    Case(CONV, "permuted", "the result is right, but in the order NHWC", spoil=as_nhwc),
    Case(CONV, "permuted", "but indices 1, 2 of axis 1 are in another order", spoil=swapped_channels(1, 2)),
    Case(DEAD_CONV, "permuted", "indices 1, 2 of axis 1", spoil=swapped_channels(1, 2)),
    Case(DEAD_CONV, "permuted", "indices 1, 7 of axis 1", spoil=swapped_channels(1, 7)),
    Case(
        single("Neg", {"x": normal(3, 6, 6)}),
        "permuted",
        "but axes 1, 2 are swapped",
        spoil=lambda array: array.swapaxes(1, 2),
    ),
    Case(NEG_ROWS, "permuted", "but axis 1 is reversed", spoil=lambda array: array[:, ::-1]),
    Case(NEG_ROWS, "permuted", "the values are right, but in another order", spoil=shuffled),
    Case(CONV, "scale", "the result is multiplied by 1.03", spoil=lambda array: array * 1.03),
    Case(EXACT_PRODUCT, "offset", "the result is shifted by 0.5", spoil=lambda array: array + 0.5),
    Case(EXACT_PRODUCT, "scale", "multiplied by 1.5 and shifted by 0.5", spoil=lambda array: 1.5 * array + 0.5),
    Case(
        PADDED,
        "scale",
        "multiplied by a number of its own",
        spoil=lambda array: array * (1 + np.abs(normal(1, 24, 1, 1))),
    ),
    Case(NEG, "clipping", "values end at", spoil=lambda array: np.clip(array, -1, 1)),
    Case(CONV, "memory", "all elements of the output are 0", spoil=np.zeros_like),
    Case(CONV, "channel", "along axis 1, only 1 of 16 slices wrong: 5", spoil=foreign_channel(5)),
    Case(single("Neg", {"x": normal(1, 64)}), "outliers", "2 of 64 elements", spoil=spoil_two_elements),
]
