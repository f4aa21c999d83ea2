"""Pairs that are kept after they were measured, because elements of bad tensors are examined later."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.dump import Unit
    from opdiff.core.metrics import Metrics
    from opdiff.core.pairing import PairingResult

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
