"""Golden values of the tensors of an operator, by which a computation that is guessed from types can be checked."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

from opdiff.core.graph import parse_input
from opdiff.core.tensor import Slot, TensorKey, file_safe_name
from opdiff.workflows.compare.loaded_pairs import LoadedPairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Row
    from opdiff.core.graph import RuleOp
    from opdiff.core.pairing import Pairing

# Operator by the form of its name in files, slot and index.
TensorForm = tuple[str, str, int]


class GoldenValues:
    """Lookup of the golden values that dumped tensors were compared with."""

    def __init__(self, rows: Sequence[Row], pairs: LoadedPairs) -> None:
        self._rows, self._pairs = rows, pairs

    @classmethod
    def of_pairings(cls, pairings: Iterable[Pairing], custom: Conversions | None) -> Self:
        """Return the golden values of some pairs, such as those of `pairings_of`."""
        known = tuple(pairings)
        found = cls((), LoadedPairs(known, custom))
        found._numbers = {_form(pairing.target.key): number for number, pairing in enumerate(known)}
        return found

    @cached_property
    def _numbers(self) -> dict[TensorForm, int]:
        """Numbers of the rows that were measured."""
        found: dict[TensorForm, int] = {}
        for number, row in enumerate(self._rows):
            if row.key is not None and row.metrics is not None:
                found.setdefault(_form(row.key), number)
        return found

    @property
    def custom(self) -> Conversions | None:
        """Conversions of the user that the values need."""
        return self._pairs.custom

    def pairings_of(self, operator: RuleOp) -> tuple[Pairing, ...]:
        """Return the pairs of the tensors of an operator, and of the outputs that it reads."""
        parsed = [found for found in map(parse_input, operator.inputs) if found is not None]
        read = {_form(TensorKey(name, Slot.OUTPUT, index)) for name, index in parsed}
        own = file_safe_name(operator.name)
        numbers = (number for form, number in self._numbers.items() if form[0] == own or form in read)
        return tuple(pair for pair in map(self._pairs.pairing, numbers) if pair is not None)

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


def _form(key: TensorKey) -> TensorForm:
    return file_safe_name(key.op), str(key.slot), key.index
