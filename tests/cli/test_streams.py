"""Standard streams of the command line: closed, full, or in an encoding that lacks characters."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from command_line import COMMAND, run_outside
from dump_files import TIME, add, dump, tensor
from opdiff.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path


def many_constants(folder: Path) -> Path:
    """Make a directory with many findings."""
    for number in range(200):
        name = "Add." + "n" * 150 + f"{number}.1.2.{TIME}"
        add(folder, name, dump(tensor([1.0, 1.0])))
    return folder


def many_tensors(folder: Path) -> Path:
    """Make a file with a long table."""
    return folder.joinpath(add(folder, "a", dump(*[tensor([1.0])] * 400)))


@pytest.mark.parametrize("what", [many_constants, many_tensors], ids=["lines", "table"])
def test_closed_pipe_is_no_error(tmp_path: Path, what: object) -> None:
    assert callable(what)
    process = subprocess.Popen(
        [*COMMAND, "inspect", str(what(tmp_path)), "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    # A small pipe, so that the writer must wait for the reader.
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    assert process.stdout.readline().startswith(os.fsencode(tmp_path))
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=30) == 0


def test_closed_pipe_changes_neither_files_nor_exit_code(tmp_path: Path) -> None:
    for side, value in (("target", 1.0), ("golden", 3.0)):
        for number in range(200):
            add(tmp_path / side, f"Add.{'n' * 100}{number}.1.2.{TIME}", dump(tensor([value, 2.0])))
    sides = [str(tmp_path / side) for side in ("target", "golden")]
    answer, table = tmp_path / "answer.json", tmp_path / "out"
    words = [*COMMAND, "compare", *sides, "-o", str(table), "--json", str(answer), "--fail-on", "wrong"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.GATE
    assert err.startswith(b"opdiff: gate violated: there are tensors that are wrong: 200 tensors of n")
    assert err.endswith(b" and 195 more\n")
    assert json.loads(answer.read_bytes())["schema"]
    assert sorted(path.suffix for path in table.iterdir()) == [".csv", ".html", ".json"]


def test_full_device_is_an_error_of_the_output(tmp_path: Path) -> None:
    add(tmp_path, f"Add.a.1.2.{TIME}")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, "inspect", str(tmp_path)], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (3, b"opdiff: standard output: No space left on device\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk"])
@pytest.mark.parametrize("command", ["inspect", "convert"])
def test_encoding_that_lacks_characters(tmp_path: Path, encoding: str, command: str) -> None:
    for number in range(30):
        add(tmp_path / "算", f"ü{number}", b"")
    add(tmp_path / "算", f"Add.a.1.2.{TIME}", dump(tensor([0.0, 0.0])))
    add(tmp_path / "算", f"Add.b.1.2.{TIME}", b"")
    arguments = {"inspect": [], "convert": ["-out", tmp_path / "out"]}[command]
    outcome = run_outside(command, tmp_path / "算", *arguments, env={"PYTHONIOENCODING": encoding})
    assert outcome.code == 0
    assert "Traceback" not in outcome.err
    assert run_outside(command, "--help", env={"PYTHONIOENCODING": encoding}).code == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(tmp_path: Path, closed: str) -> None:
    add(tmp_path, f"Add.a.1.2.{TIME}")
    command = f'"{sys.executable}" -m opdiff inspect "{tmp_path}" {closed}'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    assert done.returncode == 0
