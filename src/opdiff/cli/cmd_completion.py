"""`opdiff completion`: a script that completes commands and options in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Print a script that completes commands, options and their values in a shell. It is made from the options of this
version, and runs without Python."""
EPILOG = """\
examples:
  source <(opdiff completion bash)                                       in this shell, or in ~/.bashrc
  opdiff completion zsh > "${fpath[1]}/_opdiff"
  opdiff completion fish > ~/.config/fish/completions/opdiff.fish
"""
_SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=f"one of {', '.join(_SHELLS)}")


def run(args: argparse.Namespace) -> int:
    """Print the script, and return the exit code."""
    from opdiff.cli.completion import SCRIPTS, describe_commands

    print(SCRIPTS[args.shell](describe_commands()), end="")
    return ExitCode.OK
