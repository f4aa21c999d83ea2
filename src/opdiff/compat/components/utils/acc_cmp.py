"""What the documented conversion script imports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Tensor

__all__ = ["parse_torchair_dump_data"]


def parse_torchair_dump_data(path: str | os.PathLike[str]) -> tuple[list[AnyArray], list[AnyArray]]:
    """The inputs and the outputs in a dump file of the graph engine: the numbers, without the padding of layouts.

    Of a reduced file, the smallest and the largest number of each.

    Raises:
        opdiff.core.errors.DumpError: the file is not such a dump.
    """
    from opdiff.read import read_operator
    from opdiff.read.directory import real_name

    path = os.fspath(path)
    name = real_name(path)
    operator = read_operator(path, name)
    if name.endswith(".npz") and not operator.inputs:
        arrays = {tensor.name: tensor.array() for tensor in operator.outputs}
        return list(arrays.get("inputs", ())), list(arrays.get("outputs", ()))
    return [_numbers(tensor) for tensor in operator.inputs], [_numbers(tensor) for tensor in operator.outputs]


def _numbers(tensor: Tensor) -> AnyArray:
    from contextlib import suppress

    from opdiff.align import convert
    from opdiff.core import codes as elements
    from opdiff.core.errors import LayoutError

    codes = tensor.codes()
    with suppress(LayoutError):
        codes = convert(codes, tensor.spec, "ND").codes
    return elements.decode(codes, tensor.spec.dtype)
