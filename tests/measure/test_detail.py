"""Worst elements and slices against plain formulas, in one block and in many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.core import dtypes
from opdiff.measure.detail import Detail, Examination, compare_block

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray

SPECIAL_VALUES = [0.0, -0.0, 1.0, -2.5, 1e-30, 3e38, np.inf, -np.inf, np.nan]


def examine(target: AnyArray, golden: AnyArray, size: int, top_n: int = 5) -> Detail:
    examination = Examination(target.shape, top_n)
    flat = target.reshape(-1), golden.reshape(-1)
    for start in range(0, target.size, size):
        part = [side[start : start + size] for side in flat]
        examination.add(compare_block(start, part[0], dtypes.FLOAT32, part[1], dtypes.FLOAT32))
    return examination.detail()


def errors_of(target: AnyArray, golden: AnyArray) -> tuple[AnyArray, AnyArray]:
    x, y = target.astype(np.float64), golden.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        absolute = np.where(same, 0, np.abs(x - y))
        relative = np.where(same, 0, np.where(np.isinf(absolute), np.inf, absolute / np.abs(y)))
    return absolute, relative


def ranked(errors: AnyArray, top_n: int) -> list[int]:
    """Return the indices of the worst errors: NaN, infinite, then by magnitude; ties by index."""
    classes = [0 if np.isnan(error) else 1 if np.isinf(error) else 2 for error in errors.reshape(-1)]
    magnitudes = [0.0 if kind < 2 else -float(error) for kind, error in zip(classes, errors.reshape(-1), strict=True)]
    order = sorted(range(errors.size), key=lambda index: (classes[index], magnitudes[index], index))
    return [index for index in order if errors.reshape(-1)[index] != 0][:top_n]


@given(
    values=st.lists(
        st.tuples(*[st.sampled_from(SPECIAL_VALUES) | st.floats(-9, 9, width=32)] * 2), min_size=12, max_size=12
    ),
    size=st.sampled_from([1, 5, 12]),
)
def test_worst_elements(values: list[tuple[float, float]], size: int) -> None:
    target, golden = (np.array(side, np.float32).reshape(3, 4) for side in zip(*values, strict=True))
    found = examine(target, golden, size)
    absolute, relative = errors_of(target, golden)
    assert [item.index for item in found.worst_absolute] == ranked(absolute, 5)
    assert [item.index for item in found.worst_relative] == ranked(relative, 5)
    assert all(item.at == np.unravel_index(item.index, (3, 4)) for item in found.worst_absolute)
    assert found.unequal == np.count_nonzero(absolute)
    assert found.not_finite == np.count_nonzero(~np.isfinite(absolute))


@given(seed=st.integers(0, 99), size=st.sampled_from([1, 7, 60]))
def test_shares_of_slices(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    golden = random.normal(size=(3, 4, 5)).astype(np.float32)
    target = golden + random.normal(size=golden.shape).astype(np.float32)
    squares = np.square(errors_of(target, golden)[0])
    for axis in examine(target, golden, size, top_n=9).axes:
        others = tuple(other for other in range(3) if other != axis.axis)
        shares = squares.sum(axis=others) / squares.sum()
        order = np.argsort(-shares)
        assert [part.first for part in axis.worst] == order.tolist()
        np.testing.assert_allclose([part.share for part in axis.worst], shares[order])
        largest = np.sqrt(squares.max(axis=others))[order]
        np.testing.assert_allclose([part.largest for part in axis.worst], largest)


@pytest.mark.parametrize(("bad", "carriers"), [([4], [4]), ([4, 9], [4, 9]), (range(20), [])])
def test_carriers(bad: list[int], carriers: list[int]) -> None:
    golden = np.ones((20, 3), np.float32)
    target = golden.copy()
    target[list(bad)] += 1
    found = examine(target, golden, 60)
    assert [part.first for part in found.axes[0].carriers] == carriers
    assert found.axes[1].carriers == ()


def test_slices_of_long_axes_have_several_indices() -> None:
    golden = np.zeros(600_000, np.float32)
    target = golden.copy()
    target[500_001] = 1
    (axis,) = examine(target, golden, 1 << 16).axes
    (worst,) = axis.worst
    assert worst.first <= 500_001 <= worst.last
    assert worst.last - worst.first == 2
    assert worst.share == 1.0
