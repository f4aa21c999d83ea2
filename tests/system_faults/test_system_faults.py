"""A few faults of each kind in each command; `make system-faults` makes every call fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NUMBERS = ("1", "4")
KINDS = ("open", "read", "write", "sync", "rename", "unlink", "mmap")


@pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc")) is None, reason="there is no C compiler")
def test_commands_end_as_documented_after_a_fault(tmp_path: Path) -> None:
    # In a process of its own, because it forks.
    command = [sys.executable, "-m", "system_faults.run", "--numbers", *NUMBERS, "--kinds", *KINDS]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=300)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["0 findings"]), done.stdout + done.stderr
