"""The parsers of the command line, for what `usual` leaves to them: help, errors, and what is seldom."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from opdiff import __version__
from opdiff.cli.arguments import describe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_USUAL_COLUMNS = 80
_EPILOG = """\
examples:
  opdiff demo                         make a sample of dumps and look at it
  opdiff compare NPU_DIR GOLDEN_DIR --rules network.json
  opdiff inspect DUMP_DIR             what is in this directory, and is it sound?
  opdiff inspect Conv2D.conv1.4.3.1672900579018235 --stats
  opdiff convert DUMP_DIR -out npy    every tensor as a NumPy file

`opdiff COMMAND --help` has more. `msprobe` is another name of the same program.
"""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. One of these is made for every option, and asking `shutil` would import it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_terminal_columns() - 2)


def _terminal_columns() -> int:
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):  # not a terminal, or not even a file
        return _USUAL_COLUMNS


_STYLE: dict[str, Any] = {"formatter_class": _Help, "allow_abbrev": False}


def command_parser(name: str) -> argparse.ArgumentParser:
    """The parser of the words behind the name of a command."""
    command = argparse.ArgumentParser(prog=f"{os.path.basename(sys.argv[0])} {name}", **_STYLE)
    describe(name, command)
    return command


def whole_parser(commands: Mapping[str, str], words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of a command line; of the commands, only those that are among the words have their options.

    Args:
        commands: what each of them is.
        words: of the command line.
    """
    parser = argparse.ArgumentParser(
        description="Find the operator that lost your accuracy: read, convert and compare Ascend NPU dumps.",
        epilog=_EPILOG,
        **_STYLE,
    )
    parser.add_argument("--version", action="version", version=f"opdiff {__version__}")
    chosen = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, brief in commands.items():
        command = chosen.add_parser(name, help=brief, **_STYLE)
        if name in words:
            describe(name, command)
    return parser
