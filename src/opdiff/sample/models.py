"""Samples that begin with a model file: the original model, its input, the compiled model and its dump, twice.

net.onnx (net.prototxt and net.caffemodel, net.pb)    image.npy
net.om          dump/           as compiled first: a fused operator computes without its bias
net_fixed.om    dump_fixed/     compiled again with the fusion pass that made this operator switched off
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import dtypes
from opdiff.core.reasons import because
from opdiff.sample import ops
from opdiff.sample.caffe_files import encode_caffemodel, encode_prototxt, layer_of
from opdiff.sample.device import dump_files, run_device
from opdiff.sample.directory import write_files
from opdiff.sample.faults import Fault, inject
from opdiff.sample.golden import npy_file
from opdiff.sample.graph import DeviceOp, Port, SampleNetwork
from opdiff.sample.network_builder import Conv, Layer, NetworkBuilder, Wire
from opdiff.sample.offline_model import encode_offline_model
from opdiff.sample.onnx_file import encode_onnx
from opdiff.sample.rules import attr, rule_json
from opdiff.sample.tensorflow_file import encode_tensorflow

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.sample.graph import Kernel

IMAGE = "image"

_SEED = 40  # the fault changes the class that wins
_SIDE = 24
_CLASSES = 10
_INPUT, _TARGET, _RULES = "image.npy", "dump", "net.om"
_FIXED_TARGET, _FIXED_RULES = "dump_fixed", "net_fixed.om"
# Folders of the dumps below `dump_path`: time, device, model, number of the model, number of the run.
_RUN, _FIXED_RUN = "20231114221500/0/net/1/0", "20231115093000/0/net/1/0"
_PROCESSOR = "Ascend310P3"
_FUSION_SWITCH = "--fusion_switch_file=fusion_switch.cfg"


@dataclass(frozen=True, slots=True)
class _Framework:
    """A framework of original models.

    Attributes:
        axes: axis order of its images.
        arguments: arguments of ATC about the model.
        files: names of the files of a model.
        encode: returns the contents of these files.
    """

    axes: str
    arguments: str
    files: tuple[str, ...]
    encode: Callable[[SampleNetwork], tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class ModelSample:
    """Paths of the parts of the sample; a Caffe model is two files."""

    model: tuple[str, ...]
    image: str
    rules: str
    target: str
    fixed_rules: str
    fixed_target: str


def write_model_sample(directory: str, framework: str) -> ModelSample:
    """Write the sample of a framework; always the same bytes."""
    write_files(directory, make_model_sample(framework))
    model = tuple(os.path.join(directory, name) for name in FRAMEWORKS[framework].files)
    parts = (_INPUT, _RULES, _TARGET, _FIXED_RULES, _FIXED_TARGET)
    return ModelSample(model, *(os.path.join(directory, part) for part in parts))


def make_model_sample(framework: str) -> dict[str, bytes]:
    """Return the contents of all files by their path below the sample's directory."""
    made_with = FRAMEWORKS[framework]
    network = build(made_with.axes)
    image = network.image.transpose(["NCHW".index(label) for label in network.axes])
    atc = f"atc {made_with.arguments} --soc_version={_PROCESSOR}"
    model, dump = _compile_and_run(inject(network, [FAULT]), f"{atc} --output=net")
    fixed_model, fixed_dump = _compile_and_run(_without_pass(network), f"{atc} --output=net_fixed {_FUSION_SWITCH}")
    return {
        **dict(zip(made_with.files, made_with.encode(network), strict=True)),
        _INPUT: npy_file(image),
        _RULES: model,
        **{f"{_TARGET}/{_RUN}/{name}": content for name, content in dump.items()},
        _FIXED_RULES: fixed_model,
        **{f"{_FIXED_TARGET}/{_FIXED_RUN}/{name}": content for name, content in fixed_dump.items()},
    }


def build(axes: str = "NCHW") -> SampleNetwork:
    """Return a small classifier without faults, whose images have this axis order."""
    net = NetworkBuilder(_SEED, axes=axes)
    x = Wire(Port(IMAGE), Port(IMAGE), 3, dtypes.FLOAT32, axes)
    x = net.store_as(net.cast(x, dtypes.FLOAT16), "NC1HWC0")
    x = net.conv(x, "stem", Conv(16, norm=False, activation="relu"))
    inner = net.conv(x, "conv1", Conv(16, norm=False, activation="relu"))
    inner = net.conv(inner, "conv2", Conv(16, norm=False))
    x = net.add(inner, x, "add", "relu")
    (x,) = net.apply(Layer("pool", "GlobalAveragePool", ops.average_all), x)
    (x,) = net.apply(Layer("flatten", "Flatten", ops.flatten, layout="ND"), net.store_as(x, axes))
    x = net.store_as(net.dense(net.store_as(x, "FRACTAL_NZ"), "fc", _CLASSES), "ND")
    (x,) = net.apply(Layer("softmax", "SoftmaxV2", ops.softmax), x)
    results = (net.cast(x, dtypes.FLOAT32).device,)
    return SampleNetwork(ops.wave_image(_SEED, _SIDE), IMAGE, tuple(net.golden), tuple(net.device), results, axes=axes)


def _leave_out_bias(op: DeviceOp) -> DeviceOp:
    return replace(op, kernel=partial(_run_without_bias, op.kernel))


def _run_without_bias(kernel: Kernel, x: AnyArray, weight: AnyArray, bias: AnyArray) -> AnyArray:
    result: AnyArray = kernel(x, weight, np.zeros_like(bias))
    return result


FAULT = Fault("missing-bias", "conv1conv1_relu", because("sample.without_bias"), _leave_out_bias)


def _without_pass(network: SampleNetwork) -> SampleNetwork:
    """Return the network as compiled without the pass that fuses activations with convolutions."""
    fusion_pass = next(op.buffer_pass for op in network.device if op.name == FAULT.operator)
    device: list[DeviceOp] = []
    renamed: dict[Port, Port] = {}
    for op in network.device:
        compiled = replace(op, inputs=tuple(renamed.get(port, port) for port in op.inputs))
        if op.buffer_pass == fusion_pass:
            first, second = op.originals
            outputs = tuple(replace(output, origin=Port(first)) for output in op.outputs)
            kernel = partial(op.kernel, activation=ops.identity)
            compiled = replace(compiled, name=first, kernel=kernel, outputs=outputs, originals=(first,), buffer_pass="")
            device += [compiled, DeviceOp(second, "Relu", compiled.ports, ops.relu, op.outputs, originals=(second,))]
            renamed[Port(op.name)] = Port(second)
        else:
            device.append(compiled)
    return replace(network, device=tuple(device))


def _compile_and_run(network: SampleNetwork, command_line: str) -> tuple[bytes, dict[str, bytes]]:
    """Return the offline model, and the dump files of a run on the device by name."""
    run = run_device(network)
    made_by = {"atc_cmdline": command_line, "atc_version": "7.6.0.1.220", "soc_version": _PROCESSOR}
    model = rule_json(network, run) | {"name": "net"}
    model["attr"] = [attr(key, {"s": value}) for key, value in made_by.items()]
    return encode_offline_model(model), dump_files(network, run)


def _encode_caffe(network: SampleNetwork) -> tuple[bytes, bytes]:
    layers = [layer_of(op) for op in network.golden]
    return encode_prototxt(layers, network.image_name, network.image.shape), encode_caffemodel(layers)


FRAMEWORKS = {
    "caffe": _Framework(
        "NCHW",
        "--framework=0 --model=net.prototxt --weight=net.caffemodel",
        ("net.prototxt", "net.caffemodel"),
        _encode_caffe,
    ),
    "onnx": _Framework(
        "NCHW", "--framework=5 --model=net.onnx", ("net.onnx",), lambda network: (encode_onnx(network),)
    ),
    "tensorflow": _Framework(
        "NHWC", "--framework=3 --model=net.pb", ("net.pb",), lambda network: (encode_tensorflow(network),)
    ),
}
