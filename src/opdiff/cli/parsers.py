"""The argument parser of the whole command line."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from opdiff import __version__
from opdiff.cli.exit_codes import SUMMARY, ExitCode
from opdiff.cli.language import said
from opdiff.cli.localized_parser import LocalizedHelp, LocalizedParser, translated
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, NoReturn

    from opdiff.core.reasons import Reason

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
    "completion": "print a script that completes commands and options in a shell",
}
_DESCRIPTION = "Find the operator that lost your accuracy: read, convert and compare Ascend NPU dumps."
_EPILOG = """\
examples:
  opdiff demo                         write sample dumps and compare them
  opdiff compare NPU_DIR GOLDEN_DIR --rules network.json
  opdiff inspect DUMP_DIR             contents of a directory, and its problems
  opdiff inspect Conv2D.conv1.4.3.1672900579018235 --stats
  opdiff convert DUMP_DIR -o npy      every tensor as a NumPy file

`opdiff COMMAND --help` shows the options of a command. `msprobe` is a second name of the same program.
"""
_STYLE: dict[str, Any] = {"formatter_class": LocalizedHelp, "allow_abbrev": False}


class CommandParser(LocalizedParser):
    """Parser of one command, which suggests corrections of misspelled options."""

    @property
    def actions(self) -> tuple[argparse.Action, ...]:
        """All arguments, in the order of the help."""
        return tuple(self._actions)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words behind the command; long options may have underscores, as documented ones do."""
        words = list(_dashed(words))
        self._refuse_unknown([_name_of(word) for word in _before_separator(words) if word.startswith("--")])
        args, rest = self.parse_known_args(words)
        self._refuse_unknown([word for word in rest if word.startswith("-")])
        if rest:
            self.error(said("cli.unrecognized", words=" ".join(rest)))
        return args

    def error(self, message: str) -> NoReturn:
        """End with a message that is not buried under the usage of all options."""
        facts = {"program": self.prog, "message": translated(message)}
        self.exit(ExitCode.USAGE, f"{said('cli.argument_error', **facts)}\n{said('cli.see_help', program=self.prog)}\n")

    def _refuse_unknown(self, names: Sequence[str]) -> None:
        known = [option for action in self._actions for option in action.option_strings]
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            self.error(said("cli.unknown_option", name=unknown, hint=_suggestion(unknown, known)))


def parse_command(words: Sequence[str]) -> argparse.Namespace | None:
    """Parse a command with its arguments; return `None` if there is none, after printing the help."""
    name = words[0] if words else ""
    if name in COMMANDS:
        return command_parser(name).parse(words[1:])
    parser = overview_parser()
    if not words:
        parser.print_help(sys.stderr)
        return None
    if name.startswith("-"):
        parser.parse_known_args([name])
        return parser.error(said("cli.command_first", name=name))
    hint = _suggestion(name, COMMANDS) or because("cli.help_lists_commands")
    return parser.error(said("cli.unknown_command", name=name, hint=hint))


def overview_parser() -> LocalizedParser:
    """Return the parser of the program without a command: help and version."""
    parser = LocalizedParser(description=_DESCRIPTION, epilog=_EPILOG, **_STYLE)
    parser.add_argument("-V", "--version", action="version", version=f"opdiff {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        subparsers.add_parser(name, help=summary, add_help=False)
    return parser


def command_parser(name: str, program: str = "") -> CommandParser:
    """Return the parser of one command with all its options."""
    program = program or os.path.basename(sys.argv[0])
    module = import_module(f"opdiff.cli.cmd_{name.replace('-', '_')}")
    parser = CommandParser(f"{program} {name}", description=module.DESCRIPTION, **_STYLE)
    parser.epilog = f"{module.EPILOG}\n{SUMMARY}"
    module.add_arguments(parser)
    parser.add_argument(
        "-q", "--quiet", action="count", default=0, help="print less: one line for each result, no progress"
    )
    parser.add_argument(
        "-v", "--verbose", action="count", default=0, help="print more, such as reasons and the worst tensors"
    )
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours; default: auto, on a terminal"
    )
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of all messages; default: en")
    parser.set_defaults(run=module.run)
    return parser


def _before_separator(words: Sequence[str]) -> Sequence[str]:
    """Return the words in front of `--`, behind which there are no options."""
    return words[: words.index("--")] if "--" in words else words


def _dashed(words: Sequence[str]) -> Iterator[str]:
    """Yield the words, with dashes in place of underscores in the names of long options."""
    options = _before_separator(words)
    for word in options:
        name = _name_of(word)
        yield name.replace("_", "-") + word[len(name) :] if word.startswith("--") else word
    yield from words[len(options) :]


def _name_of(word: str) -> str:
    return word.partition("=")[0]


def _suggestion(word: str, known: Iterable[str]) -> Reason | None:
    """Return a question with the name that is most similar; nothing if none is similar."""
    from difflib import get_close_matches

    similar = [name for name in known if name.startswith(word)] or get_close_matches(word, known, 1)
    return because("core.did_you_mean", name=similar[0]) if similar else None
