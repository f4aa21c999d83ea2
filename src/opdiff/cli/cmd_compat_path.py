"""`opdiff compat-path`: the documented conversion script and its import."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import said

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Let the documented conversion script (convert.py) run unchanged and without the vendor's package. Its line "from
components.utils.acc_cmp import parse_torchair_dump_data" otherwise fails with ModuleNotFoundError: No module named
'components'. Without an option, a directory for PYTHONPATH is printed. `opdiff reduce` does the same as the script with
more precautions."""
EPILOG = """\
examples:
  opdiff compat-path --install                                         once; then: python3 convert.py msprobe_ge_dump
  PYTHONPATH=$(opdiff compat-path) python3 convert.py msprobe_ge_dump  without a change of the environment
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--install", action="store_true", help="put the directory on the import path of this Python environment"
    )
    what.add_argument("--uninstall", action="store_true", help="take it off the import path again")


def run(args: argparse.Namespace) -> int:
    """Print the directory, or change the import path, and return the exit code."""
    from opdiff.workflows.import_path import import_directory, install, uninstall

    if args.install:
        print(said("cli.compat_installed", path=install(), python=sys.executable))
    elif args.uninstall:
        path = uninstall()
        print(said("cli.compat_uninstalled", path=path) if path else said("cli.compat_not_installed"))
    else:
        print(import_directory())
    return ExitCode.OK
