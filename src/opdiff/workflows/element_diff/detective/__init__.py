"""Right numbers in the wrong place: what was done to a tensor that does not equal its golden one.

    Pairing, other golden tensors ──investigate──► Explanation, …, the best first

Each hypothesis says where an element should be looked for instead. It is tried on a few elements, then on all of them
or, in large tensors, on a sample that keeps their positions, and it fits when little of the distance is left. Nothing
is moved or copied as a whole, so that work and memory are bounded. See docs/detective.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.align.custom import Custom
    from opdiff.core.comparison import Pairing
    from opdiff.core.tensor import Tensor


class What(StrEnum):
    """The kinds of explanation."""

    AXES = "axis order"
    LAYOUT = "layout"
    CHANNELS = "channel order"
    REVERSED = "reversed axis"
    BYTES = "byte order"
    INPUTS = "input order"
    OTHER = "other tensor"
    ORDER = "unknown order"


class Suspect(NamedTuple):
    """Another golden tensor, which the target may hold by mistake; `same_operator`: of the other inputs."""

    name: str
    tensor: Tensor
    same_operator: bool = False


class Explanation(NamedTuple):
    """What fits, and the evidence.

    Attributes:
        kind: what was done.
        text: the same in words.
        before: the relative Euclidean distance from the golden tensor as it is.
        after: what is left of it under this explanation.
        looked_at: how many elements both are about.
        count: how many there are.
    """

    kind: What
    text: str
    before: float
    after: float
    looked_at: int
    count: int  # type: ignore[assignment]  # hides tuple.count

    @property
    def is_sampled(self) -> bool:
        """Whether not all elements were looked at."""
        return self.looked_at < self.count


def investigate(
    pairing: Pairing, suspects: Iterable[Suspect] = (), custom: Custom | None = None
) -> tuple[Explanation, ...]:
    """What explains the difference between two tensors, the best first; nothing when there is little to explain.

    Args:
        pairing: both tensors, described.
        suspects: other golden tensors; those with another number of elements are passed over.
        custom: the user's own layout conversions.

    Raises:
        DumpError, ElementError: a tensor of the pairing cannot be read.
        LayoutError: they cannot be brought to one shape.
    """
    from opdiff.workflows.element_diff.detective.trial import Trial

    return Trial.of(pairing, custom).explanations(suspects)
