"""Speed of the NumPy kernel on this machine."""

from __future__ import annotations

import time

import numpy as np

from opdiff.core import dtypes
from opdiff.measure.reference.blocks import measure

# Takes a hundredth of a second, or a few.
_COUNT = 1 << 16


def measure_speed() -> float:
    """Return the bytes per second of one thread that compares float16 with float32."""
    golden = np.linspace(-1, 1, _COUNT, dtype=np.float32)
    target = (golden * np.float32(1.001)).astype(np.float16)
    started = time.perf_counter()
    measure(target, dtypes.FLOAT16, golden, dtypes.FLOAT32)
    return (target.nbytes + golden.nbytes) / (time.perf_counter() - started)
