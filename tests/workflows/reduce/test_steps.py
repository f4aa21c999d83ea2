"""The table of steps: whatever happens before any step of a reduction, no data is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent.parent
# Syncing takes most of the time on a disk.
IN_MEMORY = next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)  # noqa: S108 a new folder in it
CASES = [
    *(("ge", name) for name in (
        "replaced", "rewritten", "written one step later", "written five steps later", "written at the end", "killed",
        "killed, then replaced",
    )),
    ("taken", "replaced"), ("taken", "killed"), ("fx", "killed"), ("keep", "replaced"),
]  # fmt: skip


def run_script(name: str, *arguments: str) -> dict[str, Any]:
    """Run a program beside this file in a new folder; return what it prints."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        script = str(Path(__file__).with_name(name))
        done = subprocess.run(
            [sys.executable, script, f"{folder}/dump", *arguments],
            env=os.environ | {"PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("start", "disturbance"), CASES)
def test_nothing_is_lost_before_any_step(start: str, disturbance: str) -> None:
    found = run_script("step_table.py", start, disturbance)
    assert found["lost"] == []
    assert found["steps"] > 30


def test_nothing_is_lost_at_random_moments() -> None:
    found = run_script("random_kills.py", "100", "1")
    assert (found["lost"], found["left"]) == ([], [])
    assert found["killed"] > 0
