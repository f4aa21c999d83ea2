"""Small Caffe nets for tests: prototxt as text, weights by Google's protobuf.

OpenCV is the oracle, and NumPy for the layers of AMCT.
"""

from __future__ import annotations

import ctypes
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


def c_round(array: Array) -> Array:
    """C's own `roundf`."""
    libm = ctypes.CDLL("libm.so.6")
    libm.roundf.restype, libm.roundf.argtypes = ctypes.c_float, [ctypes.c_float]
    values = [libm.roundf(value) for value in array.reshape(-1).tolist()]
    return np.array(values, np.float32).reshape(array.shape)


def quant(x: Array, scale: float, offset: int) -> Array:
    """The result of a `Quant` layer."""
    factor, zero = np.float32(scale), np.float32(offset)
    steps: Array = np.clip(c_round(x * factor) + zero, np.float32(-128), np.float32(127))
    return (steps - zero) / factor


def dequant(x: Array, scales: Array, shifts: Array) -> Array:
    """The result of a `DeQuant` layer with one scale and shift for each channel, or one for all."""
    step, power = (values.astype(np.float32).reshape(1, -1, 1, 1) for values in (scales, 2.0**shifts))
    return np.clip(c_round(c_round(x / step) / power), np.float32(-32768), np.float32(32767)) * step * power
