"""The argument parser of the whole command line."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING

from opdiff import __version__
from opdiff.cli.exit_codes import SUMMARY

if TYPE_CHECKING:
    from typing import Any

# Summary of each command for the list of commands. The rest of its help is in `cmd_NAME`.
COMMANDS = {
    "compare": "compare the dumps of two runs, operator by operator",
    "stages": "find the step from the original model to the device that lost the accuracy",
    "golden": "run the original model and write golden data for a comparison",
    "replay": "compute operators again from their dumped inputs, to prove which one is at fault",
    "topn": "compare the results of classification models over a batch of samples",
    "bundle": "write one operator with its data as an archive that others can run",
    "report": "write the reports of a saved comparison",
    "diff": "show what changed between two saved comparisons",
    "op": "examine one operator of a comparison, element by element",
    "overflow": "find the operators that overflowed, and the first of them",
    "selftest": "inject known faults into copies of your dumps and check that they are found",
    "judge": "judge a saved comparison again: faulty operators and their causes",
    "limits": "print the limits by which tensors are judged",
    "inspect": "show the contents of a dump file or directory, and its problems",
    "rules": "write the rules of an offline model or graph text as the JSON that ATC makes of it",
    "convert": "convert dump files to .npy, .npz, .bin or .pt files",
    "reduce": "replace finished dump files by tensor statistics to save disk space",
    "compat-path": "print the directory that lets the documented conversion script run",
    "demo": "write and compare sample dumps with known faults",
}
_DESCRIPTION = "Find the operator that lost your accuracy: read, convert and compare Ascend NPU dumps."
_EPILOG = """\
examples:
  opdiff demo                         write sample dumps and compare them
  opdiff compare NPU_DIR GOLDEN_DIR --rules network.json
  opdiff inspect DUMP_DIR             contents of a directory, and its problems
  opdiff inspect Conv2D.conv1.4.3.1672900579018235 --stats
  opdiff convert DUMP_DIR -out npy    every tensor as a NumPy file

`opdiff COMMAND --help` shows the options of a command. `msprobe` is a second name of the same program.
"""
_STYLE: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}


def build_parser(*commands: str) -> argparse.ArgumentParser:
    """Return the parser of the named commands with their options; if none is named, of all without their options."""
    parser = argparse.ArgumentParser(description=_DESCRIPTION, epilog=_EPILOG, **_STYLE)
    parser.add_argument("-V", "--version", action="version", version=f"opdiff {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    named = [name for name in commands if name in COMMANDS]
    for name in named or COMMANDS:
        command = subparsers.add_parser(name, help=COMMANDS[name], **_STYLE)
        if named:
            _add_options(name, command)
    return parser


def _add_options(name: str, parser: argparse.ArgumentParser) -> None:
    module = import_module(f"opdiff.cli.cmd_{name.replace('-', '_')}")
    parser.description, parser.epilog = module.DESCRIPTION, f"{module.EPILOG}\n{SUMMARY}"
    module.add_arguments(parser)
    parser.add_argument(
        "-q", "--quiet", action="count", default=0, help="print less: one line for each result, no progress"
    )
    parser.add_argument(
        "-v", "--verbose", action="count", default=0, help="print more, such as reasons and the worst tensors"
    )
    parser.set_defaults(run=module.run)
