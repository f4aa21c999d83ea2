"""Definition of the additional sums of graph mode with NumPy: a second pass."""

from __future__ import annotations

from itertools import starmap
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import astuple

from opdiff.core import codes as elements
from opdiff.core.dtypes import Kind
from opdiff.measure.sums import GRAPH_ZERO_THRESHOLD, ZERO_THRESHOLD, GraphSums

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.measure.sums import Sums

    Floats = npt.NDArray[np.float64]

_BLOCK = 1 << 16


def graph_sums(target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType, sums: Sums) -> GraphSums:
    """Return the additional sums of two arrays of codes; `sums` are those of the first pass."""
    maxima = float(sums.golden.maximum or 0), float(sums.target.maximum or 0)
    is_finite = sums.target.is_finite and sums.golden.is_finite
    found = GraphSums()
    with np.errstate(all="ignore"):
        for x, y in _blocks(target, target_dtype, golden, golden_dtype):
            weights = _weights(x - maxima[1], y - maxima[0]) if is_finite else (0.0, 0.0, 0.0)
            both = np.isfinite(x) & np.isfinite(y)
            found = _merged(found, GraphSums(*weights, *_errors(x[both], y[both])))  # type: ignore[arg-type]  # counts are the last three
    return found


def _errors(x: Floats, y: Floats) -> tuple[float, float, float, float, float, int, int, int]:
    size, error = np.abs(y), np.abs(x - y)
    counted = size > GRAPH_ZERO_THRESHOLD
    errors = error[counted]
    relative = errors / size[counted]
    near = (size <= ZERO_THRESHOLD) & (error > 0)
    zeros = int(np.count_nonzero(near & (size == 0)))
    near &= size > 0
    tiny = error[near] / size[near]
    return (
        float(errors.sum()),
        float(relative.sum()),
        float(errors.max(initial=0)),
        float(relative.max(initial=0)),
        float(tiny.max(initial=0)),
        int(np.count_nonzero(tiny >= 0.001)),
        int(np.count_nonzero(tiny >= 0.005)),
        zeros,
    )


def _weights(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Return the weights from which the divergence of two softmaxes is computed; maxima are already subtracted."""
    golden = np.exp(y)
    return float(golden.sum()), float(np.exp(x).sum()), float((golden * (y - x)).sum())


def _merged(first: GraphSums, second: GraphSums) -> GraphSums:
    both = [*zip(astuple(first), astuple(second), strict=True)]
    return GraphSums(*starmap(add, both[:5]), *starmap(max, both[5:8]), *starmap(add, both[8:]))


def _blocks(
    target: AnyArray, target_dtype: DType, golden: AnyArray, golden_dtype: DType
) -> Iterator[tuple[Floats, Floats]]:
    x, y = (elements.contiguous(codes).reshape(-1) for codes in (target, golden))
    for start in range(0, x.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        yield _floats(x[block], target_dtype), _floats(y[block], golden_dtype)


def _floats(codes: AnyArray, dtype: DType) -> Floats:
    numbers = elements.decode(codes, dtype)
    if dtype.kind is Kind.COMPLEX:
        numbers = np.ascontiguousarray(numbers).view(numbers.real.dtype)
    return numbers.astype(np.float64)
