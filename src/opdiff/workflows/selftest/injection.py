"""Injection of values into a copy of a dump file: only the bytes of one tensor change."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec.structs import replace

from opdiff.align.element_reader import open_pair, open_stored_codes
from opdiff.core import codes as elements
from opdiff.core.dtypes import Kind
from opdiff.core.dump import side_tensor
from opdiff.core.source import FileRange
from opdiff.read import read_operator
from opdiff.read.directory import real_name

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.pairing import Pairing
    from opdiff.core.tensor import Tensor


def is_injectable(pairing: Pairing) -> bool:
    """Return whether the target is stored uncompressed in a file."""
    return isinstance(pairing.target.data.source, FileRange)


def logical_values(pairing: Pairing) -> AnyArray:
    """Return the values of the target in the shape in which they are compared, as float64."""
    pair = open_pair(*pairing.operands)
    codes = pair.target.block(0, pair.target.count)
    return elements.decode(codes, pair.target.dtype).astype(np.float64).reshape(pair.golden.shape)


def inject(pairing: Pairing, values: AnyArray, folder: str) -> Pairing | None:
    """Return the pairing with a copy of the target's file in which the tensor has these values.

    Returns `None` if the values cannot be stored in place, as in tensors that are rearranged to be compared.

    Raises:
        DumpError, ElementError, LayoutError: the tensor cannot be read, or cannot hold the values.
    """
    target = pairing.target.data
    source = cast("FileRange", target.source)
    reader = open_pair(*pairing.operands).target
    codes = elements.encode(_clip_to_range(values, reader.dtype), reader.dtype).reshape(-1)
    stored = open_stored_codes(target)
    stored_codes = stored.codes.copy()
    all_elements = np.arange(reader.count)
    stored_codes[reader.offsets(all_elements)] = codes.byteswap() if stored.swapped else codes
    copy = os.path.join(folder, os.path.basename(source.path))
    shutil.copyfile(source.path, copy)
    with open(copy, "r+b") as file:
        file.seek(source.offset)
        file.write(elements.pack(stored_codes, reader.dtype))
    injected = replace(pairing, target=side_tensor(pairing.key, _read_copy(copy, target)))
    written = open_pair(*injected.operands).target.take(all_elements)
    return injected if np.array_equal(_bits(written), _bits(codes)) else None


def _read_copy(copy: str, tensor: Tensor) -> Tensor:
    """Return the tensor as described in the copy."""
    source = cast("FileRange", tensor.source)
    operator = read_operator(copy, real_name(source.path), sliced=False)
    moved = replace(source, path=copy)
    for found in (*operator.inputs, *operator.outputs):
        if found.source == moved and found.spec == tensor.spec:
            return found
    return replace(tensor, source=moved)


def _bits(codes: AnyArray) -> AnyArray:
    """Return the bytes of codes, so that NaN equals itself."""
    return np.ascontiguousarray(codes).view(np.uint8)


def _clip_to_range(values: AnyArray, dtype: DType) -> AnyArray:
    """Round and clip values to the range of an integer type, as on the device."""
    if dtype.kind is not Kind.INTEGER:
        return values
    info = np.iinfo(dtype.decoded)
    low = -(1 << (dtype.bits - 1)) if info.min else 0
    return np.clip(np.rint(values), low, low + (1 << dtype.bits) - 1)
