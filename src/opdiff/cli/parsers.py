"""The argument parsers of the command line, whose help and errors are in the chosen language.

The English of a help text is written where its argument is added. `help_zh.json` has the Chinese of each, by the
English one, and is read when a help in Chinese is asked for. Messages of argparse come in English, as strings, and are
recognized here.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import json

from opdiff import __version__
from opdiff.cli.exit_codes import SUMMARY, ExitCode
from opdiff.cli.language import language, said
from opdiff.cli.terminal import columns
from opdiff.core.errors import UsageError
from opdiff.core.reasons import Language, because, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, NoReturn

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
    "compat-path": "let the documented conversion script run",
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
# A command of an example, and a remark behind two or more blanks, if any.
_EXAMPLE = r"(?P<command>  \S.*?(?: {2,}|$))(?P<remark>.*)"
# Columns of the terminal that a help does not use.
_MARGIN = 2
_CHINESE_HELP = os.path.join(os.path.dirname(__file__), "help_zh.json")
# Messages of argparse by the code of the same sentence in the catalogue; groups are facts.
_MESSAGES = {
    "cli.missing_arguments": r"the following arguments are required: (?P<names>.*)",
    "cli.one_argument_required": r"one of the arguments (?P<names>.*) is required",
    "cli.value_expected": r"expected one argument",
    "cli.value_or_none_expected": r"expected at most one argument",
    "cli.values_expected": r"expected at least one argument",
    "cli.no_value_expected": r"ignored explicit argument (?P<value>.*)",
    "cli.invalid_choice": r"invalid choice: (?P<value>.*) \(choose from (?P<choices>.*)\)",
    "cli.invalid_value": r"invalid (?P<type>\S*) value: (?P<value>.*)",
    "cli.not_allowed_with": r"not allowed with argument (?P<other>.*)",
}
_OF_ARGUMENT = r"argument (?P<name>\S+): (?P<problem>.*)"


class LocalizedHelp(argparse.RawDescriptionHelpFormatter):
    """Help with a title of the usage, and lines, of the chosen language."""

    def __init__(self, prog: str) -> None:
        # Python makes a formatter for each argument that is added. To find the width, it imports modules for archives.
        super().__init__(prog, width=_help_columns() - _MARGIN)

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        """Add the usage under its title."""
        if prefix is None and language() is Language.CHINESE:
            prefix = said("cli.usage")
        super().add_usage(usage, actions, groups, prefix)

    def _split_lines(self, text: str, width: int) -> list[str]:
        if text.isascii():
            return super()._split_lines(text, width)
        from opdiff.report.columns import wrapped_lines

        return list(wrapped_lines(text, width))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.isascii() or "\n" in text:
            return super()._fill_text(text, width, indent)
        from opdiff.report.columns import wrapped_lines

        return "\n".join(indent + line for line in wrapped_lines(text, width))


def _help_columns() -> int:
    """Return the width that the variable `COLUMNS` sets, which help of Python programs obeys, or the terminal's."""
    try:
        chosen = int(os.environ.get("COLUMNS", ""))
    except ValueError:  # not set, or not a number
        chosen = 0
    return chosen if chosen > 0 else columns()


class LocalizedParser(argparse.ArgumentParser):
    """Parser whose help and errors are in the chosen language."""

    def format_help(self) -> str:
        """Return the help in the chosen language."""
        if language() is Language.CHINESE:
            self._translate_help(chinese_help())
        return super().format_help()

    def _translate_help(self, texts: dict[str, str]) -> None:
        self.description = texts.get(help_key(self.description), self.description)
        self.epilog = "\n".join(_chinese_line(line, texts) for line in (self.epilog or "").splitlines())
        for group in self._action_groups:
            group.title = texts.get(help_key(group.title), group.title)
            group.description = texts.get(help_key(group.description), group.description)
        for action in self._actions:
            action.help = texts.get(help_key(action.help), action.help)
            for choice in getattr(action, "_choices_actions", ()):
                choice.help = texts.get(help_key(choice.help), choice.help)

    def error(self, message: str) -> NoReturn:
        """End with the usage and a message."""
        self.print_usage(sys.stderr)
        self.exit(ExitCode.USAGE, said("cli.argument_error", program=self.prog, message=translated(message)) + "\n")


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
            self.error(said("cli.unknown_option", name=unknown, hint=did_you_mean(unknown, known)))


class _Version(argparse.Action):
    """Prints the version, and the kernel that measures."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from opdiff.workflows.kernel import kernel_name

        try:
            print(said("cli.version", version=__version__, kernel=kernel_name()))
        except UsageError as error:
            parser.error(said("core.text", text=error.problem))
        parser.exit()


_STYLE: dict[str, Any] = {"formatter_class": LocalizedHelp, "allow_abbrev": False}


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
        if hint := did_you_mean(name, ("--help", "--version")):
            return parser.error(said("cli.unknown_option", name=name, hint=hint))
        return parser.error(said("cli.command_first", name=name))
    hint = did_you_mean(name, COMMANDS) or because("cli.help_lists_commands")
    return parser.error(said("cli.unknown_command", name=name, hint=hint))


def overview_parser() -> LocalizedParser:
    """Return the parser of the program without a command: help and version."""
    parser = LocalizedParser(description=_DESCRIPTION, epilog=_EPILOG, **_STYLE)
    parser.add_argument(
        "-V", "--version", action=_Version, nargs=0, help="show the version, and the kernel that measures"
    )
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


def chinese_help() -> dict[str, str]:
    """Read the Chinese help texts by the English ones."""
    with open(_CHINESE_HELP, "rb") as file:
        return json.decode(file.read(), type=dict[str, str])


def help_key(text: str | None) -> str:
    """Return the key of a text in `help_zh.json`: the text as one line."""
    return " ".join((text or "").split())


def split_example(line: str) -> tuple[str, str]:
    """Return the command of an example with the blanks behind it, and the remark; other lines are remarks."""
    found = re.fullmatch(_EXAMPLE, line)
    return (found["command"], found["remark"]) if found else ("", line)


def _chinese_line(line: str, texts: dict[str, str]) -> str:
    command, remark = split_example(line)
    return command + texts.get(help_key(remark), remark)


def translated(message: str) -> str:
    """Return a message of argparse in the chosen language; unchanged if it is none of the known ones."""
    about = re.fullmatch(_OF_ARGUMENT, message, re.DOTALL)
    if about:
        return said("cli.of_argument", name=about["name"], problem=translated(about["problem"]))
    found = ((code, re.fullmatch(pattern, message, re.DOTALL)) for code, pattern in _MESSAGES.items())
    return next((said(code, **match.groupdict()) for code, match in found if match), message)
