"""What is being done now, on standard error."""

from __future__ import annotations

import sys
import time


class Progress:
    """On a terminal one line that changes; elsewhere a line for each step."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._changes = sys.stderr.isatty()

    def step(self, text: str) -> None:
        """What is done from now on."""
        line = f"{time.monotonic() - self._started:5.0f} s  {text}"
        print(
            f"\r\x1b[K{line}" if self._changes else line, end="" if self._changes else "\n", file=sys.stderr, flush=True
        )

    def note(self, text: str) -> None:
        """Something that should stay to be read."""
        self.step(text)
        self.clear()

    def clear(self) -> None:
        """End the line that changes."""
        if self._changes:
            print(file=sys.stderr)
