"""The program `opdiff`, also as `python -m opdiff`."""

import gc
import os
import sys


def main() -> int:
    """Run the command line and return its exit code; an interrupt is no error, however early or late it comes."""
    return _run(at_once=False)


def program() -> int:
    """Run the command line as the installed program, whose process ends at once if nothing waits for Python's end."""
    return _run(at_once=True)


def _run(*, at_once: bool) -> int:
    # Modules hold many values and hardly a reference cycle: searching for cycles while they are imported is no use.
    gc.disable()
    try:
        _leave_out_current_folder()
        from opdiff.cli import main as run

        code = run()
        if at_once:
            _end_at_once(code)
        _prepare_exit()
    except KeyboardInterrupt:
        _prepare_exit()
        sys.stderr.write("opdiff: interrupted\n")
        return 130
    return code


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
    # Not imported at the top: the search path is cleaned before.
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
    # Not imported at the top: the search path is cleaned before.
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # Python put the current folder first, which may hold dumps of others and files that are named like modules.
        del sys.path[0]
    sys.exit(main())
