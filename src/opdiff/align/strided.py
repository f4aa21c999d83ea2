"""Alignment of two tensors by strides, without reading them.

Tensor, Tensor ──views──► align ──axes──► offsets of the elements in both files
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec import Struct

from opdiff.align.conversion import convert
from opdiff.align.pairs import align_codes
from opdiff.core.source import MAX_RANK, FileRange
from opdiff.core.strides import NotStrided, StridedView
from opdiff.core.tensor import NOTHING_DECLARED

if TYPE_CHECKING:
    from opdiff.align.pairs import AlignedPair
    from opdiff.core.codes import AnyArray
    from opdiff.core.strides import SplitAxis
    from opdiff.core.tensor import Declared, Shape, Tensor


class StridedPair(Struct, frozen=True):
    """Two aligned tensors, without data.

    Attributes:
        pair: the alignment; its codes are views.
        target_axes: strides of the target; empty if its elements are stored in the order of comparison.
        golden_axes: strides of the golden tensor, likewise.
    """

    pair: AlignedPair
    target_axes: tuple[SplitAxis, ...]
    golden_axes: tuple[SplitAxis, ...]


def align_strided(target: Tensor, golden: Tensor, declared: Declared = NOTHING_DECLARED) -> StridedPair | None:
    """Align two tensors by strides; `None` if strides cannot describe them or the result.

    Raises:
        LayoutError: they cannot be brought to one shape.
    """
    try:
        views = _stored_view(target), _stored_view(golden)
        pair = align_codes((target.spec, golden.spec), cast("tuple[AnyArray, AnyArray]", views), declared)
        return StridedPair(pair, _axes(pair.target, target), _axes(pair.golden, golden))
    except NotStrided:
        return None


def strides_in_nd(tensor: Tensor) -> tuple[Shape, tuple[SplitAxis, ...]] | None:
    """Return the logical shape and the strides of a tensor; `None` if strides cannot describe them.

    Raises:
        LayoutError: its layout cannot be converted.
    """
    try:
        codes = convert(cast("AnyArray", _stored_view(tensor)), tensor.spec, "ND").codes
        return codes.shape, _axes(codes, tensor)
    except NotStrided:
        return None


def _stored_view(tensor: Tensor) -> StridedView:
    source, shape = tensor.source, tensor.spec.shape
    if not isinstance(source, FileRange) or len(shape) > MAX_RANK or min(shape, default=0) < 0:
        raise NotStrided
    return StridedView(shape, fortran_order=source.fortran_order)


def _axes(codes: object, tensor: Tensor) -> tuple[SplitAxis, ...]:
    if not isinstance(codes, StridedView):
        raise NotStrided
    if not codes.size or (codes.size == tensor.spec.count and codes.is_contiguous):
        return ()
    return codes.split_axes()
