"""Variants of inputs: rounded to fewer digits before the computation, or with reversed channels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.workflows.replay.variants.variant import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.workflows.replay.variants.variant import Computation

_IMAGE_CHANNELS = (3, 4)
_IMAGE_RANK = 4
_LARGEST_INT8 = 127
# From the finest to the coarsest type.
_COARSER_TYPES = (dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.FLOAT8_E4M3FN, dtypes.FLOAT8_E5M2)


def rounded_inputs(computation: Computation, device: DType) -> Iterator[Variant]:
    """Yield variants whose inputs are first rounded to a coarser type than the type of the device."""
    start = _COARSER_TYPES.index(device) + 1 if device in _COARSER_TYPES else 0
    for dtype in _COARSER_TYPES[start:]:
        reason = because("replay.cause_input_rounded", dtype=dtype.name)
        yield Variant(ErrorKind.PRECISION, reason, computation.subgraph, partial(_rounded, dtype))
    reason = because("replay.cause_input_rounded", dtype="int8")
    yield Variant(ErrorKind.QUANTIZATION, reason, computation.subgraph, _quantized)


def _rounded(dtype: DType, _name: str, array: AnyArray) -> AnyArray:
    if array.dtype.kind != "f":
        return array
    return elements.decode(elements.encode(array, dtype), dtype).astype(array.dtype)


def _quantized(_name: str, array: AnyArray) -> AnyArray:
    """Round to the 8-bit integers of a symmetric scale."""
    largest = float(np.abs(array).max(initial=0.0)) if array.dtype.kind == "f" else 0.0
    if not largest or not np.isfinite(largest):
        return array
    scale = largest / _LARGEST_INT8
    return (np.rint(array / scale) * scale).astype(array.dtype)


def reversed_channels(computation: Computation) -> Iterator[Variant]:
    """Yield variants with images whose channels are in reverse order, as BGR in place of RGB."""
    for name in computation.subgraph.inputs:
        shape = computation.shape_of(name)
        if shape is not None and len(shape) == _IMAGE_RANK and shape[1] in _IMAGE_CHANNELS:
            reason = because("replay.cause_channels_reversed", tensor=name)
            yield Variant(ErrorKind.INPUT, reason, computation.subgraph, partial(_reversed, name))


def _reversed(wanted: str, name: str, array: AnyArray) -> AnyArray:
    return np.ascontiguousarray(array[:, ::-1]) if name == wanted else array
