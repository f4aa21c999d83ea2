"""The end of the program: at once, unless something waits for Python's own end."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
