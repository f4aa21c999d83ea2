"""`opdiff limits`: print the default limits as an editable file, or check a limits file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import said
from opdiff.core.formatting import printable

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Print the default limits by which tensors are judged, as a TOML file. Save it as opdiff.toml and edit it: compare and
judge use the one in the current directory, or the one that --limits names."""
EPILOG = """\
examples:
  opdiff limits > opdiff.toml
  opdiff limits --check opdiff.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument(
        "--check", metavar="FILE", default="", help="check this limits file instead of printing the defaults"
    )


def run(args: argparse.Namespace) -> int:
    """Print the limits, or check a file, and return the exit code."""
    from opdiff.workflows.limits_file import find_limits, limits_text

    if not args.check:
        print(limits_text(), end="")
        return ExitCode.OK
    limits = find_limits(args.check)
    rules = len(limits.dtypes) + len(limits.types) + len(limits.names)
    print(printable(said("cli.limits_valid", path=args.check, count=rules)))
    return ExitCode.OK
