"""Whole Caffe nets: in-place layers, phases, names, older forms, and layers without translation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from caffe_nets import Net, inputs, layer, opencv_run, random_array, write_net
from onnx_models import files_of, golden
from opdiff.core.errors import InputError, UsageError
from opdiff.workflows.golden.caffe.net import read_weights

if TYPE_CHECKING:
    from pathlib import Path

CONV = "convolution_param { num_output: 4 kernel_size: 3 pad: 1 }"
DATA = random_array(1, 3, 8, 8)
WEIGHTS = {
    "conv1": [random_array(4, 3, 3, 3, seed=1), random_array(4, seed=2)],
    "bn1": [random_array(4, seed=3), np.abs(random_array(4, seed=4)), np.array([2], np.float32)],
    "scale1": [random_array(4, seed=5), random_array(4, seed=6)],
    "fc": [random_array(5, 64, seed=7), random_array(5, seed=8)],
}
NET = inputs(data=DATA.shape) + "".join([
    layer("conv1", "Convolution", "data", "conv1", CONV),
    layer("bn1", "BatchNorm", "conv1", "conv1"),
    layer("scale1", "Scale", "conv1", "conv1", "scale_param { bias_term: true }"),
    layer("relu1", "ReLU", "conv1", "conv1"),
    layer("pool1", "Pooling", "conv1", "pool1", "pooling_param { kernel_size: 3 stride: 2 }"),
    layer("left", "Sigmoid", "pool1", "left"),
    layer("sum", "Eltwise", "pool1 left", "sum"),
    layer("drop", "Dropout", "sum", "sum"),
    layer("train", "Power", "sum", "loss", "include { phase: TRAIN }"),
    layer("fc", "InnerProduct", "sum", "fc", "inner_product_param { num_output: 5 }"),
    layer("prob", "Softmax", "fc", "prob"),
])  # fmt: skip
LAYERS = ("conv1", "bn1", "scale1", "relu1", "pool1", "left", "sum", "drop", "fc", "prob")


def run_net(folder: Path, text: str, weights: Any = WEIGHTS, **options: Any) -> tuple[Any, dict[str, Any]]:
    files = write_net(folder, text, weights)
    result = golden(files[0], folder / "g", weights=str(files[1]), **{"inputs": {"data": DATA}, **options})
    return result, files_of(folder / "g")


def test_every_layer_agrees_with_opencv_also_where_it_works_in_place(tmp_path: Path) -> None:
    result, found = run_net(tmp_path, NET)
    expected = opencv_run((tmp_path / "net.prototxt", tmp_path / "net.caffemodel"), {"data": DATA}, LAYERS)
    assert found.keys() == {"data.0", *(f"{name}.0" for name in LAYERS)}
    for name in LAYERS:
        bound = 1e-6 * max(1.0, float(np.abs(expected[name]).max()))
        np.testing.assert_allclose(found[f"{name}.0"], expected[name], rtol=0, atol=bound, err_msg=name)
    assert result.omitted == ()
    manifest = json.loads((tmp_path / "g" / "opdiff-golden.json").read_text())
    assert [file["name"] for file in manifest["model"]] == ["net.prototxt", "net.caffemodel"]


def test_slices_have_an_output_for_each_top(tmp_path: Path) -> None:
    parts = layer("cut", "Slice", "data", "a b c", "slice_param { slice_point: 1 slice_point: 2 }")
    _, found = run_net(tmp_path, inputs(data=DATA.shape) + parts)
    for number in range(3):
        np.testing.assert_array_equal(found[f"cut.{number}"], DATA[:, number : number + 1])


def test_repeated_names_are_numbered_as_atc_does(tmp_path: Path) -> None:
    text = inputs(data=DATA.shape) + layer("r", "AbsVal", "data", "a") + layer("r", "Power", "a", "b") * 2
    _, found = run_net(tmp_path, text)
    assert found.keys() == {"data.0", "r.0", "r_same_1.0", "r_same_2.0"}


@pytest.mark.parametrize(
    ("rule", "runs"),
    [
        ("include { phase: TEST }", True), ("include { phase: TRAIN }", False), ("exclude { phase: TEST }", False),
        ("exclude { phase: TRAIN }", True), ("phase: TRAIN", False),
        ("include { phase: TRAIN } include { phase: TEST }", True),
    ],
)  # fmt: skip
def test_only_layers_of_inference_run(tmp_path: Path, rule: str, runs: bool) -> None:
    text = inputs(data=DATA.shape) + layer("a", "AbsVal", "data", "a") + layer("b", "Power", "a", "b", rule)
    _, found = run_net(tmp_path, text)
    assert ("b.0" in found) == runs


@pytest.mark.parametrize(
    "head",
    [
        'input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n',
        'input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n',
    ],
    ids=["input_dim", "input_shape"],
)
def test_inputs_may_be_declared_by_the_net(tmp_path: Path, head: str) -> None:
    _, found = run_net(tmp_path, head + layer("a", "AbsVal", "data", "a"))
    np.testing.assert_array_equal(found["a.0"], np.abs(DATA))


def test_the_older_form_of_layers_and_weights(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(
        'input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n'
        'layers { name: "fc" type: INNER_PRODUCT bottom: "data" top: "fc" inner_product_param { num_output: 2 } }\n'
        'layers { name: "r" type: RELU bottom: "fc" top: "fc" }\n'
    )
    weights, bias = random_array(2, 192), random_array(2, seed=1)
    blobs = [
        {"num": 1, "channels": 1, "height": 2, "width": 192, "data": weights.reshape(-1)},
        {"num": 1, "channels": 1, "height": 1, "width": 2, "double_data": bias},
    ]
    content = Net(layers=[{"name": "fc", "type": 14, "blobs": blobs}]).SerializeToString()
    (tmp_path / "net.caffemodel").write_bytes(content)
    golden(tmp_path / "net.prototxt", tmp_path / "g", weights=str(tmp_path / "net.caffemodel"), inputs={"data": DATA})
    found = files_of(tmp_path / "g")
    np.testing.assert_allclose(found["fc.0"], DATA.reshape(1, -1) @ weights.T + bias, rtol=1e-5)
    np.testing.assert_array_equal(found["r.0"], np.maximum(found["fc.0"], 0))


def test_layers_without_translation_cost_only_what_depends_on_them(tmp_path: Path) -> None:
    text = inputs(data=DATA.shape) + "".join([
        layer("a", "AbsVal", "data", "a"), layer("p", "Proposal", "a", "p"), layer("q", "ReLU", "p", "p"),
        layer("n", "Python", "nothing", "n"), layer("c", "Convolution", "a", "c", CONV), layer("b", "TanH", "a", "b"),
    ])  # fmt: skip
    result, found = run_net(tmp_path, text)
    assert found.keys() == {"data.0", "a.0", "b.0"}
    assert [(item.name, str(item.reason)) for item in result.omitted] == [
        ("p", "a layer of type Proposal is not supported here: no translation"),
        ("q", "it depends on layer p, which is not supported"),
        ("n", "no layer before it writes the blob nothing"),
        ("c", "a layer of type Convolution is not supported here: its weights are not in the caffemodel"),
    ]


def test_a_net_without_a_layer_that_can_be_computed(tmp_path: Path) -> None:
    text = inputs(data=DATA.shape) + layer("p", "Proposal", "data", "p") + layer("q", "ReLU", "p", "p")
    with pytest.raises(InputError) as problem:
        run_net(tmp_path, text)
    assert str(problem.value).endswith(
        "net.prototxt: none of its 2 operators can be computed. "
        "p: a layer of type Proposal is not supported here: no translation"
    )
    with pytest.raises(InputError, match="the model has no operators"):
        run_net(tmp_path, inputs(data=DATA.shape) + layer("t", "ReLU", "data", "t", "phase: TRAIN"))


def test_shapes_of_the_user_replace_those_of_the_prototxt(tmp_path: Path) -> None:
    data = random_array(2, 3, 5, 5)
    text = inputs(data=DATA.shape) + layer("a", "AbsVal", "data", "a")
    _, found = run_net(tmp_path, text, inputs={"data": data}, shapes={"": data.shape})
    assert found["a.0"].shape == data.shape


@pytest.mark.parametrize(
    ("text", "weights", "message"),
    [
        ("no layers", b"", "it has no layers"),
        ('layer { name: "a"', b"", "not a prototxt: "),
        (NET, b"\xff\xff", "not a caffemodel, or damaged"),
        (NET, b"\x0a\x03net", "not a caffemodel: it has no layers"),
        (NET.replace("dim: 3", "dim: three"), None, "a value is not a number"),
    ],
    ids=["no layers", "open block", "damaged", "empty net", "no number"],
)  # fmt: skip
def test_damaged_files_are_refused(tmp_path: Path, text: str, weights: bytes | None, message: str) -> None:
    files = write_net(tmp_path, text, WEIGHTS)
    if weights:
        files[1].write_bytes(weights)
    with pytest.raises(InputError, match=message):
        golden(files[0], tmp_path / "g", weights=str(files[1]), inputs={"data": DATA})


def test_every_prefix_of_a_caffemodel_is_refused(tmp_path: Path) -> None:
    files = write_net(tmp_path, inputs(data=DATA.shape) + layer("a", "AbsVal", "data", "a"), {"x": [random_array(3)]})
    content = files[1].read_bytes()
    for length in range(1, len(content)):
        files[1].write_bytes(content[:length])
        with pytest.raises(InputError):
            read_weights(str(files[1]))


def test_both_files_are_needed(tmp_path: Path) -> None:
    files = write_net(tmp_path, NET, WEIGHTS)
    with pytest.raises(UsageError, match="a Caffe model is two files: give the caffemodel behind the prototxt"):
        golden(files[0], tmp_path / "g", inputs={"data": DATA})
