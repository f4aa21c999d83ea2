"""Explanations of a difference in which the target has the right values in the wrong order (docs/explanations.md)."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from opdiff.core.reasons import Reason


class ExplanationKind(StrEnum):
    """Kinds of explanation."""

    AXIS_ORDER = "axis order"
    LAYOUT = "layout"
    CHANNEL_ORDER = "channel order"
    REVERSED_AXIS = "reversed axis"
    BYTE_ORDER = "byte order"
    INPUT_ORDER = "input order"
    OTHER_TENSOR = "other tensor"
    UNKNOWN_ORDER = "unknown order"


class Explanation(Struct, frozen=True):
    """An explanation that fits, and the evidence for it.

    Attributes:
        kind: kind of explanation.
        reason: the explanation as a sentence.
        before: relative Euclidean distance between target and golden.
        after: the distance that remains under this explanation.
        examined: number of elements that both distances are measured on.
        total: number of elements of the tensor.
    """

    kind: ExplanationKind
    reason: Reason
    before: float
    after: float
    examined: int
    total: int

    @property
    def is_sampled(self) -> bool:
        """Whether only a part of the elements was examined."""
        return self.examined < self.total
