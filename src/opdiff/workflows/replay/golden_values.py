"""Golden values of the tensors of an operator, by which a computation that is guessed from types can be checked."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from opdiff.core.tensor import file_safe_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Row
    from opdiff.core.tensor import TensorKey
    from opdiff.workflows.compare.loaded_pairs import LoadedPairs


class GoldenValues:
    """Lookup of the golden values that dumped tensors were compared with."""

    def __init__(self, rows: Sequence[Row], pairs: LoadedPairs) -> None:
        self._rows, self._pairs = rows, pairs

    @cached_property
    def _numbers(self) -> dict[tuple[str, str, int], int]:
        """Numbers of the rows that were measured."""
        found: dict[tuple[str, str, int], int] = {}
        for number, row in enumerate(self._rows):
            if row.key is not None and row.metrics is not None:
                found.setdefault(_form(row.key), number)
        return found

    def find(self, key: TensorKey, dumped: AnyArray) -> AnyArray | None:
        """Return the golden values in the order of the dumped ones; `None` if these were compared in another order."""
        import numpy as np

        number = self._numbers.get(_form(key))
        values = None if number is None else self._pairs.values(number)
        if values is None or values.target.size != dumped.size:
            return None
        if not np.array_equal(values.target.ravel(), dumped.ravel(), equal_nan=dumped.dtype.kind == "f"):
            return None
        return values.golden.reshape(dumped.shape)


def _form(key: TensorKey) -> tuple[str, str, int]:
    return file_safe_name(key.op), str(key.slot), key.index
