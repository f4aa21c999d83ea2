"""Causes of faulty operators on quantized values: scale, zero point, rounding, range; with and without the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from device_runs import DeviceRun, Fused
from dump_files import TIME, add, dump
from onnx_models import model, node, value, weight, write
from opdiff.core.reasons import Language, render
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import replay
from planted_changes import set_weight
from rule_files import described, encode_attributes, write_rules
from typed_operators import Array, Case, encoded, half, onnx_result, replay_case

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.replay import Replay

RANDOM = np.random.default_rng(1)
X = half(1, 16, 12, 12)
QUANT = Case("AscendQuant", [X], [], {"scale": 20.0, "offset": 3.0})
WIDE_QUANT = Case("AscendQuant", [X], [], {"scale": 60.0, "offset": 9.0})
VALUES, WIDE_VALUES = 20 * X + 3, 60 * X + 9
SUMS = RANDOM.integers(-90000, 90000, (1, 16, 12, 12)).astype(np.int32)
SCALES = (RANDOM.random(16).astype(np.float32) + np.float32(0.5)) / 3000
PACKED = SCALES.view(np.uint32).astype(np.uint64) | np.uint64(1 << 46)
BY_CHANNEL = SCALES.reshape(1, -1, 1, 1)
DEQUANT = Case("AscendDequant", [SUMS, PACKED], [])
RELU_DEQUANT = Case("AscendDequant", [SUMS, PACKED], [], {"relu_flag": True})
SMALL = RANDOM.integers(-128, 128, (1, 20, 6, 6)).astype(np.int8)
ANTI_QUANT = Case("AscendAntiQuant", [SMALL], [], {"scale": 0.25, "offset": 2.0})
WINDOW = {"strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1], "dilations": [1, 1, 1, 1], "groups": 1, "data_format": "NCHW"}
IMAGE = RANDOM.integers(-128, 128, (1, 32, 9, 9)).astype(np.int8)
KERNEL = RANDOM.integers(-128, 128, (16, 32, 3, 3)).astype(np.int8)
BIAS = RANDOM.integers(-5000, 5000, 16).astype(np.int32)
FLOATS = [array.astype(np.float32) for array in (IMAGE, KERNEL, BIAS)]
CONVOLVED = onnx_result("Conv", *FLOATS, strides=[2, 2], pads=[1, 1, 1, 1]).astype(np.int32)
LAYOUTS = ("NC1HWC0", "FRACTAL_Z", "ND")
CONV = Case("Conv2D", [IMAGE, KERNEL, BIAS], [], WINDOW, (*LAYOUTS, "NC1HWC0"))
SCALED_CONV = Case("Conv2D", [IMAGE, KERNEL, BIAS, PACKED], [], WINDOW, (*LAYOUTS, "ND", "NC1HWC0"))


def quantized(values: Array, low: int = -128, high: int = 127) -> Array:
    return np.clip(np.rint(values), low, high).astype(np.int8)


def with_channel(array: Array, channel: int, changed: Array) -> Array:
    result = array.copy()
    result[:, channel] = changed[:, channel]
    return result


CASES: dict[str, tuple[Case, Array, str]] = {
    "scale": (QUANT, quantized((VALUES - 3) * 1.1 + 3), "wrong: numbers are 1.1 times as large"),
    "zero point left out": (QUANT, quantized(VALUES - 3), "the zero point 3 is left out"),
    "zero point": (QUANT, quantized(VALUES + 7), "the zero point is off by 7"),
    "floor": (QUANT, quantized(np.floor(VALUES)), "numbers are rounded down"),
    "ceiling": (QUANT, quantized(np.ceil(VALUES)), "numbers are rounded up"),
    "truncation": (QUANT, quantized(np.trunc(VALUES)), "numbers are rounded toward zero"),
    "range": (WIDE_QUANT, quantized(WIDE_VALUES, -64, 63), "integers end at -64 and 63"),
    "range of an activation": (WIDE_QUANT, quantized(WIDE_VALUES, 0), "integers end at 0 and 127"),
    "no saturation": (WIDE_QUANT, np.rint(WIDE_VALUES).astype(np.int64).astype(np.int8), "wrap around at 8 bits"),
    "scale of one channel": (
        QUANT,
        quantized(with_channel(VALUES, 5, (VALUES - 3) * 1.3 + 3)),
        "scales of indices 5 of axis 1 are wrong: numbers are 1.3 times as large",
    ),
    "dequantization scale": (DEQUANT, SUMS * BY_CHANNEL * 1.2, "wrong: numbers are 1.2 times as large"),
    "zero point of a dequantization": (DEQUANT, (SUMS + 4500) * BY_CHANNEL, "the zero point is off by 450"),
    "one scale for all": (DEQUANT, SUMS * SCALES[0], "all channels are scaled by"),
    "scales of other channels": (
        DEQUANT,
        SUMS * BY_CHANNEL[:, ::-1],
        "every index of axis 1 is multiplied by a number of its own",
    ),
    "dequantization of one channel": (
        DEQUANT,
        SUMS * with_channel(BY_CHANNEL, 3, BY_CHANNEL * 1.5),
        "scales of indices 3 of axis 1 are wrong: numbers are 1.5 times as large",
    ),
    "saturated sums": (DEQUANT, np.clip(SUMS, -32768, 32767) * BY_CHANNEL, "sums end at the range of 16 bits"),
    "wrapped sums": (DEQUANT, SUMS.astype(np.int16) * BY_CHANNEL, "wrap around at 16 bits"),
    "scale before an activation": (
        RELU_DEQUANT,
        np.maximum(SUMS * BY_CHANNEL * 1.2, 0),
        "wrong: numbers are 1.2 times as large",
    ),
    "zero point before an activation": (
        RELU_DEQUANT,
        np.maximum((SUMS + 4500) * BY_CHANNEL, 0),
        "the zero point is off by 450",
    ),
    "scale of integers": (ANTI_QUANT, (SMALL + np.float32(2)) * 0.3, "wrong: numbers are 1.2 times as large"),
    "zero point of integers": (ANTI_QUANT, SMALL * np.float32(0.25), "the zero point is off by -2"),
    "convolution with 16-bit sums": (CONV, np.clip(CONVOLVED, -32768, 32767), "sums end at the range of 16 bits"),
    "wrapped convolution": (CONV, CONVOLVED.astype(np.int16).astype(np.int32), "wrap around at 16 bits"),
    "convolution with a fused scale": (
        SCALED_CONV,
        CONVOLVED * BY_CHANNEL * 1.3,
        "wrong: numbers are 1.3 times as large",
    ),
    "convolution with one wrong scale": (
        SCALED_CONV,
        CONVOLVED * with_channel(BY_CHANNEL, 3, BY_CHANNEL * 1.5),
        "scales of indices 3 of axis 1 are wrong: numbers are 1.5 times as large",
    ),
}


def assert_cause(found: Replay, sentence: str) -> None:
    assert found.verdict == "guilty", found
    assert found.cause is not None
    assert found.cause.kind == "quantization", found.cause
    assert sentence in str(found.cause.reason)
    assert found.cause.after < 0.1 * found.cause.before
    assert render(found.cause.evidence, Language.CHINESE) != str(found.cause.evidence)


@pytest.mark.parametrize("name", CASES)
def test_the_planted_fault_is_the_cause(tmp_path: Path, name: str) -> None:
    case, output, sentence = CASES[name]
    assert_cause(replay_case(tmp_path, case, [output]), sentence)


@pytest.mark.parametrize(
    ("case", "output"),
    [
        (QUANT, quantized(VALUES)),
        (QUANT, quantized((np.float16(20) * X.astype(np.float16) + np.float16(3)).astype(np.float32))),
        (DEQUANT, SUMS * BY_CHANNEL),
        (RELU_DEQUANT, np.maximum(SUMS * BY_CHANNEL, 0)),
        (CONV, CONVOLVED),
        (SCALED_CONV, CONVOLVED * BY_CHANNEL),
        (replace(SCALED_CONV, originals=("c", "c_dequant", "relu")), np.maximum(CONVOLVED * BY_CHANNEL, 0)),
    ],
)
def test_right_results_are_innocent(tmp_path: Path, case: Case, output: Array) -> None:
    assert replay_case(tmp_path, case, [output]).verdict == "innocent"


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        (CONV, "its output has the type float16"),
        (
            replace(SCALED_CONV, inputs=[IMAGE, KERNEL, BIAS, PACKED | np.uint64(1 << 33)]),
            "the scales have a shift or an offset in their upper bits",
        ),
        (replace(QUANT, attributes={}), "scale is not known"),
        (replace(ANTI_QUANT, attributes={"scale": 0.25}), "offset is not known"),
        (replace(DEQUANT, inputs=[SUMS, PACKED[:5]]), "5 scales for a tensor of shape [1, 16, 12, 12]"),
    ],
)
def test_unknown_forms_of_scales_are_not_replayable(tmp_path: Path, case: Case, problem: str) -> None:
    output = CONVOLVED if case.op_type == "Conv2D" else SUMS
    found = replay_case(tmp_path, case, [output * BY_CHANNEL * 2])
    assert found.verdict == "not replayable"
    assert str(found.reason).endswith(problem)


def test_unequal_elements_are_named_as_such(tmp_path: Path) -> None:
    found = replay_case(tmp_path, QUANT, [quantized(VALUES + 7)])
    assert found.cause is not None
    sentence = (
        "the zero point is off by 7; correcting for it reduces the share of wrong elements from 100.000% to 0.000%"
    )
    assert str(found.cause.evidence) == sentence


# A model with fake quantization: the image and the weights are quantized, the convolution reads them as floats.
NODES = [
    node("QuantizeLinear", "x s z", "q", "quant"),
    node("DequantizeLinear", "q s z", "d", "dequant"),
    node("DequantizeLinear", "w ws", "wd", "weights", axis=0),
    node("Conv", "d wd", "c", "conv", pads=[1, 1, 1, 1]),
    node("Relu", "c", "r", "relu"),
]
WEIGHTS = {
    "s": np.float32(0.05), "z": np.int8(4), "w": RANDOM.integers(-128, 128, (16, 8, 3, 3)).astype(np.int8),
    "ws": (RANDOM.random(16).astype(np.float32) + np.float32(0.5)) / 3000,
}  # fmt: skip


def one_scale(array: Array) -> Array:
    return np.where(np.arange(array.size) == 6, array * 1.5, array)


def replay_model(folder: Path, quant: Fused, conv: Fused) -> list[Replay]:
    weights = [weight(name, np.asarray(array)) for name, array in WEIGHTS.items()]
    made = model(NODES, [value("x", [1, 8, 9, 9])], weights=weights)
    return DeviceRun(folder, made, {"x": 2 * half(1, 8, 9, 9)}, (quant, conv)).write().replay()


QUANT_OPERATOR = Fused("quant", "AscendQuant", ("quant",))
CONV_OPERATOR = Fused("conv", "AscendDequant", ("dequant", "weights", "conv", "relu"))


def test_quantized_operators_of_the_model_are_replayed(tmp_path: Path) -> None:
    found = replay_model(tmp_path, QUANT_OPERATOR, CONV_OPERATOR)
    assert [item.verdict.value for item in found] == ["innocent", "innocent"]


@pytest.mark.parametrize(
    ("operator", "change", "sentence"),
    [
        (
            QUANT_OPERATOR,
            set_weight("s", lambda array: array * 2),
            "the quantization scale is wrong: numbers are 0.4999",
        ),
        (QUANT_OPERATOR, set_weight("z", lambda array: array * 0), "the zero point 4 is left out"),
        (CONV_OPERATOR, set_weight("z", lambda array: array * 0), "the zero point of dequant (DequantizeLinear) is"),
        (CONV_OPERATOR, set_weight("ws", lambda array: array * 1.2), "wrong: numbers are 1.2 times as large"),
        (
            CONV_OPERATOR,
            set_weight("ws", one_scale),
            "scales of indices 6 of axis 1 are wrong: numbers are 1.5 times as large",
        ),
    ],
)
def test_faults_of_fake_quantized_models(
    tmp_path: Path, operator: Fused, change: Callable[[Any], None], sentence: str
) -> None:
    faulty = replace(operator, change=change)
    operators = [faulty if operator is item else item for item in (QUANT_OPERATOR, CONV_OPERATOR)]
    found = {item.operator: item for item in replay_model(tmp_path, *operators)}
    assert {name for name, item in found.items() if item.verdict == "guilty"} == {operator.name}
    assert_cause(found[operator.name], sentence)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "innocent"), (1.3, "guilty")])
def test_a_float_model_does_not_hide_quantized_operators(tmp_path: Path, factor: float, verdict: str) -> None:
    """The original model has no quantization: its convolution was quantized by a tool later."""
    image = half(1, 32, 9, 9)
    small = quantized(20 * image + 3)
    floats = [array.astype(np.float32) for array in (small, KERNEL)]
    sums = onnx_result("Conv", *floats, strides=[2, 2], pads=[1, 1, 1, 1]).astype(np.int32)
    result = sums * BY_CHANNEL * np.float32(factor)
    files = {
        "AscendQuant.q": ([image], small, ("NC1HWC0",)),
        "Conv2D.c": ([small, KERNEL], sums, ("NC1HWC0", "FRACTAL_Z")),
        "AscendDequant.d": ([sums, PACKED], result, ("NC1HWC0", "ND")),
    }
    for number, (name, (inputs, output, layouts)) in enumerate(files.items()):
        encoded_inputs = tuple(encoded(array, layout) for array, layout in zip(inputs, layouts, strict=True))
        add(tmp_path / "npu", f"{name}.1.0.{TIME + number}", dump(encoded(output, "NC1HWC0"), inputs=encoded_inputs))
    origin = {"attr": encode_attributes({"_datadump_origin_name": "conv"})}
    operators = [
        described("q", "AscendQuant", ["x:0"], attributes={"scale": 20.0, "offset": 3.0}, outputs=[{}]),
        described("c", "Conv2D", ["q:0", "w:0"], attributes=WINDOW, outputs=[{}]),
        described("d", "AscendDequant", ["c:0", "s:0"], ["conv"], outputs=[origin]),
    ]
    write_rules(tmp_path / "rules.json", operators)
    made = model(
        [node("Conv", "x w", "y", "conv", strides=[2, 2], pads=[1, 1, 1, 1])],
        [value("x", image.shape)],
        weights=[weight("w", floats[1])],
    )
    write(tmp_path / "m.onnx", made)
    options = ReplayOptions(str(tmp_path / "npu"), str(tmp_path / "rules.json"), str(tmp_path / "m.onnx"))
    found = {item.operator: item for item in replay(options, lambda _done, _total: None)}
    assert [found[name].verdict.value for name in "qcd"] == ["innocent", "innocent", verdict], found
    if verdict == "guilty":
        assert_cause(found["d"], "wrong: numbers are 1.3 times as large")
