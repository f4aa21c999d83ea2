"""`opdiff completion`: a script that completes commands and options in a shell, made from all parsers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.parsers import COMMANDS, command_parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    Values = Literal["none", "words", "files", "folders", "other"]

DESCRIPTION = """\
Print a script that completes commands, options and their values in a shell. It is made from the options of this
version, and runs without Python."""
EPILOG = """\
examples:
  source <(opdiff completion bash)                                       in this shell, or in ~/.bashrc
  opdiff completion zsh > "${fpath[1]}/_opdiff"
  opdiff completion fish > ~/.config/fish/completions/opdiff.fish
"""
_PROGRAMS = ("opdiff", "msprobe")
_GLOBAL_OPTIONS = ("-h", "--help", "-V", "--version")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help=f"one of {', '.join(SCRIPTS)}")


def run(args: argparse.Namespace) -> int:
    """Print the script, and return the exit code."""
    print(SCRIPTS[args.shell](describe_commands()), end="")
    return ExitCode.OK


class Option(Struct, frozen=True):
    """An option, or the positional arguments of a command if it has no names.

    Attributes:
        names: all spellings.
        values: kind of the values that follow.
        words: possible values of kind `words`.
        summary: help text.
    """

    names: tuple[str, ...]
    values: Values
    words: tuple[str, ...]
    summary: str


class Command(Struct, frozen=True):
    """A command with its summary and its arguments."""

    name: str
    summary: str
    options: tuple[Option, ...]
    positional: Option | None


def describe_commands() -> tuple[Command, ...]:
    """Return all commands, with what can be completed."""
    return tuple(_describe(name, summary) for name, summary in COMMANDS.items())


def _describe(name: str, summary: str) -> Command:
    actions = command_parser(name, "opdiff").actions
    options = tuple(_option(action) for action in actions if action.option_strings)
    positional = next((_option(action) for action in actions if not action.option_strings), None)
    return Command(name, summary, options, positional)


def _option(action: argparse.Action) -> Option:
    summary = " ".join((action.help or "").replace("%%", "%").split())
    words = tuple(map(str, action.choices or ()))
    return Option(tuple(action.option_strings), _values(action), words, summary)


def _values(action: argparse.Action) -> Values:
    if action.nargs == 0:
        return "none"
    if action.choices:
        return "words"
    name = str(action.metavar)
    if "DIR" in name:
        return "folders"
    return "files" if not action.option_strings or re.search("FILE|PATH|JSON", name) else "other"


def bash_script(commands: Sequence[Command]) -> str:
    """Return a script for bash 4.4 or newer."""
    names = " ".join([*(command.name for command in commands), *_GLOBAL_OPTIONS])
    values = "\n".join(line for command in commands for line in _bash_values(command))
    options = "\n".join(_bash_options(command) for command in commands)
    return f"""\
# Completion of opdiff for bash, printed by `opdiff completion bash`.
_opdiff() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words=''
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W '{names}' -- "$word")
        return
    fi
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD - 1]}}" in
{values}
    esac
    case "${{COMP_WORDS[1]}}" in
{options}
    esac
    [[ $word == -* || ! $words == -* ]] && mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -F _opdiff {" ".join(_PROGRAMS)}
"""


def _bash_values(command: Command) -> Iterator[str]:
    for option in command.options:
        pattern = "|".join(f"'{command.name} {name}'" for name in option.names)
        if option.values == "words":
            words = " ".join(option.words)
            yield f"        {pattern}) mapfile -t COMPREPLY < <(compgen -W '{words}' -- \"$word\"); return ;;"
        elif option.values == "folders":
            yield f"        {pattern}) compopt -o dirnames +o default; return ;;"
        elif option.values == "files":
            yield f"        {pattern}) return ;;"
        elif option.values == "other":
            yield f"        {pattern}) compopt +o default; return ;;"


def _bash_options(command: Command) -> str:
    words = " ".join(name for option in command.options for name in option.names)
    if command.positional is not None and command.positional.words:
        words = f"{' '.join(command.positional.words)} {words}"
    return f"        {command.name}) words='{words}' ;;"


def zsh_script(commands: Sequence[Command]) -> str:
    """Return a script for zsh, to be sourced or found as `_opdiff` in `fpath`."""
    summaries = "\n".join(f"        '{command.name}:{_zsh_quoted(command.summary)}'" for command in commands)
    cases = "\n".join(_zsh_case(command) for command in commands)
    programs = " ".join(_PROGRAMS)
    return f"""\
#compdef {programs}
# Completion of opdiff for zsh, printed by `opdiff completion zsh`.
_opdiff() {{
    local -a commands=(
{summaries}
    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    shift words
    ((CURRENT--))
    case $words[1] in
{cases}
    esac
}}
if [[ $funcstack[1] == _opdiff ]]; then
    _opdiff "$@"
else
    compdef _opdiff {programs}
fi
"""


def _zsh_case(command: Command) -> str:
    specs = [spec for option in command.options for spec in _zsh_specs(option)]
    if command.positional is not None:
        specs.append(f"'*:argument:{_zsh_values(command.positional)}'")
    lines = " \\\n".join(f"                {spec}" for spec in specs)
    return f"        {command.name})\n            _arguments \\\n{lines} ;;"


def _zsh_specs(option: Option) -> Iterator[str]:
    value = "" if option.values == "none" else f":value:{_zsh_values(option)}"
    for name in option.names:
        yield f"'*{name}[{_zsh_quoted(option.summary)}]{value}'"


def _zsh_values(option: Option) -> str:
    if option.values == "words":
        return f"({' '.join(option.words)})"
    return {"files": "_files", "folders": "_files -/"}.get(option.values, " ")


def _zsh_quoted(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def fish_script(commands: Sequence[Command]) -> str:
    """Return a script for fish."""
    lines = ["# Completion of opdiff for fish, printed by `opdiff completion fish`."]
    for program in _PROGRAMS:
        lines.append(f"complete -c {program} -n __fish_use_subcommand -f -l version -s V -d 'print the version'")
        for command in commands:
            summary = _fish_quoted(command.summary)
            lines.append(f"complete -c {program} -n __fish_use_subcommand -f -a {command.name} -d {summary}")
            lines.extend(_fish_lines(program, command))
    return "\n".join(lines) + "\n"


def _fish_lines(program: str, command: Command) -> Iterator[str]:
    start = f"complete -c {program} -n '__fish_seen_subcommand_from {command.name}'"
    for option in command.options:
        names = " ".join(map(_fish_name, option.names))
        yield f"{start} {names} {_FISH_VALUES[option.values]}{_fish_words(option)} -d {_fish_quoted(option.summary)}"
    if command.positional is not None and command.positional.words:
        yield f"{start} -f{_fish_words(command.positional)}"


def _fish_words(option: Option) -> str:
    return f" -a '{' '.join(option.words)}'" if option.words else ""


_FISH_VALUES = {
    "none": "",
    "words": "-x",
    "files": "-r -F",
    "folders": "-x -a '(__fish_complete_directories)'",
    "other": "-x",
}


def _fish_name(name: str) -> str:
    if name.startswith("--"):
        return f"-l {name[2:]}"
    return f"-s {name[1:]}" if len(name) == 2 else f"-o {name[1:]}"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
