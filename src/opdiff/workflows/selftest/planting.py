"""A fault in a copy of a dump file: only the bytes of one tensor change; header and neighbours stay as they were."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, cast

import numpy as np

from opdiff.align.walk import open_stored, walk_pair
from opdiff.core import codes as elements
from opdiff.core.dtypes import Kind
from opdiff.core.dump import with_data
from opdiff.core.source import FileRange
from opdiff.read import read_operator
from opdiff.read.directory import real_name

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Pairing
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Tensor


def can_be_planted(pairing: Pairing) -> bool:
    """Whether the target's bytes are in a file, as they are."""
    return isinstance(pairing.target.data.source, FileRange)


def logical_numbers(pairing: Pairing) -> AnyArray:
    """The target's numbers in the shape in which they are compared, as float64."""
    pair = walk_pair(pairing)
    codes = pair.target.block(0, pair.target.count)
    return elements.decode(codes, pair.target.dtype).astype(np.float64).reshape(pair.golden.shape)


def plant(pairing: Pairing, numbers: AnyArray, folder: str) -> Pairing | None:
    """The pairing with a copy of its target's file, in which the tensor holds these numbers.

    `None` when the numbers cannot be put where the elements are, as in tensors that are moved to be compared.

    Raises:
        DumpError, ElementError, LayoutError: the tensor cannot be read, or cannot hold the numbers.
    """
    target = pairing.target.data
    source = cast("FileRange", target.source)
    walk = walk_pair(pairing).target
    codes = elements.encode(_within(numbers, walk.dtype), walk.dtype).reshape(-1)
    stored = open_stored(target)
    whole = stored.codes.copy()
    every = np.arange(walk.count)
    whole[walk.offsets(every)] = codes.byteswap() if stored.swapped else codes
    copy = os.path.join(folder, os.path.basename(source.path))
    shutil.copyfile(source.path, copy)
    with open(copy, "r+b") as file:
        file.seek(source.offset)
        file.write(elements.pack(whole, walk.dtype))
    planted = pairing._replace(target=with_data(pairing.key, _read_again(copy, target)))
    return planted if np.array_equal(_bits(walk_pair(planted).target.take(every)), _bits(codes)) else None


def _read_again(copy: str, tensor: Tensor) -> Tensor:
    """The tensor as the copy describes it."""
    source = cast("FileRange", tensor.source)
    operator = read_operator(copy, real_name(source.path), sliced=False)
    moved = source._replace(path=copy)
    for found in (*operator.inputs, *operator.outputs):
        if found.source == moved and found.spec == tensor.spec:
            return found
    return tensor._replace(source=moved)


def _bits(codes: AnyArray) -> AnyArray:
    """Codes to be compared as they are: a NaN equals itself."""
    return np.ascontiguousarray(codes).view(np.uint8)


def _within(numbers: AnyArray, dtype: DType) -> AnyArray:
    """The numbers, cut to the range of an integer type, as a device does."""
    if dtype.kind is not Kind.INTEGER:
        return numbers
    info = np.iinfo(dtype.decoded)
    low = -(1 << (dtype.bits - 1)) if info.min else 0
    return np.clip(np.rint(numbers), low, low + (1 << dtype.bits) - 1)
