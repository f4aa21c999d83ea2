"""Formatting of numbers and names for display."""

from __future__ import annotations

import re
from math import inf, isnan

NOT_A_NUMBER = "NaN"
"""Text for NaN and for values that were not measured."""


def format_number(value: float | None) -> str:
    """Return a number with six decimals if these show at least six digits, otherwise in scientific notation.

    Integers are printed in full.
    """
    if value is None:
        return NOT_A_NUMBER
    if isinstance(value, int):
        return str(value)
    magnitude = abs(value)
    if magnitude >= 0.1:
        return f"{value:.6f}" if magnitude < 1e16 else str(value) if magnitude == inf else f"{value:.5e}"
    if not value:
        return "0.000000"
    if isnan(value):
        return NOT_A_NUMBER
    # Most numbers are not exact with six decimals, and the first condition shows it without formatting them.
    is_rounded = 1e-3 < magnitude * 1e6 % 1.0 < 0.999 or float(f"{value:.6f}") != value
    return f"{value:.5e}" if is_rounded else f"{value:.6f}"


def escape_controls(text: str) -> str:
    """Escape control characters, line breaks included, for files that people open: a cell stays on its line."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda match: match[0].encode("unicode_escape").decode(), text)


def printable(text: str) -> str:
    """Escape control characters and lone surrogates: strings from files stay on their line and are safe to print."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def size(nbytes: int) -> str:
    """Return a number of bytes in binary units."""
    steps = max((nbytes.bit_length() - 1) // 10, 0)
    unit = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")[min(steps, 5)]
    return f"{nbytes} B" if not steps else f"{nbytes / 1024 ** min(steps, 5):.1f} {unit}"
