"""Golden values of the tensors of an operator, by which a computation that is guessed from types can be checked."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from opdiff.core.graph import parse_input
from opdiff.core.pairing import Pairing
from opdiff.core.tensor import Slot, TensorKey, file_safe_name

if TYPE_CHECKING:
    from opdiff.align.custom import Conversions
    from opdiff.core.codes import AnyArray
    from opdiff.core.graph import RuleOp
    from opdiff.workflows.compare.kept_pairs import LazyPairs


class GoldenValues:
    """Lookup of the golden values that dumped tensors were compared with."""

    def __init__(self, pairs: LazyPairs) -> None:
        self._pairs = pairs

    @cached_property
    def _numbers(self) -> dict[TensorKey, int]:
        """Numbers of the pairs with data on both sides, by the target's tensor in the form of file names."""
        found: dict[TensorKey, int] = {}
        for number, pair in enumerate(self._pairs.pairs):
            if isinstance(pair, Pairing) and None not in (pair.target.tensor, pair.golden.tensor):
                found.setdefault(pair.key.in_file_form, number)
        return found

    @property
    def custom(self) -> Conversions | None:
        """Conversions of the user that the values need."""
        return self._pairs.custom

    def pairings_of(self, operator: RuleOp) -> tuple[Pairing, ...]:
        """Return the pairs of the tensors of an operator, and of the outputs that it reads."""
        parsed = [found for found in map(parse_input, operator.inputs) if found is not None]
        read = {TensorKey(file_safe_name(name), Slot.OUTPUT, index) for name, index in parsed}
        own = file_safe_name(operator.name)
        numbers = (number for key, number in self._numbers.items() if key.op == own or key in read)
        return tuple(pair for pair in map(self._pairs.pairing, numbers) if pair is not None)

    def find(self, key: TensorKey, dumped: AnyArray) -> AnyArray | None:
        """Return the golden values in the order of the dumped values; `None` if they were compared in another order.

        Images are computed with channels first, and may have been compared with channels last.
        """
        import numpy as np

        number = self._numbers.get(key.in_file_form)
        values = None if number is None else self._pairs.values(number)
        if values is None or values.target.size != dumped.size:
            return None
        sides = [(values.target, values.golden)]
        if values.layout == "NHWC":
            sides.append((values.target.transpose(0, 3, 1, 2), values.golden.transpose(0, 3, 1, 2)))
        for target, golden in sides:
            if np.array_equal(target.ravel(), dumped.ravel(), equal_nan=dumped.dtype.kind == "f"):
                return np.ascontiguousarray(golden).reshape(dumped.shape)  # ONNX Runtime ignores strides
        return None
