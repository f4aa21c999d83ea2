"""Check of `sample.storage`, the oracle of the layout tests, by the offset of one element in each layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core.errors import LayoutError
from opdiff.sample.storage import store

if TYPE_CHECKING:
    from opdiff.core.tensor import Shape


@dataclass(frozen=True, slots=True)
class Cell:
    """The stored index `cell` of the element `at` of an array."""

    layout: str
    shape: Shape
    at: Shape
    stored: Shape
    cell: Shape
    c0: int = 16
    groups: int = 1

    def __str__(self) -> str:
        return f"{self.layout}-{self.groups}"


CELLS = [
    Cell("NCHW", (2, 3, 4, 5), (1, 2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 4)),
    Cell("NHWC", (2, 3, 4, 5), (1, 2, 3, 4), (2, 4, 5, 3), (1, 3, 4, 2)),
    Cell("HWCN", (2, 3, 4, 5), (1, 2, 3, 4), (4, 5, 3, 2), (3, 4, 2, 1)),
    Cell("CHWN", (2, 3, 4, 5), (1, 2, 3, 4), (3, 4, 5, 2), (2, 3, 4, 1)),
    Cell("NDHWC", (2, 3, 6, 4, 5), (1, 2, 5, 3, 4), (2, 6, 4, 5, 3), (1, 5, 3, 4, 2)),
    Cell("DHWCN", (2, 3, 6, 4, 5), (1, 2, 5, 3, 4), (6, 4, 5, 3, 2), (5, 3, 4, 2, 1)),
    Cell("DHWNC", (2, 3, 6, 4, 5), (1, 2, 5, 3, 4), (6, 4, 5, 2, 3), (5, 3, 4, 1, 2)),
    Cell("CN", (2, 3), (1, 2), (3, 2), (2, 1)),
    Cell("NCL", (2, 3, 4), (1, 2, 3), (2, 3, 4), (1, 2, 3)),
    Cell("NHWC", (2, 3), (1, 2), (2, 3), (1, 2)),
    Cell("NC1HWC0", (2, 35, 4, 5), (1, 34, 3, 4), (2, 3, 4, 5, 16), (1, 2, 3, 4, 2)),
    Cell("NC1HWC0", (2, 35, 4, 5), (1, 34, 3, 4), (2, 2, 4, 5, 32), (1, 1, 3, 4, 2), c0=32),
    Cell("NC1HWC0_C04", (2, 7, 4, 5), (1, 6, 3, 4), (2, 2, 4, 5, 4), (1, 1, 3, 4, 2)),
    Cell("NDC1HWC0", (2, 20, 6, 4, 5), (1, 19, 5, 3, 4), (2, 6, 2, 4, 5, 16), (1, 5, 1, 3, 4, 3)),
    Cell("NHWC1C0", (2, 20, 4, 5), (1, 19, 3, 4), (2, 4, 5, 2, 16), (1, 3, 4, 1, 3)),
    Cell("C1HWNC0", (2, 20, 4, 5), (1, 19, 3, 4), (2, 4, 5, 2, 16), (1, 3, 4, 1, 3)),
    Cell("C1HWNCoC0", (2, 20, 4, 5), (1, 19, 3, 4), (2, 4, 5, 2, 16, 16), (1, 3, 4, 1, 3, 3)),
    Cell("FRACTAL_NZ", (3, 20, 40), (2, 19, 39), (3, 3, 2, 16, 16), (2, 2, 1, 3, 7)),
    Cell("FRACTAL_NZ", (3, 20, 40), (2, 19, 39), (3, 2, 2, 16, 32), (2, 1, 1, 3, 7), c0=32),
    Cell("FRACTAL_ZZ", (3, 20, 40), (2, 19, 39), (3, 2, 3, 16, 16), (2, 1, 2, 3, 7)),
    Cell("FRACTAL_Z", (18, 20, 4, 5), (17, 19, 3, 4), (40, 2, 16, 16), (39, 1, 1, 3)),
    # E = 4 groups of 4 x 8 in each block: group 5 is the second of block 1
    Cell("FRACTAL_Z", (40, 8, 1, 3), (23, 7, 0, 2), (18, 1, 16, 16), (8, 0, 7, 15), groups=10),
    Cell("FRACTAL_Z_C04", (18, 3, 4, 5), (17, 2, 3, 4), (5, 2, 16, 16), (4, 1, 1, 14)),
    Cell("FRACTAL_Z_3D", (18, 20, 2, 4, 5), (17, 19, 1, 3, 4), (80, 2, 16, 16), (79, 1, 1, 3)),
]


@pytest.mark.parametrize("case", CELLS, ids=str)
def test_offset_of_one_element_in_each_layout(case: Cell) -> None:
    array = np.zeros(case.shape, np.int16)
    array[case.at] = 1
    stored = store(array, case.layout, c0=case.c0, groups=case.groups)
    assert stored.shape == case.stored
    assert tuple(int(axis[0]) for axis in np.nonzero(stored)) == case.cell
    assert stored.sum() == 1


REFUSED: list[tuple[str, Shape, int, str]] = [
    ("BN_WEIGHT", (2, 2), 1, "layout BN_WEIGHT: its storage order is not known"),
    ("FRACTAL_Z", (7, 2, 1, 1), 2, r"cannot hold \[7, 2, 1, 1\]: N = 7 is not a multiple of 2 groups"),
    ("FRACTAL_Z_C04", (7, 5, 1, 1), 1, r"cannot hold \[7, 5, 1, 1\]: C = 5 is more than 4"),
    ("NC1HWC0", (7, 5, 1), 1, r"cannot hold \[7, 5, 1\]"),
]


@pytest.mark.parametrize(("layout", "shape", "groups", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_unsuitable_arrays_raise(layout: str, shape: Shape, groups: int, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        store(np.zeros(shape), layout, groups=groups)
