"""Bytes as a job for the native kernel, and what must come of it."""

from __future__ import annotations

from math import prod
from struct import Struct

import numpy as np

from measure.kernels import Stored, by_kernel, offsets_of
from opdiff.core import dtypes
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel.results import Failure

_TYPES = [dtype for dtype in dtypes.BY_NAME.values() if native.is_supported(dtype, dtypes.FLOAT32)]
_HEAD, _AXIS = Struct("<4B"), Struct("<HHhh")
_MOST = 1 << 16


class Guess:
    """Two tensors as the bytes describe them: their types, the axes of the target, and the data of both."""

    def __init__(self, raw: bytes) -> None:
        head = raw[: _HEAD.size].ljust(_HEAD.size, b"\0")
        target, golden, rank, self.run = _HEAD.unpack(head)
        self.types = _TYPES[target % len(_TYPES)], _TYPES[golden % len(_TYPES)]
        rest = raw[_HEAD.size :]
        rank = min(rank % 6, len(rest) // _AXIS.size)
        self.axes = [_AXIS.unpack_from(rest, number * _AXIS.size) for number in range(rank)]
        self.data = rest[rank * _AXIS.size :] or b"\0"

    def check(self) -> None:
        """Measure them.

        Raises:
            AssertionError: the answer is not that for a copy in logical order.
        """
        count = prod(axis[0] for axis in self.axes)
        if not 0 < count <= _MOST or native.find_library() is None:
            return
        x, y = self.types
        stored = np.frombuffer(self._filled(max(len(self.data), 8) // 8 * 8), np.uint8).view(x.storage)
        golden = np.frombuffer(self._filled(count * y.bits // 8), np.uint8).view(y.storage)
        shape = (count // self.run, self.run) if self.run and count % self.run == 0 else tuple(a[0] for a in self.axes)
        found = by_kernel(Stored(stored, x, tuple(self.axes)), Stored(golden, y), shape or (1,))
        is_valid = all(split >= 1 and outer >= 0 and inner >= 0 for _, split, outer, inner in self.axes)
        places = offsets_of(tuple(self.axes)) if is_valid else np.array([stored.size])
        if places.max() >= stored.size:
            assert found == Failure(), found
            return
        assert repr(found) == repr(by_kernel(Stored(stored[places], x), Stored(golden, y), shape or (1,)))

    def _filled(self, nbytes: int) -> bytes:
        return (self.data * (nbytes // len(self.data) + 1))[:nbytes]
