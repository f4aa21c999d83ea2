"""Statistics of one tensor, and how far those of two tensors are apart."""

from __future__ import annotations

from math import inf, isfinite, isnan, nan
from typing import NamedTuple

from opdiff.core.tensor import Shape

INFORMATION = ("mean", "l2norm", "specials", "crc32", "histogram")
"""What can be known of a tensor beside its smallest and its largest number, as users ask for it."""


class Figures(NamedTuple):
    """What is known about the numbers of one tensor; `None` is not known. NaN in the data makes the first four NaN.

    Attributes:
        minimum: the smallest number; integers stay exact.
        maximum: the largest number.
        mean: the mean.
        norm: the L2 norm.
        nans: how many elements are NaN.
        infs: how many elements are infinite.
        crc32: the CRC-32 of the bytes, 8 hexadecimal digits; empty when not known.
        dtype: the element type; empty when not known.
        shape: the logical shape.
        histogram: how many finite elements are in each of as many equal parts of the range; empty when not made.
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


class Difference(NamedTuple):
    """How far a statistic is off: signed, and relative to the golden's; `None` where a side does not know it."""

    absolute: float | int | None
    relative: float | None


STATISTICS = {"max": "maximum", "min": "minimum", "mean": "mean", "norm": "norm"}
"""The statistics that are compared, and their fields in `Figures`."""


def differences(target: Figures | None, golden: Figures | None) -> dict[str, Difference]:
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
        size = inf if inf in (target, -golden) else -inf
        return Difference(size, size)
    difference = target - golden
    return Difference(difference, abs(difference / golden) if golden else inf)
