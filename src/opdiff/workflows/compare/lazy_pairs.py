"""Values of bad tensors, loaded when they are first needed and shared by all later examinations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import OpdiffError
from opdiff.core.pairing import Pairing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.codes import AnyArray
    from opdiff.core.pairing import PairingResult

MAX_LOADED_BYTES = 64 << 20
"""Bytes of a pair that may be loaded completely."""


class PairValues(Struct, frozen=True):
    """Values of both sides in one shape, and their layout, as `NCHW`; empty if the layout is unknown."""

    target: AnyArray
    golden: AnyArray
    layout: str


class LazyPairs:
    """Pairs of the rows, `None` where a pair was not kept. The values of a pair are loaded when first needed."""

    def __init__(self, pairs: Sequence[PairingResult | None], custom: Conversions | None = None) -> None:
        self.pairs = pairs
        self.custom = custom
        self._values: dict[int, PairValues | None] = {}

    def pairing(self, row_index: int) -> Pairing | None:
        """Return the pairing of a row, if the pairing was kept."""
        pair = self.pairs[row_index]
        return pair if isinstance(pair, Pairing) else None

    def values(self, row_index: int) -> PairValues | None:
        """Return the values of the pairing of a row, which stay in memory; `None` if they cannot be read."""
        if row_index not in self._values:
            pairing = self.pairing(row_index)
            self._values[row_index] = None if pairing is None else load_values(pairing, self.custom)
        return self._values[row_index]

    def has_values(self, row_index: int) -> bool:
        """Return whether the values of a row are in memory."""
        return self._values.get(row_index) is not None


def load_values(pairing: Pairing, custom: Conversions | None) -> PairValues | None:
    """Return the values of both sides; `None` if they cannot be read."""
    from opdiff.align.element_reader import open_pair
    from opdiff.core import codes

    try:
        pair = open_pair(*pairing.operands, custom)
        target, golden = (codes.decode(side.block(0, side.count), side.dtype) for side in (pair.target, pair.golden))
    except (OpdiffError, MemoryError):
        return None
    return PairValues(target.reshape(pair.shape), golden.reshape(pair.shape), pair.layout)
