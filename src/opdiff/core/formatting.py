"""Numbers as people read them."""

from __future__ import annotations

from math import inf, isnan

from opdiff.core.native import native_twin

_NOT_A_NUMBER = "NaN"


@native_twin
def number_text(value: float | None) -> str:
    """A number as it is printed: six decimals where they show at least six digits, a power of ten otherwise.

    Integers are printed in full. What is NaN and what was not measured are both `NaN`: the table has one word for them.
    """
    if value is None or isnan(value):
        return _NOT_A_NUMBER
    if isinstance(value, int):
        return str(value)
    size = abs(value)
    if size >= 0.1:
        return f"{value:.6f}" if size < 1e16 else str(value) if size == inf else f"{value:.5e}"
    if not value:
        return "0.000000"
    return f"{value:.6f}" if _has_six_decimals(value) else f"{value:.5e}"


def _has_six_decimals(value: float) -> bool:
    """Whether a small number has no more decimals than six."""
    # Most have more, which is seen without printing them.
    near_millionth = not 1e-3 < abs(value) * 1e6 % 1.0 < 0.999
    return near_millionth and float(f"{value:.6f}") == value
