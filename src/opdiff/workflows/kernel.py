"""The kernel that measures, for the front ends: native, or NumPy."""

from __future__ import annotations

from contextlib import suppress

from opdiff.core.reasons import Reason, because, quoted
from opdiff.measure.kernel.library import find_library, is_missing


def kernel_name() -> Reason:
    """Return the kernel that measures: the native one with the instructions that it uses, or NumPy and why.

    Raises:
        UsageError: the selected library cannot be used.
    """
    library = find_library()
    if library is not None:
        return because("workflows.native_kernel", instructions=library.od_instructions().decode())
    return Reason("workflows.numpy_for_native") if is_missing() else quoted("NumPy")


def find_fallback_speed() -> float | None:
    """Return the bytes per second of NumPy on one core if it measures because the native kernel is missing."""
    if is_missing():
        from opdiff.measure.reference.speed import measure_speed

        # Without memory for this, the comparison itself may still succeed.
        with suppress(MemoryError):
            return measure_speed()
    return None
