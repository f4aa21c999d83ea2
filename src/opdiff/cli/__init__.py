"""The command line: one file a command. Only this package prints, exits and looks at arguments.

Commands import what they need when they run, so that `opdiff --help` does not pay for any of it.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
import traceback
from typing import TYPE_CHECKING

from opdiff import __version__
from opdiff.cli import cmd_compare, cmd_convert, cmd_demo, cmd_inspect
from opdiff.cli.terminal import printable
from opdiff.errors import OpdiffError, PluginError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_USAGE, EXIT_INPUT, EXIT_DEFECT, EXIT_INTERRUPTED = 2, 3, 70, 130
_COMMANDS = (cmd_compare, cmd_inspect, cmd_convert, cmd_demo)
_EPILOG = """\
examples:
  opdiff demo                         make a sample of dumps and look at it
  opdiff inspect DUMP_DIR             what is in this directory, and is it sound?
  opdiff inspect Conv2D.conv1.4.3.1672900579018235 --stats
  opdiff convert DUMP_DIR -out npy    every tensor as a NumPy file

`opdiff COMMAND --help` has more. `msprobe` is another name of the same program.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    _prepare_streams()
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    _configure_logging(args.verbose - args.quiet)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has seen enough; keep Python from complaining again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("opdiff: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (OpdiffError, OSError) as error:
        # Errors of the system are not of our making: no space, no permission, a file that went away.
        text = f"{error.filename or 'a file'}: {error.strerror}" if isinstance(error, OSError) else str(error)
        print(f"opdiff: {printable(text)}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageError | PluginError) else EXIT_INPUT
    except Exception:  # noqa: BLE001  the last border: whatever gets here is a defect of ours and is shown as one
        traceback.print_exc()
        print("opdiff: this is a defect of opdiff; please report it with the lines above", file=sys.stderr)
        return EXIT_DEFECT
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Find the operator that lost your accuracy: read, convert and compare Ascend NPU dumps.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"opdiff {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in _COMMANDS:
        command = commands.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(command)
        command.add_argument("-q", "--quiet", action="count", default=0, help="say less on standard error")
        command.add_argument("-v", "--verbose", action="count", default=0, help="say more on standard error")
        command.set_defaults(run=module.run)
    return parser


def _prepare_streams() -> None:
    """Never fail for want of a letter: what an encoding does not have is escaped. A closed stream leads nowhere."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open to the end
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _configure_logging(verbosity: int) -> None:
    level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    if verbosity < -1:
        level = logging.CRITICAL
    logging.basicConfig(level=level, format="opdiff: %(message)s", stream=sys.stderr)
