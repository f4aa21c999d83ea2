"""Completion in the shells themselves, where they are installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from command_line import Capture, run
from opdiff.cli.cmd_completion import SCRIPTS, describe_commands
from opdiff.cli.parsers import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

# Words of a command line, and candidates for the last one.
CASES = {
    "command": ("opdiff com", {"compare", "compat-path", "completion"}),
    "second name": ("msprobe conv", {"convert"}),
    "long option": ("opdiff compare --out", {"--output", "--output-path", "--output-dir", "--output-tensor"}),
    "choice": ("opdiff compare --mode t", {"torchair"}),
    "choice of an argument": ("opdiff completion z", {"zsh"}),
    "folder": ("opdiff compare -o f", {"folder/"}),
    "file": ("opdiff compare --rules fi", {"file.json"}),
    "path": ("opdiff inspect f", {"folder/", "file.json"}),
}
# The shell function is called as readline does; names of files are completed by readline itself.
BASH = """\
source "$1"; shift
compopt() { printf 'option %s\\n' "$@"; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_opdiff
printf '%s\\n' "${COMPREPLY[@]}"
"""
# Completion runs in a terminal of its own; `list-choices` shows all candidates.
ZSH = """\
zmodload zsh/zpty
zpty z zsh -f
zpty -w z "PROMPT=; autoload -Uz compinit; compinit -u -d $3; source $1; cd $2"
zpty -w z "zstyle ':completion:*' list-grouped false; setopt no_auto_menu; LISTMAX=500; bindkey '^I' list-choices"
zpty -w z 'print READY'
zpty -r z line '*READY*READY*'
zpty -n -w z "$4"$'\\t'
sleep 0.5
while zpty -rt z line; do print -r -- $line; done
zpty -d z
"""


def require(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here" / "folder").mkdir(parents=True)
    (tmp_path / "here" / "file.json").touch()
    return tmp_path / "here"


def script(capsys: Capture, folder: Path, shell: str) -> str:
    outcome = run(capsys, "completion", shell)
    assert (outcome.code, outcome.err) == (0, "")
    path = folder / f"opdiff.{shell}"
    path.write_text(outcome.out)
    return str(path)


def output(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(("line", "candidates"), CASES.values(), ids=CASES)
def test_fish(here: Path, capsys: Capture, line: str, candidates: set[str]) -> None:
    path = script(capsys, here.parent, "fish")
    shown = output(require("fish"), "--no-config", "-c", f"source {path}; complete -C '{line}'", cwd=here)
    assert {row.partition("\t")[0] for row in shown.splitlines()} == candidates


@pytest.mark.parametrize(("line", "candidates"), CASES.values(), ids=CASES)
def test_bash(here: Path, capsys: Capture, line: str, candidates: set[str]) -> None:
    path = script(capsys, here.parent, "bash")
    words = output(require("bash"), "-c", BASH, "bash", path, *line.split(), cwd=here).split("\n")
    if line.endswith("-o f"):
        assert words == ["option -o", "option dirnames", "option +o", "option default", "", ""]
    else:
        # Readline completes names of files if there are no candidates.
        assert set(words) - {""} == (set() if "file.json" in candidates else candidates)


def test_zsh(here: Path, capsys: Capture) -> None:
    path = script(capsys, here.parent, "zsh")
    arguments = ("zsh", path, str(here), str(here.parent / "dump"), "opdiff com")
    shown = output(require("zsh"), "-f", "-c", ZSH, *arguments, cwd=here)
    assert re.findall(r"(com[\w-]+)\s+-- ", shown) == sorted(name for name in COMMANDS if name.startswith("com"))


@pytest.mark.parametrize("shell", SCRIPTS)
def test_valid_scripts_with_every_option(tmp_path: Path, capsys: Capture, shell: str) -> None:
    path = script(capsys, tmp_path, shell)
    text = (tmp_path / f"opdiff.{shell}").read_text()
    for command in describe_commands():
        for name in (name for option in command.options for name in option.names):
            assert name.lstrip("-") in text
    output(require(shell), "-n", path, cwd=tmp_path)
