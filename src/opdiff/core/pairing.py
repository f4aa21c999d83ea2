"""Pairs of tensors that should hold the same numbers, tensors without a partner, and pairs that the user declares.

    Dump, Dump, rules ──pair──► Pairing | Unpaired

Values are small, frozen and picklable. No tensor has been read yet; those of a `Pairing` can be.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.tensor import Declared, Slot, TensorKey

if TYPE_CHECKING:
    from opdiff.core.dump import SideTensor, Unit
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor

# A tensor as users write it.
_KEY = r"(.+?)(?::(input|output):([0-9]{1,9}))?"


class OpLabel(Struct, frozen=True, gc=False, array_like=True):
    """Operator of a row.

    Attributes:
        index: number of its group.
        sequence: its number in the rule file; 0 without one.
        op_type: its type.
        target: the target's operators, comma-separated; `*` if there is none.
        golden: the golden operators, comma-separated; `*` if there is none.
    """

    index: int
    sequence: int
    op_type: str
    target: str
    golden: str


class Pairing(Struct, frozen=True, gc=False):
    """Two tensors that should hold the same numbers, and the evidence for it.

    Attributes:
        label: operator of the row.
        target: the target's tensor.
        golden: the golden tensor.
        declared: layout and origin shape that the rule file declares.
        evidence: why these two belong together.
        confidence: 1.0 for pairs by rule file or equal names, less for inferred ones.
        unit: the token of graph mode; `None` offline.
        golden_type: type of the golden operator; empty if unknown.
        timestamp: dump time of the operator in graph mode.
        stack: source-code stack of the operator in graph mode.
        is_own_input: whether the golden side is an input of the same operator, which the compiler inserted; the error
            is then only what the operator added.
    """

    label: OpLabel
    target: SideTensor
    golden: SideTensor
    declared: Declared = Declared()
    evidence: Reason | None = None
    confidence: float = 1.0
    unit: Unit | None = None
    golden_type: str = ""
    timestamp: int = 0
    stack: str = ""
    is_own_input: bool = False

    @property
    def key(self) -> TensorKey:
        """The target's tensor."""
        return self.target.key

    @property
    def golden_key(self) -> TensorKey:
        """The golden tensor."""
        return self.golden.key

    @property
    def operands(self) -> tuple[Tensor, Tensor, Declared]:
        """The arguments of alignment.

        Raises:
            ValueError: a side has no data.
        """
        return self.target.data, self.golden.data, self.declared

    @property
    def nbytes(self) -> int:
        """Data on both sides."""
        return self.target.nbytes + self.golden.nbytes


class Unpaired(Struct, frozen=True, gc=False):
    """A tensor, or a whole operator (`key` is `None`), without a partner, and the reason.

    Attributes:
        label: operator of the row.
        key: the target's tensor; `None` for a whole operator.
        target: the target's tensor, if it was dumped.
        reason: why it cannot be compared.
        unit: the token of graph mode; `None` offline.
        path: file of the operator in graph mode.
        timestamp: dump time of the operator in graph mode.
        stack: source-code stack of the operator in graph mode.
        golden_only: whether this is a golden operator without a target operator; graph mode only.
        has_data: whether the operator was dumped with its data, not as statistics.
    """

    label: OpLabel
    key: TensorKey | None
    target: SideTensor | None
    reason: Reason
    unit: Unit | None = None
    path: str = ""
    timestamp: int = 0
    stack: str = ""
    golden_only: bool = False
    has_data: bool = True


PairingResult = Pairing | Unpaired


class ManualPair(Struct, frozen=True):
    """A pair that the user declares, and the layout of its golden array; empty if that is not declared."""

    target: TensorKey
    golden: TensorKey
    layout: str = ""


def parse_key(text: str) -> TensorKey:
    """Parse `operator:output:0`, `operator:input:1`, or `operator` for its output 0."""
    match = re.fullmatch(_KEY, text)
    if match is None:
        return TensorKey(text, Slot.OUTPUT, 0)
    name, slot, index = match.groups()
    return TensorKey(name, Slot(slot or "output"), int(index or 0))
