"""Facts about the errors of a tensor that need its elements, on which the evidence for a cause rests."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import Reason


class ErrorPattern(Struct, frozen=True):
    """A wrong computation that may explain the error of a tensor.

    Attributes:
        kind: kind of error.
        reason: the pattern as a sentence.
        rest: relative error that it leaves.
    """

    kind: ErrorKind
    reason: Reason
    rest: float


class ExplanationKind(StrEnum):
    """Kinds of explanation; see docs/explanations.md."""

    AXIS_ORDER = "axis order"
    LAYOUT = "layout"
    CHANNEL_ORDER = "channel order"
    REVERSED_AXIS = "reversed axis"
    BYTE_ORDER = "byte order"
    INPUT_ORDER = "input order"
    OTHER_TENSOR = "other tensor"
    UNKNOWN_ORDER = "unknown order"


class Explanation(Struct, frozen=True):
    """An explanation for right values in the wrong order, and the evidence for it.

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


class ErrorFacts(Struct, frozen=True):
    """Facts about the errors of a bad tensor, from its elements; errors are relative to the golden norm.

    Attributes:
        row: number of the tensor's row.
        count: number of elements that are finite on both sides.
        carriers: number of elements with 99 % of the squared error.
        rest: relative error of all others.
        sorted_error: relative error after both sides were sorted.
        axis: axis of the slice with the largest part of the squared error; -1 if no axis has three indices.
        extent: extent of the axis.
        index: index of the slice.
        slice_share: its share of the squared error.
        golden_share: its share of the squared golden norm.
        patterns: wrong computations that leave less than half of the error, the simplest first.
        is_sample: whether only a sample was examined, so that single elements, their order and patterns are unknown:
            `count` and `carriers` are those of the sample, `rest` and `sorted_error` are 0.
        explanations: storage orders that explain the error, best first.
    """

    row: int
    count: int
    carriers: int
    rest: float
    sorted_error: float
    axis: int = -1
    extent: int = 0
    index: int = 0
    slice_share: float = 0.0
    golden_share: float = 0.0
    patterns: tuple[ErrorPattern, ...] = ()
    is_sample: bool = False
    explanations: tuple[Explanation, ...] = ()


class Profile(Struct, frozen=True):
    """Errors of a bad tensor along one of its axes, one number per slice.

    Attributes:
        row: number of the tensor's row.
        axis: number of the axis.
        label: label of the axis in the layout, as `C`; empty if unknown.
        extent: extent of the axis.
        width: number of indices per slice; the last slice may have fewer.
        sampled_share: share of the elements that was examined.
        errors: root mean square of the finite errors of each slice.
        largest: maximum of the finite errors of each slice.
        not_finite: number of errors of each slice that are not finite.
    """

    row: int
    axis: int
    label: str
    extent: int
    width: int
    sampled_share: float
    errors: tuple[float, ...]
    largest: tuple[float, ...]
    not_finite: tuple[int, ...]
