"""The command line: one file a command. Only this package prints, exits and looks at arguments.

A command's module is imported when the command is chosen, and imports what it needs when it runs. Nobody pays for what
is not used: below a hundred megabytes of data, starting up is what takes the time.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from opdiff import __version__
from opdiff.errors import OpdiffError, PluginError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_USUAL_COLUMNS = 80
EXIT_USAGE, EXIT_INPUT, EXIT_DEFECT, EXIT_INTERRUPTED = 2, 3, 70, 130
# What each of them is, for the list of commands; the rest is in `cmd_NAME`.
_COMMANDS = {
    "compare": "compare the dumps of two runs, operator by operator",
    "report": "make the reports of a comparison that was saved",
    "diff": "tell what changed from one saved comparison to another",
    "op": "look at one operator of a comparison, element by element",
    "overflow": "find the operators that overflowed, and the first of them",
    "selftest": "plant known faults in copies of your dumps, and see which are found",
    "judge": "judge a saved comparison again: which operator is at fault, and why",
    "limits": "print the limits by which tensors are judged",
    "inspect": "show what a dump file or directory holds, and what is wrong with it",
    "convert": "turn dump files into .npy, .npz, .bin or .pt files",
    "reduce": "turn finished dump files into figures, and remove the data",
    "compat-path": "print the folder that lets the documented conversion script run",
    "demo": "make a small sample of dumps with planted faults, inspect and compare it",
}
_EPILOG = """\
examples:
  opdiff demo                         make a sample of dumps and look at it
  opdiff compare NPU_DIR GOLDEN_DIR --rules network.json
  opdiff inspect DUMP_DIR             what is in this directory, and is it sound?
  opdiff inspect Conv2D.conv1.4.3.1672900579018235 --stats
  opdiff convert DUMP_DIR -out npy    every tensor as a NumPy file

`opdiff COMMAND --help` has more. `msprobe` is another name of the same program.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    # A run makes many small values and hardly a cycle: looking for those again and again would take half its time, and
    # once more at the end of the process, when everything goes away anyhow, as long as it takes to show the help.
    collects_garbage = gc.isenabled()
    gc.disable()
    atexit.register(gc.freeze)
    try:
        _prepare_streams()
        return _run(sys.argv[1:] if argv is None else argv)
    finally:
        if collects_garbage:
            gc.enable()


def _run(words: Sequence[str]) -> int:
    if words and words[0] in _COMMANDS:
        # As nearly always. The parser of everything, which would come to the same, takes a while to build.
        command = argparse.ArgumentParser(prog=f"{os.path.basename(sys.argv[0])} {words[0]}", **_STYLE)
        _describe(words[0], command)
        return _run_command(command.parse_args(words[1:]))
    parser = _parser(words)
    args = parser.parse_args(words)
    if args.command is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    return _run_command(args)


def _run_command(args: argparse.Namespace) -> int:
    """Run the chosen command; whatever goes wrong becomes a message and an exit code."""
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
        from opdiff.cli.terminal import printable

        print(f"opdiff: {printable(text)}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageError | PluginError) else EXIT_INPUT
    except Exception:  # noqa: BLE001  the last border: whatever gets here is a defect of ours and is shown as one
        import traceback

        traceback.print_exc()
        print("opdiff: this is a defect of opdiff; please report it with the lines above", file=sys.stderr)
        return EXIT_DEFECT
    return code


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


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of a command line; of the commands, only those that are among the words have their options."""
    parser = argparse.ArgumentParser(
        description="Find the operator that lost your accuracy: read, convert and compare Ascend NPU dumps.",
        epilog=_EPILOG,
        **_STYLE,
    )
    parser.add_argument("--version", action="version", version=f"opdiff {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, brief in _COMMANDS.items():
        command = commands.add_parser(name, help=brief, **_STYLE)
        if name in words:
            _describe(name, command)
    return parser


def _describe(name: str, command: argparse.ArgumentParser) -> None:
    """Give a command its description and its options."""
    module = import_module(f"opdiff.cli.cmd_{name.replace('-', '_')}")
    command.description, command.epilog = module.DESCRIPTION, module.EPILOG
    module.add_arguments(command)
    command.add_argument("-q", "--quiet", action="count", default=0, help="say less on standard error")
    command.add_argument("-v", "--verbose", action="count", default=0, help="say more on standard error")
    command.set_defaults(run=module.run)


def _prepare_streams() -> None:
    """Never fail for want of a letter: what an encoding does not have is escaped. A closed stream leads nowhere."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open to the end
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
