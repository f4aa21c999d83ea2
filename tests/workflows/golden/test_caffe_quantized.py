"""AMCT's `Quant` and `DeQuant` against NumPy, bit for bit, and nets of AMCT that are not meant to be run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from caffe_nets import Array, dequant, inputs, layer, quant, random_array, write_net
from onnx_models import files_of, golden
from opdiff.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Weights = Mapping[str, Sequence[Array]]

SHAPE = (2, 3, 8, 8)
CONV = "convolution_param { num_output: 3 kernel_size: 3 pad: 1 }"


def run(
    folder: Path, layers: str, data: Array, weights: Mapping[str, Sequence[Array]] | None = None
) -> dict[str, Array]:
    files = write_net(folder, inputs(data=data.shape) + layers, weights or {"other": [random_array(1)]})
    result = golden(files[0], folder / "g", weights=str(files[1]), inputs={"data": data})
    assert result.omitted == ()
    return files_of(folder / "g")


def image_with_ties(scale: float) -> Array:
    """Values of all sizes; the first are halves of a step, and what lies beside them."""
    array = random_array(*SHAPE) * np.float32(3)
    halves = (np.arange(-40, 40, dtype=np.float32) + np.float32(0.5)) / np.float32(scale)
    array.reshape(-1)[:80] = halves
    array.reshape(-1)[80:160] = np.nextafter(halves, np.float32(0))
    array.reshape(-1)[160] = np.float32(0.49999997) / np.float32(scale)
    array.reshape(-1)[161:166] = [1e9, -1e9, np.inf, -np.inf, -0.0]
    return array


@pytest.mark.parametrize(
    ("scale", "text", "offset"),
    [
        (16, "", 0), (16, r'offset: "\000"', 0), (17.3, r'offset: "\371" with_offset: true', -7),
        (8, r'offset: "\200" with_offset: true', -128), (4.5, r'offset: "\177"', 127), (17.3, 'offset: "A"', 65),
        (1e-3, "", 0),
    ],
)  # fmt: skip
def test_quant_rounds_as_c_does(tmp_path: Path, scale: float, text: str, offset: int) -> None:
    data = image_with_ties(scale)
    parameters = f"quant_param {{ scale: {scale} {text} }}"
    found = run(tmp_path, layer("c_quant_layer", "Quant", "data", "q", parameters), data)
    np.testing.assert_array_equal(found["c_quant_layer.0"], quant(data, scale, offset))


def test_quant_leaves_what_is_not_a_number(tmp_path: Path) -> None:
    data = np.full(SHAPE, np.nan, np.float32)
    found = run(tmp_path, layer("q", "Quant", "data", "q", "quant_param { scale: 16 }"), data)
    assert np.isnan(found["q.0"]).all()


SCALES = np.array([1e-4, 3.7e-4, 0.02], np.float32)
SHIFTS = np.array([1, 4, 16], np.float32)


def prototxt_form(scales: Array, shifts: Array, more: str = "") -> str:
    numbers = [f"deqscale: {value!r}" for value in scales.tolist()] + [f"shift_bit: {int(value)}" for value in shifts]
    return f"dequant_param {{ {' '.join(numbers)} {'offset: 0 ' * len(scales)} {more} }}"


@pytest.mark.parametrize("form", ["blobs", "prototxt"])
@pytest.mark.parametrize("channels", [1, 3])
def test_dequant_rounds_to_16_bits(tmp_path: Path, form: str, channels: int) -> None:
    scales, shifts = SCALES[-channels:], SHIFTS[:channels]
    data = image_with_ties(1 / float(scales[0]))
    is_blobs = form == "blobs"
    text = "dequant_param { channel_wise: true }" if is_blobs else prototxt_form(scales, shifts)
    weights = {"c_dequant_layer": [scales, shifts, np.zeros_like(scales)]} if is_blobs else None
    found = run(tmp_path, layer("c_dequant_layer", "DeQuant", "data", "d", text), data, weights)
    np.testing.assert_array_equal(found["c_dequant_layer.0"], dequant(data, scales, shifts))


def test_dequant_of_an_lstm_has_one_parameter_for_each_gate(tmp_path: Path) -> None:
    scales, shifts = np.array([1e-4, 1e-3, 1e-2, 1e-1], np.float32), np.array([1, 2, 3, 4], np.float32)
    data = random_array(5, 2, 12)
    text = prototxt_form(scales, shifts, 'layer_type: "LSTM_X"')
    found = run(tmp_path, layer("d", "DeQuant", "data", "d", text), data)
    channels_second = data.reshape(10, 12, 1, 1)
    expected = dequant(channels_second, np.repeat(scales, 3), np.repeat(shifts, 3)).reshape(data.shape)
    np.testing.assert_array_equal(found["d.0"], expected)


def test_dequant_without_shift_copies_in_place_under_its_own_name(tmp_path: Path) -> None:
    data = random_array(*SHAPE)
    blobs = [SCALES, np.zeros(3, np.float32), np.zeros(3, np.float32)]
    text = layer("a", "AbsVal", "data", "a") + layer("d", "DeQuant", "a", "a") + layer("r", "TanH", "a", "a")
    found = run(tmp_path, text, data, {"d": blobs})
    np.testing.assert_array_equal(found["d.0"], np.abs(data))


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("Quant", "", "layer c of type Quant: it has no scale"),
        ("Quant", "quant_param { scale: 0 }", "the scale 0 is not a positive finite number"),
        ("Quant", "quant_param { scale: 1e-50 }", "the scale 1e-50 is not"),
        ("Quant", "quant_param { scale: -2 }", "the scale -2 is not"),
        ("Quant", "quant_param { scale: inf }", "the scale inf is not"),
        ("Quant", "quant_param { scale: nan }", "the scale nan is not"),
        ("DeQuant", "", "layer c of type DeQuant: it needs equally many deq_scale and shift_bit, but has 0 and 0"),
        ("DeQuant", "dequant_param { deqscale: 1 }", "but has 1 and 0"),
        ("DeQuant", prototxt_form(SCALES, SHIFTS * [0, 1, 1]), "some of its shift_bit are 0 and others are not"),
        ("DeQuant", "dequant_param { deqscale: 1 shift_bit: 17 }", "shift_bit must be from 1 to 16, or 0"),
        ("DeQuant", "dequant_param { deqscale: 0 shift_bit: 1 }", "the scale 0 is not"),
        ("DeQuant", prototxt_form(SCALES[:2], SHIFTS[:2]), "2 parameters for 3 channels"),
    ],
)  # fmt: skip
def test_parameters_with_which_caffe_would_not_run(tmp_path: Path, kind: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(tmp_path, layer("a", "AbsVal", "data", "a") + layer("c", kind, "a", "c", text), random_array(*SHAPE))
    assert not (tmp_path / "g").exists()


# Nets that are not meant to be run


QUANTIZED = "".join([
    layer("conv_quant_layer", "Quant", "data", "q", "quant_param { scale: 16 }"),
    layer("conv", "Convolution", "q", "c", CONV),
    layer("conv_dequant_layer", "DeQuant", "c", "c"),
])  # fmt: skip
DEQUANT_BLOBS = [SCALES, np.zeros(3, np.float32), np.zeros(3, np.float32)]


def named_net(folder: Path, model: str, weights: str, text: str = QUANTIZED) -> Any:
    blobs = {"conv": [random_array(3, 3, 3, 3), random_array(3)], "conv_dequant_layer": DEQUANT_BLOBS}
    made = write_net(folder, inputs(data=SHAPE) + text, blobs)
    for path, name in zip(made, (model, weights), strict=True):
        path.rename(folder / name)
    return golden(folder / model, folder / "g", weights=str(folder / weights), inputs={"data": random_array(*SHAPE)})


@pytest.mark.parametrize(
    ("model", "weights", "wanted"),
    [
        ("n_deploy_model.prototxt", "n_deploy_weights.caffemodel", "n_fake_quant_model.prototxt"),
        ("n_fake_quant_model.prototxt", "n_deploy_weights.caffemodel", "n_fake_quant_weights.caffemodel"),
    ],
)
def test_the_deployed_net_is_refused_with_the_file_to_take(
    tmp_path: Path, model: str, weights: str, wanted: str
) -> None:
    with pytest.raises(InputError) as problem:
        named_net(tmp_path, model, weights)
    assert str(problem.value).endswith(f"which only ATC takes; run the fake-quantized model: {wanted}")


def test_other_nets_may_be_called_deployed(tmp_path: Path) -> None:
    named_net(tmp_path, "n_deploy_model.prototxt", "n.caffemodel", layer("a", "AbsVal", "data", "a"))
    assert "a.0" in files_of(tmp_path / "g")


def test_deployed_weights_under_another_name(tmp_path: Path) -> None:
    steps = np.rint(random_array(3, 3, 3, 3) * 40)
    weights = {"conv": [steps, np.rint(random_array(3) * 1e4)], "conv_dequant_layer": DEQUANT_BLOBS}
    with pytest.raises(InputError, match="the weights of layer conv are 8-bit integers, as in the deployed model"):
        run(tmp_path, QUANTIZED, random_array(*SHAPE), weights)


@pytest.mark.parametrize("kind", ["AntiQuant", "IFMR", "SearchN", "RetrainDataQuant", "RetrainWeightQuant"])
def test_layers_of_intermediate_files(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match=f"layer c has the type {kind}, which only intermediate files of AMCT have"):
        run(tmp_path, layer("a", "AbsVal", "data", "a") + layer("c", kind, "a", "c"), random_array(*SHAPE))
