"""Samples that begin with a model file: independent readers find the network in every file."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest

from caffe_nets import opencv_run
from model_files import ModelDef
from opdiff.api import compare
from opdiff.core.judgement import ErrorKind
from opdiff.sample.device import device_values, run_device
from opdiff.sample.faults import inject
from opdiff.sample.golden import run_golden
from opdiff.sample.graph import Port
from opdiff.sample.models import FAULT, FRAMEWORKS, IMAGE, build, make_model_sample, write_model_sample
from opdiff.sample.names import golden_name
from opdiff.sample.rules import rule_json
from opdiff.workflows.compare.options import CompareOptions
from proto_messages import message_class

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, Any]

# A frozen graph, as far as the sample has it.
_GRAPH_DEF: dict[str, tuple[str, ...]] = {
    "Dim": ("1 size int64",),
    "Shape": ("2 dim Dim*",),
    "Tensor": ("1 dtype int32", "2 tensor_shape Shape", "4 tensor_content bytes"),
    "ListValue": ("3 i int64*",),
    "Value": ("1 list ListValue", "2 s bytes", "5 b bool", "6 type int32", "7 shape Shape", "8 tensor Tensor"),
    "Entry": ("1 key string", "2 value Value"),
    "Node": ("1 name string", "2 op string", "3 input string*", "5 attr Entry*"),
    "Graph": ("1 node Node*",),
}


def computed() -> dict[str, Array]:
    """The outputs of all operators, and the input, as the sample's kernels compute them."""
    return {port.op: array for port, array in run_golden(build()).items()}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_it_is_small_and_always_the_same(framework: str) -> None:
    files = make_model_sample(framework)
    assert files == make_model_sample(framework)
    assert sum(map(len, files.values())) < 800_000


def test_onnx_runtime_computes_the_network_from_the_onnx_file() -> None:
    files = make_model_sample("onnx")
    model = onnx.load_from_string(files["net.onnx"])
    onnx.checker.check_model(model, full_check=True)
    model.graph.output.extend(onnx.ValueInfoProto(name=node.output[0]) for node in model.graph.node[:-1])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [node.name for node in model.graph.node]
    values = session.run(names, {IMAGE: np.load(io.BytesIO(files["image.npy"]))})
    expected = computed()
    assert [IMAGE, *names] == list(expected)
    for name, value in zip(names, values, strict=True):
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-5)


def test_opencv_computes_the_network_from_the_caffe_files(tmp_path: Path) -> None:
    sample = write_model_sample(str(tmp_path), "caffe")
    files = (tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    found = opencv_run(files, {IMAGE: np.load(sample.image)}, ["softmax"])
    np.testing.assert_allclose(found["softmax"], computed()["softmax"], rtol=1e-4, atol=1e-5)


def test_the_frozen_graph_has_the_weights_and_the_operators() -> None:
    graph = message_class("tf.proto", _GRAPH_DEF, "Graph").FromString(make_model_sample("tensorflow")["net.pb"])
    nodes = {node.name: node for node in graph.node}
    attributes = {entry.key: entry.value for entry in nodes["conv1/Conv2D"].attr}
    assert (list(attributes["strides"].list.i), attributes["padding"].s) == ([1, 1, 1, 1], b"SAME")
    assert {name: list(nodes[name].input) for name in ("conv1/Conv2D", "conv1", "conv1_relu", "add", "pool")} == {
        "conv1/Conv2D": ["stem_relu", "conv1/weight"],
        "conv1": ["conv1/Conv2D", "conv1/bias"],
        "conv1_relu": ["conv1"],
        "add": ["conv2", "stem_relu"],
        "pool": ["add_relu", "pool/axes"],
    }
    (weight,) = (entry.value.tensor for entry in nodes["conv1/weight"].attr if entry.key == "value")
    shape = [dim.size for dim in weight.tensor_shape.dim]
    stored = np.frombuffer(weight.tensor_content, np.float32).reshape(shape)
    (conv,) = (op for op in build().golden if op.name == "conv1")
    np.testing.assert_array_equal(stored.transpose(3, 2, 0, 1), conv.parameters["weight"].astype(np.float32))


def test_the_offline_model_has_the_rules() -> None:
    content = make_model_sample("onnx")["net.om"]
    magic, nbytes, version = struct.unpack_from("<4sII", content)
    (length,) = struct.unpack_from("<I", content, 76)
    partitions, kind, offset, size = struct.unpack_from("<4I", content, 256)
    assert (magic, nbytes, version, length) == (b"IMOD", 256, 0x2000_0000, len(content) - 256)
    assert (partitions, kind, offset, size) == (1, 0, 0, length - 16)
    model = ModelDef.FromString(content[256 + 16 :])
    network = inject(build(), [FAULT])
    described = rule_json(network, run_device(network))["graph"][0]["op"]
    assert [(op.name, op.type, op.id, list(op.input)) for op in model.graph[0].op] == [
        (op["name"], op["type"], op["id"], op.get("input", [])) for op in described
    ]
    for encoded, expected in zip(model.graph[0].op, described, strict=True):
        assert [item.key.decode() for item in encoded.attr] == [item["key"] for item in expected["attr"]]
        for side in ("input_desc", "output_desc"):
            shapes = [item["shape"]["dim"] for item in expected.get(side, [])]
            assert [list(item.shape.dim) for item in getattr(encoded, side)] == shapes
    (fused,) = (op for op in model.graph[0].op if op.name == FAULT.operator)
    values = {item.key: item.value for item in fused.attr}
    assert list(values[b"_datadump_original_op_names"].list.s) == [b"conv1", b"conv1_relu"]
    assert values[b"pass_name_ub"].s == b"TbeCommonRules2FusionPass"
    assert [(item.dtype, item.layout) for item in fused.output_desc] == [(2, "NC1HWC0")]


def test_the_faulty_device_picks_another_class() -> None:
    outputs = [device_values(network)[Port("softmax")] for network in (inject(build(), [FAULT]), build())]
    assert [int(output.argmax()) for output in (*outputs, computed()["softmax"])] == [1, 7, 7]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_fault_is_proved_without_the_model_and_gone_in_the_second_dump(tmp_path: Path, framework: str) -> None:
    """The values of the kernels are the golden data; those of TensorFlow have the channels last."""
    sample = write_model_sample(str(tmp_path), framework)
    golden = tmp_path / "golden"
    golden.mkdir()
    for name, array in computed().items():
        is_image = array.ndim == 4 and framework == "tensorflow"
        np.save(golden / golden_name(name, 0, 1), array.transpose(0, 2, 3, 1) if is_image else array)
    options = CompareOptions(replay=5)
    findings = compare(sample.target, str(golden), rules=sample.rules, options=options).values.judgement.findings
    assert [(item.operator, item.kind, item.is_proved) for item in findings] == [(FAULT.operator, ErrorKind.BIAS, True)]
    assert "the bias of conv1conv1_relu/Conv (Conv) is missing" in str(findings[0].evidence[0])
    fixed = compare(sample.fixed_target, str(golden), rules=sample.fixed_rules, options=options)
    assert fixed.values.judgement.findings == ()
