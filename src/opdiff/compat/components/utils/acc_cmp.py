"""Replacement of the vendor's module that the documented conversion script imports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Tensor

__all__ = ["parse_torchair_dump_data"]


def parse_torchair_dump_data(path: str | os.PathLike[str]) -> tuple[list[AnyArray], list[AnyArray]]:
    """Return the inputs and outputs of a GE dump file: decoded values, without the padding of layouts.

    For a reduced file, return minimum and maximum of each tensor.

    Raises:
        opdiff.core.errors.DumpError: the file cannot be read as a dump.
    """
    from opdiff.read import read_operator
    from opdiff.read.directory import real_name

    path = os.fspath(path)
    name = real_name(path)
    operator = read_operator(path, name)
    if name.endswith(".npz") and not operator.inputs:
        arrays = {tensor.name: tensor.array() for tensor in operator.outputs}
        return list(arrays.get("inputs", ())), list(arrays.get("outputs", ()))
    return [_values(tensor) for tensor in operator.inputs], [_values(tensor) for tensor in operator.outputs]


def _values(tensor: Tensor) -> AnyArray:
    from contextlib import suppress

    from opdiff.align import convert
    from opdiff.core import codes as elements
    from opdiff.core.errors import LayoutError

    codes = tensor.codes()
    with suppress(LayoutError):
        codes = convert(codes, tensor.spec, "ND").codes
    return elements.decode(codes, tensor.spec.dtype)
