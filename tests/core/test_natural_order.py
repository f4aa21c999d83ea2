"""Natural order of names."""

from __future__ import annotations

from opdiff.core.natural_order import natural_key


def test_numbers_are_ordered_by_value() -> None:
    assert sorted(["a10", "a9", "a", "10", "9", "b1a2"], key=natural_key) == ["9", "10", "a", "a9", "a10", "b1a2"]
