"""Measured tensors of a network, and the limits by which each tensor is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.judge.error_magnitude import error_magnitude
from opdiff.judge.levels import assess_floats, assess_integers
from opdiff.judge.limits import coarser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.judge.error_magnitude import ErrorMagnitude
    from opdiff.judge.levels import Assessment
    from opdiff.judge.limits import Limit, Limits


class MeasuredTensor(Struct, frozen=True, gc=False):
    """A row with metrics.

    Attributes:
        row_index: index of the row.
        row: the row.
        metrics: its metrics.
        magnitude: magnitude of its error.
        dtype: element type whose limits apply.
        is_integer: whether both sides hold integers or booleans.
        limit: its limits.
    """

    row_index: int
    row: Row
    metrics: Metrics
    magnitude: ErrorMagnitude
    dtype: str
    is_integer: bool
    limit: Limit


def assess(tensor: MeasuredTensor, allowed: float, allowed_peak: float) -> Assessment:
    """Return level and reason of a tensor with this budget; integers are counted instead."""
    if tensor.is_integer:
        return assess_integers(tensor.metrics, tensor.limit)
    return assess_floats(tensor.metrics, tensor.magnitude, tensor.limit, allowed, allowed_peak)


class TensorLimits:
    """Tensors of a run with this noise, with their limits, looked up once for each element type and operator type."""

    def __init__(self, limits: Limits, run_noise: float) -> None:
        self.run_noise = run_noise
        self._limits = limits
        self._known: dict[tuple[str, str], Limit] = {}

    def find_tensor(self, rows: Sequence[Row], row_index: int) -> MeasuredTensor | None:
        """Return the tensor of a row; `None` if the tensor was not measured or has no elements."""
        row = rows[row_index]
        metrics, target, golden = row.metrics, row.target, row.golden
        magnitude = error_magnitude(metrics)
        if metrics is None or magnitude is None:
            return None
        dtype = coarser(target.dtype if target else "", golden.dtype if golden else "")
        limit = self.of_type(dtype, row)
        return MeasuredTensor(row_index, row, metrics, magnitude, dtype, dtype == "integer", limit)

    def of_type(self, dtype: str, row: Row) -> Limit:
        """Return the limits that a row with this element type would have."""
        op_type = row.label.op_type
        if self._limits.names:
            return self._limits.of(dtype, op_type, row.key.op if row.key else row.label.target)
        limit = self._known.get((dtype, op_type))
        if limit is None:
            limit = self._known[dtype, op_type] = self._limits.of(dtype, op_type, "")
        return limit

    def noise(self, tensor: MeasuredTensor) -> float:
        """Return the relative error that a simple operator may add in this run."""
        return tensor.limit.noise * self.run_noise
