"""Kernels of the sample network. Golden run and device share them, so comparing the two would not reveal a mistake."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from opdiff.sample import ops

IMAGE = np.random.default_rng(1).normal(size=(2, 4, 5, 6))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [1, 3])
def test_conv_is_a_sum_over_each_window(size: int, stride: int, groups: int) -> None:
    weight = np.random.default_rng(2).normal(size=(8, 4 // groups, size, size))
    bias = np.arange(8.0)
    result = ops.conv(IMAGE, weight, bias, stride=stride, groups=groups)
    padded = np.pad(IMAGE, ((0, 0), (0, 0), (size // 2, size // 2), (size // 2, size // 2)))
    assert result.shape == (2, 8, -(-5 // stride), -(-6 // stride))
    for n, o, y, x in product(*map(range, result.shape)):
        first = o // (8 // groups) * (4 // groups)
        window = padded[n, first : first + 4 // groups, y * stride : y * stride + size, x * stride : x * stride + size]
        assert result[n, o, y, x] == pytest.approx((window * weight[o]).sum() + bias[o])


def test_folded_norm_is_the_same_convolution() -> None:
    random = np.random.default_rng(3)
    weight, factor, offset = random.normal(size=(8, 4, 3, 3)), random.normal(size=8), random.normal(size=8)
    apart = ops.relu(ops.batch_norm(ops.conv(IMAGE, weight), factor, offset))
    folded = ops.conv(IMAGE, weight * factor[:, None, None, None], offset, activation=ops.relu)
    np.testing.assert_allclose(folded, apart, atol=1e-12)


def test_max_pool_takes_the_largest_neighbour() -> None:
    result = ops.max_pool(IMAGE)
    assert result.shape == IMAGE.shape
    assert result[1, 2, 0, 0] == IMAGE[1, 2, :2, :2].max()
    assert result[1, 2, 3, 4] == IMAGE[1, 2, 2:5, 3:6].max()


def test_channel_shuffle_interleaves_groups() -> None:
    channels = np.arange(6.0).reshape(1, 6, 1, 1)
    assert ops.shuffle_channels(channels, groups=2).ravel().tolist() == [0, 3, 1, 4, 2, 5]


def test_split_and_concat_are_inverse() -> None:
    np.testing.assert_array_equal(ops.concat(*ops.split(IMAGE, 2)), IMAGE)


def test_softmax_is_a_distribution_in_the_order_of_its_input() -> None:
    rows = np.array([[1.0, 800.0, 799.0], [0.0, 0.0, 0.0]])
    result = ops.softmax(rows)
    np.testing.assert_allclose(result.sum(axis=1), 1)
    np.testing.assert_allclose(result[0], [0, 1 / (1 + np.exp(-1)), 1 / (1 + np.e)])


def test_top_k_is_sorted_and_the_first_of_equals_wins() -> None:
    values, indices = ops.top_k(np.array([[1.0, 3.0, 3.0, 2.0]]), k=3)
    assert values.tolist() == [[3, 3, 2]]
    assert indices.tolist() == [[1, 2, 3]]


def test_activations() -> None:
    x = np.array([-np.inf, -4.0, -1.0, 0.0, 1.0, 4.0, np.inf])
    assert ops.relu6(x).tolist() == [0, 0, 0, 0, 1, 4, 6]
    assert ops.clip(x, -2, 2).tolist() == [-2, -2, -1, 0, 1, 2, 2]
    assert ops.hard_swish(x[1:-1]).tolist() == pytest.approx([0, -1 / 3, 0, 2 / 3, 4])
    assert ops.sigmoid(np.array([0.0, np.log(3)])).tolist() == pytest.approx([0.5, 0.75])
