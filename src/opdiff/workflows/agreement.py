"""Agreement of a tensor with itself, with what the rule file states, and with the other side.

A pair that contradicts any of them is doubtful: it is measured, its row has the contradiction as its reason, and no
claim about an operator rests on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.align.agreement import shape_doubt
from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.errors import DumpError
from opdiff.core.pairing import Pairing
from opdiff.core.reasons import all_of, because
from opdiff.core.tensor import LAYOUT_NUMBERS, StatedTensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Row
    from opdiff.core.dtypes import DType
    from opdiff.core.dump import SideTensor
    from opdiff.core.metrics import Metrics
    from opdiff.core.pairing import PairingResult
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape, Tensor, TensorSpec

# The documented limit of the cosine similarity: types of two sides whose numbers agree need no explanation.
_MIN_COSINE = 0.99


def tensor_doubts(tensor: Tensor) -> tuple[Reason, ...]:
    """Return the contradictions in the description of a tensor: data, shapes, layout."""
    doubt = shape_doubt(tensor.spec)
    return tensor.doubts if doubt is None else (*tensor.doubts, doubt)


def trusted_codes(tensor: Tensor) -> AnyArray:
    """Return the elements of a tensor as they are stored.

    Raises:
        DumpError, ElementError: the tensor cannot be read, or contradicts itself.
    """
    for doubt in tensor_doubts(tensor):
        raise DumpError(tensor.source.path, doubt)
    return tensor.codes()


def with_doubts(row: Row, pair: PairingResult) -> Row:
    """Return the row of a measured pair; if the pair is doubtful, with the contradictions as its reason."""
    if row.reason is not None or not isinstance(pair, Pairing):
        return row
    doubts = list(_doubts(row, pair))
    return replace(row, reason=all_of(doubts)) if doubts else row


def _doubts(row: Row, pair: Pairing) -> Iterator[Reason]:
    for name, side in (("target", pair.target), ("golden", pair.golden)):
        if side.tensor is None:
            continue
        for doubt in tensor_doubts(side.tensor):
            yield because("compare.doubtful", side=name, doubt=doubt)
        if side.stated is not None:
            for doubt in _stated_doubts(side.tensor.spec, side.stated):
                yield because("compare.doubtful", side=name, doubt=doubt)
    if not _agree(row.metrics):
        yield from _side_doubts(pair.target, pair.golden)


def _side_doubts(target: SideTensor, golden: SideTensor) -> Iterator[Reason]:
    """Yield contradictions of two sides whose numbers do not agree, where nothing confirms what the target states."""
    if target.tensor is None or golden.tensor is None:
        return
    stated, ours, theirs = target.stated or StatedTensor(), target.tensor.spec, golden.tensor.spec
    if not stated.dtype and _contradict(ours.dtype, theirs.dtype):
        yield because("compare.types_contradict", target=ours.dtype.name, golden=theirs.dtype.name)
    if not stated.layout and ours.layout != theirs.layout and ours.shape == theirs.shape and theirs.layout != "ND":
        yield because("compare.layouts_contradict", target=ours.layout, golden=theirs.layout, shape=ours.shape)


def _stated_doubts(spec: TensorSpec, stated: StatedTensor) -> Iterator[Reason]:
    dtype = dtypes.BY_NAME.get(dtypes.name_in_graph(stated.dtype), dtypes.UNDEFINED)
    if dtype not in (dtypes.UNDEFINED, spec.dtype):
        yield because("compare.stated_type", dtype=spec.dtype.name, stated=dtype.name)
    if stated.layout in LAYOUT_NUMBERS and stated.layout != spec.layout:
        yield because("compare.stated_layout", layout=spec.layout, stated=stated.layout)
    elif _is_known(stated.shape) and stated.shape != spec.shape:
        yield because("compare.stated_shape", shape=spec.shape, stated=stated.shape)
    if _is_known(stated.origin_shape) and spec.origin_shape and stated.origin_shape != spec.origin_shape:
        yield because("compare.stated_origin", shape=spec.origin_shape, stated=stated.origin_shape)


def _is_known(shape: Shape) -> bool:
    return bool(shape) and min(shape) >= 0


def _contradict(first: DType, second: DType) -> bool:
    """Return whether two types cannot be those of one tensor: other kinds of numbers, or the same bits read otherwise.

    Conversion between floats of different widths is usual, and so are truth values in integers.
    """
    if first is second or Kind.OPAQUE in (first.kind, second.kind):
        return False
    kinds = {first.kind, second.kind} - {Kind.BOOL}
    return len(kinds) > 1 or (first.bits == second.bits and Kind.BOOL not in (first.kind, second.kind))


def _agree(metrics: Metrics | None) -> bool:
    return metrics is None or metrics.is_equal or (metrics.cosine is not None and metrics.cosine >= _MIN_COSINE)
