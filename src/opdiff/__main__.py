"""The program `opdiff`, also as `python -m opdiff`."""

# Built-in and frozen modules only: the search path is cleaned first. `signal` would import enum and others, which an
# interrupt turns into a traceback.
import _signal  # type: ignore[import-not-found]  # typeshed does not describe it
import gc
import os
import sys
import time

# Not imported from typing, which imports others.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import FrameType

# Signals in this time after the first one are the same: a program that ends a process group may send several.
_SAME_INTERRUPT_S = 1.0
_SECONDS_UNTIL_RETRY = 0.001
# Modules that native code calls, of Python and msgspec, which loses exceptions or crashes; and those that start
# processes, which would wait for what is no longer there without being known.
_NOT_INTERRUPTED = frozenset(
    {
        "enum", "msgspec._utils", "typing", "weakref", "_weakrefset",
        "concurrent.futures.process", "distributed.deploy.local",
    }
)  # fmt: skip


def main() -> int:
    """Run the command line and return its exit code; an interrupt is no error, however early or late it comes."""
    return _run(at_once=False)


def program() -> int:
    """Run the command line as the installed program, whose process ends at once if nothing waits for Python's end."""
    return _run(at_once=True)


def _run(*, at_once: bool) -> int:
    # Modules hold many values and hardly a reference cycle: searching for cycles while they are imported is no use.
    gc.disable()
    interrupts = _Interrupts()
    try:
        interrupts.install()
        _leave_out_current_folder()
        from opdiff.cli import main as run

        code = run()
        interrupts.raise_pending()
        if at_once:
            _end_at_once(code)
        _prepare_exit()
    except KeyboardInterrupt as interrupt:
        _prepare_exit()
        sys.stderr.write("opdiff: interrupted\n")
        return 128 + int(interrupt.args[0] if interrupt.args else _signal.SIGINT)
    return code


class _Interrupts:
    """Turns SIGINT and SIGTERM into a `KeyboardInterrupt` with the number of the signal.

    It is raised as soon as no module is being imported, no process is being started, and no native code may be the
    caller. A second signal ends the process at once.
    """

    def __init__(self) -> None:
        self._number = 0
        self._first_at = 0.0
        self._is_raised = False

    def install(self) -> None:
        """Handle the signals that are not ignored, as they are after `nohup` and in the background of a script."""
        for number in (_signal.SIGINT, _signal.SIGTERM):
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self._note)
        _signal.signal(_signal.SIGALRM, self._raise_if_safe)

    def raise_pending(self) -> None:
        """Raise the interrupt of a signal for which there was no safe moment."""
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        self._raise_if_safe(self._number, None)

    def _note(self, number: int, frame: "FrameType | None") -> None:
        if not self._number:
            self._number, self._first_at = number, time.monotonic()
            self._raise_if_safe(number, frame)
        elif time.monotonic() - self._first_at > _SAME_INTERRUPT_S:
            os._exit(128 + number)

    def _raise_if_safe(self, _number: int, frame: "FrameType | None") -> None:
        if self._is_raised or not self._number:
            return
        if _is_safe(frame):
            self._is_raised = True
            raise KeyboardInterrupt(self._number)
        _signal.setitimer(_signal.ITIMER_REAL, _SECONDS_UNTIL_RETRY)


def _is_safe(frame: "FrameType | None") -> bool:
    """Return whether an exception that is raised in a frame arrives in `_run`, and leaves nothing behind."""
    while frame is not None and frame.f_code is not _run.__code__:
        code = frame.f_code
        is_import = code.co_filename.startswith("<frozen importlib")
        if is_import or code.co_name == "__del__" or frame.f_globals.get("__name__") in _NOT_INTERRUPTED:
            return False
        frame = frame.f_back
    return True


def _leave_out_current_folder() -> None:
    """Remove the current folder from the module path if an empty entry of PYTHONPATH stands for it.

    Scripts that set up toolkits leave such entries: `export PYTHONPATH=/opt/toolkit/python:$PYTHONPATH`.
    """
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if len(entries) > 1 and "" in entries:
        # Processes that are started inherit it.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, entries))
        here = os.getcwd()
        sys.path[:] = [entry for entry in sys.path if entry not in ("", here)]


def _end_at_once(code: int) -> None:
    """End the process, unless something waits for Python's own end, which takes 5 ms to release every value.

    That may be a function of `atexit`, another thread, or a file that a plug-in left open; plug-ins run with numpy.
    """
    import atexit

    threading = sys.modules.get("threading")
    has_threads = threading is not None and threading.active_count() > 1
    if has_threads or atexit._ncallbacks() or "numpy" in sys.modules:  # noqa: SLF001  has no other name
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        # Python reports it at its own end.
        return
    os._exit(code)


def _prepare_exit() -> None:
    """Let Python end quickly, and without a traceback if it is interrupted meanwhile."""
    # Python would search all values for cycles once more at its end; that took 5 to 10 % of a run.
    gc.freeze()
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    if _signal.getsignal(_signal.SIGTERM) != _signal.SIG_IGN:
        _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # Python put the current folder first, which may hold dumps of others and files that are named like modules.
        del sys.path[0]
    sys.exit(main())
