"""Arrays written to files. Bytes that need no conversion are copied by `byte_copy` instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.atomic_file import open_atomic
from opdiff.core.errors import ElementError, UsageError
from opdiff.core.reasons import because
from opdiff.workflows.convert.byte_copy import npy_header
from opdiff.workflows.convert.result_names import Form

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO, Any

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType


def write_tensor(path: str, form: Form, codes: AnyArray, dtype: DType) -> None:
    """Write a tensor to a file of the given form."""
    writers = {Form.NPY: write_npy, Form.MSNPY: write_npy, Form.BIN: write_raw, Form.PT: write_pt}
    writers[form](path, codes, dtype)


def write_npy(path: str, codes: AnyArray, dtype: DType) -> None:
    """Write decoded values to a NumPy file."""
    with open_atomic(path) as file:
        _put_npy(file, elements.decode(codes, dtype))


def write_npz(path: str, tensors: Iterable[tuple[str, AnyArray, DType]]) -> None:
    """Write an uncompressed NumPy archive; tensors are decoded one at a time."""
    import zipfile

    with open_atomic(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, codes, dtype in tensors:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _put_npy(member, elements.decode(codes, dtype))


def write_raw(path: str, codes: AnyArray, dtype: DType) -> None:
    """Write elements in their own encoding; types under 8 bits are decoded to one number per element."""
    array = elements.decode(codes, dtype) if dtype.bits < 8 else codes
    with open_atomic(path) as file:
        _put(file, array)


def write_pt(path: str, codes: AnyArray, dtype: DType) -> None:
    """Write a PyTorch file; bfloat16 stays bfloat16."""
    try:
        import torch
    except ImportError as error:
        raise UsageError(because("workflows.pt_needs_pytorch")) from error
    if dtype is dtypes.BFLOAT16:
        tensor = torch.from_numpy(np.array(codes, "<i2")).view(torch.bfloat16)
    else:
        tensor = _torch_tensor(torch, elements.decode(codes, dtype))
    with open_atomic(path) as file:
        torch.save(tensor, file)


def _put_npy(file: IO[bytes], array: AnyArray) -> None:
    file.write(npy_header(array.dtype.str, array.shape))
    _put(file, array)


def _put(file: IO[bytes], array: AnyArray) -> None:
    if array.size:
        file.write(elements.contiguous(array).reshape(-1).view(np.uint8).data)


def _torch_tensor(torch: Any, array: AnyArray) -> Any:  # noqa: ANN401  PyTorch is optional and untyped here
    try:
        return torch.from_numpy(np.array(array))
    except TypeError as error:
        raise ElementError(str(array.dtype), because("workflows.not_in_pytorch")) from error
