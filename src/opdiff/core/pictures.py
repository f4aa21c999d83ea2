"""Pictures of two tensors: small arrays of integers, which the HTML report draws.

    plane of two axes ──► cells, each of some elements ──► one code for each cell of golden, target and error

Codes up to `MAX_CODE` are positions on a scale: on the range of values, or on the logarithmic scale of errors, where 0
is an error of zero. Codes above stand for elements that are not finite.
"""

from __future__ import annotations

from math import prod

from msgspec import Struct

from opdiff.core.tensor import Shape

MAX_CODE = 250
NAN_CODE, INF_CODE, NEGATIVE_INF_CODE = 251, 252, 253
"""Cells with NaN or infinities; in images of errors, `NAN_CODE` stands for all that are on one side only."""

BINS = 64
"""Bins of the range of values, for histograms and for the density of value pairs."""


class Frame(Struct, frozen=True):
    """One plane of both tensors: images of equal extents, row by row, one byte for each cell.

    Attributes:
        index: coordinates along the axes that are not in the plane.
        share: share of the squared error of the tensor.
        golden: codes of the mean of the golden values.
        target: codes of the mean of the target values.
        error: codes of the root mean square of the errors.
    """

    index: Shape
    share: float
    golden: bytes
    target: bytes
    error: bytes


class TensorPicture(Struct, frozen=True):
    """Images, histograms and the density of value pairs of two tensors.

    Attributes:
        row: number of the tensor's row.
        shape: compared shape.
        labels: labels of its axes, as `NCHW`; empty if unknown.
        axes: vertical and horizontal axis of the plane; the horizontal one only for tensors with one long axis.
        extents: vertical and horizontal number of cells.
        cell: vertical and horizontal number of elements of a cell.
        low: lower end of the range of values, of both sides together.
        high: upper end of it.
        low_error: lower end of the scale of errors.
        high_error: upper end of it: the range of values, so that colours tell how large an error is.
        overall: codes of the root mean square of the errors over all planes.
        frames: the planes with the largest errors, worst first.
        frame_count: number of all planes.
        golden_counts: number of golden values in each bin; values outside of the range are in the first and last one.
        target_counts: number of target values in each bin.
        density: number of elements by bins of the golden and the target value, golden bin by golden bin.
        outside: number of elements with a finite value outside of the range.
        not_finite: number of elements that are not finite on both sides, which histograms and density lack.
        sampled_share: share of the elements that was examined.
    """

    row: int
    shape: Shape
    labels: str
    axes: Shape
    extents: tuple[int, int]
    cell: tuple[int, int]
    low: float
    high: float
    low_error: float
    high_error: float
    overall: bytes
    frames: tuple[Frame, ...]
    frame_count: int
    golden_counts: tuple[int, ...]
    target_counts: tuple[int, ...]
    density: tuple[int, ...]
    outside: int = 0
    not_finite: int = 0
    sampled_share: float = 1.0

    def __post_init__(self) -> None:
        cells = prod(self.extents)
        images = [
            self.overall,
            *(image for frame in self.frames for image in (frame.golden, frame.target, frame.error)),
        ]
        if len(self.axes) > 2 or any(len(image) != cells for image in images):
            raise ValueError("the images of a picture do not have the extents of its plane")
        if (len(self.golden_counts), len(self.target_counts), len(self.density)) != (BINS, BINS, BINS * BINS):
            raise ValueError("the histograms of a picture do not have the right number of bins")
