"""Candidates for explanations that need other tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from opdiff.core.tensor import Tensor, TensorKey


class Candidate(Struct, frozen=True):
    """Another golden tensor that the target may hold by mistake.

    Attributes:
        key: the golden tensor.
        tensor: its data, described.
        sibling: the input of the same operator that it belongs to, if the target is an input of that operator too.
    """

    key: TensorKey
    tensor: Tensor
    sibling: TensorKey | None = None
