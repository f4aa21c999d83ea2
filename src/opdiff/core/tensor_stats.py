"""Statistics of one tensor, and their differences between two tensors."""

from __future__ import annotations

from math import inf, isfinite, isnan, nan

from msgspec import Struct

from opdiff.core.tensor import Shape

INFORMATION = ("mean", "l2norm", "specials", "crc32", "histogram")
"""Statistics besides minimum and maximum, by the names of the command line."""


class TensorStats(Struct, frozen=True, gc=False, array_like=True):
    """Statistics of one tensor; `None` if unknown. A NaN in the data makes the first four NaN.

    Attributes:
        minimum: minimum; integers stay exact.
        maximum: maximum.
        mean: mean.
        norm: L2 norm.
        nans: number of NaNs.
        infs: number of infinities.
        crc32: CRC-32 of the bytes, 8 hexadecimal digits; empty if unknown.
        dtype: element type; empty if unknown.
        shape: logical shape.
        histogram: number of finite elements in equal parts of the range; empty if not computed.
    """

    minimum: float | int | None = None
    maximum: float | int | None = None
    mean: float | None = None
    norm: float | None = None
    nans: int | None = None
    infs: int | None = None
    crc32: str = ""
    dtype: str = ""
    shape: Shape | None = None
    histogram: tuple[int, ...] = ()


class Difference(Struct, frozen=True):
    """Difference of a statistic: signed, and relative to the golden value; `None` if unknown."""

    absolute: float | int | None
    relative: float | None


STATISTICS = {"max": "maximum", "min": "minimum", "mean": "mean", "norm": "norm"}
"""Compared statistics, and their fields in `TensorStats`."""


def differences(target: TensorStats | None, golden: TensorStats | None) -> dict[str, Difference]:
    """Return the differences of the statistics of both sides."""
    if target is None or golden is None:
        return {name: Difference(None, None) for name in STATISTICS}
    return {name: _difference(getattr(target, key), getattr(golden, key)) for name, key in STATISTICS.items()}


def _difference(target: float | None, golden: float | None) -> Difference:
    if target is None or golden is None:
        return Difference(None, None)
    if target == golden or (isnan(target) and isnan(golden)):
        return Difference(0, 0.0)
    if isnan(target) or isnan(golden):
        return Difference(nan, nan)
    if not isfinite(target) or not isfinite(golden):
        infinity = inf if inf in (target, -golden) else -inf
        return Difference(infinity, infinity)
    difference = target - golden
    return Difference(difference, abs(difference / golden) if golden else inf)
