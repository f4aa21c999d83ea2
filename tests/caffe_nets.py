"""Small Caffe nets for tests: prototxt as text, weights by Google's protobuf, and OpenCV as oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from proto_messages import message_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Array = np.ndarray[Any, Any]

_MESSAGES = {
    "Shape": ("1 dim int64*",),
    "Blob": ("1 num int32", "2 channels int32", "3 height int32", "4 width int32", "5 data float*", "7 shape Shape",
             "8 double_data double*"),
    "Layer": ("1 name string", "2 type string", "7 blobs Blob*"),
    "OldLayer": ("4 name string", "5 type int32", "6 blobs Blob*"),
    "Net": ("1 name string", "2 layers OldLayer*", "100 layer Layer*"),
}  # fmt: skip
Net: Any = message_class("caffe", _MESSAGES, "Net")


def random_array(*shape: int, seed: int = 0) -> Array:
    made: Array = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return made


def layer(name: str, kind: str, bottoms: str, tops: str, parameters: str = "") -> str:
    """The text of a layer; blobs are separated by blanks."""
    lines = [f'bottom: "{blob}"' for blob in bottoms.split()] + [f'top: "{blob}"' for blob in tops.split()]
    return f'layer {{ name: "{name}" type: "{kind}" {" ".join(lines)} {parameters} }}\n'


def inputs(**shapes: Sequence[int]) -> str:
    """The text of input layers."""
    return "".join(
        layer(name, "Input", "", name, f"input_param {{ shape {{ {' '.join(f'dim: {dim}' for dim in shape)} }} }}")
        for name, shape in shapes.items()
    )


def write_net(folder: Path, text: str, weights: Mapping[str, Sequence[Array]]) -> tuple[Path, Path]:
    """Write prototxt and caffemodel."""
    net = Net(name="net")
    for name, blobs in weights.items():
        item = net.layer.add(name=name)
        for array in blobs:
            item.blobs.add(data=array.reshape(-1).tolist(), shape={"dim": array.shape})
    (folder / "net.prototxt").write_text(text)
    (folder / "net.caffemodel").write_bytes(net.SerializeToString())
    return folder / "net.prototxt", folder / "net.caffemodel"


def opencv_run(files: tuple[Path, Path], data: Mapping[str, Array], tops: Sequence[str]) -> dict[str, Array]:
    """The named outputs, each computed by a run of its own."""
    import cv2

    found = {}
    for name in tops:
        net = cv2.dnn.readNetFromCaffe(*map(str, files))
        net.enableWinograd(useWinograd=False)
        net.enableFusion(fusion=False)
        for key, array in data.items():
            net.setInput(array, key)
        found[name] = net.forward(name)
    return found
