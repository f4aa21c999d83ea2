"""Inputs of the original model from a dump of the NPU: the output of the AIPP operator, or of the input itself.

AIPP turns 8-bit images into the tensor that the original model takes. Where the compiler fused AIPP into a
convolution, there is no such file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdiff.align import convert
from opdiff.core import codes as elements
from opdiff.core.errors import ElementError, InputError, LayoutError
from opdiff.core.reasons import because
from opdiff.core.tensor import file_safe_name
from opdiff.read.dump import read_dump

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dump import Dump
    from opdiff.core.tensor import Tensor
    from opdiff.workflows.golden.onnx_model import InputSpec


def find_dumped_inputs(path: str, specs: Sequence[InputSpec]) -> dict[str, tuple[AnyArray, str]]:
    """Return data and origin of inputs by name.

    Raises:
        InputError: the dump cannot be read, or has no data for an input.
    """
    dump = read_dump(path)
    return {spec.name: _load(_find_tensor(dump, spec, alone=len(specs) == 1), spec) for spec in specs}


def _find_tensor(dump: Dump, spec: InputSpec, *, alone: bool) -> Tensor:
    own = dump.operators.get(file_safe_name(spec.name))
    if own is not None and 0 in own.outputs:
        return own.outputs[0]
    prepared = [op.outputs[0] for op in dump.operators.values() if op.op_type == "Aipp" and 0 in op.outputs]
    if len(prepared) == 1 and alone:
        return prepared[0]
    problem = because("golden.no_aipp_output", name=spec.name)
    raise InputError(dump.path, problem)


def _load(tensor: Tensor, spec: InputSpec) -> tuple[AnyArray, str]:
    """Return the tensor in the layout and type of the original input: the first channels, as float32."""
    path = tensor.source.path
    dtype = spec.dtype
    if dtype is None:
        raise InputError(path, because("golden.input_not_numbers", name=spec.name))
    try:
        codes = tensor.codes()
        if tensor.spec.layout not in ("ND", "NCHW"):
            codes = convert(codes, tensor.spec, "NCHW").codes
        values = elements.decode(codes, tensor.spec.dtype)
    except (LayoutError, ElementError) as error:
        raise InputError(path, error.reason) from error
    channels = spec.shape[1] if spec.shape is not None and len(spec.shape) == 4 else None
    if isinstance(channels, int) and values.ndim == 4 and channels < values.shape[1]:
        values = values[:, :channels]
    return np.ascontiguousarray(values, dtype.storage), path
