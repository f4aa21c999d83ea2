"""Hooks of the site: a page of all options, made from the parsers of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from opdiff.cli.parsers import COMMANDS, command_parser

if TYPE_CHECKING:
    import argparse

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_INTRODUCTION = """\
# All options

Made from the command line itself. `opdiff COMMAND --help` shows the same, with examples. Long options may have
underscores in place of dashes.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of all options."""
    files.append(File.generated(config, "commands/options.md", content=options_page()))
    return files


def options_page() -> str:
    """Return a section for each command, with a table of its arguments."""
    return "\n".join((_INTRODUCTION, *map(_section, COMMANDS)))


def _section(name: str) -> str:
    rows = "\n".join(map(_row, command_parser(name, "opdiff").actions))
    return f"## opdiff {name}\n\n{COMMANDS[name]}: [page]({name}.md)\n\n| Argument | Meaning |\n|---|---|\n{rows}\n"


def _row(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    value = "" if action.nargs == 0 else f"`{_value(action)}`"
    meaning = (action.help or "").replace("%%", "%").replace("|", "\\|").replace("<", "&lt;")
    return f"| {' '.join(filter(None, (names, value)))} | {meaning} |"


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar.replace("|", " or ")
    return " or ".join(map(str, action.choices)) if action.choices else action.dest.upper()
