"""Natural order of names: numbers inside names are ordered by value."""

from __future__ import annotations

import re

_WHOLE_NUMBER = re.compile(r"([0-9]+)")


def natural_key(name: str) -> list[int | str]:
    """Return a sort key by which step 9 comes before step 10."""
    # Strings and numbers alternate, so that only items of one type are compared.
    parts: list[int | str] = [*_WHOLE_NUMBER.split(name)]
    parts[1::2] = map(int, parts[1::2])
    return parts
