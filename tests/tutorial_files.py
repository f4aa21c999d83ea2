"""Files that the tutorial names: models, inputs, and dumps of simulated runs with a fault each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from caffe_nets import inputs, layer, random_array, write_net
from device_runs import DeviceRun, Fused
from dump_files import TIME, add, dump, tensor
from made_dumps import describe, rule, rule_file
from onnx_models import model, node, value, weight
from opdiff.core import dtypes
from opdiff.workflows.golden.options import GoldenOptions
from opdiff.workflows.golden.pipeline import make_golden

if TYPE_CHECKING:
    from pathlib import Path

# Folder of a dump below its path, as the runtime makes it.
INNER_FOLDER = "20240115103052/0/net/1/0"


def write_tutorial_files(folder: Path) -> None:
    """Write `onnx` and `caffe`, each with a model, its input, its rules as `net.om`, and the dump of a device."""
    _write_onnx(folder / "onnx")
    _write_caffe(folder / "caffe")


def _write_onnx(folder: Path) -> None:
    folder.mkdir()
    nodes = [
        node("Conv", "x w1 b1", "a", "conv1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "a", "b", "relu1"),
        node("Conv", "b w2 b2", "c", "conv2", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("GlobalAveragePool", "c", "d", "pool"),
        node("Flatten", "d", "e", "flatten"),
        node("Gemm", "e w3 b3", "y", "fc"),
    ]
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "b2": (8,), "w3": (8, 4), "b3": (4,)}
    weights = [weight(name, random_array(*shape, seed=seed)) for seed, (name, shape) in enumerate(shapes.items())]
    image = random_array(1, 3, 8, 8, seed=9)
    operators = (
        Fused("conv1relu1", "Conv2D", ("conv1", "relu1")),
        Fused("conv2", "Conv2D", ("conv2",), spoil=lambda array: 1.2 * array),
        *(Fused(name, kind, (name,)) for name, kind in (("pool", "GlobalAveragePool"), ("flatten", "Flatten"))),
        Fused("fc", "MatMulV2", ("fc",)),
    )
    made = model(nodes, [value("x", [1, 3, 8, 8])], weights=weights)
    device = DeviceRun(folder, made, {"x": image}, operators).write()
    np.save(folder / "x.npy", image)
    device.model.rename(folder / "net.onnx")
    device.rules.rename(folder / "net.om")
    _move_to_inner_folder(device.npu, folder / "dump")


def _write_caffe(folder: Path) -> None:
    folder.mkdir()
    text = inputs(data=(1, 3, 6, 6))
    text += layer("conv", "Convolution", "data", "conv", "convolution_param { num_output: 4 kernel_size: 3 pad: 1 }")
    text += layer("relu", "ReLU", "conv", "conv")
    text += layer("fc", "InnerProduct", "conv", "fc", "inner_product_param { num_output: 5 }")
    blobs = {"conv": [random_array(4, 3, 3, 3), random_array(4)], "fc": [random_array(5, 144), random_array(5)]}
    prototxt, caffemodel = write_net(folder, text, blobs)
    np.save(folder / "data.npy", random_array(1, 3, 6, 6, seed=5))
    options = GoldenOptions(
        str(prototxt), str(caffemodel), str(folder / "made"), inputs={"data": str(folder / "data.npy")}
    )
    make_golden(options, lambda _note: None, lambda _done, _total: None)
    operators = []
    kinds = {"data": "Data", "conv": "Conv2D", "relu": "Relu", "fc": "MatMulV2"}
    for number, (name, kind) in enumerate(kinds.items()):
        (path,) = (folder / "made").glob(f"{name}.0.*.npy")
        inputs_of = (f"{list(kinds)[number - 1]}:0",) if number else ()
        described = (describe(name, 0, dtype="DT_FLOAT16"),)
        operators.append(rule(name, kind, originals=(name,), inputs=inputs_of, outputs=described))
        if kind != "Data":
            content = dump(tensor(np.load(path), dtypes.FLOAT16))
            add(folder / "dump" / INNER_FOLDER, f"{kind}.{name}.{number}.0.{TIME + number}", content)
    (folder / "net.om").write_text(json.dumps(rule_file(*operators)))


def _move_to_inner_folder(source: Path, target: Path) -> None:
    inner = target / INNER_FOLDER
    inner.parent.mkdir(parents=True)
    source.rename(inner)
