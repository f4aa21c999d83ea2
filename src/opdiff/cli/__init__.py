"""The command line: one file a command. Only this package prints, exits and looks at arguments.

A command's module is imported when the command is chosen, and imports what it needs when it runs. Nobody pays for what
is not used: below a hundred megabytes of data, starting up is what takes the time.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import TYPE_CHECKING

from opdiff.core.errors import OpdiffError, PluginError, UsageError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: the words behind the name of the program; without them those of this process, which ends afterwards.
    """
    # A run makes many small values and hardly a cycle: looking for those again and again would take half its time, and
    # once more at the end of the process, when everything goes away anyhow, as long as it takes to show the help.
    collects_garbage = gc.isenabled()
    gc.disable()
    try:
        _prepare_streams()
        return _run(sys.argv[1:] if argv is None else argv)
    finally:
        if argv is None:
            gc.freeze()
        if collects_garbage:
            gc.enable()


def _run(words: Sequence[str]) -> int:
    if words and words[0] in _COMMANDS:
        # As nearly always. The parser of everything, which would come to the same, takes a while to build.
        from opdiff.cli.usual import find_arguments

        return _run_command(find_arguments(words[0], words[1:]) or _parsed(words[0], words[1:]))
    from opdiff.cli.parsers import whole_parser

    parser = whole_parser(_COMMANDS, words)
    args = parser.parse_args(words)
    if args.command is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    return _run_command(args)


def _parsed(name: str, words: Sequence[str]) -> Namespace:
    from opdiff.cli.parsers import command_parser

    return command_parser(name).parse_args(words)


def _run_command(args: Namespace) -> int:
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


def _prepare_streams() -> None:
    """Never fail for want of a letter: what an encoding does not have is escaped. A closed stream leads nowhere."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open to the end
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
