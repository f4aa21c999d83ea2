"""Language of everything that is printed: chosen by `--lang`, before the other arguments are parsed."""

from __future__ import annotations

from contextvars import ContextVar
from itertools import pairwise
from typing import TYPE_CHECKING

from opdiff.core.reasons import Language, because, render, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.reasons import Fact, Reason

_OPTION = "--lang"
_language: ContextVar[Language] = ContextVar("language", default=Language.ENGLISH)


def choose_language(words: Sequence[str]) -> None:
    """Take the language from the words of a command line: errors in the other words are reported in it, too."""
    given = [after for word, after in pairwise(words) if word == _OPTION]
    given += [word.removeprefix(f"{_OPTION}=") for word in words if word.startswith(f"{_OPTION}=")]
    _language.set(Language.CHINESE if Language.CHINESE in given else Language.ENGLISH)


def language() -> Language:
    """Return the chosen language."""
    return _language.get()


def worded(word: str) -> str:
    """Return a word of the program, such as the heading of a column, in the chosen language."""
    return show(word, "word", language())


def in_language(reason: Reason | str | None) -> str:
    """Return a reason in the chosen language; strings are unchanged, and `None` is an empty one."""
    return reason if isinstance(reason, str) else render(reason, language())


def said(code: str, /, **facts: Fact) -> str:
    """Return a sentence of the catalogue in the chosen language."""
    return render(because(code, **facts), language())
