"""Where a float tensor left the range of its type: NaN, infinities, and the largest number that the type has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opdiff.core import codes as elements
from opdiff.core.dtypes import largest_finite

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType


class Extremes(NamedTuple):
    """How many elements are beyond or at the end of the range, and the first of them in the order of storage."""

    count: int = 0  # type: ignore[assignment]  # hides tuple.count
    nans: int = 0
    infs: int = 0
    saturated: int = 0
    first: int | None = None

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self.first is not None

    def merge(self, other: Extremes) -> Extremes:
        """Both parts of a tensor, `other` behind this one."""
        first = self.first
        if first is None and other.first is not None:
            first = self.count + other.first
        return Extremes(
            self.count + other.count,
            self.nans + other.nans,
            self.infs + other.infs,
            self.saturated + other.saturated,
            first,
        )


def find_extremes(codes: AnyArray, dtype: DType) -> Extremes:
    """What a block of flat codes has of them; types that are no floats have none."""
    limit = largest_finite(dtype)
    if limit is None:
        return Extremes(int(codes.size))
    numbers = elements.decode(codes, dtype)
    with np.errstate(invalid="ignore"):
        sizes = np.abs(numbers)
        bad = ~(sizes < limit)
    if not bad.any():
        return Extremes(int(codes.size))
    infs, nans = int(np.count_nonzero(np.isinf(sizes))), int(np.count_nonzero(np.isnan(sizes)))
    saturated = int(np.count_nonzero(bad)) - infs - nans
    return Extremes(int(codes.size), nans, infs, saturated, int(bad.argmax()))
