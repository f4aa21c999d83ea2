"""Operators replayed without the original model, by type and attributes: right results are innocent, others guilty."""

from __future__ import annotations

from dataclasses import replace
from math import erf
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dump_files import dump
from onnx_models import model, node, plain_run, value, weight
from opdiff.core.reasons import because
from opdiff.workflows.replay.types import BUILDERS
from typed_operators import Array, Case, encoded, half, onnx_result, replay_again, replay_case

if TYPE_CHECKING:
    from pathlib import Path


X, Y = half(3, 8), half(3, 8, seed=1)
IMAGE, KERNEL, BIAS = half(1, 20, 9, 10), half(24, 20, 3, 3) / 8, half(24, seed=2)
KERNEL = KERNEL.astype(np.float16).astype(np.float32)
SIGMOID = 1 / (1 + np.exp(-X))
POSITIVE = np.abs(X) + np.float32(0.5)
CONV = {"strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1], "dilations": [1, 1, 1, 1], "groups": 1, "data_format": "NCHW"}
CONVOLVED = onnx_result("Conv", IMAGE, KERNEL, BIAS, strides=[2, 2], pads=[1, 1, 1, 1])
FIVE_D = ("NC1HWC0", "FRACTAL_Z", "ND", "NC1HWC0")
TANH_GELU = 0.5 * X * (1 + np.tanh(0.7978845608 * (X + 0.044715 * X**3)))
STATISTICS = [half(20, seed=number) for number in range(3)] + [np.abs(half(20, seed=5)) + 1]
MEAN, SCALE, OFFSET, VARIANCE = STATISTICS
GAMMA, BETA = half(8, seed=3), half(8, seed=4)
NORMAL = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5) * GAMMA + BETA
MATRICES = [half(2, 3, 4), half(2, 4, 5)]


def by_channel(array: Array) -> Array:
    return array.reshape(1, -1, 1, 1)


def rms_norm(array: Array) -> Array:
    result: Array = array / np.sqrt((array * array).mean(-1, keepdims=True) + 1e-6) * GAMMA
    return result


def resized(array: Array, **attributes: Any) -> Array:
    """An image of 18 by 15, computed by ONNX Runtime."""
    sizes = weight("sizes", np.array([*array.shape[:2], 18, 15]))
    resize = node("Resize", "x - - sizes", "y", "n", **attributes)
    made = model([resize], [value("x", array.shape)], weights=[sizes])
    return plain_run(made, {"x": array})["y"]


def integer_convolution(array: Array, kernel: Array) -> Array:
    """A convolution without padding."""
    windows = np.lib.stride_tricks.sliding_window_view(array.astype(np.int32), kernel.shape[2:], (2, 3))
    result: Array = np.einsum("nchwij,ocij->nohw", windows, kernel.astype(np.int32))
    return result.astype(np.int32)


def packed_scales(scales: Array) -> Array:
    """Scales in the lower halves of 64-bit integers."""
    return scales.astype("<f4").view("<u4").astype("<u8")


NORMAL_CHANNELS = (IMAGE - IMAGE.mean((0, 2, 3), keepdims=True)) / np.sqrt(IMAGE.var((0, 2, 3), keepdims=True) + 1e-3)
GROUPS = IMAGE.reshape(1, 4, -1)
GROUPED = ((GROUPS - GROUPS.mean(2, keepdims=True)) / np.sqrt(GROUPS.var(2, keepdims=True) + 1e-3)).reshape(IMAGE.shape)
GROUPED = GROUPED * by_channel(SCALE) + by_channel(OFFSET)
SMALL = np.random.default_rng(3).integers(-128, 128, (1, 20, 6, 6)).astype(np.int8)
SMALL_KERNEL = np.random.default_rng(4).integers(-128, 128, (5, 20, 3, 3)).astype(np.int8)
SUMS = np.random.default_rng(5).integers(-9999, 9999, (1, 20, 6, 6)).astype(np.int32)
SCALES = (np.arange(20, dtype=np.float32) + 1) / 4096
TRANSPOSED_KERNEL = half(20, 6, 3, 3)
TRANSPOSED: dict[str, Any] = {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}

CASES = [
    Case("Add", [X, Y], [X + Y]),
    Case("AddN", [X, Y, X], [2 * X + Y]),
    Case("Adds", [X], [X + 1.5], {"value": 1.5}),
    Case("Sub", [X, Y], [X - Y]),
    Case("Mul", [X, Y], [X * Y]),
    Case("RealDiv", [X, POSITIVE], [X / POSITIVE]),
    Case("Maximum", [X, Y], [np.maximum(X, Y)]),
    Case("SquaredDifference", [X, Y], [(X - Y) ** 2]),
    Case("Rsqrt", [POSITIVE], [1 / np.sqrt(POSITIVE)]),
    Case("Square", [X], [X * X]),
    Case("Power", [POSITIVE], [(2 * POSITIVE + 1) ** 3], {"scale": 2.0, "shift": 1.0, "power": 3.0}),
    Case("Eltwise", [X, Y], [X + Y], {"mode": 1}),
    Case("Eltwise", [X, Y], [X * Y], {"mode": 0}),
    Case(
        "BiasAdd",
        [IMAGE, half(20)],
        [IMAGE + by_channel(half(20))],
        {"data_format": "NCHW"},
        ("NC1HWC0", "ND", "NC1HWC0"),
    ),
    Case("Cast", [X], [np.trunc(X * 1).astype(np.int32)], {"dst_type": 3}),
    Case("Relu", [X], [np.maximum(X, 0)]),
    Case("Relu6", [4 * X], [np.clip(4 * X, 0, 6)]),
    Case("LeakyRelu", [X], [np.where(X > 0, X, X / 4)], {"negative_slope": 0.25}),
    Case("Sigmoid", [X], [SIGMOID]),
    Case("Swish", [X], [X * SIGMOID], {"scale": 1.0}),
    Case("Gelu", [X], [TANH_GELU]),
    Case("HardSwish", [X], [X * np.clip(X + 3, 0, 6) / 6]),
    Case("Erf", [X], [np.vectorize(erf)(X).astype(np.float32)]),
    Case("Mish", [X], [X * np.tanh(np.log1p(np.exp(X)))]),
    Case("SoftmaxV2", [X], [np.exp(X) / np.exp(X).sum(-1, keepdims=True)], {"axes": [-1]}),
    Case("ReduceMeanD", [X], [X.mean(1)], {"axes": [1], "keep_dims": False}),
    Case("ReduceSum", [X, np.array([0])], [X.sum(0, keepdims=True)], {"keep_dims": True}),
    Case("LayerNorm", [X, GAMMA, BETA], [NORMAL], {"begin_norm_axis": -1, "epsilon": 1e-5}),
    Case("RmsNorm", [X, GAMMA], [rms_norm(X)], {"epsilon": 1e-6}),
    Case(
        "BNInferenceD",
        [IMAGE, MEAN, VARIANCE, SCALE, OFFSET],
        [(IMAGE + by_channel(MEAN)) * by_channel(VARIANCE) * by_channel(SCALE) + by_channel(OFFSET)],
        {"epsilon": 1e-3},
        ("NC1HWC0", "ND", "ND", "ND", "ND", "NC1HWC0"),
    ),
    Case(
        "BNInfer",
        [IMAGE, SCALE, OFFSET, MEAN, VARIANCE],
        [(IMAGE - by_channel(MEAN)) / np.sqrt(by_channel(VARIANCE) + 1e-3) * by_channel(SCALE) + by_channel(OFFSET)],
        {"epsilon": 1e-3},
    ),
    Case(
        "BNTrainingReduce",
        [IMAGE],
        [IMAGE.sum((0, 2, 3), keepdims=True), (IMAGE * IMAGE).sum((0, 2, 3), keepdims=True)],
        {},
        ("NC1HWC0",) * 3,
    ),
    Case(
        "BNTrainingUpdate",
        [IMAGE, IMAGE.sum((0, 2, 3)), (IMAGE * IMAGE).sum((0, 2, 3)), SCALE, OFFSET],
        [NORMAL_CHANNELS * by_channel(SCALE) + by_channel(OFFSET)],
        {"epsilon": 1e-3},
    ),
    Case("LayerNormV4", [X, np.array([8]), GAMMA, BETA], [NORMAL, X.mean(-1, keepdims=True)], {"epsilon": 1e-5}),
    Case("AddRmsNorm", [X, Y, GAMMA], [rms_norm(X + Y)], {"epsilon": 1e-6}),
    Case(
        "InstanceNorm",
        [IMAGE, SCALE, OFFSET],
        [onnx_result("InstanceNormalization", IMAGE, SCALE, OFFSET, epsilon=1e-3)],
        {"epsilon": 1e-3},
    ),
    Case("GroupNorm", [IMAGE, SCALE, OFFSET], [GROUPED], {"num_groups": 4, "eps": 1e-3}),
    Case("L2Normalize", [X], [X / np.sqrt((X * X).sum(1, keepdims=True))], {"axis": [1], "eps": 1e-4}),
    Case("MatMulV2", [X, Y], [X @ Y.T], {"transpose_x1": False, "transpose_x2": True}),
    Case("BatchMatMul", MATRICES, [MATRICES[0] @ MATRICES[1]], {"adj_x1": False, "adj_x2": False}),
    Case(
        "FullyConnection",
        [half(2, 3, 2, 2), half(5, 3, 2, 2), half(5)],
        [half(2, 3, 2, 2).reshape(2, -1) @ half(5, 3, 2, 2).reshape(5, -1).T + half(5)],
        {"num_output": 5, "transpose": False, "axis": 1},
    ),
    Case("Conv2D", [IMAGE, KERNEL, BIAS], [CONVOLVED], CONV, FIVE_D),
    Case(
        "DepthwiseConv2D",
        [IMAGE, half(20, 1, 3, 3)],
        [onnx_result("Conv", IMAGE, half(20, 1, 3, 3), group=20, pads=[1, 0, 1, 0])],
        {"strides": [1, 1, 1, 1], "pads": [1, 1, 0, 0], "data_format": "NCHW"},
        ("NC1HWC0", "ND", "NC1HWC0"),
    ),
    Case(
        "Conv2D",
        [SMALL, SMALL_KERNEL, np.arange(5, dtype=np.int32)],
        [integer_convolution(SMALL, SMALL_KERNEL) + np.arange(5, dtype=np.int32).reshape(1, 5, 1, 1)],
        {"strides": [1, 1, 1, 1], "pads": [0, 0, 0, 0], "data_format": "NCHW"},
    ),
    Case(
        "Conv2DTransposeD",
        [IMAGE, TRANSPOSED_KERNEL, half(6)],
        [onnx_result("ConvTranspose", IMAGE, TRANSPOSED_KERNEL, half(6), **TRANSPOSED)],
        {"strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1], "groups": 1, "data_format": "NCHW"},
        ("NC1HWC0", "ND", "ND", "NC1HWC0"),
    ),
    Case(
        "Conv2DBackpropInputD",
        [TRANSPOSED_KERNEL, IMAGE],
        [onnx_result("ConvTranspose", IMAGE, TRANSPOSED_KERNEL, **TRANSPOSED)],
        {"strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1], "data_format": "NCHW"},
    ),
    Case(
        "ResizeBilinearV2D",
        [IMAGE],
        [resized(IMAGE, mode="linear", coordinate_transformation_mode="half_pixel")],
        {"size": [18, 15], "half_pixel_centers": True},
        ("NC1HWC0", "NC1HWC0"),
    ),
    Case(
        "ResizeNearestNeighborV2",
        [IMAGE, np.array([18, 15])],
        [resized(IMAGE, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
        {"align_corners": False},
    ),
    Case(
        "AvgPoolV2",
        [IMAGE],
        [onnx_result("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1)],
        {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "pads": [1] * 4, "exclusive": False, "data_format": "NCHW"},
    ),
    Case(
        "Pooling",
        [IMAGE],
        [onnx_result("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)],
        {"mode": 0, "window": [3, 3], "stride": [2, 2], "pad": [0, 0, 0, 0], "ceil_mode": 0},
        ("NC1HWC0", "NC1HWC0"),
    ),
    Case(
        "Pooling",
        [IMAGE],
        [IMAGE.mean((2, 3), keepdims=True)],
        {"mode": 1, "global_pooling": True},
        ("NC1HWC0", "NC1HWC0"),
    ),
    Case(
        "MaxPool",
        [IMAGE],
        [onnx_result("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")],
        {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "padding": "SAME", "data_format": "NCHW"},
        ("NC1HWC0", "NC1HWC0"),
    ),
    Case("ConcatD", [X, Y], [np.concatenate([X, Y], 1)], {"concat_dim": 1}),
    Case("ConcatV2", [X, Y, np.array(0)], [np.concatenate([X, Y], 0)]),
    Case("ConcatV2", [X, Y], [np.concatenate([X, Y], 0)], {"concat_dim": 0}),
    Case("Split", [np.array([0]), X[0]], [X[0, :4], X[0, 4:]]),
    Case("SplitD", [X], [X[:, :4], X[:, 4:]], {"split_dim": 1, "num_split": 2}),
    Case("TransposeD", [half(2, 3, 4)], [half(2, 3, 4).transpose(1, 0, 2)], {"perm": [1, 0, 2]}),
    Case("Transpose", [half(2, 3, 4), np.array([2, 0, 1])], [half(2, 3, 4).transpose(2, 0, 1)]),
    Case("Reshape", [X, np.array([4, 6])], [X.reshape(4, 6)]),
    Case("PadD", [X], [np.pad(X, ((1, 0), (0, 2)))], {"paddings": [[1, 0], [0, 2]]}),
    Case("GatherV2", [X, np.array([2, 0]), np.array(0)], [X[[2, 0]]]),
    Case("SliceD", [X], [X[1:3, 2:6]], {"offsets": [1, 2], "size": [2, 4]}),
    Case("Tile", [X, np.array([2, 1])], [np.tile(X, (2, 1))]),
    Case("Pack", [X, Y], [np.stack([X, Y], 1)], {"axis": 1}),
    Case("TransData", [IMAGE], [IMAGE], {}, ("ND", "NC1HWC0")),
    Case(
        "StridedSliceD",
        [X],
        [X[1::2, 3]],
        {"begin": [1, 3], "end": [0, 4], "strides": [2, 1], "end_mask": 1, "shrink_axis_mask": 2},
    ),
    Case("StridedSliceV2", [X, np.array([2]), np.array([6]), np.array([1]), np.array([2])], [X[:, 2:6:2]]),
    Case("GatherElements", [X, np.argsort(X, 1)], [np.sort(X, 1)], {"dim": 1}),
    Case("IndexByTensor", [X, np.array([2, 0])], [X[[2, 0]]], {"indices_mask": [1]}),
    Case("MaskedFill", [X, X > 0, np.array(-1, np.float32)], [np.where(X > 0, np.float32(-1), X)]),
    Case("TopKV2", [X, np.array(3)], [-np.sort(-X, 1)[:, :3], np.argsort(-X, 1)[:, :3]], {"dim": -1}),
    Case("ArgMaxV2", [X, np.array(1)], [X.argmax(1)]),
    Case("ArgMaxWithValue", [X], [X.argmax(1), X.max(1)], {"dimension": 1}),
    Case("Unpack", [X], [X[0], X[1], X[2]], {"axis": 0, "num": 3}),
    Case(
        "PadV3", [X, np.array([1, 0, 0, 2]), np.array(7, np.float32)], [np.pad(X, ((1, 0), (0, 2)), constant_values=7)]
    ),
    Case(
        "PadV3D",
        [X],
        [np.pad(X, ((1, 0), (0, 2)), "reflect")],
        {"paddings": [[1, 0], [0, 2]], "mode": "reflect", "paddings_contiguous": False},
    ),
    Case("Fill", [np.array([3, 5]), np.array(0.5, np.float32)], [np.full((3, 5), 0.5, np.float32)]),
    Case("ReduceMaxD", [X], [X.max()], {"axes": [], "keep_dims": False}),
    Case(
        "AscendDequant",
        [SUMS, packed_scales(SCALES)],
        [np.maximum(SUMS * by_channel(SCALES), 0)],
        {"relu_flag": True},
        ("NC1HWC0", "ND", "NC1HWC0"),
    ),
    Case("AscendAntiQuant", [SMALL], [(SMALL + np.float32(2)) * np.float32(0.25)], {"scale": 0.25, "offset": 2.0}),
    Case("AscendQuant", [X], [np.clip(np.rint(40 * X + 3), -128, 127).astype(np.int8)], {"scale": 40.0, "offset": 3.0}),
]
IDS = [f"{number} {case.op_type}" for number, case in enumerate(CASES)]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_right_outputs_are_innocent_and_others_guilty(tmp_path: Path, case: Case) -> None:
    found = replay_case(tmp_path, case, case.outputs)
    assert found.verdict == "innocent", (found.reason, found.outputs)
    spoiled = [np.roll(array, 1) if np.ptp(array) else array * 2 for array in case.outputs]
    found = replay_case(tmp_path, case, spoiled)
    assert found.verdict == "guilty", found


@pytest.mark.parametrize(
    ("end", "originals", "has_window"),
    [
        ("", ("conv", "bn"), True),
        ("relu", ("conv", "bn", "block/Relu_1"), True),
        ("relu", ("conv", "act"), False),
        ("sum", ("conv", "join"), False),
        ("sum relu", ("conv", "bn", "Add_3", "relu"), True),
    ],
)
def test_compositions_of_fused_operators_are_tried(
    tmp_path: Path, end: str, originals: tuple[str, ...], has_window: bool
) -> None:
    other = half(*CONVOLVED.shape, seed=7)
    result = CONVOLVED + other if "sum" in end else CONVOLVED
    result = np.maximum(result, 0) if "relu" in end else result
    inputs = [IMAGE, KERNEL, BIAS, *([other] if "sum" in end else [])]
    layouts = (*FIVE_D[:3], *(("NC1HWC0",) if "sum" in end else ()), "NC1HWC0")
    case = Case("Conv2D", inputs, [result], CONV if has_window else {}, layouts, originals)
    assert replay_case(tmp_path, case, [result]).verdict == "innocent"
    spoiled = replay_case(tmp_path, case, [np.cos(result)])
    assert spoiled.reason == because("replay.fused_unknown")


@pytest.mark.parametrize("originals", [("conv", "bn", "relu"), ("conv", "act"), ("conv", "bn", "prelu"), ("conv",)])
def test_a_missing_activation_of_a_fused_operator_is_not_taken_for_right(
    tmp_path: Path, originals: tuple[str, ...]
) -> None:
    attributes = {**CONV, "fusion_scope": 1}
    found = replay_case(tmp_path, Case("Conv2D", [IMAGE, KERNEL, BIAS], [], attributes, FIVE_D, originals), [CONVOLVED])
    assert found.reason == because("replay.fused_unknown")


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        (Case("NonMaxSuppression", [X], [X]), "no translation"),
        (Case("TransposeD", [X], [X]), "perm is not known"),
        (Case("Conv2D", [IMAGE, KERNEL], [CONVOLVED]), "strides is not known"),
        (Case("Conv2D", [IMAGE], [IMAGE], CONV), "input 1 is missing"),
        (
            Case("AvgPool", [IMAGE], [IMAGE], {"ksize": [3], "strides": [1]}),
            "its attributes do not fit its shapes: IndexError('tuple index out of range')",
        ),
    ],
)
def test_reasons_of_operators_that_cannot_be_replayed(tmp_path: Path, case: Case, problem: str) -> None:
    found = replay_case(tmp_path, case, case.outputs)
    sentence = f"operators of type {case.op_type} cannot be computed without the original model: {problem}"
    assert (found.verdict, str(found.reason)) == ("not replayable", sentence)


UNKNOWN = X * np.float32(np.nan)
INTEGERS = np.arange(6, dtype=np.int32).reshape(2, 3)


@pytest.mark.parametrize(
    ("case", "parameter"),
    [
        pytest.param(Case("ConcatV2", [X, UNKNOWN], [np.concatenate([X, UNKNOWN])]), "concat_dim", id="NaN"),
        pytest.param(Case("ConcatV2", [X, X * 0], [np.concatenate([X, X])]), "concat_dim", id="number"),
        pytest.param(Case("ConcatD", [X[0], np.array(0)], [X[0]]), "concat_dim", id="attribute only"),
        pytest.param(Case("ConcatV2", [INTEGERS] * 2, [np.concatenate([INTEGERS] * 2)]), "concat_dim", id="matrix"),
        *(
            pytest.param(Case(op_type, [X, *[UNKNOWN] * 4], [X]), parameter, id=op_type)
            for op_type, parameter in {
                "ArgMaxV2": "dimension", "GatherV2": "axis", "LayerNormV4": "normalized_shape", "Pad": "paddings",
                "ReduceMean": "axes", "Slice": "offsets", "StridedSlice": "begin", "StridedSliceV2": "begin",
                "Tile": "multiples", "TopK": "k", "Transpose": "perm",
            }.items()
        ),
    ],
)  # fmt: skip
def test_parameters_are_never_taken_from_data(tmp_path: Path, case: Case, parameter: str) -> None:
    found = replay_case(tmp_path, case, case.outputs)
    assert str(found.reason).endswith(f": {parameter} is not known")


def test_operators_are_not_judged_by_doubtful_inputs(tmp_path: Path) -> None:
    assert replay_case(tmp_path, Case("Sub", [X, Y], []), [X + Y]).verdict == "guilty"
    (path,) = (tmp_path / "npu").iterdir()
    first = encoded(X, "ND")
    longer = replace(first, payload=first.payload + bytes(1024))
    path.write_bytes(dump(encoded(X + Y, "ND"), inputs=(longer, encoded(Y, "ND"))))
    found = replay_again(tmp_path)
    assert (found.verdict, "no alignment" in str(found.reason)) == ("not replayable", True)


def test_numbers_that_are_no_axis_of_the_output_are_not_used(tmp_path: Path) -> None:
    pieces = [np.array([2]), np.array([1])]
    found = replay_case(tmp_path, Case("ConcatV2", pieces, []), [np.concatenate(pieces)])
    assert str(found.reason).endswith(": concat_dim 0 does not lead to the shape of the output")


def test_the_cause_is_found_without_the_model(tmp_path: Path) -> None:
    found = replay_case(tmp_path, Case("Sub", [X, Y], []), [Y - X])
    assert found.cause is not None
    assert (found.cause.kind, "exchanged" in str(found.cause.reason)) == ("operand", True)


def test_many_types_are_supported() -> None:
    assert len(BUILDERS) >= 130
