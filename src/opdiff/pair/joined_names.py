"""Names of fused operators: the names of their parts, joined."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBER_FOLLOWS = re.compile(r"_?[0-9]")
_MAX_NAME_LENGTH = 4096


def split_joined_name(name: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """Split a name into known names, the longest first part that can be continued to the end; empty if impossible.

    A name is never cut before a number: `Sub_7` is not `Sub`.
    """
    if len(name) > _MAX_NAME_LENGTH:
        return ()
    # For each position from which the end can be reached: the end of the first part.
    ends: dict[int, int] = {len(name): 0}
    for start in range(len(name) - 1, -1, -1):
        for end in range(len(name), start, -1):
            if end in ends and is_known(name[start:end]) and not _NUMBER_FOLLOWS.match(name, end):
                ends[start] = end
                break
    parts: list[str] = []
    position = 0
    while position < len(name) and position in ends:
        parts.append(name[position : ends[position]])
        position = ends[position]
    return tuple(parts)
