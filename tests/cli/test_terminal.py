"""Terminal output: safe strings, sizes, tables and progress."""

from __future__ import annotations

import fcntl
import json
import math
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import COMMAND, Capture, run, run_outside
from dump_files import TIME, add, dump, tensor
from opdiff.cli import cmd_inspect
from opdiff.cli.terminal import Progress, columns, json_text, table, wrapped
from opdiff.core.formatting import printable, size
from opdiff.report.columns import columns_of
from opdiff.sample import write_sample

if TYPE_CHECKING:
    from pathlib import Path


@given(st.text(st.characters()))
def test_printable_escapes_only_unprintable_characters(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert not text.isprintable() or shown == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 算 [red]", "plain ü 算 [red]"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udcff", "\\udcff"),
        ("\x9b", "\\x9b"),
    ],
    ids=["plain", "escape", "space", "right_to_left", "surrogate", "c1_control"],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1 << 20, "1.0 MiB"),
        (5 << 30, "5.0 GiB"), (1 << 40, "1.0 TiB"), (1 << 50, "1.0 PiB"), (1 << 63, "8192.0 PiB"),
    ],
)  # fmt: skip
def test_size(nbytes: int, shown: str) -> None:
    assert size(nbytes) == shown


def test_json_is_standard() -> None:
    values = {"a": [1, math.nan, (math.inf, -math.inf)], "b": None, "c": 0.5, "d": True, "ü": "\udcff\x1b"}
    plain = {"a": [1, "nan", ["inf", "-inf"]], "b": None, "c": 0.5, "d": True, "ü": "\udcff\x1b"}
    text = json_text(values)
    assert json.loads(text) == plain
    assert text.isascii()


def test_a_table_is_plain_when_piped(capsys: Capture) -> None:
    table("title", ["[b]name", "n\x1b"], [["[red]x", 1], ["y" * 300, 22]], right=["n\x1b"])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == "title"
    assert lines[1].split() == ["[b]name", "n\\x1b"]
    assert lines[3].split() == ["[red]x", "1"]
    assert lines[3].endswith("1")
    assert lines[4].split() == ["y" * 300, "22"]


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [((), ""), ((5,), "5"), ((0, 1, 2, 3, 5), "0-3, 5"), ((1, 3, 4, 9), "1, 3-4, 9")],
    ids=["none", "one", "run", "mixed"],
)
def test_runs_of_numbers(numbers: tuple[int, ...], shown: str) -> None:
    assert cmd_inspect._numbers(numbers) == shown


# Progress


class Clock:
    """A clock that stands still unless it is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("quiet", [False, True], ids=["plain", "quiet"])
def test_pipe_gets_occasional_lines(capsys: Capture, monkeypatch: pytest.MonkeyPatch, *, quiet: bool) -> None:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    with Progress("reading", quiet=quiet) as progress:
        for done, clock.now in ((1, 101.0), (2, 111.0), (3, 112.0), (4, 125.0)):
            progress.reach(done, 5)
    expected = "" if quiet else "opdiff: reading: 2 of 5\nopdiff: reading: 4 of 5\n"
    assert capsys.readouterr().err == expected


def test_pipe_shows_workers_and_speed(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    with Progress("comparing", quiet=False, in_bytes=True) as progress:
        progress.show_workers(3)
        clock.now = 120.0
        progress.reach(40 << 20, 200 << 20)
    assert capsys.readouterr().err == "opdiff: comparing on 3 workers: 40.0 MiB of 200.0 MiB, 2.0 MiB/s\n"


class Terminal(StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_bar_shows_workers_and_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, terminal = Clock(), Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    with Progress("comparing", quiet=False, in_bytes=True) as progress:
        assert progress._bar is not None
        progress._bar.get_time = clock
        progress.show_workers(3)
        for clock.now, done in ((100.0, 0), (110.0, 40 << 20), (120.0, 80 << 20)):
            progress.reach(done, 200 << 20)
        progress._bar.refresh()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "comparing on 3 workers" in shown
    assert "80.0/200.0 MiB" in shown
    assert "4.2 MB/s" in shown
    assert "0:00:30" in shown


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="terminals of other systems behave differently")


def open_terminal(width: int) -> tuple[int, int]:
    """Return our end and the other end of a terminal with 24 rows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    return ours, theirs


def on_a_terminal(*arguments: str, has_output: bool) -> str:
    """Return what a command prints to a terminal of 80 columns: its errors, and its output unless that is discarded."""
    ours, theirs = open_terminal(80)
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    env |= {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    out = theirs if has_output else subprocess.DEVNULL
    with subprocess.Popen([*COMMAND, *arguments], stdout=out, stderr=theirs, env=env) as process:
        os.close(theirs)
        seen = b""
        with suppress(OSError):  # the other end is closed
            while part := os.read(ours, 65536):
                seen += part
    os.close(ours)
    assert process.returncode == 0
    return seen.decode()


@linux_only
def test_a_terminal_gets_a_bar(tmp_path: Path) -> None:
    for number in range(300):
        add(tmp_path / "in", f"Add.add{number}.1.2.{TIME}")
    arguments = ("convert", str(tmp_path / "in"), "-out", str(tmp_path / "out"), "-j", "1")
    assert re.search(r"converting.*300/300", on_a_terminal(*arguments, has_output=False))
    assert on_a_terminal(*arguments, "-q", has_output=False) == ""


def screen_of(*arguments: str) -> list[str]:
    """Return the lines of a command's output and errors on a terminal, without colours."""
    # Lines of the bar are erased before others are printed.
    text = on_a_terminal(*arguments, has_output=True).rpartition("\x1b[?25h")[2]
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").splitlines()


@linux_only
@pytest.mark.parametrize(
    ("language", "curve", "last"), [("en", "curve: ", "next: "), ("zh", "曲线\uff1a", "下一步\uff1a")]
)
def test_a_result_fits_a_terminal(tmp_path: Path, language: str, curve: str, last: str) -> None:
    sample = write_sample(str(tmp_path / "s"))
    words = ("compare", sample.target, sample.golden, "--rules", sample.rules, "-o", str(tmp_path), "--lang", language)
    lines = [line for line in screen_of(*words) if line.strip()]
    rows = sum(-(-columns_of(line) // 80) for line in lines)
    assert rows < 24
    # Paths and commands to be copied may be longer.
    assert [line for line in lines if columns_of(line) > 80 and str(tmp_path) not in line] == []
    assert any(line.startswith(curve) and "█" in line for line in lines)
    assert lines[-1].startswith(last)
    assert len([line for line in screen_of(*words, "-q") if line.strip()]) == 1


@linux_only
def test_lines_have_the_width_of_the_terminal_whatever_the_environment_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = open_terminal(90)
    monkeypatch.setenv("COLUMNS", "40")
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        width, lines = columns(), wrapped("word " * 40).splitlines()
    os.close(ours)
    assert width == 90
    assert 80 < max(map(len, lines)) <= 90


# Colours and pages


@pytest.mark.parametrize(("choice", "is_coloured"), [("auto", False), ("never", False), ("always", True)])
def test_colours_of_a_pipe(tmp_path: Path, choice: str, *, is_coloured: bool) -> None:
    for side, value in (("target", 1.0), ("golden", 3.0)):
        add(tmp_path / side, f"Add.a.1.2.{TIME}", dump(tensor([value, 2.0])))
    sides = (tmp_path / "target", tmp_path / "golden")
    outcome = run_outside("compare", *sides, "-o", tmp_path / "out", "--color", choice)
    assert (outcome.code, "\x1b[31m" in outcome.out) == (0, is_coloured)


def test_report_is_opened(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        add(tmp_path / side, f"Add.a.1.2.{TIME}")
    opener = tmp_path / "browser"
    opener.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    opener.chmod(0o700)
    words = ("compare", tmp_path / "target", tmp_path / "golden", "-o", tmp_path / "out dir")
    assert run_outside(*words, "--open", env={"BROWSER": str(opener)}).code == 0
    (page,) = (tmp_path / "out dir").glob("*.html")
    assert (tmp_path / "opened").read_text() == f"{page.as_uri()}\n"
    refused = run_outside(*words, "--open", "--no-html")
    assert (refused.code, "--open cannot be combined with --no-html" in refused.err) == (2, True)


def test_inspection_fits_a_terminal(capsys: Capture, tmp_path: Path) -> None:
    values = np.linspace(-65504, 65504, 64).reshape(1, 1, 2, 2, 16)
    path = add(tmp_path, "a", dump(tensor(values, address=0x1240C0000400)))
    outcome = run(capsys, "inspect", path, "--stats", "-v")
    assert "0x1240c0000400" in outcome.out
    assert max(map(len, outcome.out.splitlines()[1:])) <= 80
    assert "0x1240c0000400" not in run(capsys, "inspect", path, "--stats").out
