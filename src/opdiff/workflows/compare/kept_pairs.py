"""Pairs that are kept after they were measured, because elements of bad tensors are examined later.

The values of a pair are loaded when they are first needed, and shared by all later examinations.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import OpdiffError
from opdiff.core.pairing import Pairing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Row
    from opdiff.core.dump import Unit
    from opdiff.core.metrics import Metrics
    from opdiff.core.pairing import PairingResult

MAX_LOADED_BYTES = 64 << 20
"""Bytes of a pair that may be loaded completely."""

# Operators of a unit of graph mode whose pairs are kept, and the relative error that one of their tensors has.
_MAX_KEPT_OPERATORS = 2_000
# Pairs of all units that are kept; one takes about 2 KB.
_MAX_KEPT_PAIRS = 50_000
_MIN_ERROR = 1e-3


def kept_pairs(rows: Sequence[Row], pairs: Sequence[PairingResult]) -> list[PairingResult | None]:
    """Return the pairs: all offline, in graph mode the pairs of operators with an error that may become a finding.

    The others are `None`: descriptions of all tensors of a long run would take more memory than its rows.
    """
    bad: dict[Unit | None, dict[str, None]] = defaultdict(dict)
    for row in rows:
        if row.key is not None and _may_be_bad(row.metrics):
            bad[row.unit][row.key.op] = None
    kept = {(unit, name) for unit, names in bad.items() for name in islice(names, _MAX_KEPT_OPERATORS)}

    def is_kept(row: Row) -> bool:
        is_found = row.metrics is not None and row.key is not None and (row.unit, row.key.op) in kept
        return row.unit is None or is_found

    return [pair if is_kept(row) else None for row, pair in zip(rows, pairs, strict=True)]


class KeptPairsLimit:
    """Limit of the number of pairs of graph mode that are kept."""

    def __init__(self) -> None:
        self._count = 0

    def drop_excess(self, pairs: Iterable[PairingResult | None]) -> Iterator[PairingResult | None]:
        """Yield the pairs, and `None` instead of each pair beyond the limit."""
        for pair in pairs:
            self._count += pair is not None and pair.unit is not None
            yield pair if self._count <= _MAX_KEPT_PAIRS else None


def _may_be_bad(metrics: Metrics | None) -> bool:
    if metrics is None:
        return False
    error = metrics.relative_euclidean_distance
    return bool(metrics.special_mismatches) or error is None or not error <= _MIN_ERROR


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
