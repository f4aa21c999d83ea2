"""Alignment of two tensors: padding is cut, other conversions are recorded."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from opdiff.align.pairs import AlignedPair, align_codes
from opdiff.core import dtypes
from opdiff.core.errors import LayoutError
from opdiff.core.reasons import because
from opdiff.core.tensor import Declared, TensorSpec
from opdiff.sample.storage import store


def align(
    target: Any,
    golden: Any,
    layout: str,
    declared: str,
    origin: tuple[int, ...],
    golden_layout: str = "ND",
    *,
    may_skip: bool = False,
) -> AlignedPair:
    golden_origin = origin if golden_layout != "ND" else ()
    specs = (
        TensorSpec(dtypes.INT32, target.shape, layout, origin),
        TensorSpec(dtypes.INT32, golden.shape, golden_layout, golden_origin),
    )
    return align_codes(specs, (target, golden), Declared(declared, may_skip_positions=may_skip))


def nchw(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


LOGICAL = nchw(2, 5, 3, 4)
NHWC = LOGICAL.transpose(0, 2, 3, 1)
MATRIX = nchw(2, 3, 20, 9)


@pytest.mark.parametrize(
    ("stored", "layout", "declared", "origin", "golden"),
    [
        (store(LOGICAL, "NC1HWC0"), "NC1HWC0", "NCHW", (2, 5, 3, 4), LOGICAL),
        (store(LOGICAL, "NC1HWC0"), "NC1HWC0", "NHWC", (2, 3, 4, 5), NHWC),
        (store(LOGICAL, "NC1HWC0"), "NC1HWC0", "NHWC", (2, 5, 3, 4), LOGICAL),
        (store(LOGICAL, "NC1HWC0"), "NC1HWC0", "NCHW", (2, 3, 4, 5), NHWC),
        (store(LOGICAL, "NC1HWC0"), "NC1HWC0", "ND", (2, 5, 3, 4), LOGICAL),
        (store(LOGICAL, "NC1HWC0"), "NC1HWC0", "", (2, 5, 3, 4), LOGICAL),
        (store(LOGICAL, "FRACTAL_Z"), "FRACTAL_Z", "NCHW", (), LOGICAL),
        (store(MATRIX, "FRACTAL_NZ"), "FRACTAL_NZ", "ND", (2, 3, 20, 9), MATRIX),
        (store(MATRIX, "FRACTAL_NZ", c0=32), "FRACTAL_NZ", "ND", (), MATRIX),
        (LOGICAL, "NCHW", "NHWC", (2, 5, 3, 4), NHWC),
        (LOGICAL, "NCHW", "NHWC", (2, 5, 3, 4), LOGICAL),
        (LOGICAL.reshape(2, 60), "ND", "ND", (2, 60), LOGICAL.reshape(2, 60)),
        (LOGICAL.reshape(2, 60, 1, 1), "NCHW", "NCHW", (2, 60, 1, 1), LOGICAL.reshape(2, 60)),
        (LOGICAL, "FSR_NCHW", "", (), LOGICAL),
    ],
    ids=str,
)
def test_elements_correspond(stored: Any, layout: str, declared: str, origin: tuple[int, ...], golden: Any) -> None:
    pair = align(stored, golden, layout, declared, origin)
    np.testing.assert_array_equal(pair.target.reshape(-1), golden.reshape(-1))
    assert pair.golden is golden
    assert int(np.prod(pair.shape)) == golden.size


def test_other_shapes_of_the_same_size_are_compared_elementwise() -> None:
    stored, golden = nchw(4, 6), nchw(3, 8)
    pair = align(stored, golden, "ND", "ND", (4, 6))
    np.testing.assert_array_equal(pair.target.reshape(-1), golden.reshape(-1))
    assert pair.steps == (because("align.elementwise", target=(4, 6), golden=(3, 8)),)


@pytest.mark.parametrize(
    ("stored", "layout", "origin", "golden", "problem"),
    [
        (nchw(10), "ND", (10,), nchw(8), "the target has shape [10], the golden [8]; not compared"),
        (nchw(2, 7, 3, 4), "NCHW", (2, 7, 3, 4), LOGICAL, "the target has shape [2, 7, 3, 4], the golden [2, 5, 3, 4]"),
        (
            store(nchw(2, 18, 3, 4), "NC1HWC0"), "NC1HWC0", (2, 18, 3, 4), LOGICAL,
            "the target has shape [2, 18, 3, 4], the golden [2, 5, 3, 4]; not compared",
        ),
        (np.zeros((3, 1, 16, 16), np.int32), "FRACTAL_Z_WINO", (), LOGICAL, "does not know this layout"),
    ],
    ids=["larger", "more channels", "another tile", "unknown layout"],
)  # fmt: skip
def test_different_extents_raise(stored: Any, layout: str, origin: tuple[int, ...], golden: Any, problem: str) -> None:
    with pytest.raises(LayoutError) as caught:
        align(stored, golden, layout, "NCHW", origin)
    assert problem in str(caught.value)


def test_warning_if_padding_is_not_zero() -> None:
    wide = nchw(2, 10, 3, 4)
    stored = store(wide, "NC1HWC0")
    pair = align(stored, LOGICAL, "NC1HWC0", "NCHW", ())
    assert pair.shape == (2, 5, 3, 4)
    assert pair.warning == because("align.padding_not_zero")
    narrow = store(LOGICAL, "NC1HWC0")
    assert not align(narrow, LOGICAL, "NC1HWC0", "NCHW", ()).warning
    with pytest.raises(LayoutError, match=r"the target has shape \[2, 10, 3, 4\], the golden \[2, 5, 3, 4\]"):
        align(stored, LOGICAL, "NC1HWC0", "NCHW", (2, 10, 3, 4))


def test_padding_of_two_devices_is_cut() -> None:
    target, golden = store(LOGICAL, "NC1HWC0"), store(LOGICAL, "NC1HWC0", c0=32)
    target[:, :, :, :, 5:] = 77
    pair = align(target, golden, "NC1HWC0", "", (2, 5, 3, 4), "NC1HWC0")
    np.testing.assert_array_equal(pair.target, pair.golden)
    assert pair.shape == (2, 5, 3, 4)


def test_two_devices_with_different_sizes_raise() -> None:
    target, golden = nchw(4, 5), nchw(4, 6)
    with pytest.raises(LayoutError, match=r"the target has shape \[4, 5\], the golden \[4, 6\]"):
        align(target, golden, "ND", "", (4, 5), "NCHW")


VIDEO = nchw(1, 3, 2, 4, 5)


@pytest.mark.parametrize("origin", [(), (1, 3, 2, 4, 5)], ids=["no origin", "origin"])
def test_two_devices_with_different_axis_orders(origin: tuple[int, ...]) -> None:
    target, golden = VIDEO, store(VIDEO, "NDHWC")
    pair = align(target, golden, "NCDHW", "", origin, "NDHWC")
    np.testing.assert_array_equal(pair.target, pair.golden)
    image, other = LOGICAL, np.ascontiguousarray(NHWC)
    pair = align(image, other, "NCHW", "", (), "NHWC")
    np.testing.assert_array_equal(pair.target, pair.golden)


@pytest.mark.parametrize("garbage", [False, True], ids=["equal padding", "other padding"])
def test_equal_padding_of_5d_tensors_is_kept(garbage: bool) -> None:
    target, golden = store(VIDEO, "NDC1HWC0"), store(VIDEO, "NDC1HWC0")
    target[..., 3:] = 77 if garbage else 0
    pair = align(target, golden, "NDC1HWC0", "", VIDEO.shape, "NDC1HWC0")
    np.testing.assert_array_equal(pair.target, pair.golden)
    assert pair.shape == ((1, 3, 2, 4, 5) if garbage else target.shape)


def test_golden_in_the_other_axis_order_is_noted() -> None:
    pair = align(LOGICAL, NHWC, "NCHW", "NCHW", LOGICAL.shape)
    np.testing.assert_array_equal(pair.target, NHWC)
    assert pair.steps[0] == because("align.declared_differs", declared="NCHW", layout="NHWC")


@pytest.mark.parametrize(
    ("shape", "spacing"), [((2, 5, 8, 6), 2), ((2, 5, 7, 5), 2), ((1, 3, 9, 9), 3), ((1, 16, 56, 56), 2)], ids=str
)
@pytest.mark.parametrize("declared", ["NCHW", "NHWC"])
def test_strides_moved_to_earlier_operators(shape: tuple[int, ...], spacing: int, declared: str) -> None:
    logical = nchw(*shape)
    computed = logical[:, :, ::spacing, ::spacing]
    golden = logical if declared == "NCHW" else logical.transpose(0, 2, 3, 1)
    stored = store(computed, "NC1HWC0")
    pair = align(stored, golden, "NC1HWC0", declared, computed.shape, may_skip=True)
    np.testing.assert_array_equal(pair.target, pair.golden)
    expected = because("align.every_nth_position", spacing=spacing, golden=golden.shape, target=pair.target.shape)
    assert pair.steps[-1] == expected
    with pytest.raises(LayoutError, match="; not compared"):
        align(stored, golden, "NC1HWC0", declared, computed.shape)


@pytest.mark.parametrize(
    "golden", [(2, 5, 8, 7), (2, 6, 6, 8), (3, 5, 6, 8), (2, 5, 6, 12), (2, 5, 2, 3), (2, 60)], ids=str
)
def test_other_shapes_are_not_reduced(golden: tuple[int, ...]) -> None:
    is_same_size = np.prod(golden) == LOGICAL.size
    with nullcontext() if is_same_size else pytest.raises(LayoutError, match="; not compared"):
        pair = align(LOGICAL, nchw(*golden), "NCHW", "NCHW", LOGICAL.shape, may_skip=True)
        assert pair.golden.shape == golden
