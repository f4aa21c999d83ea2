"""A piece of work that another core does meanwhile."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from opdiff.run import usable_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

Result = TypeVar("Result")

# Seconds in which a copy that nobody waits for any more can end by itself.
_PATIENCE = 1.0


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
        from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask

        wanted = pthread_sigmask(SIG_BLOCK, ())
        try:
            try:
                # An interrupt must not find the copy where it could go on as if it were this process.
                pthread_sigmask(SIG_BLOCK, {SIGINT})
                self._start(wanted)
            finally:
                pthread_sigmask(SIG_SETMASK, wanted)
        except BaseException:
            self.__exit__()
            raise

    def _start(self, wanted: Iterable[int]) -> None:
        pipe: tuple[int, ...] = ()
        try:
            receiving, sending = pipe = os.pipe()
            self._child = os.fork()
        except OSError:
            for end in pipe:
                os.close(end)
            return
        if not self._child:
            os.close(receiving)
            self._do_and_end(sending, wanted)
        os.close(sending)
        self._pipe = receiving

    def is_done(self, within: float = 0.0) -> bool:
        """Whether the copy has done what it was to do, or failed, so many seconds from now at the latest."""
        if self._pipe is None:
            return True
        import select

        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        return bool(poll.poll(within * 1000))

    def result(self) -> Result:
        """What the work yields, when it is done; raises what it raises."""
        if self._pipe is None:
            return self._work()
        with os.fdopen(self._pipe, "rb", closefd=False) as pipe:
            data = pipe.read()
        self._close()
        child, self._child = self._child, 0
        if _status(child):
            return self._work()
        import pickle

        found: Result = pickle.loads(data)  # noqa: S301  a copy of this very process wrote it
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody waits any more: end it."""
        if self._child:
            from signal import SIGINT, SIGKILL

            # It may have begun a file, and takes that away if it can.
            with suppress(ProcessLookupError):
                os.kill(self._child, SIGINT)
                if not self.is_done(within=_PATIENCE):
                    os.kill(self._child, SIGKILL)
            self._close()
            _status(self._child)

    def _close(self) -> None:
        """Read no more; a copy that still writes is told by that."""
        if self._pipe is not None:
            receiving, self._pipe = self._pipe, None
            os.close(receiving)

    def _do_and_end(self, sending: int, wanted: Iterable[int]) -> None:
        code = 1
        try:
            import pickle
            from signal import SIG_SETMASK, pthread_sigmask

            pthread_sigmask(SIG_SETMASK, wanted)

            data = pickle.dumps(self._work(), pickle.HIGHEST_PROTOCOL)
            with os.fdopen(sending, "wb") as pipe:
                pipe.write(data)
            code = 0
        finally:
            # Not a word from here: the process that waits does the work again, and tells.
            os._exit(code)


def _status(child: int) -> int:
    """How a copy ended; as if it had failed where children are ignored (`SIGCHLD`), and nobody can tell."""
    try:
        return os.waitpid(child, 0)[1]
    except ChildProcessError:
        return 1
