"""Waiting for other processes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(is_reached: Callable[[], bool], max_seconds: float = 120) -> None:
    """Wait until a state is reached; fail if that takes too long."""
    deadline = time.monotonic() + max_seconds
    while not is_reached():
        assert time.monotonic() < deadline
        time.sleep(0.005)
