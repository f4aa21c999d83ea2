"""Each type of Caffe layer against OpenCV, or against its definition where OpenCV does not have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from caffe_nets import Array, inputs, layer, opencv_run, random_array, write_net
from onnx_models import files_of, golden

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IMAGE = (2, 4, 7, 9)

CONV: list[tuple[int, ...]] = [(6, 4, 3, 3), (6,)]
DECONV: list[tuple[int, ...]] = [(4, 4, 3, 3), (4,)]
UNEQUAL = "kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0 stride_h: 1 stride_w: 2"
GROUPED = "kernel_size: 3 group: 2 dilation: 2 bias_term: false"

# Type, parameters, shapes of weights, shapes of the inputs.
OPENCV_CASES: dict[str, tuple[str, str, list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "conv": ("Convolution", "convolution_param { kernel_size: 3 pad: 1 stride: 2 num_output: 6 }", CONV, [IMAGE]),
    "conv, h and w": ("Convolution", f"convolution_param {{ {UNEQUAL} num_output: 6 }}", [(6, 4, 3, 1), (6,)], [IMAGE]),
    "conv, groups": ("Convolution", f"convolution_param {{ {GROUPED} num_output: 6 }}", [(6, 2, 3, 3)], [IMAGE]),
    "deconv": ("Deconvolution", "convolution_param { kernel_size: 3 stride: 2 pad: 1 num_output: 4 }", DECONV, [IMAGE]),
    "max pool": ("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }", [], [IMAGE]),
    "max pool, pad": ("Pooling", "pooling_param { kernel_size: 2 stride: 2 pad: 1 }", [], [IMAGE]),
    "mean pool": ("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }", [], [IMAGE]),
    "global mean pool": ("Pooling", "pooling_param { pool: AVE global_pooling: true }", [], [IMAGE]),
    "global max pool": ("Pooling", "pooling_param { pool: MAX global_pooling: true }", [], [IMAGE]),
    "batch norm": ("BatchNorm", "batch_norm_param { eps: 0.001 }", [(4,), (4,), (1,)], [IMAGE]),
    "scale": ("Scale", "scale_param { bias_term: true }", [(4,), (4,)], [IMAGE]),
    "inner product": ("InnerProduct", "inner_product_param { num_output: 5 }", [(5, 252), (5,)], [IMAGE]),
    "relu": ("ReLU", "", [], [IMAGE]),
    "leaky relu": ("ReLU", "relu_param { negative_slope: 0.1 }", [], [IMAGE]),
    "relu6": ("ReLU6", "", [], [IMAGE]),
    "prelu": ("PReLU", "", [(4,)], [IMAGE]),
    "elu": ("ELU", "elu_param { alpha: 0.5 }", [], [IMAGE]),
    "sigmoid": ("Sigmoid", "", [], [IMAGE]),
    "tanh": ("TanH", "", [], [IMAGE]),
    "abs": ("AbsVal", "", [], [IMAGE]),
    "bnll": ("BNLL", "", [], [IMAGE]),
    "power": ("Power", "power_param { power: 2 scale: 0.5 shift: 3 }", [], [IMAGE]),
    "exp": ("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }", [], [IMAGE]),
    "sum": ("Eltwise", "eltwise_param { operation: SUM coeff: 0.5 coeff: -2 }", [], [IMAGE, IMAGE]),
    "product": ("Eltwise", "eltwise_param { operation: PROD }", [], [IMAGE, IMAGE]),
    "maximum": ("Eltwise", "eltwise_param { operation: MAX }", [], [IMAGE, IMAGE, IMAGE]),
    "concat": ("Concat", "", [], [IMAGE, (2, 3, 7, 9)]),
    "flatten": ("Flatten", "", [], [IMAGE]),
    "reshape": ("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 } }", [], [IMAGE]),
    "permute": ("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", [], [IMAGE]),
    "crop": ("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", [], [IMAGE, (2, 4, 5, 6)]),
    "softmax": ("Softmax", "", [], [IMAGE]),
    "lrn": ("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 }", [], [IMAGE]),
    "lrn within": ("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }", [], [IMAGE]),
    "mvn": ("MVN", "", [], [IMAGE]),
    "normalize": ("Normalize", "norm_param { across_spatial: false channel_shared: false }", [(4,)], [IMAGE]),
    "shuffle": ("ShuffleChannel", "shuffle_channel_param { group: 2 }", [], [IMAGE]),
    "interp": ("Interp", "interp_param { height: 11 width: 13 }", [], [IMAGE]),
    "dropout": ("Dropout", "", [], [IMAGE]),
}  # fmt: skip


def run_layer(folder: Path, case: Any) -> tuple[Any, ...]:
    kind, parameters, weights, shapes = case
    names = [f"in{number}" for number in range(len(shapes))]
    data = {
        name: random_array(*shape, seed=number) for number, (name, shape) in enumerate(zip(names, shapes, strict=True))
    }
    blobs = [np.abs(random_array(*shape, seed=10 + number)) + 0.5 for number, shape in enumerate(weights)]
    text = inputs(**dict(zip(names, shapes, strict=True))) + layer(
        "tested", kind, " ".join(names), "tested", parameters
    )
    files = write_net(folder, text, {"tested": blobs, "other": []})
    result = golden(files[0], folder / "g", weights=str(files[1]), inputs=data)
    assert result.omitted == ()
    return files_of(folder / "g")["tested.0"], files, data, blobs


@pytest.mark.parametrize("case", OPENCV_CASES.values(), ids=OPENCV_CASES)
def test_layers_agree_with_opencv(tmp_path: Path, case: Any) -> None:
    found, files, data, _ = run_layer(tmp_path, case)
    expected = opencv_run(files, data, ["tested"])["tested"]
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=1e-6 * max(1.0, float(np.abs(expected).max())), strict=True
    )


def repeated(x: Array) -> Array:
    return np.repeat(np.repeat(x, 2, axis=2), 2, axis=3)


DEFINITIONS: dict[str, tuple[tuple[str, str, list[tuple[int, ...]]], Callable[..., Array]]] = {
    "arg max": (("ArgMax", "argmax_param { axis: 1 }", []), lambda x: x.argmax(1)[:, None].astype(np.float32)),
    "arg max of items": (("ArgMax", "", []), lambda x: x.reshape(2, -1).argmax(1).reshape(2, 1, 1).astype(np.float32)),
    "bias": (("Bias", "", [(4,)]), lambda x, b: x + b[:, None, None]),
    "clip": (("Clip", "clip_param { min: -0.5 max: 1 }", []), lambda x: x.clip(-0.5, 1)),
    "depthwise": (
        ("ConvolutionDepthwise", "convolution_param { num_output: 4 kernel_size: 1 bias_term: false }", [(4, 1, 1, 1)]),
        lambda x, w: x * w.reshape(4, 1, 1),
    ),
    "log": (("Log", "log_param { base: 10 shift: 20 }", []), lambda x: np.log10(x + 20)),
    "sum of magnitudes": (
        ("Reduction", "reduction_param { operation: ASUM axis: 1 coeff: 2 }", []),
        lambda x: 2 * np.abs(x).sum((1, 2, 3)),
    ),
    "lrn with k": (("LRN", "lrn_param { local_size: 1 alpha: 0.5 k: 2 }", []), lambda x: x / (2 + x * x / 2) ** 0.75),
    "tile": (("Tile", "tile_param { axis: 1 tiles: 3 }", []), lambda x: np.tile(x, (1, 3, 1, 1))),
    "concat, old axis": (("Concat", "concat_param { concat_dim: 0 }", []), lambda x: x),
    "sum": (("Reduction", "reduction_param { axis: 2 }", []), lambda x: x.sum((2, 3))),
    "swish": (("Swish", "", []), lambda x: x / (1 + np.exp(-x))),
    "threshold": (("Threshold", "threshold_param { threshold: 0.5 }", []), lambda x: (x > 0.5).astype(np.float32)),
    "upsample": (("Upsample", "upsample_param { scale: 2 }", []), repeated),
    "transposed inner product": (
        ("InnerProduct", "inner_product_param { num_output: 3 axis: 3 transpose: true bias_term: false }", [(9, 3)]),
        lambda x, w: x @ w,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("case", "definition"), DEFINITIONS.values(), ids=DEFINITIONS)
def test_layers_agree_with_their_definition(tmp_path: Path, case: Any, definition: Callable[..., Array]) -> None:
    found, _, data, blobs = run_layer(tmp_path, (*case, [IMAGE]))
    expected = definition(*(array.astype(np.float64) for array in (data["in0"], *blobs)))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * float(np.abs(expected).max()))
