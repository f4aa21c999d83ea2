"""Small functions on values: names, keys, coordinates, limits."""

from __future__ import annotations

from math import inf

import pytest

from opdiff.core.filesystem import natural_key
from opdiff.core.pairing import parse_key
from opdiff.core.replay import ReplayedOutput
from opdiff.core.tensor import Slot, TensorKey, coordinates


def test_numbers_in_names_are_ordered_by_value() -> None:
    assert sorted(["a10", "a9", "a", "10", "9", "b1a2"], key=natural_key) == ["9", "10", "a", "a9", "a10", "b1a2"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a:output:3", TensorKey("a", Slot.OUTPUT, 3)),
        ("a/b:0:input:1", TensorKey("a/b:0", Slot.INPUT, 1)),
        ("a", TensorKey("a", Slot.OUTPUT, 0)),
        ("a:outputs:3", TensorKey("a:outputs:3", Slot.OUTPUT, 0)),
        ("a\nb", TensorKey("a\nb", Slot.OUTPUT, 0)),
    ],
)
def test_parse_key(text: str, key: TensorKey) -> None:
    assert parse_key(text) == key


@pytest.mark.parametrize(
    ("index", "shape", "position"),
    [
        (0, (2, 3), (0, 0)), (5, (2, 3), (1, 2)), (0, (), ()), (23, (2, 3, 4), (1, 2, 3)), (9, (2, 3), (9,)),
        (0, (0, 4), (0,)),
    ],
)  # fmt: skip
def test_coordinates(index: int, shape: tuple[int, ...], position: tuple[int, ...]) -> None:
    assert coordinates(index, shape) == position


@pytest.mark.parametrize(
    ("error", "limit", "excess"),
    [(0.0, 0.0, 0.0), (0.0, 1e-3, 0.0), (2e-3, 1e-3, 2.0), (1e-9, 0.0, inf)],
    ids=["nothing allowed and nothing found", "equal", "twice the limit", "nothing allowed"],
)
def test_excess_is_the_error_in_units_of_its_limit(error: float, limit: float, excess: float) -> None:
    assert ReplayedOutput("op:output:0", "op:0", error, limit).excess == excess
