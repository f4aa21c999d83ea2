"""Weights of a caffemodel: a binary NetParameter, of which only names and blobs are read."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core.errors import DumpError, InputError
from opdiff.core.reasons import because
from opdiff.read.cursor import Cursor
from opdiff.read.protowire import Field, Message, Type
from opdiff.workflows.golden.onnx_model import map_file

if TYPE_CHECKING:
    from typing import Any

    from opdiff.core.codes import AnyArray
    from opdiff.workflows.golden.onnx_model import ModelBytes

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
