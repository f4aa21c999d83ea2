"""A piece of work that another core does meanwhile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from opdiff.run import usable_cores

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


class Beside(Generic[Result]):
    """Work that a copy of this process does; or this one, when its result is asked for, where it cannot be copied.

    The work must not mind being done twice: when the copy fails, or is killed, it is done here after all, so that an
    error shows as it would without another process. The result must be picklable.
    """

    def __init__(self, work: Callable[[], Result], *, worth_it: bool = True) -> None:
        self._work = work
        self._child = 0
        self._pipe: int | None = None
        if not worth_it or usable_cores() < 2:
            return
        import pickle  # noqa: F401  once for both

        receiving, sending = os.pipe()
        try:
            self._child = os.fork()
        except OSError:
            os.close(receiving)
            os.close(sending)
            return
        if not self._child:
            self._do_and_end(sending)
        os.close(sending)
        self._pipe = receiving

    def is_done(self) -> bool:
        """Whether the copy has done what it was to do, or failed; without one there is nothing to wait for."""
        if self._pipe is None:
            return True
        import select

        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        return bool(poll.poll(0))

    def result(self) -> Result:
        """What the work yields, when it is done; raises what it raises."""
        if self._pipe is None:
            return self._work()
        # The file closes it, also when an interrupt ends the reading.
        receiving, self._pipe = self._pipe, None
        with os.fdopen(receiving, "rb") as pipe:
            data = pipe.read()
        child, self._child = self._child, 0
        if os.waitpid(child, 0)[1]:
            return self._work()
        import pickle

        found: Result = pickle.loads(data)  # noqa: S301  a copy of this very process wrote it
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody waits any more: end it."""
        if self._child:
            from signal import SIGKILL

            os.kill(self._child, SIGKILL)
            os.waitpid(self._child, 0)
        if self._pipe is not None:
            os.close(self._pipe)

    def _do_and_end(self, sending: int) -> None:
        code = 1
        try:
            import pickle

            data = pickle.dumps(self._work(), pickle.HIGHEST_PROTOCOL)
            with os.fdopen(sending, "wb") as pipe:
                pipe.write(data)
            code = 0
        finally:
            # Not a word from here: the process that waits does the work again, and tells.
            os._exit(code)
