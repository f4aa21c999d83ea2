"""Rows of a comparison whose tensors can be read while the dumps exist."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  msgspec reads it
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from opdiff.core import comparison as core
from opdiff.core.dump import SideTensor  # noqa: TC001  msgspec reads it

if TYPE_CHECKING:
    import numpy.typing as npt

    from opdiff.core.codes import AnyArray


class RowSide(core.SideInfo, frozen=True, kw_only=True):
    """One side of a row; `find` opens its dump."""

    find: Callable[[], SideTensor]

    def __repr__(self) -> str:
        return repr(core.SideInfo(*astuple(self)[:-1]))

    @property
    def tensor(self) -> SideTensor:
        """The stored tensor.

        Raises:
            InputError: the dump cannot be read any more, or does not have the tensor.
        """
        return self.find()

    def numpy(self) -> AnyArray:
        """Read the numbers in the stored shape; see `SideTensor.numpy`."""
        return self.tensor.numpy()

    def to(self, layout: str) -> AnyArray:
        """Read the numbers in another layout; see `SideTensor.to`."""
        return self.tensor.to(layout)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> AnyArray:  # noqa: FBT001
        return self.tensor.__array__(dtype, copy)


class Row(core.Row, frozen=True):
    """A row with readable sides."""

    target: RowSide | None = None
    golden: RowSide | None = None
