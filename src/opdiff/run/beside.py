"""A piece of work that another core does meanwhile."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Self

from opdiff.run import usable_cores

if TYPE_CHECKING:
    from collections.abc import Callable


class Beside:
    """Work that leaves its result in a file, done by a copy of this process; here, where it cannot be copied.

    The work must not mind being done twice: when the copy fails, or is killed, it is done here after all, so that an
    error shows as it would without another process.
    """

    def __init__(self, work: Callable[[], object], *, worth_it: bool = True) -> None:
        self._work = work
        self._child = 0
        if not worth_it or usable_cores() < 2:
            return
        try:
            self._child = os.fork()
        except OSError:
            return
        if not self._child:
            self._do_and_end()

    def wait(self) -> None:
        """Come back when the work is done; raises what it raises."""
        child, self._child = self._child, 0
        if not child or os.waitpid(child, 0)[1]:
            self._work()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody waits any more: end it."""
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)

    def _do_and_end(self) -> None:
        code = 1
        try:
            self._work()
            code = 0
        finally:
            # Not a word from here: the process that waits does the work again, and tells.
            os._exit(code)
