"""Bytes as a job for the native kernel, and what must come of it."""

from __future__ import annotations

from math import prod
from struct import Struct

import numpy as np

from opdiff.core import dtypes
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel.results import Failure, measure_all

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
        places = self._places()
        shape = (count // self.run, self.run) if self.run and count % self.run == 0 else tuple(a[0] for a in self.axes)
        found = self._measure(stored, golden, self.axes, shape or (1,))
        # An axis that is not cut has one stride.
        if places is None or places.max() >= stored.size:
            assert found == Failure(), found
            return
        assert repr(found) == repr(self._measure(stored[places], golden, [], shape or (1,)))

    def _filled(self, nbytes: int) -> bytes:
        return (self.data * (nbytes // len(self.data) + 1))[:nbytes]

    def _places(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None:
        places = np.zeros(1, np.int64)
        for extent, split, outer, inner in self.axes:
            if split < 1 or outer < 0 or inner < 0:
                return None
            index = np.arange(extent)
            places = (places[:, np.newaxis] + index // split * outer + index % split * inner).reshape(-1)
        return places

    def _measure(
        self,
        target: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
        golden: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
        axes: list[tuple[int, int, int, int]],
        shape: tuple[int, ...],
    ) -> object:
        x, y = self.types
        sides = (
            native.Operand("", 0, target.nbytes, x, axes, target.ctypes.data),
            native.Operand("", 0, golden.nbytes, y, (), golden.ctypes.data),
        )
        (answer,) = measure_all([native.NativeJob(*sides, shape)], 1, lambda _: None, with_kl=True)
        return answer
