"""Layouts measured in stored order: bit for bit the same results as over a copy in logical order."""

from __future__ import annotations

from itertools import cycle
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from measure.kernels import Axes, Stored, any_codes, by_kernel, measured, needs_kernel, offsets_of, to_codes
from opdiff.align import LAYOUTS, Tile
from opdiff.core import dtypes
from opdiff.core.errors import LayoutError
from opdiff.core.strides import NotStrided, StridedView

if TYPE_CHECKING:
    from opdiff.align import Layout
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape

pytestmark = needs_kernel

FLOAT32 = dtypes.FLOAT32
TYPES = [dtypes.FLOAT16, dtypes.FLOAT32, dtypes.INT8, dtypes.FLOAT64]

# Padded channels; planes below, around and above a block; rows longer than a strip; runs shorter than one;
# rows of which several fill whole blocks.
SHAPES: dict[int, list[Shape]] = {
    2: [(33, 40), (5, 1200), (1100, 70), (70, 3000), (100, 128)],
    3: [(4, 5, 6), (2, 40, 1100), (3, 40, 64)],
    4: [
        (2, 20, 5, 7), (1, 64, 33, 33), (3, 17, 1, 1), (1, 5, 3, 2100), (1, 40, 16, 64), (2, 70, 9, 200),
        (1, 16, 1, 1500), (1, 3, 90, 91), (1, 33, 2, 2048), (2, 18, 2, 1030),
        (2, 3, 32, 36),
    ],
    5: [(1, 20, 3, 5, 7), (2, 33, 2, 20, 40), (1, 17, 4, 33, 40)],
}  # fmt: skip
# Only the diagonal of this layout is used, which strides cannot express.
NOT_PLACES = {"C1HWNCoC0"}
# Strides can express these layouts only without padding.
FEW = {"FRACTAL_Z_C04", "FRACTAL_Z_3D"}


def layout_of(name: str) -> Layout:
    layout = LAYOUTS.find(name)
    assert layout is not None
    return layout


def shapes_of(layout: Layout) -> list[Shape]:
    if not layout.axes:
        return [shape for rank in (2, 3, 4) for shape in SHAPES[rank]]
    return SHAPES[len(layout.axes)]


def unpacked(layout: Layout, packed: AnyArray, shape: Shape) -> StridedView:
    return cast("StridedView", layout.unpack(cast("AnyArray", StridedView(packed.shape)), shape, 1))


def stored(layout: Layout, array: AnyArray, dtype: DType) -> Stored | None:
    """Return the array in a layout, with its axes; `None` if the layout cannot hold it."""
    try:
        packed = np.ascontiguousarray(layout.pack(array, Tile.of(dtype), 1))
        return Stored(packed, dtype, tuple(unpacked(layout, packed, array.shape).split_axes()))
    except (LayoutError, NotStrided):
        return None


def numbers(shape: Shape, dtype: DType, seed: int) -> AnyArray:
    rng = np.random.default_rng(seed)
    return to_codes(np.clip(20 * rng.standard_normal(prod(shape)), -100, 100), dtype).reshape(shape)


def both_ways(target: Stored, golden: Stored, plain: tuple[Stored, Stored], shape: Shape, threads: int) -> None:
    found = by_kernel(target, golden, shape, threads)
    measured(found)
    # Compared as strings, since NaN is not equal to itself.
    assert repr(found) == repr(by_kernel(*plain, shape)), (shape, target.axes, golden.axes)


@pytest.mark.parametrize("name", [name for name in LAYOUTS.names() if name not in NOT_PLACES])
def test_built_in_layouts(name: str) -> None:
    layout = layout_of(name)
    types, tried = cycle(TYPES), 0
    for number, shape in enumerate(shapes_of(layout)):
        for dtype in (next(types), next(types)):
            x, y = numbers(shape, dtype, number), numbers(shape, FLOAT32, number + 100)
            target, golden = stored(layout, x, dtype), stored(layout, y, FLOAT32)
            if target is None or golden is None:
                continue
            tried += 1
            plain = Stored(x, dtype), Stored(y, FLOAT32)
            both_ways(target, plain[1], plain, shape, 1)
            both_ways(plain[0], golden, plain, shape, 2)
            both_ways(target, golden, plain, shape, 2)
    assert tried >= (1 if name in FEW else len(shapes_of(layout)))


@pytest.mark.parametrize("name", ["NC1HWC0", "NHWC", "NHWC1C0", "C1HWNC0", "HWCN"])
def test_layouts_against_an_array_of_another_axis_order(name: str) -> None:
    """The target is read in the axis order of the golden array, here NHWC."""
    layout = layout_of(name)
    for number, shape in enumerate(SHAPES[4]):
        x, y = numbers(shape, dtypes.FLOAT16, number), numbers(shape, FLOAT32, number + 100)
        packed = np.ascontiguousarray(layout.pack(x, Tile(), 1))
        axes = tuple(unpacked(layout, packed, shape).transpose(0, 2, 3, 1).split_axes())
        moved = [np.ascontiguousarray(array.transpose(0, 2, 3, 1)) for array in (x, y)]
        plain = Stored(moved[0], dtypes.FLOAT16), Stored(moved[1], FLOAT32)
        both_ways(Stored(packed, dtypes.FLOAT16, axes), plain[1], plain, moved[0].shape, 2)


@pytest.mark.parametrize("dtype", [*TYPES, dtypes.INT64, dtypes.FLOAT8_E5M2], ids=str)
def test_column_major_order(dtype: DType) -> None:
    for number, shape in enumerate([*SHAPES[2], *SHAPES[4]]):
        x, y = numbers(shape, dtype, number), numbers(shape, FLOAT32, number + 100)
        axes = tuple(StridedView(shape, fortran_order=True).split_axes())
        target = Stored(np.frombuffer(x.tobytes("F"), x.dtype), dtype, axes)
        golden = Stored(np.frombuffer(y.tobytes("F"), y.dtype), FLOAT32, axes)
        plain = Stored(x, dtype), Stored(y, FLOAT32)
        both_ways(target, plain[1], plain, shape, 1)
        both_ways(target, golden, plain, shape, 1)


@pytest.mark.parametrize("name", ["NC1HWC0", "FRACTAL_NZ", "NHWC"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_odd_addresses(name: str, dtype: DType) -> None:
    shape = (1, 35, 7, 190)
    x, y = numbers(shape, dtype, 1), numbers(shape, FLOAT32, 2)
    target = stored(layout_of(name), x, dtype)
    assert target is not None
    raw = np.frombuffer(b"\0" + target.codes.tobytes(), np.uint8)[1:].view(dtype.storage)
    assert raw.ctypes.data % 2 == 1
    both_ways(Stored(raw, dtype, target.axes), Stored(y, FLOAT32), (Stored(x, dtype), Stored(y, FLOAT32)), shape, 1)


def test_special_numbers_have_their_logical_index() -> None:
    shape = (2, 35, 11, 190)
    x = numbers(shape, dtypes.FLOAT16, 1)
    y = x.astype("<f4")
    x[1, 34, 10, 189], x[0, 20, 3, 0], y[1, 0, 0, 1] = np.nan, np.inf, -np.inf
    x[1, 33, 4, 5] = 5000
    target = stored(layout_of("NC1HWC0"), x, dtypes.FLOAT16)
    assert target is not None
    sums, _ = measured(by_kernel(target, Stored(y, FLOAT32), shape, 2))
    at = [
        np.ravel_multi_index(coordinates, shape)
        for coordinates in ((1, 34, 10, 189), (0, 20, 3, 0), (1, 0, 0, 1), (1, 33, 4, 5))
    ]
    assert [sums.target.first_nan, sums.target.first_inf, sums.golden.first_inf] == at[:3]
    assert sums.worst is not None
    assert sums.worst.index == at[3]


# Any axes


def random_axes(rng: np.random.Generator) -> Axes:
    """Return random axes with tiles, strides, gaps, and elements that are read more than once."""
    extents = [int(extent) for extent in rng.choice([1, 2, 3, 5, 16, 17, 33, 64, 100], rng.integers(1, 5))]
    if rng.random() < 0.4:
        extents[-1] = int(rng.choice([1000, 1024, 1500, 2048, 2100, 4100]))
    while prod(extents) > 200_000:
        extents.pop(0)
    axes, stride = [], 1
    for at in rng.permutation(len(extents)):
        extent = extents[at]
        split = int(rng.choice([1, 1, 2, 4, 16, 32, 64, 100]))
        inner = stride if rng.random() < 0.8 else int(rng.integers(0, 3))
        outer = split * inner + (0 if rng.random() < 0.4 else int(rng.integers(0, 40)))
        axes.append((at, (extent, split, stride, 0) if split == 1 else (extent, split, outer, inner)))
        stride = max(stride, 1) * (extent if rng.random() < 0.8 else 1)
    return tuple(axis for _, axis in sorted(axes))


def random_shape(rng: np.random.Generator, axes: Axes) -> Shape:
    """Return the extents, or another shape of as many elements, which determines the blocks."""
    count = prod(axis[0] for axis in axes)
    divisors = [number for number in range(1, count + 1) if count % number == 0 and number >= min(count, 1024)]
    run = int(rng.choice(divisors))
    return tuple(axis[0] for axis in axes) if rng.random() < 0.6 else (count // run, run)


@pytest.mark.parametrize("seed", range(8))
def test_any_axes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        axes = random_axes(rng)
        offsets = offsets_of(axes)
        dtype = TYPES[rng.integers(len(TYPES))]
        source = numbers((int(offsets.max()) + 1,), dtype, seed)
        target = Stored(source, dtype, axes)
        plain = Stored(source[offsets], dtype), Stored(any_codes(rng, dtypes.INT16, offsets.size), dtypes.INT16)
        shape = random_shape(rng, axes)
        both_ways(target, plain[1], plain, shape, 1)
        both_ways(plain[1], target, plain[::-1], shape, 1)


@pytest.mark.parametrize("run", [1110, 1998, 2997, 29970, 99900, 299_700, 999_000])
@pytest.mark.parametrize(
    "axes",
    [
        pytest.param(((3000, 1, 1, 0), (999, 1, 3000, 0)), id="columns"),
        pytest.param(((2, 1, 1500, 0), (1500, 1, 1, 0), (999, 1, 3000, 0)), id="two groups of columns"),
        pytest.param(((10, 1, 300_000, 0), (300, 16, 16_000, 1), (37, 1, 432, 0), (27, 1, 16, 0)), id="tiles"),
        pytest.param(((1000, 1, 1, 0), (2997, 1, 1000, 0)), id="long columns"),
    ],
)
def test_blocks_within_axes(axes: Axes, run: int) -> None:
    """Blocks of large tensors may start within an axis."""
    offsets = offsets_of(axes)
    source = numbers((int(offsets.max()) + 1,), dtypes.INT8, run)
    plain = Stored(source[offsets], dtypes.INT8), Stored(numbers((offsets.size,), dtypes.INT8, 5), dtypes.INT8)
    shape = (offsets.size // run, run)
    both_ways(Stored(source, dtypes.INT8, axes), plain[1], plain, shape, 2)
