"""`opdiff limits`: the limits by which tensors are judged, as a file that can be edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Print the default limits by which tensors are judged, as a TOML file. Saved as opdiff.toml and edited, it is used by
compare and judge in that folder; elsewhere it can be given with --limits."""
EPILOG = """\
examples:
  opdiff limits > opdiff.toml
  opdiff limits --check opdiff.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("--check", metavar="FILE", default="", help="only say whether this file of limits is sound")


def run(args: argparse.Namespace) -> int:
    """Print the limits, or check a file, and return the exit code."""
    from opdiff.cli.terminal import printable
    from opdiff.judge.limits import limits_text, read_limits

    if not args.check:
        print(limits_text(), end="")
        return ExitCode.OK
    limits = read_limits(args.check)
    rules = len(limits.dtypes) + len(limits.types) + len(limits.names)
    print(printable(f"{args.check}: {rules} changes of the defaults, all sound"))
    return ExitCode.OK
