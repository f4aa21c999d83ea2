"""Execution of commands, in this process or in a separate one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from opdiff.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., "Outcome"]

Capture = pytest.CaptureFixture[str]
COMMAND = (sys.executable, "-m", "opdiff")


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return standard output, parsed as strict JSON without NaN and infinities."""
        return json.loads(self.out, parse_constant=_refuse)


def run(capsys: Capture, *arguments: object) -> Outcome:
    """Run a command in this process."""
    capsys.readouterr()
    try:
        code: object = main([str(argument) for argument in arguments])
    except SystemExit as error:
        code = error.code
    assert isinstance(code, int)
    captured = capsys.readouterr()
    return Outcome(code, captured.out, captured.err)


def run_outside(*arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> Outcome:
    """Run a command in a separate process."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        check=False,
        cwd=cwd,
        env=os.environ | (env or {}),
        timeout=60,
    )
    return Outcome(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def _refuse(constant: str) -> object:
    raise AssertionError(f"{constant} is not JSON")
