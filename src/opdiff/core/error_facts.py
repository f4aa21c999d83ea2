"""Facts about the errors of a tensor that need its elements, on which the evidence for a cause rests."""

from __future__ import annotations

from msgspec import Struct

from opdiff.core.explanation import Explanation
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
