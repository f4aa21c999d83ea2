"""Tensors that several ranks hold together, as users declare it."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from opdiff.core.tensor import TensorKey


class Join(StrEnum):
    """How the tensors of the ranks make the whole one."""

    CONCAT = "concat"
    ADD = "add"
    COPY = "copy"


class ShardRule(Struct, frozen=True, forbid_unknown_fields=True):
    """How some tensors are divided among ranks.

    Attributes:
        tensor: `operator:output:0`, or an operator alone; `*` stands for any characters.
        join: concatenation, sum, or equal copies.
        axis: axis of the golden tensor that is divided; negative ones count from the end.
        blocks: number of blocks along the axis that are divided each, such as 3 for query, key and value.
    """

    tensor: str
    join: Join
    axis: int = 0
    blocks: int = 1


class ShardRules(Struct, frozen=True, forbid_unknown_fields=True):
    """Division of tensors among ranks.

    Attributes:
        ranks: the ranks that share tensors, in the order of their parts; empty for all.
        shard: rules; the first one that fits a tensor counts. Others are found by shapes.
    """

    ranks: tuple[int, ...] = ()
    shard: tuple[ShardRule, ...] = ()

    def find(self, key: TensorKey) -> ShardRule | None:
        """Return the rule of a tensor."""
        return next((rule for rule in self.shard if _fits(rule.tensor, key)), None)


def _fits(pattern: str, key: TensorKey) -> bool:
    return fnmatchcase(str(key), pattern) or fnmatchcase(key.op, pattern)
