"""Coordinates of elements."""

from __future__ import annotations

import pytest

from opdiff.core.tensor import coordinates


@pytest.mark.parametrize(
    ("index", "shape", "position"),
    [
        (0, (2, 3), (0, 0)), (5, (2, 3), (1, 2)), (0, (), ()), (23, (2, 3, 4), (1, 2, 3)), (9, (2, 3), (9,)),
        (0, (0, 4), (0,)),
    ],
)  # fmt: skip
def test_coordinates(index: int, shape: tuple[int, ...], position: tuple[int, ...]) -> None:
    assert coordinates(index, shape) == position
