"""Conversions that are impossible, and their errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdiff.align import LAYOUTS, Aligned, convert
from opdiff.core import dtypes
from opdiff.core.errors import LayoutError
from opdiff.core.tensor import LAYOUT_NUMBERS, TensorSpec

if TYPE_CHECKING:
    from opdiff.core.tensor import Shape


def change(stored: Shape, source: str, target: str, origin: Shape = (), shape: Shape = (), groups: int = 1) -> Aligned:
    return convert(np.zeros(stored, "<i2"), TensorSpec(dtypes.INT16, stored, source, origin, groups), target, shape)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An impossible conversion and its error message."""

    source: str
    target: str
    stored: Shape
    message: str
    origin: Shape = ()
    shape: Shape = ()
    groups: int = 1

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


REFUSED = [
    Refusal("NC1HWC0", "NCHW", (1, 1, 2, 2, 16),
        r"stored shape \[1, 1, 2, 2, 16\] cannot hold an array of shape \[1, 17, 2, 2\]", origin=(1, 17, 2, 2)),
    Refusal("NC1HWC0", "NCHW", (1, 2, 2, 2, 16),
        r"\[1, 2, 2, 2, 16\] cannot hold .* \[1, 16, 2, 2\]", origin=(1, 16, 2, 2) ),
    Refusal("NC1HWC0", "NCHW", (1, 1, 2, 2, 16), r"\[1, 1, 2, 2, 16\] cannot hold .* \[1, 16, 4\]", origin=(1, 16, 4)),
    Refusal("NC1HWC0", "NHWC", (1, 1, 2, 3, 16),
        r"\[1, 1, 2, 3, 16\] cannot hold .* \[1, 5, 3, 2\]", shape=(1, 3, 2, 5) ),
    Refusal("NC1HWC0", "NHWC", (1, 1, 2, 3, 16), r"--shape \[2, 3, 5\] must have .* the axes NHWC", shape=(2, 3, 5)),
    Refusal("C1HWNCoC0", "NCHW", (1, 1, 2, 2, 16, 16),
        r"\[1, 1, 2, 2, 16, 16\] cannot hold .* \[1, 17, 2, 2\]", origin=(1, 17, 2, 2)),
    Refusal("C1HWNCoC0", "NCHW", (1, 1, 2, 2, 16, 16),
        r"\[1, 1, 2, 2, 16, 16\] cannot hold .* \[1, 17, 2, 2\]", shape=(1, 17, 2, 2)),
    Refusal("FRACTAL_NZ", "ND", (1, 1, 16, 16), r"\[1, 1, 16, 16\] cannot hold .* \[17, 16\]", origin=(17, 16)),
    Refusal("FRACTAL_NZ", "ND", (2, 1, 16, 16), r"\[2, 1, 16, 16\] cannot hold .* \[16, 16\]", origin=(16, 16)),
    Refusal("FRACTAL_NZ", "ND", (1, 1, 16, 16), r"\[1, 1, 16, 16\] cannot hold .* \[2, 16, 16\]", origin=(2, 16, 16)),
    Refusal("FRACTAL_NZ", "ND", (1, 1, 16, 16), r"\[1, 1, 16, 16\] cannot hold .* \[4, 40\]", shape=(4, 40)),
    Refusal("FRACTAL_NZ", "NC1HWC0", (1, 1, 16, 16),
        r"shape \[4, 4\] does not have the axes NCHW of NC1HWC0", origin=(4, 4) ),
    Refusal("FRACTAL_Z", "NCHW", (9, 1, 16, 16), r"\[9, 1, 16, 16\] does not determine H, W and C: give --shape"),
    Refusal("FRACTAL_Z", "NCHW", (9, 1, 16, 16),
        r"\[16, 16, 9\] does not have the 4 axes NCHW: give --shape", origin=(16, 16, 9)),
    Refusal("FRACTAL_Z", "NCHW", (9, 1, 16, 16), r"\[9, 1, 16, 16\] cannot hold .* \[16, 144\]", origin=(16, 144)),
    Refusal("FRACTAL_Z", "NCHW", (9, 1, 16, 16),
        r"\[16, 16, 2, 2\] does not fit stored shape \[9, 1, 16, 16\] in any of the orders NCHW, NHWC, HWCN",
            origin=(16, 16, 2, 2)),
    Refusal("FRACTAL_Z", "NCHW", (9, 1, 16, 16),
        r"\[9, 1, 16, 16\] cannot hold .* \[16, 17, 3, 3\]", shape=(16, 17, 3, 3) ),
    Refusal("FRACTAL_Z", "NCHW", (9, 1, 16, 16), "of 5 groups in any of the orders", origin=(16, 16, 3, 3), groups=5),
    Refusal("FRACTAL_Z_C04", "NCHW", (9, 1, 16, 16),
        r"\[9, 1, 16, 16\] cannot hold .* \[16, 4, 3, 3\]", shape=(16, 4, 3, 3) ),
    Refusal("FRACTAL_Z_3D", "NCDHW", (9, 1, 16, 16),
        "the storage of 2 groups is not known", origin=(16, 16, 1, 3, 3), groups=2),
    Refusal("FRACTAL_Z_C04", "NCHW", (9, 1, 16, 16),
        "the storage of 2 groups is not known", origin=(16, 4, 3, 3), groups=2 ),
    Refusal("NCHW", "NCDHW", (2, 3, 4, 5), "axes NCHW cannot become axes NCDHW of NCDHW; ND accepts any axes"),
    Refusal("NCHW", "NDC1HWC0", (2, 3, 4, 5), "axes NCHW cannot become axes NCDHW of NDC1HWC0"),
    Refusal("NCHW", "NC", (2, 3, 4, 5), "axes NCHW cannot become axes NC of NC", shape=(2, 3)),
    Refusal("NCHW", "NHWC", (2, 3, 4, 5), r"\[2, 3, 4, 5\] cannot hold .* \[2, 4, 4, 5\]", shape=(2, 4, 5, 4)),
    Refusal("NCHW", "ND", (2, 3, 4, 5), r"no order of NCHW \[2, 3, 4, 5\] has the shape \[2, 60\]", shape=(2, 60)),
    Refusal("ND", "NCHW", (6, 4), r"24 elements of shape \[6, 4\] do not fill the shape \[5, 5\]", shape=(5, 5)),
    Refusal("NC1HWC0", "NCHW", (1, 1, 2, 3, 16), r"\[1, 1, 2, 3, 16\] cannot hold .* \[5, 2\]", origin=(5, 2)),
    Refusal("NC1HWC0", "NCHW", (1, 1, 2, 3, 16),
        r"\[1, 1, 2, 3, 16\] cannot hold .* \[7, 5, 2, 3\]", origin=(7, 5, 2, 3) ),
    Refusal("ND", "NCHW", (6, 4), r"--shape \[-1, 4\] has a negative number", shape=(-1, 4)),
    Refusal("ND", "FRACTAL_Z", (6, 4), r"shape \[6, 4\] does not have the axes NCHW of FRACTAL_Z"),
    Refusal("NHWC", "NC1HWC0", (6, 4), r"shape \[6, 4\] does not have the axes NCHW of NC1HWC0"),
    Refusal("nchw", "ND", (6, 4), r"layout nchw: no such layout; did you mean NCHW"),
    Refusal("ND", "bogus!", (6, 4), "layout bogus!: no such layout; write a plug-in or a custom conversion for it"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_impossible_conversions_raise(case: Refusal) -> None:
    with pytest.raises(LayoutError, match=case.message):
        change(case.stored, case.source, case.target, case.origin, case.shape, case.groups)


def test_origin_shape_of_too_many_axes_raises() -> None:
    with pytest.raises(LayoutError, match=r"1 elements of shape .* do not fill the shape"):
        change((1, 1, 1, 1, 1), "NC1HWC0", "ND", (1,) * 100)


EXTENTS = st.lists(st.sampled_from([0, 1, 2, 3, 4, 16, 1 << 40, 1 << 63]), max_size=6).map(tuple)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_random_shapes_give_a_result_or_layout_error(data: st.DataObject) -> None:
    source, target = (data.draw(st.sampled_from(LAYOUTS.names())) for _ in range(2))
    stored = tuple(data.draw(st.lists(st.sampled_from([0, 1, 2, 4, 16]), max_size=6)))
    try:
        origin, shape = data.draw(EXTENTS), data.draw(EXTENTS)
        aligned = change(stored, source, target, origin, shape, data.draw(st.integers(-1, 3)))
    except LayoutError:
        return
    assert aligned.codes.dtype == np.int16


@pytest.mark.parametrize("name", sorted(set(LAYOUT_NUMBERS) - set(LAYOUTS.names())))
def test_unsupported_layouts_raise(name: str) -> None:
    message = f"layout {name}: opdiff does not know this layout; write a plug-in or a custom conversion"
    for source, target in [(name, "ND"), ("ND", name)]:
        with pytest.raises(LayoutError, match=message):
            change((2, 2), source, target)


def test_shape_of_data_and_description_must_agree() -> None:
    spec = TensorSpec(dtypes.INT16, (2, 3), "ND")
    with pytest.raises(LayoutError, match=r"the data has shape \[6\], its description says \[2, 3\]"):
        convert(np.zeros(6, "<i2"), spec, "NCHW")
