"""The command line, one module per command. Only this package prints, exits and reads arguments.

The module of a command is imported when the command is chosen, and imports numpy and the workflows when it runs.
"""

from __future__ import annotations

import gc
import os
import sys
from contextvars import copy_context
from typing import TYPE_CHECKING

from opdiff.cli.exit_codes import ExitCode, interrupt_exit_code
from opdiff.cli.language import choose_language, language, said
from opdiff.cli.parsers import parse_command
from opdiff.cli.shortage import find_shortage, require_memory
from opdiff.cli.streams import prepare_streams
from opdiff.cli.terminal import choose_colour
from opdiff.core.errors import OpdiffError, PluginError, UsageError
from opdiff.core.formatting import printable
from opdiff.core.reasons import load_sentences, render
from opdiff.core.remote.urls import without_secrets

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: arguments without the program's name; default: those of this process.
    """
    # A run makes many small values and hardly a reference cycle; searching for cycles would take half of its time.
    collects_garbage = gc.isenabled()
    gc.disable()
    try:
        prepare_streams()
        # The choices of language and colour end with the command.
        return copy_context().run(_run, sys.argv[1:] if argv is None else argv)
    except MemoryError:
        # There is not even enough to look up a sentence.
        os.write(2, b"opdiff: there is not enough memory\n")
        return ExitCode.UNUSABLE_INPUT
    finally:
        if collects_garbage:
            gc.enable()


def _run(arguments: Sequence[str]) -> int:
    choose_language(arguments)
    try:
        # Read now: an error may be that no further file can be opened.
        load_sentences("cli", "core", "word")
        arguments = [without_secrets(argument) for argument in arguments]
    except UsageError as error:
        print(f"opdiff: {render(error.reason, language())}", file=sys.stderr)
        return ExitCode.USAGE
    except OSError as error:
        print(f"opdiff: {error.filename}: {error.strerror}", file=sys.stderr)
        return ExitCode.UNUSABLE_INPUT
    args = parse_command(arguments)
    return ExitCode.USAGE if args is None else _run_command(args)


def _run_command(args: Namespace) -> int:
    """Run the chosen command; turn every exception into a message and an exit code."""
    choose_colour(args.color)
    try:
        require_memory()
        code: int = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        print(f"opdiff: {said('cli.interrupted')}", file=sys.stderr)
        return interrupt_exit_code(interrupt)
    except (OpdiffError, OSError) as error:
        print(f"opdiff: {printable(_message(error))}", file=sys.stderr)
        command = error.reason.fact("next") if isinstance(error, OpdiffError) else None
        if command is not None:
            print(printable(said("report.next_command", command=command)), file=sys.stderr)
        return ExitCode.USAGE if isinstance(error, UsageError | PluginError) else ExitCode.UNUSABLE_INPUT
    except Exception as error:  # noqa: BLE001  the outermost border: what gets here is a shortage, or shown as a defect
        shortage = find_shortage(error)
        if shortage is not None:
            print(f"opdiff: {printable(render(shortage, language()))}", file=sys.stderr)
            return ExitCode.UNUSABLE_INPUT
        import traceback

        traceback.print_exc()
        print(f"opdiff: {said('cli.defect')}", file=sys.stderr)
        return ExitCode.DEFECT
    return code


def _message(error: OpdiffError | OSError) -> str:
    if isinstance(error, OSError):
        problem = error.strerror or str(error)
        return said("cli.in_file", path=str(error.filename), problem=problem) if error.filename else problem
    return render(error.reason, language())
