"""Limits of the user, from a file; and the default limits as such a file."""

from __future__ import annotations

import os

from opdiff.judge.limits import DEFAULT_FILE, Limits, limits_text, read_limits

__all__ = ["find_limits", "limits_text"]


def find_limits(path: str) -> Limits:
    """Read the limits of a file; for an empty path those of the current folder, otherwise the defaults.

    Raises:
        InputError: the file cannot be used.
    """
    if not path and not os.path.isfile(DEFAULT_FILE):
        return Limits()
    return read_limits(path or os.path.abspath(DEFAULT_FILE))
