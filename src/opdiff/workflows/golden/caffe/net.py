"""Caffe nets: layers of a prototxt, as far as they run in inference, with their weights from a caffemodel."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core.errors import DumpError, InputError
from opdiff.core.reasons import because
from opdiff.read.cursor import Cursor
from opdiff.read.protowire import Field, Message, Type
from opdiff.read.rules.protobuf_text import Block, iter_top, read_text
from opdiff.workflows.golden.onnx_model import map_file

if TYPE_CHECKING:
    from typing import Any

    from opdiff.core.codes import AnyArray
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.onnx_model import ModelBytes

_MAX_LAYERS = 100_000
# Types of the older form `layers { type: INNER_PRODUCT }` whose names differ by more than underscores.
_OLD_TYPES = {
    "ABSVAL": "AbsVal", "ARGMAX": "ArgMax", "BNLL": "BNLL", "ELTWISE": "Eltwise", "EXP": "Exp", "IM2COL": "Im2col",
    "INNER_PRODUCT": "InnerProduct", "LRN": "LRN", "MVN": "MVN", "RELU": "ReLU", "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}  # fmt: skip

# Messages of a caffemodel, a binary NetParameter, of which only names and blobs are read.
_SHAPE = Message({1: Field("dim", Type.UINT64, repeated=True)})
_BLOB = Message({
    1: Field("num", Type.INT32), 2: Field("channels", Type.INT32), 3: Field("height", Type.INT32),
    4: Field("width", Type.INT32), 5: Field("data", Type.DATA, repeated=True),
    7: Field("shape", Type.MESSAGE, message=_SHAPE), 8: Field("double_data", Type.DATA, repeated=True),
})  # fmt: skip
_LAYER = Message({1: Field("name", Type.STRING), 7: Field("blobs", Type.MESSAGE, repeated=True, message=_BLOB)})
_OLD_LAYER = Message({4: Field("name", Type.STRING), 6: Field("blobs", Type.MESSAGE, repeated=True, message=_BLOB)})
_NET = Message({
    2: Field("old_layers", Type.MESSAGE, repeated=True, message=_OLD_LAYER),
    100: Field("layers", Type.MESSAGE, repeated=True, message=_LAYER),
})  # fmt: skip
_OLD_EXTENTS = ("num", "channels", "height", "width")


class Parameters:
    """Parameters of a layer: a block of its text, such as `convolution_param`; empty if it has none."""

    def __init__(self, block: Block | None) -> None:
        self._block = block or Block("")

    def integers(self, name: str) -> tuple[int, ...]:
        """All values of a repeated number."""
        return tuple(int(text) for text in self._block.texts.get(name, ()))

    def integer(self, name: str, default: int) -> int:
        """A number."""
        return int(self._block.one(name) or default)

    def number(self, name: str, default: float) -> float:
        """A number that need not be whole."""
        return float(self._block.one(name) or default)

    def numbers(self, name: str) -> tuple[float, ...]:
        """All values of a repeated number that need not be whole."""
        return tuple(float(text) for text in self._block.texts.get(name, ()))

    def flag(self, name: str, *, default: bool) -> bool:
        """A truth value."""
        text = self._block.one(name)
        return text in ("true", "1") if text else default

    def word(self, name: str, default: str) -> str:
        """A word, such as a value of an enumeration."""
        return self._block.one(name) or default

    def signed_byte(self, name: str) -> int:
        """The first byte of a bytes field, from -128 to 127; 0 if it is empty or absent."""
        return int.from_bytes(self._block.one(name).encode(errors="surrogateescape")[:1], "big", signed=True)

    def has(self, name: str) -> bool:
        """Return whether the prototxt states a value."""
        return name in self._block.texts

    def below(self, name: str) -> Parameters:
        """Parameters of an inner block."""
        return Parameters(self._block.below(name))


class Layer(Struct, frozen=True):
    """One layer.

    Attributes:
        name: its name, made unique as ATC does.
        type: its type, such as `Convolution`.
        bottoms: names of the blobs that it reads.
        tops: names of the blobs that it writes.
        block: its text.
        blobs: its weights.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    block: Block
    blobs: tuple[AnyArray, ...] = ()

    def parameters(self, name: str) -> Parameters:
        """Parameters of the layer, such as `pooling_param`."""
        return Parameters(self.block.below(name))


class Net(Struct, frozen=True):
    """A net: the shapes of its inputs by name, and its layers in order."""

    inputs: dict[str, Shape]
    layers: tuple[Layer, ...]


def read_net(prototxt: str, caffemodel: str) -> Net:
    """Read a net and its weights.

    Raises:
        InputError: a file cannot be read, or is not what it should be.
    """
    top = _parse(prototxt)
    blocks = [*top.blocks.get("layer", ()), *top.blocks.get("layers", ())]
    if not blocks or len(blocks) > _MAX_LAYERS:
        raise InputError(prototxt, because("golden.not_net"))
    if any("layer" in block.blocks for block in blocks):
        raise InputError(prototxt, because("golden.old_prototxt"))
    weights = read_weights(caffemodel)
    try:
        return _net(top, [block for block in blocks if _runs_in_inference(block)], weights)
    except ValueError as error:
        raise InputError(prototxt, because("golden.value_not_number", error=str(error))) from error


def _parse(path: str) -> Block:
    problems: dict[Reason, None] = {}
    top = Block("")
    for name, value in iter_top(read_text(path), problems):
        if isinstance(value, Block):
            top.blocks.setdefault(name, []).append(value)
        else:
            top.texts.setdefault(name, []).append(value)
    if problems:
        raise InputError(path, because("golden.not_prototxt", problem=next(iter(problems))))
    return top


def _net(top: Block, blocks: list[Block], weights: dict[str, list[tuple[AnyArray, ...]]]) -> Net:
    inputs = _net_inputs(top)
    layers = []
    seen: dict[str, int] = {}
    for block in blocks:
        name = block.one("name")
        tops = tuple(block.texts.get("top", ()))
        count = seen[name] = seen.get(name, -1) + 1
        if _type(block) == "Input":
            parameters = block.below("input_param") or Block("")
            shapes = [_shape(shape) for shape in parameters.blocks.get("shape", ())]
            inputs |= {top_name: shapes[min(number, len(shapes) - 1)] for number, top_name in enumerate(tops) if shapes}
            continue
        of_name = weights.get(name, [])
        blobs = of_name[min(count, len(of_name) - 1)] if of_name else ()
        unique = f"{name}_same_{count}" if count else name
        layers.append(Layer(unique, _type(block), tuple(block.texts.get("bottom", ())), tops, block, blobs))
    return Net(inputs, tuple(layers))


def _net_inputs(top: Block) -> dict[str, Shape]:
    """Return the inputs that the net itself declares, by `input_shape` or, older, four `input_dim` each."""
    names = top.texts.get("input", [])
    dims = [int(text) for text in top.texts.get("input_dim", ())]
    shapes = [_shape(block) for block in top.blocks.get("input_shape", ())]
    shapes = shapes or [tuple(dims[start : start + 4]) for start in range(0, len(dims), 4)]
    return dict(zip(names, shapes, strict=False))


def _shape(block: Block) -> Shape:
    return tuple(int(text) for text in block.texts.get("dim", ()))


def _type(block: Block) -> str:
    """Return the type of a layer; the older form `layers` has it in capitals."""
    text = block.one("type")
    if block.name == "layer" or not text.isupper():
        return text
    return _OLD_TYPES.get(text) or "".join(word.capitalize() for word in text.split("_"))


def _runs_in_inference(block: Block) -> bool:
    if block.one("phase") in ("TRAIN", "0"):
        return False
    included, excluded = ([rule.one("phase") for rule in block.blocks.get(name, ())] for name in ("include", "exclude"))
    if included and all(phase in ("TRAIN", "0") for phase in included):
        return False
    return not any(phase in ("TEST", "1") for phase in excluded)


# Weights


def read_weights(path: str) -> dict[str, list[tuple[AnyArray, ...]]]:
    """Return the blobs of layers by name; layers of the same name in the order of the file.

    Raises:
        InputError: the file cannot be read, or is not a caffemodel.
    """
    data = map_file(path)
    found: dict[str, list[tuple[AnyArray, ...]]] = {}
    try:
        values = _NET.decode(Cursor(data, path))
        for layer in (*values.get("layers", ()), *values.get("old_layers", ())):
            blobs = tuple(_blob(blob, data, path) for blob in layer.get("blobs", ()))
            found.setdefault(layer.get("name", ""), []).append(blobs)
    except DumpError as error:
        raise InputError(path, because("golden.caffemodel_damaged", problem=error.brief)) from error
    if not found:
        raise InputError(path, because("golden.not_caffemodel"))
    return found


def _blob(values: dict[str, Any], data: ModelBytes, path: str) -> AnyArray:
    """Return an array of float32."""
    shape = _blob_shape(values)
    dtype = "<f8" if "double_data" in values else "<f4"
    parts = values.get("double_data") or values.get("data", ())
    raw = b"".join(data[offset : offset + nbytes] for offset, nbytes in parts)
    if len(raw) != prod(shape) * int(dtype[2:]):
        raise InputError(path, because("golden.blob_size", shape=tuple(shape), nbytes=len(raw)))
    return np.frombuffer(raw, dtype).reshape(shape).astype(np.float32, copy=False)


def _blob_shape(values: dict[str, Any]) -> tuple[int, ...]:
    if "shape" in values:
        return tuple(values["shape"].get("dim", ()))
    return tuple(values.get(name, 0) for name in _OLD_EXTENTS) if any(name in values for name in _OLD_EXTENTS) else ()
