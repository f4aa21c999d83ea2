"""Argument parsers whose help and errors are in the chosen language.

The English of a help text is written where its argument is added. `help_zh.json` has the Chinese of each, by the
English one, and is read when a help in Chinese is asked for. Messages of argparse come in English, as strings, and are
recognized here.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING

from msgspec import json

from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import language, said
from opdiff.cli.terminal import columns
from opdiff.core.reasons import Language

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

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
