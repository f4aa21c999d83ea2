"""Rows of pairs that were not measured: without a partner, not measurable, or only to be listed; sides of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.comparison import DataMode, Row, SideInfo
from opdiff.core.pairing import Pairing

if TYPE_CHECKING:
    from opdiff.core.dump import SideTensor
    from opdiff.core.pairing import PairingResult, Unpaired
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.core.tensor_stats import TensorStats


def side_info(tensor: SideTensor, op_type: str = "", measured: TensorStats | None = None) -> SideInfo:
    """Return what is known about a tensor by its description, or by its description and what was measured."""
    path = tensor.path + tensor.location
    if tensor.tensor is not None:
        spec = tensor.tensor.spec
        if measured is not None:
            return SideInfo(path, measured.dtype, measured.shape, op_type, spec.address or 0, measured)
        return SideInfo(path, spec.dtype.name, spec.origin_shape or spec.shape, op_type, spec.address or 0)
    if tensor.stats is not None:
        return SideInfo(path, tensor.stats.dtype, tensor.stats.shape, op_type, stats=tensor.stats)
    return SideInfo(path, op_type=op_type)


def paired_row(pairing: Pairing, data_mode: DataMode = DataMode.REAL, reason: Reason | None = None) -> Row:
    """Return the row of a pairing that was not measured, and the reason."""
    return Row(
        pairing.label,
        pairing.key,
        pairing.golden_key,
        side_info(pairing.target, pairing.label.op_type),
        side_info(pairing.golden, pairing.golden_type),
        _shape(pairing.target),
        data_mode,
        reason=reason,
        evidence=pairing.evidence,
        confidence=pairing.confidence,
        unit=pairing.unit,
        timestamp=pairing.timestamp,
        stack=pairing.stack,
    )


def unpaired_row(unpaired: Unpaired, data_mode: DataMode = DataMode.REAL) -> Row:
    """Return the row of a tensor or an operator without a partner."""
    op_type, tensor = unpaired.label.op_type, unpaired.target
    info = SideInfo(unpaired.path, op_type=op_type) if unpaired.path else None
    if tensor is not None:
        info = side_info(tensor, op_type)
    return Row(
        unpaired.label,
        unpaired.key,
        target=None if unpaired.golden_only else info,
        golden=info if unpaired.golden_only else None,
        shape=_shape(tensor) if tensor is not None else None,
        data_mode=data_mode,
        reason=unpaired.reason,
        unit=unpaired.unit,
        timestamp=unpaired.timestamp,
        stack=unpaired.stack,
        golden_only=unpaired.golden_only,
    )


def listed_row(pair: PairingResult) -> Row:
    """Return the row of a pair that is only to be listed."""
    return paired_row(pair) if isinstance(pair, Pairing) else unpaired_row(pair)


def _shape(tensor: SideTensor) -> Shape | None:
    if tensor.tensor is not None:
        return tensor.tensor.spec.shape
    return tensor.stats.shape if tensor.stats else None
