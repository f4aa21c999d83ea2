"""The end of the program: at once, unless something waits for Python's own end; and by signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dump_files import TIME, add, numbered

if TYPE_CHECKING:
    from pathlib import Path

# Enough small files that several processes convert them.
FILES_FOR_PROCESSES = 210
PROGRAM = """
import sys
from opdiff.__main__ import {name} as run
{before}
sys.argv = ["opdiff", "inspect", "/nothing"]
code = run()
print("returned", code)
sys.exit(code)
"""
A_THREAD = """
import threading
main_thread = threading.current_thread()
threading.Thread(target=lambda: (main_thread.join(), print("done"))).start()
"""
# What runs before the command, and what is printed after it.
WAITING = {
    "nothing": ("", ""),
    "function": ("import atexit; atexit.register(print, 'done')", "returned 3\ndone\n"),
    "thread": (A_THREAD, "returned 3\ndone\n"),
    "open file": ("import numpy; file = open(1, 'w', closefd=False); file.write('done\\n')", "returned 3\ndone\n"),
}


@pytest.mark.parametrize(("before", "printed"), WAITING.values(), ids=WAITING)
def test_what_waits_for_the_end_of_python_is_done(before: str, printed: str) -> None:
    program = PROGRAM.format(name="program", before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (3, printed)
    assert done.stderr == "opdiff: /nothing: no such file or directory\n"


def test_the_command_line_returns_to_programs_that_call_it() -> None:
    program = PROGRAM.format(name="main", before="")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (3, "returned 3\n")


# Ends itself by a signal in the first call of a function of a module.
SIGNALLED = """
import os, sys
from opdiff.__main__ import main

def watch(frame, event, argument):
    if event == "call" and frame.f_code.co_name == {function!r} and frame.f_globals.get("__name__") == {module!r}:
        sys.setprofile(None)
        os.kill(os.getpid(), {number})

sys.argv = ["opdiff", *{arguments!r}]
sys.setprofile(watch)
sys.exit(main())
"""
# Ends itself by a signal when dask has prepared the start of a worker.
WORKER_SIGNALLED = """
import os, signal, sys
from distributed.nanny import Nanny
from opdiff.__main__ import main

class Signalled(Nanny):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        os.kill(os.getpid(), signal.SIGTERM)

if __name__ == "__main__":
    import distributed.deploy.local
    distributed.deploy.local.Nanny = Signalled
    sys.argv = ["opdiff", *{arguments!r}]
    sys.exit(main())
"""
# Moments of a run: the first calls of functions, by module. Exceptions in some of them are lost or crash their caller.
MOMENTS = (
    ("opdiff.__main__", "_leave_out_current_folder"),
    ("enum", "__set_name__"),
    ("importlib._bootstrap", "cb"),
    ("msgspec._utils", "get_class_annotations"),
    ("typing", "__hash__"),
    ("opdiff.cli", "main"),
    ("opdiff.cli.cmd_inspect", "run"),
    ("opdiff.__main__", "_prepare_exit"),
)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(("module", "function"), MOMENTS, ids=map(".".join, MOMENTS))
def test_signals_end_the_program_at_any_moment(
    module: str, function: str, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    add(tmp_path, f"Add.a.1.2.{TIME}", numbered(2))
    program = SIGNALLED.format(
        module=module, function=function, number=int(number), arguments=["inspect", str(tmp_path)]
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (code, "opdiff: interrupted\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_no_process_is_forgotten_whose_start_is_interrupted(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """It would look for semaphores that are there no more, and show a traceback."""
    for index in range(FILES_FOR_PROCESSES):
        add(tmp_path / "dump", f"Add.a{index}.1.2.{TIME + index}", numbered(2))
    arguments = ["convert", str(tmp_path / "dump"), "-out", str(tmp_path / "out"), "-t", "npz", "-j", "2"]
    program = SIGNALLED.format(
        module="multiprocessing.forkserver", function="read_signed", number=int(number), arguments=arguments
    )
    file = add(tmp_path, "program.py", program.replace("\nsys", "\nif __name__ == '__main__': sys").encode())
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (code, "opdiff: interrupted; all existing results are complete\n")


def test_the_start_of_a_cluster_is_not_interrupted(tmp_path: Path) -> None:
    """Dask cannot close a cluster that is half started, and shows a traceback."""
    add(tmp_path / "dump", f"Add.a.1.2.{TIME}", numbered(2))
    program = WORKER_SIGNALLED.format(arguments=["inspect", str(tmp_path / "dump"), "--cluster", "local:1"])
    file = add(tmp_path, "program.py", program.encode())
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (143, "opdiff: interrupted\n")


def test_ignored_signals_stay_ignored(tmp_path: Path) -> None:
    add(tmp_path, f"Add.a.1.2.{TIME}", numbered(2))
    program = SIGNALLED.format(
        module="opdiff.cli", function="main", number=int(signal.SIGINT), arguments=["inspect", str(tmp_path)]
    )
    before = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", before + program], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
