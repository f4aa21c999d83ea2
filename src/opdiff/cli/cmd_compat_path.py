"""`opdiff compat-path`: import directory for the documented conversion script."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Print a directory for PYTHONPATH with which the documented conversion script, which imports components.utils.acc_cmp,
runs unchanged and without the vendor's package. `opdiff reduce` does the same with more precautions."""
EPILOG = """\
example:
  PYTHONPATH=$(opdiff compat-path) python3 convert.py msprobe_ge_dump
"""


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments: none."""


def run(_args: argparse.Namespace) -> int:
    """Print the directory and return the exit code."""
    import opdiff

    print(os.path.join(os.path.dirname(os.path.abspath(opdiff.__file__)), "compat"))
    return ExitCode.OK
