"""Progress on standard error."""

from __future__ import annotations

import sys
import time


class Progress:
    """One changing line on a terminal, otherwise one line per step."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._changes = sys.stderr.isatty()

    def step(self, text: str) -> None:
        """Show the current step."""
        line = f"{time.monotonic() - self._started:5.0f} s  {text}"
        print(
            f"\r\x1b[K{line}" if self._changes else line, end="" if self._changes else "\n", file=sys.stderr, flush=True
        )

    def note(self, text: str) -> None:
        """Show a permanent line."""
        self.step(text)
        self.clear()

    def clear(self) -> None:
        """End the changing line."""
        if self._changes:
            print(file=sys.stderr)
