"""Command lines as they usually are, read without `argparse`, which takes half as long as to start Python.

Nothing is refused here. Whatever is not plain (a value that is not fit, options that exclude each other, a word that is
not known) is left to `argparse`: it comes to the same where a line is plain, and says what is wrong otherwise.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple, cast

from opdiff.cli.arguments import describe

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Self


def find_arguments(name: str, words: Sequence[str]) -> Namespace | None:
    """The arguments of a command, if the words behind its name are plain."""
    command = _Command()
    describe(name, cast("ArgumentParser", command))
    try:
        return cast("Namespace", command.arguments(words))
    except _NotPlainError:
        return None


class _NotPlainError(Exception):
    """Something that `argparse` has to look at."""


class _Option(NamedTuple):
    """An option that is plain: where its value goes, how that is found, and what it may be."""

    dest: str
    action: str
    kind: Callable[[str], object]
    choices: tuple[str, ...]

    def value(self, before: Any, words: Iterator[str]) -> object:  # noqa: ANN401  of any option
        """The value when the option stands there once more, before these words."""
        if self.action == "store_true":
            return True
        if self.action == "count":
            return before + 1
        word = next(words, "-")
        if word.startswith("-"):
            raise _NotPlainError
        try:
            value = self.kind(word)
        except _refusals() as error:
            raise _NotPlainError from error
        if self.choices and value not in self.choices:
            raise _NotPlainError
        return value


def _refusals() -> tuple[type[Exception], ...]:
    """How a value is refused; asked for only when something was raised, as it takes `argparse`."""
    from argparse import ArgumentTypeError

    return ArgumentTypeError, TypeError, ValueError


class _Command:
    """Takes the place of an `ArgumentParser` while a command describes its arguments."""

    def __init__(self) -> None:
        self._defaults: dict[str, Any] = {}
        self._options: dict[str, _Option] = {}
        # Of each argument that has its place: its name, and whether it takes all words.
        self._placed: dict[str, bool] = {}
        self._is_plain = True

    def add_argument_group(self, *_: str) -> Self:
        """A heading in the help."""
        return self

    def add_mutually_exclusive_group(self) -> _Command:
        """Options that are not plain: only their defaults are known."""
        group = _Command()
        group._defaults = self._defaults
        return group

    def set_defaults(self, **values: object) -> None:
        """Values that no word gives."""
        self._defaults |= values

    def add_argument(self, *names: str, action: str = "store", nargs: str | None = None, **about: Any) -> None:  # noqa: ANN401  as for `argparse`
        """An option, or an argument that has its place."""
        is_option = names[0].startswith("-")
        dest = about.get("dest") or _dest(names)
        default = about.get("default", False if action == "store_true" else None)
        if is_option:
            self._defaults[dest] = about["type"](default) if "type" in about and isinstance(default, str) else default
            if nargs in (None, "?"):
                option = _Option(dest, action, about.get("type", str), tuple(about.get("choices", ())))
                self._options |= dict.fromkeys(names, option)
        else:
            self._placed[dest] = nargs == "*"
            self._is_plain &= nargs in (None, "*") and not about.keys() & {"type", "choices", "default"}

    def arguments(self, words: Sequence[str]) -> SimpleNamespace:
        """What the words say; those that have their places must stand together."""
        found = dict(self._defaults)
        placed: list[str] = []
        is_over = False
        rest = iter(words)
        for word in rest:
            option = self._options.get(word)
            if option is not None:
                found[option.dest] = option.value(found[option.dest], rest)
                is_over = bool(placed)
            elif is_over or word.startswith("-"):
                raise _NotPlainError
            else:
                placed.append(word)
        return SimpleNamespace(**found, **self._by_place(placed))

    def _by_place(self, words: list[str]) -> dict[str, Any]:
        """The arguments that have their places: one that takes all words, or as many as there are words."""
        takes_all = any(self._placed.values())
        if not self._is_plain or len(self._placed) != (1 if takes_all else len(words)):
            raise _NotPlainError
        return dict.fromkeys(self._placed, words) if takes_all else dict(zip(self._placed, words, strict=True))


def _dest(names: Sequence[str]) -> str:
    """The name of an argument's value: that of its first long option."""
    name = next((name for name in names if name.startswith("--")), names[0])
    return name.lstrip("-").replace("-", "_")
